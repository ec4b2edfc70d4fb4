"""Catalogs whose namespaces have names of several levels in one text, and what stands in the way of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.catalog.catalogs import CatalogService
from floecat.clock import Clock
from floecat.entries.calls import Call, Catalog
from floecat.errors import ConflictError, NoSuchWarehouseError, SettingsError
from floecat.identifiers.namespace import Namespace
from floecat.identifiers.schema_names import check_schema_separator
from floecat.identifiers.written_names import written
from floecat.settings.groups.namespaces import NamespaceSettings
from floecat.store.catalogs import catalogs, namespaces
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.database.connections import Connection
from floecat.store.database.engine import Store

__all__ = ["NestedCatalogs"]

_TOLD: Final = 20
"""Names in a message; `clashes` gives all."""


class NestedCatalogs:
    """Makes catalogs nested or flat, and keeps the separator out of the names in nested ones."""

    def __init__(
        self, store: Store, clock: Clock, catalogs: CatalogService, settings: NamespaceSettings
    ) -> None:
        """Checks the separator.

        Raises:
            SettingsError: it is not allowed.
        """
        check_schema_separator(settings.separator, predefined=settings.separator_policy == "predefined")
        self._store = store
        self._clock = clock
        self._catalogs = catalogs
        self._separator = settings.separator

    def adopt_separator(self) -> None:
        """Gives the separator of the settings to every nested catalog that has another one.

        Raises:
            SettingsError: names of a catalog hold it; each is told, up to a number, and nothing is changed.
        """

        def work(conn: Connection) -> None:
            for each in catalogs.list_all_accounts(conn):
                if each.schema_separator in (None, self._separator):
                    continue
                row = catalogs.get(conn, each.id, for_update=True)
                if row is None or row.schema_separator is None:
                    continue  # deleted or made flat meanwhile
                if found := self._clashes(conn, row.id, self._separator):
                    raise SettingsError(
                        f"floecat.namespaces.separator cannot be {self._separator!r}:"
                        f" {_told(row, found, self._separator)} Choose another separator, rename them,"
                        f" or run `floecat catalog update {row.name} --flat`"
                    )
                # a change of the settings, of nobody who asks
                catalogs.set_separator(conn, row.id, self._separator, self._clock.now_ms(), by=None)

        self._store.run(work)

    def set_nested(self, call: Call, *, nested: bool) -> Catalog:
        """Makes the catalog nested or flat. Other processes see it within five seconds.

        Raises:
            ForbiddenError: the principal may not manage the catalog.
            ConflictError: names in it hold the separator, and it was to be nested.
            NoSuchWarehouseError: it was deleted meanwhile.
        """
        call.check((Privilege.MANAGE_CATALOG, call.on_catalog()))
        catalog = call.catalog

        def work(conn: Connection) -> None:
            if catalogs.get(conn, catalog.id, for_update=True) is None:
                raise NoSuchWarehouseError(f"Warehouse does not exist: {catalog.name}")
            if nested and (found := self._clashes(conn, catalog.id, self._separator)):
                raise ConflictError(
                    f"Catalog {catalog.name} cannot be nested: {_told(catalog, found, self._separator)}"
                )
            separator = self._separator if nested else None
            now_ms = self._clock.now_ms()
            catalogs.set_separator(conn, catalog.id, separator, now_ms, call.principal.name)

        self._store.run(work)
        self._catalogs.forget(catalog)
        return self._catalogs.by_prefix(catalog.account_id, catalog.name)

    def clashes(self, call: Call, separator: str | None = None) -> Sequence[Namespace]:
        """The namespaces of the catalog whose own level holds a separator.

        Args:
            separator: by default that of the settings.

        Raises:
            ForbiddenError: the principal may not manage the catalog.
        """
        call.check((Privilege.MANAGE_CATALOG, call.on_catalog()))
        with self._store.read() as conn:
            return self._clashes(conn, call.catalog.id, separator or self._separator)

    def _clashes(self, conn: Connection, catalog_id: UUID, separator: str) -> list[Namespace]:
        return [levels for levels in namespaces.levels_of_all(conn, catalog_id) if separator in levels[-1]]


def _told(catalog: Catalog | CatalogRow, found: Sequence[Namespace], separator: str) -> str:
    names = ", ".join(repr(written(levels, catalog.schema_separator)) for levels in found[:_TOLD])
    more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
    holds = "a namespace holds" if len(found) == 1 else f"{len(found)} namespaces hold"
    return f"{holds} {separator!r} in catalog {catalog.name}: {names}{more}."
