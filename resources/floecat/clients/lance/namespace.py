"""The Lance Namespace interface over an Iceberg REST catalog."""

from __future__ import annotations

import hashlib
from typing import Final

from lance_namespace import (
    CreateNamespaceRequest,
    CreateNamespaceResponse,
    DeclareTableRequest,
    DeclareTableResponse,
    DeregisterTableRequest,
    DeregisterTableResponse,
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    DescribeTableRequest,
    DescribeTableResponse,
    DropNamespaceRequest,
    DropNamespaceResponse,
    LanceNamespace,
    ListNamespacesRequest,
    ListNamespacesResponse,
    ListTablesRequest,
    ListTablesResponse,
    NamespaceExistsRequest,
    NamespaceExistsResponse,
    TableExistsRequest,
    TableExistsResponse,
)
from lance_namespace.errors import (
    ErrorCode,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
)

from floecat.clients.lance.configuration import Configuration
from floecat.clients.lance.datasets import has_dataset
from floecat.clients.lance.errors import Meanings
from floecat.clients.lance.names import (
    NamespaceName,
    TableName,
    namespace_name,
    table_location,
    table_name,
)
from floecat.clients.lance.paging import CatalogPage, Listed, collect
from floecat.clients.lance.requests import takes, word
from floecat.clients.lance.rest_catalog import RestCatalog
from floecat.clients.lance.tables import LanceTables, page_parameters
from floecat.clients.lance.wire import NamespaceResponse, NamespacesPage, Nothing

__all__ = ["IcebergRestNamespace"]

_OF_NAMESPACE: Final = Meanings(ErrorCode.NAMESPACE_NOT_FOUND)


