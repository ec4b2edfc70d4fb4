"""The tables and views that catalogs have now, under their names."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import msgspec

from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import written
from floecat.store.catalogs import catalogs
from floecat.store.catalogs.catalogs import CatalogRow
from floecat.store.database.engine import Store
from floecat.store.entries import entry_names

__all__ = ["LiveEntries", "LiveEntry", "catalog_label", "label"]

_PAGE = 2_000


class LiveEntry(msgspec.Struct, frozen=True):
    """A table or a view."""

    entry_id: UUID
    catalog_name: str
    """Name as `catalog_label` writes it."""
    identifier: TableIdentifier
    kind: str
    """`table` or `view`."""
    format: str
    """`iceberg`, `delta`, or another one that the property `table_type` names, as `lance`."""
    location: str
    metadata_location: str
    created_at_ms: int
    created_by: str | None
    """Principal of its first commit."""
    schema_separator: str | None = None
    """Of the catalog; none in a flat one."""

    @property
    def qualified_name(self) -> str:
        """Catalog, namespace levels and name, joined by dots."""
        return f"{self.catalog_name}.{self.identifier}"

    @property
    def logical_name(self) -> str:
        """Namespace and name for people: `A:B.orders`."""
        return written(self.identifier, self.schema_separator)


class LiveEntries:
    """Lists the entries of all catalogs, of every account."""

    def __init__(self, store: Store, *, default_account_id: UUID | None = None) -> None:
        """`default_account_id`: labels of catalogs of other accounts name their account."""
        self._store = store
        self._default_account_id = default_account_id

    def __iter__(self) -> Iterator[LiveEntry]:
        """All entries, the oldest first.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        after: UUID | None = None
        while True:
            with self._store.read() as conn:
                rows = entry_names.scan(conn, after, _PAGE)
                # read after the entries, so that it has the catalog of each
                known = catalogs.list_all_accounts(conn)
            of = {each.id: (each, catalog_label(each, self._default_account_id)) for each in known}
            yield from (_entry(row, *of[row.catalog_id]) for row in rows if row.catalog_id in of)
            if len(rows) < _PAGE:
                return
            after = rows[-1].entry_id

    def get(self, entry_id: UUID) -> LiveEntry | None:
        """The entry of this id; `None` if there is none, or no longer.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        with self._store.read() as conn:
            row = entry_names.get(conn, entry_id)
            catalog = catalogs.get(conn, row.catalog_id) if row else None
        if row is None or catalog is None:
            return None
        return _entry(row, catalog, catalog_label(catalog, self._default_account_id))


def catalog_label(row: CatalogRow, default_account_id: UUID | None) -> str:
    """A name that no other catalog has: those of other accounts than the default one have `@` and its id.

    No catalog name has an `@`.
    """
    return label(row.name, row.account_id, default_account_id)


def label(name: str, account_id: UUID, default_account_id: UUID | None) -> str:
    """See `catalog_label`."""
    return name if default_account_id in (None, account_id) else f"{name}@{account_id}"


def _entry(row: entry_names.EntryName, catalog: CatalogRow, label: str) -> LiveEntry:
    return LiveEntry(
        row.entry_id,
        label,
        row.identifier,
        row.kind,
        row.format,
        row.location,
        row.metadata_location,
        row.created_at_ms,
        row.created_by,
        catalog.schema_separator,
    )
