"""The table of a capture, found by its id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from uuid import UUID

from floecat.entries.entry_files import delete_entry_files, entry_folder
from floecat.entries.formats import is_derived
from floecat.entries.open_entries import EntryParts
from floecat.entries.overlaps import own_folders
from floecat.errors import FloecatError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.schema import Schema
from floecat.jobs.running_job import JobCancelledError, RunningJob
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.own_folders import OwnFolders
from floecat.store.catalogs import catalogs
from floecat.store.database.engine import Connection
from floecat.store.database.errors import ForeignKeyError
from floecat.store.entries import tables
from floecat.store.entries.documents import decompress
from floecat.store.entries.tables import EntryRow

if TYPE_CHECKING:
    from floecat.statistics.files.summaries import CountedColumns

__all__ = ["CapturedSnapshot", "CapturedTable", "find_table", "submit"]

_T = TypeVar("_T")


class CapturedTable(NamedTuple):
    """A table, as its captures see it."""

    row: EntryRow
    metadata: TableMetadata
    storage: CatalogStorage
    catalog_properties: Mapping[str, str]
    warehouse: str
    """Storage location of its catalog."""

    def schema_of(self, snapshot_id: int) -> Schema:
        """The schema of a snapshot; the current one if the snapshot names none."""
        snapshot = self.metadata.snapshot(snapshot_id)
        wanted = None if snapshot is None else snapshot.schema_id
        found = (schema for schema in self.metadata.schemas if schema.schema_id == wanted)
        return next(found, self.metadata.current_schema)

    @property
    def own(self) -> OwnFolders:
        """Its folders, for what is read of it."""
        return own_folders(self.row, self.metadata.properties)

    @property
    def folder(self) -> str:
        """The folder of its sidecars."""
        return entry_folder(self.warehouse, self.row.id)


class CapturedSnapshot(NamedTuple):
    """A snapshot, and what is captured of it."""

    table: CapturedTable
    id: int
    columns: CountedColumns

    @property
    def schema(self) -> Schema:
        """The schema of the snapshot."""
        return self.table.schema_of(self.id)


def find_table(parts: EntryParts, entry_id: UUID) -> CapturedTable | None:
    """The table with this id; `None` if it was dropped, or was never read.

    Raises:
        InvalidMetadataError: its document is damaged.
        StoreUnavailableError: the store does not answer.
    """
    with parts.store.read() as conn:
        row = tables.get(conn, entry_id)
        if row is None or row.kind != "table" or not row.has_metadata:
            return None
        catalog = catalogs.get(conn, row.catalog_id)
        held = parts.entries.remembered(row.state)
        document = tables.document(conn, entry_id) if held is None else None
    if catalog is None or (held is None and document is None):
        return None
    storage = parts.storages.of(catalog)
    if is_derived(row.format):
        storage = storage.with_artifacts
    metadata = held.parsed() if held is not None else TableMetadata.parse(decompress(document or b""))
    return CapturedTable(row, metadata, storage, catalog.properties, catalog.storage_location)


def submit(job: RunningJob, table: CapturedTable, write: Callable[[Connection], _T]) -> _T:
    """Writes what was captured of a table; see `RunningJob.submit`.

    Raises:
        JobCancelledError: it is to be cancelled, or the table was dropped.
    """
    try:
        return job.submit(write)
    except ForeignKeyError:
        # the job that deletes the files of the entry may have been before
        with suppress(FloecatError):
            delete_entry_files(table.storage, table.warehouse, table.row.id)
        raise JobCancelledError from None
