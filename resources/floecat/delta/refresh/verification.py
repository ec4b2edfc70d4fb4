"""The contents of a Delta table by its log, and of its Iceberg snapshot by its manifests, counted apart.

Nothing that the translation kept is used: the log is read again, and entries of manifests are counted, not
the summaries above them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta import delta_rows as delta_tables
from floecat.delta.artifacts.artifact_paths import ArtifactPaths, as_uri
from floecat.delta.artifacts.data_files import all_locations
from floecat.delta.log.delta_log import DeltaLog
from floecat.delta.protocol.actions import Snapshot
from floecat.delta.refresh.delta_table import DeltaTableEntry
from floecat.errors import NoSuchTableError, PayloadTooLargeError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.manifests.lists import DELETE_MANIFEST, ManifestFile, read_manifest_list
from floecat.iceberg.manifests.reader import ManifestEntryStatus, read_manifest
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import exceeded, process_bounds
from floecat.store.database.engine import Store
from floecat.store.entries import tables
from floecat.store.entries.documents import decompress

__all__ = ["FileCounts", "TableCounts", "count_table"]

_READERS = 4
_COUNTED = ("status", "file_path", "record_count", "referenced_data_file")


class FileCounts(msgspec.Struct, frozen=True):
    """Counts of data files, and of their rows."""

    files: int
    rows: int
    """Physical rows, deleted ones included, of files whose row count is known."""
    files_without_rows: int
    """Files without a row count."""
    deleted_rows: int
    files_with_deletes: int


class TableCounts(msgspec.Struct, frozen=True):
    """A version of a table, counted twice."""

    version: int
    delta: FileCounts
    iceberg: FileCounts
    missing: tuple[str, ...]
    """Live files of the log that no manifest lists."""
    unexpected: tuple[str, ...]
    """Files that a manifest lists, or lists twice, and that are not live in the log."""
    stray_deletes: tuple[str, ...]
    """Data files that have a delete file, or one too many, and no deletes in the log."""


class _Statistics(msgspec.Struct):
    num_records: int | None = msgspec.field(default=None, name="numRecords")


def count_table(store: Store, files: FileIO, table: DeltaTableEntry) -> TableCounts:
    """Counts the current snapshot of a table and its Delta version.

    Args:
        store: holds its metadata document.
        files: reads its log and manifests.

    Raises:
        NoSuchTableError: it was dropped, or has not been read yet.
        FloecatError: a file is missing or broken, or storage is unavailable.
    """
    document = _document(store, table)
    version = document.current_snapshot_id
    summary = document.snapshot(version) if version is not None else None
    if version is None or summary is None or summary.manifest_list is None:
        raise NoSuchTableError(f"Table {table.identifier} has not been read yet")
    log = DeltaLog(files, table.allowed, table.row.location)
    snapshot = log.snapshot(log.listing(), version)
    manifests = _Manifests(files, table.allowed, summary.manifest_list)
    listed = frozenset(manifests.files)
    copies = _paths(store, table, summary.manifest_list)
    delta_files = _locations(snapshot.files, table, copies, listed)
    with_vectors = snapshot.files.filter(snapshot.files["deletion_vector"].is_valid())
    deleted_from = _locations(with_vectors, table, copies, listed)
    return TableCounts(
        version=version,
        delta=_delta_counts(snapshot),
        iceberg=manifests.counts(),
        missing=_beyond(delta_files, manifests.files),
        unexpected=_beyond(manifests.files, delta_files),
        stray_deletes=_beyond(manifests.deleted_from, deleted_from),
    )


def _document(store: Store, table: DeltaTableEntry) -> TableMetadata:
    with store.read() as conn:
        row = tables.get(conn, table.row.id)
        body = tables.document(conn, table.row.id)
    if row is None or body is None or not row.has_metadata:
        raise NoSuchTableError(f"Table {table.identifier} was dropped, or has not been read yet")
    return TableMetadata.parse(decompress(body))


def _delta_counts(snapshot: Snapshot) -> FileCounts:
    known = [rows for rows in _row_counts(snapshot.files) if rows is not None]
    vectors = snapshot.files["deletion_vector"]
    cardinalities = pc.struct_field(vectors, "cardinality")
    return FileCounts(
        files=len(snapshot.files),
        rows=sum(known),
        files_without_rows=len(snapshot.files) - len(known),
        deleted_rows=pc.sum(cardinalities).as_py() or 0,
        files_with_deletes=len(vectors) - vectors.null_count,
    )


def _row_counts(files: pa.Table) -> Iterator[int | None]:
    """The row count of each file in the log, from statistics as text or as a struct."""
    decoder = msgspec.json.Decoder(_Statistics)
    has_parsed = _has_parsed_counts(files.schema)
    for batch in files.to_batches(max_chunksize=10_000):
        texts = batch["stats"].to_pylist()
        structs = pc.struct_field(batch["stats_parsed"], "numRecords").to_pylist() if has_parsed else texts
        for text, parsed in zip(texts, structs, strict=True):
            yield _records(decoder, text) if text else parsed


def _records(decoder: msgspec.json.Decoder[_Statistics], text: str) -> int | None:
    """The number in statistics; what is no JSON has none, as when artifacts are made."""
    try:
        return decoder.decode(text).num_records
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _has_parsed_counts(schema: pa.Schema) -> bool:
    place = schema.get_field_index("stats_parsed")
    # parts of a checkpoint may contradict each other, or have another type there
    counts = schema.field(place).type.get_field_index("numRecords") if place >= 0 else -1
    return counts >= 0 and pa.types.is_integer(schema.field(place).type.field(counts).type)


class _Manifests:
    """The live entries of a manifest list.

    Attributes:
        files: locations of data files.
        deleted_from: locations of data files that have a delete file; "" for a delete file of several.
    """

    def __init__(self, files: FileIO, allowed: AllowedLocations, manifest_list: str) -> None:
        """Reads all of them."""
        self._storage = files
        self._allowed = allowed
        self.files: list[str] = []
        self.deleted_from: list[str] = []
        self._rows = self._unknown = self._deleted_rows = 0
        manifests = read_manifest_list(
            self._read(manifest_list), location=manifest_list, bounds=process_bounds.limits
        )
        with ThreadPoolExecutor(_READERS, thread_name_prefix="delta-count") as readers:
            # no more of them in memory than are read at once
            while batch := list(islice(manifests, _READERS)):
                for manifest, data in readers.map(self._with_data, batch):
                    self._count(manifest, data)

    def counts(self) -> FileCounts:
        """The counts so far."""
        return FileCounts(
            files=len(self.files),
            rows=self._rows,
            files_without_rows=self._unknown,
            deleted_rows=self._deleted_rows,
            files_with_deletes=len(self.deleted_from),
        )

    def _with_data(self, manifest: ManifestFile) -> tuple[ManifestFile, bytes]:
        return manifest, self._read(manifest.manifest_path)

    def _read(self, location: str) -> bytes:
        self._allowed.check(location)
        bounds = process_bounds.limits
        try:
            return self._storage.read(location, max_bytes=bounds.manifest_bytes)
        except PayloadTooLargeError:
            problem = "it has more bytes than"
            raise exceeded(bounds, "manifest_bytes", f"artifact {location}", problem) from None

    def _count(self, manifest: ManifestFile, data: bytes) -> None:
        location, bounds = manifest.manifest_path, process_bounds.limits
        for entries in read_manifest(data, location=location, fields=_COUNTED, bounds=bounds):
            live = entries.table.filter(pc.field("status") != ManifestEntryStatus.DELETED.value)
            rows = live["record_count"]
            if manifest.content == DELETE_MANIFEST:
                self._deleted_rows += pc.sum(rows).as_py() or 0
                self.deleted_from += live["referenced_data_file"].fill_null("").to_pylist()
                continue
            self.files += live["file_path"].to_pylist()
            known = rows.filter(pc.greater_equal(rows, 0))
            self._unknown += len(rows) - len(known)
            self._rows += pc.sum(known).as_py() or 0


def _locations(
    files: pa.Table, table: DeltaTableEntry, copies: ArtifactPaths, listed: Container[str]
) -> list[str]:
    """The locations of files of the log, or of their copies if manifests list these."""
    return [
        location
        if location in listed
        else next(
            (one for one in (copies.field_id_copy(location), as_uri(location)) if one in listed), location
        )
        for location in all_locations(files["path"], table.row.location, table.allowed)
    ]


def _paths(store: Store, table: DeltaTableEntry, manifest_list: str) -> ArtifactPaths:
    with store.read() as conn:
        delta = delta_tables.get(conn, table.row.id)
    return ArtifactPaths(manifest_list.rpartition("/")[0], delta.generation if delta else 0)


def _beyond(some: list[str], others: list[str]) -> tuple[str, ...]:
    """Locations that the first list has more often than the second."""
    left = dict.fromkeys(others, 0)
    for location in others:
        left[location] += 1
    beyond = []
    for location in some:
        if left.get(location, 0) > 0:
            left[location] -= 1
        else:
            beyond.append(location)
    return tuple(beyond)
