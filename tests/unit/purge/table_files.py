"""Tables as files, and the catalog rows a purge looks at, without a catalog.

A table is written as an engine would: data files, manifests, manifest lists, statistics, metadata files.
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from floecat.entries.areas import Area
from floecat.entries.metadata_files import MetadataFiles
from floecat.fileio.base import FileIO
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.purge.deletion.table_purge import Sidecars, TablePurge
from floecat.purge.sharing.live_tables import LiveTable, NearTable
from floecat.purge.sharing.shared_files import SharedFiles
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.entries.entry_areas import StoredArea
from floecat.store.jobs.job_claims import Lease
from tests.storages import storage_at
from tests.unit.iceberg.manifest_bytes import entry, manifest_bytes, manifest_list_bytes

__all__ = ["FakeLiveTables", "TableFiles"]


class TableFiles:
    """A table that grows; every method writes files at once, except that `commit` publishes them.

    Attributes:
        manifests: of the current snapshot.
        written: every file of the table, in the order of writing.
        metadata_location: the current metadata file.
    """

    def __init__(
        self, files: FileIO, location: str, *, table_uuid: str | None = None, first_number: int = 1
    ) -> None:
        self.files = files
        self.location = location
        self.table_uuid = table_uuid or str(uuid.uuid4())
        self.written: list[str] = []
        self.metadata_location = ""
        self.properties: dict[str, str] = {}
        self.snapshots: list[dict[str, Any]] = []
        self.statistics: list[dict[str, Any]] = []
        self.partition_statistics: list[dict[str, Any]] = []
        self.metadata_log: list[dict[str, Any]] = []
        self._added_by: dict[str, int] = {}
        self._numbers = itertools.count(first_number)

    @property
    def manifests(self) -> list[str]:
        return list(self._added_by)

    def path(self, name: str) -> str:
        return f"{self.location}/{name}"

    def write(self, location: str, data: bytes = b"x") -> str:
        self.files.write_new(location, data)
        self.written.append(location)
        return location

    def manifest(self, *entries: str | dict[str, Any], data: bytes | None = None) -> str:
        """A manifest of files that exist already."""
        location = self.path(f"metadata/m{next(self._numbers)}.avro")
        records = [entry(item) if isinstance(item, str) else item for item in entries]
        return self.write(location, manifest_bytes(records) if data is None else data)

    def append(self, *paths: str, count: int = 1, manifest: str | None = None, expire: bool = False) -> str:
        """A snapshot with new data files, or with files that others wrote, and all earlier manifests."""
        number = next(self._numbers)
        data = list(paths) or [self.write(self.path(f"data/{number}-{i}.parquet")) for i in range(count)]
        self._added_by[manifest or self.manifest(*data)] = number
        location = self.path(f"metadata/snap-{number}.avro")
        listed = [{"manifest_path": path, "added_snapshot_id": by} for path, by in self._added_by.items()]
        self.write(location, manifest_list_bytes(listed))
        if expire:
            self.snapshots.clear()
        self.snapshots.append(
            {
                "snapshot-id": number,
                "sequence-number": number,
                "timestamp-ms": number,
                "manifest-list": location,
                "summary": {"operation": "append"},
                "schema-id": 0,
            }
        )
        return location

    def add_statistics(self) -> None:
        number = next(self._numbers)
        path = self.write(self.path(f"metadata/{number}.stats"))
        self.statistics.append(
            {
                "snapshot-id": number,
                "statistics-path": path,
                "file-size-in-bytes": 1,
                "file-footer-size-in-bytes": 1,
                "blob-metadata": [],
            }
        )
        path = self.write(self.path(f"metadata/partition-stats-{number}.parquet"))
        self.partition_statistics.append(
            {"snapshot-id": number, "statistics-path": path, "file-size-in-bytes": 1}
        )

    def replace_all(self) -> None:
        """Expires every snapshot and replaces the statistics; their files stay."""
        self._added_by.clear()
        for named in (self.snapshots, self.statistics, self.partition_statistics):
            named.clear()

    def commit(self, location: str | None = None) -> str:
        """Writes the metadata file that says all this."""
        if self.metadata_location:
            self.metadata_log.append({"timestamp-ms": 1, "metadata-file": self.metadata_location})
        number = len(self.metadata_log)
        location = location or self.path(f"metadata/{number:05}-{uuid.uuid4()}.metadata.json")
        self.metadata_location = self.write(location, self.document())
        return self.metadata_location

    def document(self) -> bytes:
        last = max((item["snapshot-id"] for item in self.snapshots), default=None)
        return json.dumps(
            {
                "format-version": 2,
                "table-uuid": self.table_uuid,
                "location": self.location,
                "last-sequence-number": last or 0,
                "last-updated-ms": 1,
                "last-column-id": 1,
                "schemas": [
                    {
                        "type": "struct",
                        "schema-id": 0,
                        "fields": [{"id": 1, "name": "n", "required": False, "type": "int"}],
                    }
                ],
                "current-schema-id": 0,
                "partition-specs": [{"spec-id": 0, "fields": []}],
                "default-spec-id": 0,
                "last-partition-id": 999,
                "sort-orders": [{"order-id": 0, "fields": []}],
                "default-sort-order-id": 0,
                "properties": self.properties,
                "current-snapshot-id": last if last is not None else -1,
                "refs": {"main": {"snapshot-id": last, "type": "branch"}} if last is not None else {},
                "snapshots": self.snapshots,
                "statistics": self.statistics,
                "partition-statistics": self.partition_statistics,
                "metadata-log": self.metadata_log,
            }
        ).encode()

    def metadata(self) -> TableMetadata:
        return TableMetadata.parse(self.document())

    def remaining(self) -> list[str]:
        """The files of the table that are still there, each once."""
        return [location for location in dict.fromkeys(self.written) if self.files.exists(location)]


class FakeLiveTables:
    """Tables that a catalog would hold, none of them in the index, and the metadata files of its views."""

    def __init__(self, *roots: str, files: FileIO | None = None) -> None:
        self.catalog_id = uuid.uuid4()
        self.files = files
        self.rows: dict[LiveTable, bytes] = {}
        self.views: list[str] = []
        self.sidecar_files: dict[LiveTable, list[str]] = {}
        self.remembered: list[StoredArea] = []
        self.roots = list(roots)

    def register(self, table: TableFiles, *, document: bytes | None = None, **changes: Any) -> LiveTable:
        row = LiveTable(
            uuid.uuid4(), self.catalog_id, table.table_uuid, table.location, table.metadata_location, 0
        )
        row = row._replace(**changes)
        self.rows[row] = table.document() if document is None else document
        return row

    def drop(self, row: LiveTable) -> None:
        del self.rows[row]

    def near(self, area: Area, table_uuid: str, scopes: Collection[str]) -> Iterator[Sequence[NearTable]]:
        views = [
            LiveTable(uuid.uuid4(), self.catalog_id, "", view, view, 0, kind="view") for view in self.views
        ]
        yield [NearTable(row) for row in (*self.rows, *views)]

    def remember(self, areas: Sequence[StoredArea]) -> None:
        self.remembered += areas

    def document(self, table: LiveTable) -> bytes | None:
        return self.rows.get(table)

    def sidecars(self, table: LiveTable) -> Iterator[str]:
        return iter(self.sidecar_files.get(table, ()))

    def positions(self) -> Mapping[uuid.UUID, int]:
        return {}

    def changed(self, seen: Mapping[uuid.UUID, int], now: Mapping[uuid.UUID, int]) -> Sequence[LiveTable]:
        raise NotImplementedError

    def begin_batch(self, lease: Lease, folders: Sequence[str]) -> bool:
        raise NotImplementedError

    def end_batch(self, lease: Lease) -> None:
        raise NotImplementedError

    def storages(self) -> Mapping[uuid.UUID, CatalogStorage]:
        return {self.catalog_id: storage_at(self.roots, self.files)}

    def own_storages(self) -> Mapping[uuid.UUID, CatalogStorage]:
        return self.storages()


def new_purger(
    live: FakeLiveTables,
    batch_size: int = 5,
    bounds: Bounds = DEFAULT_BOUNDS,
    sidecars: Sequence[Sidecars] = (),
) -> TablePurge:
    """A purger that looks at these tables."""
    files, shared = MetadataFiles(max_bytes=1 << 20), SharedFiles(live, bounds=bounds)
    return TablePurge(files, shared, batch_size=batch_size, bounds=bounds, sidecars=sidecars)
