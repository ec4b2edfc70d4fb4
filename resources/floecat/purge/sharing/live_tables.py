"""Live entries of all catalogs, as purges look at them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from floecat.clock import Clock
from floecat.entries.areas import Area, overlapping_ranges
from floecat.iceberg.metadata.properties import table_type
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.purge.sharing.artifact_locations import ArtifactLocations
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store.catalogs import catalogs
from floecat.store.commits import commit_log
from floecat.store.database.engine import Store
from floecat.store.entries import entry_areas, tables
from floecat.store.entries.documents import decompress
from floecat.store.entries.entry_areas import StoredArea
from floecat.store.jobs import purge_batches
from floecat.store.jobs.job_claims import Lease

__all__ = ["LiveTable", "LiveTables", "NearTable", "StoredTables", "all_folders", "is_foreign"]

_PAGE = 200


class LiveTable(NamedTuple):
    """A table of some catalog, or a view."""

    entry_id: UUID
    catalog_id: UUID
    table_uuid: str
    location: str
    metadata_location: str
    version: int
    format: str = "iceberg"
    kind: str = "table"

    @property
    def state(self) -> tables.EntryState:
        """The state of its entry."""
        return tables.EntryState(self.entry_id, self.version, self.metadata_location)


class NearTable(NamedTuple):
    """A live table that may have a file in an area."""

    table: LiveTable
    is_indexed: bool = False
    """Whether its area is known, and overlaps; otherwise it has to be read."""
    problem: str | None = None
    """Reason why its area is unknown, although its files were read."""


def all_folders(table: LiveTable) -> Sequence[str]:
    """Folders of a live table of another format; its metadata here does not name every file that it needs."""
    return (table.location, table.metadata_location.rpartition("/")[0])


def is_foreign(metadata: TableMetadata) -> bool:
    """Whether the table is of a format of which the metadata here names no file, as Lance."""
    return table_type(metadata.properties) not in (None, "iceberg")


class LiveTables(Protocol):
    """All tables and views of all catalogs, an index over the folders of their files, and the storages."""

    def near(self, area: Area, table_uuid: str, scopes: Collection[str]) -> Iterator[Sequence[NearTable]]:
        """Yields the entries that may have a file in an area, page by page.

        Args:
            area: of a dropped table.
            table_uuid: of it; entries with the same one are among them.
            scopes: under which areas of the index are valid.
        """
        ...

    def remember(self, areas: Sequence[StoredArea]) -> None:
        """Stores areas in the index."""
        ...

    def document(self, table: LiveTable) -> bytes | None:
        """The current metadata of a table, JSON; `None` if it is gone meanwhile."""
        ...

    def sidecars(self, table: LiveTable) -> Iterator[str]:
        """Files of a table that its metadata does not name, as those of its index artifacts."""
        ...

    def storages(self) -> Mapping[UUID, CatalogStorage]:
        """The storage of each catalog as of now, with locations of the others that mean the same files."""
        ...

    def own_storages(self) -> Mapping[UUID, CatalogStorage]:
        """The storages, each with the locations of its catalog alone, and whose it is."""
        ...

    def positions(self) -> Mapping[UUID, int]:
        """The position of the commit log of each catalog."""
        ...

    def changed(self, seen: Mapping[UUID, int], now: Mapping[UUID, int]) -> Sequence[LiveTable]:
        """The entries with commits between two positions, as they are now."""
        ...

    def begin_batch(self, lease: Lease, folders: Sequence[str]) -> bool:
        """Announces that files in some folders are deleted, after which `positions` has what came before.

        Returns:
            False if commits go first; try again.

        Raises:
            LeaseLostError: the job is another worker's.
        """
        ...

    def end_batch(self, lease: Lease) -> None:
        """Ends what `begin_batch` began."""
        ...


class StoredTables:
    """The tables and views of a store."""

    def __init__(self, store: Store, storages: CatalogStorages, clock: Clock) -> None:
        self._store = store
        self._storages = storages
        self._clock = clock
        self._artifacts = ArtifactLocations(store)

    def near(self, area: Area, table_uuid: str, scopes: Collection[str]) -> Iterator[Sequence[NearTable]]:
        """See `LiveTables.near`; an entry that is changed meanwhile comes as it was before or after."""
        ranges, after = overlapping_ranges(area), None
        while True:
            with self._store.read() as conn:
                found = entry_areas.near(conn, table_uuid, ranges, scopes, after=after, limit=_PAGE)
            yield [NearTable(_live_table(row), row.is_indexed, row.problem) for row in found]
            if len(found) < _PAGE:
                return
            after = found[-1].id

    def remember(self, areas: Sequence[StoredArea]) -> None:
        """See `LiveTables.remember`."""
        if areas:
            self._store.run(lambda conn: entry_areas.replace(conn, areas))

    def document(self, table: LiveTable) -> bytes | None:
        """See `LiveTables.document`."""
        with self._store.read() as conn:
            stored = tables.document(conn, table.entry_id)
        return None if stored is None else decompress(stored)

    def sidecars(self, table: LiveTable) -> Iterator[str]:
        """See `LiveTables.sidecars`."""
        return self._artifacts.of_entry(table.entry_id)

    def storages(self) -> Mapping[UUID, CatalogStorage]:
        """See `LiveTables.storages`."""
        with self._store.read() as conn:
            return self._storages.all_widened(conn)

    def own_storages(self) -> Mapping[UUID, CatalogStorage]:
        """See `LiveTables.own_storages`."""
        with self._store.read() as conn:
            return self._storages.all(conn)

    def positions(self) -> Mapping[UUID, int]:
        """See `LiveTables.positions`."""
        with self._store.read() as conn:
            return catalogs.commit_versions(conn)

    def changed(self, seen: Mapping[UUID, int], now: Mapping[UUID, int]) -> Sequence[LiveTable]:
        """See `LiveTables.changed`."""
        with self._store.read() as conn:
            ids = sorted(commit_log.changed_entries(conn, seen, now))
            rows = [tables.get(conn, entry_id) for entry_id in ids]
        return [_live_table(row) for row in rows if row is not None]

    def begin_batch(self, lease: Lease, folders: Sequence[str]) -> bool:
        """See `LiveTables.begin_batch`."""
        now_ms = self._clock.now_ms()
        if not self._store.run(lambda conn: purge_batches.begin(conn, lease, folders, now_ms)):
            return False
        self._store.run(purge_batches.pass_commits)
        return True

    def end_batch(self, lease: Lease) -> None:
        """See `LiveTables.end_batch`."""
        self._store.run(lambda conn: purge_batches.end(conn, lease))


def _live_table(row: tables.EntryRow | entry_areas.NearEntry) -> LiveTable:
    return LiveTable(
        row.id,
        row.catalog_id,
        row.object_uuid,
        row.location,
        row.metadata_location,
        row.version,
        row.format,
        row.kind,
    )