class IcebergRestNamespace(LanceNamespace):
    """Lance tables beside Iceberg tables, in any Iceberg REST catalog.

    Identifiers are ``[warehouse, level, ...]`` for namespaces and ``[warehouse, level, ..., table]`` for
    tables. Every error is a `lance_namespace.errors.LanceNamespaceError` with a code; operations other than
    those below raise `UnsupportedOperationError`. Safe to share between threads.
    """

    def __init__(self, **properties: object) -> None:
        """Takes the properties of the connection, see `Configuration`. Opens no connection yet.

        Raises:
            ValueError: a property is unknown, missing or malformed.
        """
        self._configuration = Configuration.parse(properties)
        self._properties = properties
        self._catalog = RestCatalog(self._configuration)
        self._tables = LanceTables(self._catalog)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles as the properties, secrets included."""
        return _connected, (self._properties,)

    def namespace_id(self) -> str:
        """Endpoint, warehouse and who asks, without secrets. Lance shares its caches between equal ids."""
        settings = self._configuration
        if settings.credential is not None:
            identity = settings.credential[0]
        elif settings.auth_token is not None:
            identity = "token " + hashlib.sha256(settings.auth_token.encode()).hexdigest()[:16]
        else:
            identity = "anonymous"
        return (
            f"IcebergRestNamespace {{ endpoint: {settings.endpoint!r}, "
            f"warehouse: {settings.warehouse!r}, identity: {identity!r} }}"
        )

    @takes(CreateNamespaceRequest)
    def create_namespace(self, request: CreateNamespaceRequest) -> CreateNamespaceResponse:
        """Creates a namespace. The mode `Overwrite` first drops one that exists, if it is empty.

        Raises:
            NamespaceAlreadyExistsError: it exists, and the mode is `Create`.
            NamespaceNotEmptyError: it exists with content, and the mode is `Overwrite`.
            NamespaceNotFoundError: the parent, or the warehouse, does not exist.
        """
        namespace = self._namespace(request.id, 1)
        mode = word(request.mode, "mode", ("create", "existok", "overwrite"))
        properties = dict(request.properties or {})
        try:
            return CreateNamespaceResponse(properties=self._create(namespace, properties))
        except NamespaceAlreadyExistsError:
            if mode == "create":
                raise
        if mode == "existok":
            return CreateNamespaceResponse(properties=self._describe(namespace))
        self._drop(namespace)
        return CreateNamespaceResponse(properties=self._create(namespace, properties))

    @takes(ListNamespacesRequest)
    def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        """Names of the children of a namespace, relative to it.

        Without an identifier these are the warehouses: that of the connection, as catalogs list none.

        Raises:
            NamespaceNotFoundError: the namespace, or the warehouse, does not exist.
        """
        warehouse = self._configuration.warehouse
        if not request.id and warehouse is not None:
            return ListNamespacesResponse(namespaces=[warehouse])
        parent = self._namespace(request.id, 0)

        def fetch(token: str | None, size: int | None) -> CatalogPage:
            query = {"parent": parent.parameter} if parent.levels else {}
            query.update(page_parameters(token, size))
            page = self._catalog.request(
                "GET", parent.warehouse, "namespaces", NamespacesPage, _OF_NAMESPACE, query=query
            )
            # some catalogs list all descendants
            children = [tuple(levels) for levels in page.namespaces if tuple(levels[:-1]) == parent.levels]
            return CatalogPage([levels[-1] for levels in children if levels], page.next_page_token)

        listed = collect(fetch, request.limit, request.page_token, max_pages=self._catalog.max_pages)
        return ListNamespacesResponse(namespaces=listed.items, page_token=listed.page_token)

    @takes(DescribeNamespaceRequest)
    def describe_namespace(self, request: DescribeNamespaceRequest) -> DescribeNamespaceResponse:
        """The properties of a namespace.

        Raises:
            NamespaceNotFoundError: it does not exist.
        """
        return DescribeNamespaceResponse(properties=self._describe(self._namespace(request.id, 1)))

    @takes(NamespaceExistsRequest)
    def namespace_exists(self, request: NamespaceExistsRequest) -> NamespaceExistsResponse:
        """Returns if a namespace exists.

        Raises:
            NamespaceNotFoundError: it does not.
        """
        self._describe(self._namespace(request.id, 1))
        return NamespaceExistsResponse()

    @takes(DropNamespaceRequest)
    def drop_namespace(self, request: DropNamespaceRequest) -> DropNamespaceResponse:
        """Removes an empty namespace. If it does not exist, only the mode `Fail` raises.

        Raises:
            NamespaceNotFoundError: it does not exist, and the mode is `Fail`.
            NamespaceNotEmptyError: it has tables, views or namespaces.
            InvalidInputError: the behaviour is `Cascade`, which catalogs do not offer.
        """
        namespace = self._namespace(request.id, 1)
        mode = word(request.mode, "mode", ("skip", "fail"))
        if word(request.behavior, "behavior", ("restrict", "cascade")) == "cascade":
            raise InvalidInputError("Only the behaviour Restrict is supported")
        try:
            self._drop(namespace)
        except NamespaceNotFoundError:
            if mode == "fail":
                raise
        return DropNamespaceResponse()

    @takes(DeclareTableRequest)
    def declare_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        """Adds a table to the catalog; Lance writes the dataset afterwards.

        Raises:
            NamespaceNotFoundError: the namespace does not exist.
            TableAlreadyExistsError: a table or a view has this name.
        """
        table = self._table(request.id)
        root = self._configuration.root
        location = request.location or (table_location(root, table) if root else None)
        vend = request.vend_credentials is not False
        made = self._tables.declare(table, location, request.properties or {}, vend=vend)
        return DeclareTableResponse(
            location=made.location, storage_options=made.storage_options, properties=made.properties
        )

    @takes(ListTablesRequest)
    def list_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        """Names of the Lance tables of a namespace.

        Raises:
            NamespaceNotFoundError: the namespace does not exist.
        """
        listed: Listed = self._tables.list(
            self._namespace(request.id, 1),
            request.limit,
            request.page_token,
            only_written=request.include_declared is False,
        )
        return ListTablesResponse(tables=listed.items, page_token=listed.page_token)

    @takes(DescribeTableRequest, "load_detailed_metadata", "version", "tag", "branch", "with_table_uri")
    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        """The location of a table, and the storage options to read it.

        Raises:
            TableNotFoundError: it does not exist.
            InvalidInputError: it is not a Lance table, or more than the current table is asked for.
        """
        found = self._tables.load(self._table(request.id), vend=request.vend_credentials is not False)
        declared = not has_dataset(found.location, found.storage_options) if request.check_declared else None
        return DescribeTableResponse(
            location=found.location,
            storage_options=found.storage_options,
            properties=found.properties,
            is_only_declared=declared,
        )

    @takes(TableExistsRequest, "version")
    def table_exists(self, request: TableExistsRequest) -> TableExistsResponse:
        """Returns if a Lance table exists.

        Raises:
            TableNotFoundError: it does not.
            InvalidInputError: it is not a Lance table.
        """
        self._tables.load(self._table(request.id))
        return TableExistsResponse()

    @takes(DeregisterTableRequest)
    def deregister_table(self, request: DeregisterTableRequest) -> DeregisterTableResponse:
        """Removes a table from the catalog; its files stay.

        Raises:
            TableNotFoundError: it does not exist.
            InvalidInputError: it is not a Lance table.
        """
        table = self._table(request.id)
        removed = self._tables.deregister(table)
        return DeregisterTableResponse(
            id=request.id, location=removed.location, properties=removed.properties
        )

    def _namespace(self, id: list[str] | None, least_levels: int) -> NamespaceName:
        return namespace_name(id, self._configuration.warehouse, least_levels)

    def _table(self, id: list[str] | None) -> TableName:
        return table_name(id, self._configuration.warehouse)

    def _create(self, namespace: NamespaceName, properties: dict[str, str]) -> dict[str, str]:
        made = self._catalog.request(
            "POST",
            namespace.warehouse,
            "namespaces",
            NamespaceResponse,
            Meanings(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.NAMESPACE_ALREADY_EXISTS),
            body={"namespace": list(namespace.levels), "properties": properties},
        )
        return made.properties or {}

    def _describe(self, namespace: NamespaceName) -> dict[str, str]:
        found = self._catalog.request(
            "GET", namespace.warehouse, namespace.path, NamespaceResponse, _OF_NAMESPACE
        )
        return found.properties or {}

    def _drop(self, namespace: NamespaceName) -> None:
        self._catalog.request(
            "DELETE",
            namespace.warehouse,
            namespace.path,
            Nothing,
            Meanings(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.NAMESPACE_NOT_EMPTY),
        )


def _connected(properties: dict[str, object]) -> IcebergRestNamespace:
    return IcebergRestNamespace(**properties)
