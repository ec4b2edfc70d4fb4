"""Lance tables as the catalog has them: Iceberg tables that stand for them, told by a property."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from lance_namespace.errors import (
    ErrorCode,
    InvalidInputError,
    PermissionDeniedError,
    TableNotFoundError,
)

from floecat.clients.lance.datasets import has_dataset
from floecat.clients.lance.errors import Meanings
from floecat.clients.lance.names import NamespaceName, TableName
from floecat.clients.lance.paging import CatalogPage, Listed, collect
from floecat.clients.lance.rest_catalog import RestCatalog
from floecat.clients.lance.storage_options import storage_options
from floecat.clients.lance.transport import PARALLEL_REQUESTS
from floecat.clients.lance.wire import LoadTableResult, Nothing, TablesPage

__all__ = ["LanceTable", "LanceTables", "page_parameters"]

_TYPE_PROPERTY: Final = "table_type"
_TYPE: Final = "lance"

_SCHEMA: Final = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "dummy", "required": False, "type": "string"}],
}
"""Iceberg engines see an empty table of one column; Lance has the real schema."""

_VENDED: Final = {"X-Iceberg-Access-Delegation": "vended-credentials"}


class LanceTable(NamedTuple):
    """A Lance table in the catalog."""

    location: str
    """Root of the Lance dataset."""

    properties: dict[str, str]
    storage_options: dict[str, str]


class LanceTables:
    """Declares, finds, lists and forgets Lance tables."""

    def __init__(self, catalog: RestCatalog) -> None:
        """Takes the catalog."""
        self._catalog = catalog

    def declare(
        self, table: TableName, location: str | None, properties: Mapping[str, str], *, vend: bool
    ) -> LanceTable:
        """Enters a table; writes nothing that is Lance's.

        Args:
            table: its name.
            location: root of the dataset; None for one that the catalog chooses.
            properties: beside the one that tells a Lance table.
            vend: whether to ask the catalog for credentials.

        Raises:
            NamespaceNotFoundError: the namespace does not exist.
            TableAlreadyExistsError: a table or a view has this name.
            LanceNamespaceError: see `RestCatalog.request`.
        """
        body: dict[str, Any] = {
            "name": table.name,
            "schema": _SCHEMA,
            "properties": {**properties, _TYPE_PROPERTY: _TYPE},
        }
        if location is not None:
            body["location"] = location
        made = self._catalog.request(
            "POST",
            table.namespace.warehouse,
            f"{table.namespace.path}/tables",
            LoadTableResult,
            Meanings(ErrorCode.NAMESPACE_NOT_FOUND, ErrorCode.TABLE_ALREADY_EXISTS),
            headers=_VENDED if vend else None,
            body=body,
        )
        return _table(made)

    def load(self, table: TableName, *, vend: bool = False) -> LanceTable:
        """Finds a table.

        Raises:
            TableNotFoundError: it, or its namespace, does not exist.
            InvalidInputError: it is no Lance table.
            LanceNamespaceError: see `RestCatalog.request`.
        """
        found = self._catalog.request(
            "GET",
            table.namespace.warehouse,
            table.path,
            LoadTableResult,
            Meanings(ErrorCode.TABLE_NOT_FOUND),
            query={"snapshots": "refs"},
            headers=_VENDED if vend else None,
        )
        if not _is_lance(found):
            raise InvalidInputError(f"{table} is not a Lance table")
        return _table(found)

    def deregister(self, table: TableName) -> LanceTable:
        """Removes the entry of a table, never its files, and answers what it was.

        Raises:
            TableNotFoundError: it, or its namespace, does not exist.
            InvalidInputError: it is no Lance table.
            LanceNamespaceError: see `RestCatalog.request`.
        """
        removed = self.load(table)
        self._catalog.request(
            "DELETE",
            table.namespace.warehouse,
            table.path,
            Nothing,
            Meanings(ErrorCode.TABLE_NOT_FOUND),
            query={"purgeRequested": "false"},
        )
        return removed

    def list(
        self, namespace: NamespaceName, limit: int | None, page_token: str | None, *, only_written: bool
    ) -> Listed:
        """Names of the Lance tables of a namespace.

        A catalog that knows the filter answers them in one request for a page. Of another one every table is
        loaded, some at a time; a table that is gone by then, or that may not be read, is not one of the list.

        Args:
            namespace: where to look.
            limit: most names; None for all.
            page_token: where to go on.
            only_written: whether to leave out tables that have no dataset yet; each costs a load and a look
                at storage.

        Raises:
            NamespaceNotFoundError: the namespace does not exist.
            LanceNamespaceError: see `RestCatalog.request`.
        """
        filtered = False

        def fetch(token: str | None, size: int | None) -> CatalogPage:
            nonlocal filtered
            page = self._catalog.request(
                "GET",
                namespace.warehouse,
                f"{namespace.path}/tables",
                TablesPage,
                Meanings(ErrorCode.NAMESPACE_NOT_FOUND),
                query={"tableType": _TYPE, **page_parameters(token, size)},
            )
            filtered = page.table_type == _TYPE
            return CatalogPage([each.name for each in page.identifiers], page.next_page_token)

        def wanted(names: Sequence[str]) -> Sequence[str]:
            if filtered and not only_written:
                return names
            return self._chosen(namespace, names, _is_written if only_written else _is_any)

        return collect(fetch, limit, page_token, wanted)

    def _chosen(
        self, namespace: NamespaceName, names: Sequence[str], accepts: Callable[[LanceTable], bool]
    ) -> Sequence[str]:
        def is_chosen(name: str) -> bool:
            table = TableName(namespace, name)
            try:
                return accepts(self.load(table, vend=accepts is _is_written))
            except (TableNotFoundError, InvalidInputError, PermissionDeniedError):
                return False

        with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
            chosen = list(pool.map(is_chosen, names))
        return [name for name, each in zip(names, chosen, strict=True) if each]


def page_parameters(token: str | None, size: int | None) -> dict[str, str]:
    """Query parameters of a page: none for all that the catalog answers at once."""
    if token is None:
        return {}
    return {"pageToken": token} if size is None else {"pageToken": token, "pageSize": str(size)}


def _is_any(_: LanceTable) -> bool:
    return True


def _is_written(table: LanceTable) -> bool:
    return has_dataset(table.location, table.storage_options)


def _is_lance(loaded: LoadTableResult) -> bool:
    return loaded.metadata.properties.get(_TYPE_PROPERTY, "").lower() == _TYPE


def _table(loaded: LoadTableResult) -> LanceTable:
    properties = loaded.metadata.properties
    rest = {key: value for key, value in properties.items() if key != _TYPE_PROPERTY}
    return LanceTable(loaded.metadata.location, properties, storage_options(loaded, rest))
