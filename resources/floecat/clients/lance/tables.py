"""Lance tables in the catalog: each is an Iceberg table without rows, marked by a property."""

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
"""The schema that Iceberg engines see. The real schema is in the Lance dataset."""

_VENDED: Final = {"X-Iceberg-Access-Delegation": "vended-credentials"}


class LanceTable(NamedTuple):
    """A Lance table in the catalog."""

    location: str
    """Root of the Lance dataset."""

    properties: dict[str, str]
    storage_options: dict[str, str]


class LanceTables:
    """Declares, loads, lists and deregisters Lance tables."""

    def __init__(self, catalog: RestCatalog) -> None:
        self._catalog = catalog

    def declare(
        self, table: TableName, location: str | None, properties: Mapping[str, str], *, vend: bool
    ) -> LanceTable:
        """Adds a table to the catalog, before Lance writes its dataset.

        Args:
            table: its name.
            location: root of the dataset; None lets the catalog choose.
            properties: in addition to the one that marks a Lance table.
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
        """Loads a table.

        Raises:
            TableNotFoundError: it, or its namespace, does not exist.
            InvalidInputError: it is not a Lance table.
            LanceNamespaceError: see `RestCatalog.request`.
        """
        found = self._find(table, vend=vend)
        if found is None:
            raise InvalidInputError(f"{table} is not a Lance table")
        return found

    def deregister(self, table: TableName) -> LanceTable:
        """Removes a table from the catalog without its files, and returns what was removed.

        Raises:
            TableNotFoundError: it, or its namespace, does not exist.
            InvalidInputError: it is not a Lance table.
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

        A catalog that knows the filter needs one request for each page. On another catalog every table is
        loaded, some at a time; tables that are dropped meanwhile or may not be read are left out.

        Args:
            namespace: where to look.
            limit: most names; None for all.
            page_token: where to continue.
            only_written: leaves out tables without a dataset; this costs a load and a read of storage for
                each table.

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

        return collect(fetch, limit, page_token, wanted, max_pages=self._catalog.max_pages)

    def _find(self, table: TableName, *, vend: bool) -> LanceTable | None:
        found = self._catalog.request(
            "GET",
            table.namespace.warehouse,
            table.path,
            LoadTableResult,
            Meanings(ErrorCode.TABLE_NOT_FOUND),
            query={"snapshots": "refs"},
            headers=_VENDED if vend else None,
        )
        return _table(found) if _is_lance(found) else None

    def _chosen(
        self, namespace: NamespaceName, names: Sequence[str], accepts: Callable[[LanceTable], bool]
    ) -> Sequence[str]:
        def is_chosen(name: str) -> bool:
            table = TableName(namespace, name)
            try:
                found = self._find(table, vend=accepts is _is_written)
            except (TableNotFoundError, PermissionDeniedError):
                return False
            return found is not None and accepts(found)

        with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
            chosen = list(pool.map(is_chosen, names))
        return [name for name, each in zip(names, chosen, strict=True) if each]


def page_parameters(token: str | None, size: int | None) -> dict[str, str]:
    """Query parameters of a page; without a token, none."""
    if token is None:
        return {}
    return {"pageToken": token} if size is None else {"pageToken": token, "pageSize": str(size)}


def _is_any(_: LanceTable) -> bool:
    return True


def _is_written(table: LanceTable) -> bool:
    return has_dataset(table.location, table.storage_options)


def _is_lance(loaded: LoadTableResult) -> bool:
    return (loaded.metadata.properties or {}).get(_TYPE_PROPERTY, "").lower() == _TYPE


def _table(loaded: LoadTableResult) -> LanceTable:
    properties = loaded.metadata.properties or {}
    rest = {key: value for key, value in properties.items() if key != _TYPE_PROPERTY}
    return LanceTable(loaded.metadata.location, properties, storage_options(loaded, rest))
