"""The SQL of views, for those who ask what a view reads."""

from __future__ import annotations

from uuid import UUID

import msgspec

from floecat.errors import FloecatError
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.identifiers.namespace import Namespace
from floecat.store.database.engine import Store
from floecat.store.entries import documents, tables

__all__ = ["ViewQueries", "ViewQuery"]


class ViewQuery(msgspec.Struct, frozen=True):
    """The current version of a view."""

    sql: tuple[str, ...]
    """Queries, one per dialect."""
    default_catalog: str | None
    """Name of the catalog in the engine that wrote the view; `None` for the catalog of the view."""
    default_namespace: Namespace


class ViewQueries:
    """Reads the current versions of views."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, entry_id: UUID) -> ViewQuery | None:
        """The query of a view; `None` if there is no such view, or its document is not readable.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        with self._store.read() as conn:
            stored = tables.document(conn, entry_id)
        if stored is None:
            return None
        try:
            version = ViewMetadata.parse(documents.decompress(stored)).current_version
        except FloecatError:
            return None
        return ViewQuery(
            tuple(each.sql for each in version.representations if each.sql_dialect and each.sql),
            version.default_catalog,
            version.default_namespace,
        )
