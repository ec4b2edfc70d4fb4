"""The files of a version in chunks, from their log entries to the manifests that list them.

A chunk is the unit of work: it needs nothing but its rows and a context that can be sent anywhere, and gives
the same bytes wherever it runs. In the service that is a thread, in the pipeline a Spark executor. Texts of
statistics may be most of what a process holds: the files are ordered by row numbers, and a chunk is copied
out when it is built.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.artifact_paths import FIELD_ID_COPY
from floecat.delta.artifacts.data_files import (
    NOTHING_FOUND,
    FileColumns,
    FoundColumns,
    SeenFile,
    data_file_locations,
)
from floecat.delta.artifacts.delete_files import DeleteFiles, DeleteRows
from floecat.delta.artifacts.field_id_copies import FieldIdCopies
from floecat.delta.artifacts.readded_files import split_readded
from floecat.delta.artifacts.version_context import VersionContext
from floecat.delta.log.file_tables import take_rows
from floecat.delta.translation.partitions import partition_values
from floecat.delta.translation.statistics_metrics import file_metrics
from floecat.iceberg.file_metrics import FileMetrics
from floecat.iceberg.manifests.lists import ManifestFile
from floecat.iceberg.manifests.reader import FileContent, ManifestEntryStatus
from floecat.iceberg.manifests.writer import EncodedManifest, ManifestRows, write_manifest

__all__ = ["CHUNK_FILES", "ChunkManifests", "ChunkRunner", "FileChunks", "build_chunk", "local_chunks"]

UNKNOWN_RECORD_COUNT = -1
"""Readers of Iceberg take it as unknown: they neither prune nor count by it."""

CHUNK_FILES = 5_000
"""Files in a manifest: about 1 MB without statistics, 10 MB with those of a hundred columns."""

_MOST_THREADS = 4

Mask: TypeAlias = npt.NDArray[np.bool_]


class FileChunks:
    """Files in the order of their partitions, `CHUNK_FILES` at a time.

    Attributes:
        files: all of them, in no order; columns of `floecat.delta.log.file_tables.files_schema`.
    """

    def __init__(self, files: pa.Table, is_added: Mask) -> None:
        """`is_added`: for each file, whether this version added it."""
        self.files = files
        self._is_added = is_added
        self._order = _in_partition_order(files)

    def __len__(self) -> int:
        return math.ceil(len(self._order) / CHUNK_FILES)

    def __getitem__(self, number: int) -> tuple[pa.Table, Mask]:
        """A chunk: its files, copied, and which of them the version added."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        rows = self._order[number * CHUNK_FILES : (number + 1) * CHUNK_FILES]
        return take_rows(self.files, rows), self._is_added[rows]

    def __iter__(self) -> Iterator[tuple[pa.Table, Mask]]:
        return (self[number] for number in range(len(self)))


@dataclass(frozen=True)
class ChunkManifests:
    """The manifests of a chunk.

    Attributes:
        data: the manifest of its data files; None if the entries of all of them stay as they are.
        deletes: the manifest of their delete files; None without any.
        files_size_bytes: size of the data files in that manifest.
        has_copies: whether some of them are copies.
        columns: columns found in data files beside the known ones.
        vectorized: whether Spark's vectorised reader reads right all of the files that were read.
    """

    data: ManifestFile | None
    deletes: ManifestFile | None
    files_size_bytes: int
    has_copies: bool = False
    columns: FoundColumns = NOTHING_FOUND
    vectorized: bool = True


ChunkRunner = Callable[[VersionContext, FileChunks], Sequence[ChunkManifests]]
"""Builds all chunks; a chunk's number is part of the names of its artifacts."""


def local_chunks(artifacts: ArtifactFiles) -> ChunkRunner:
    """Builds the chunks of a table on threads of this process."""

    def run(context: VersionContext, chunks: FileChunks) -> Sequence[ChunkManifests]:
        def build(number: int) -> ChunkManifests:
            rows, is_added = chunks[number]
            return build_chunk(context, number, rows, is_added, artifacts)

        numbers = range(len(chunks))
        if len(numbers) <= 1:
            return [build(number) for number in numbers]
        threads = min(os.cpu_count() or 1, _MOST_THREADS)
        with ThreadPoolExecutor(threads, thread_name_prefix="delta-chunk") as pool:
            return list(pool.map(build, numbers))

    return run


def build_chunk(
    context: VersionContext,
    number: int,
    files: pa.Table,
    is_added: np.ndarray,
    artifacts: ArtifactFiles,
) -> ChunkManifests:
    """Writes the manifests, the delete files, and the copies of data files of a chunk.

    Args:
        number: of the chunk in its version; part of the names.
        files: its files; columns of `floecat.delta.log.file_tables.files_schema`, and of `with_readded` where
            the entries of some stay.
        is_added: for each file, whether this version added it.
        artifacts: of the table.

    Raises:
        InvalidDeltaTableError: a deletion vector or a footer is broken.
        UnsupportedDeltaTableError: readers of Iceberg cannot read a data file.
        FileMissingError: a deletion vector, or a data file whose footer is needed, is missing.
        LocationNotAllowedError: a file lies outside the allowed locations.
        NameTakenError: another file has the name of an artifact.
    """
    split = split_readded(files)
    partitions = partition_values(files, context.translated)
    statuses = np.where(is_added, ManifestEntryStatus.ADDED, ManifestEntryStatus.EXISTING).astype(np.uint8)
    locations = pa.array([], pa.string())
    record_counts = pa.array([], pa.int64())
    data, files_size_bytes = None, 0
    columns = FileColumns(context.columns)
    copies = FieldIdCopies(context, artifacts, columns=columns)
    if len(split.own):
        rows = _data_rows(
            context, split.own, split.of_own(partitions), split.of_own(statuses), copies, artifacts
        )
        locations, record_counts = rows.file_paths, rows.metrics.record_counts
        name = context.paths.data_manifest(context.version, number)
        data, files_size_bytes = _write(context, rows, name, artifacts), int(rows.file_sizes.sum())
    deletes = None
    if files["deletion_vector"].null_count < len(files):
        made = DeleteFiles(context, artifacts).write(
            files["deletion_vector"], *split.joined(locations, record_counts)
        )
        if len(made.rows):
            delete_rows = _delete_rows(context, made, partitions, statuses)
            location = context.paths.delete_manifest(context.version, number)
            deletes = _write(context, delete_rows, location, artifacts)
    return ChunkManifests(
        data, deletes, files_size_bytes, _holds_copies(locations), columns.found, copies.vectorized
    )


def _data_rows(
    context: VersionContext,
    files: pa.Table,
    partitions: pa.StructArray,
    statuses: npt.NDArray[np.uint8],
    copies: FieldIdCopies,
    artifacts: ArtifactFiles,
) -> ManifestRows:
    locations = data_file_locations(files["path"], context.location, artifacts.allowed)
    metrics = file_metrics(files, context.translated)
    sizes = files["size_bytes"].to_numpy()
    seen: list[tuple[int, SeenFile]] = []
    if metrics.record_counts.null_count and context.read_footers:
        metrics, seen = copies.complete(metrics, locations, sizes)
    elif metrics.record_counts.null_count:
        known = pc.fill_null(metrics.record_counts, UNKNOWN_RECORD_COUNT)
        metrics = FileMetrics(known, metrics.columns)
    locations, sizes = copies.replace(locations, sizes, files["modified_at_ms"], seen)
    return ManifestRows(
        content=FileContent.DATA,
        file_format="parquet",
        statuses=statuses,
        snapshot_ids=np.full(len(statuses), context.version, np.int64),
        sequence_numbers=np.full(len(statuses), context.sequence_number, np.int64),
        file_paths=locations,
        partitions=partitions if context.spec.fields else None,
        file_sizes=sizes,
        metrics=metrics,
        empty_vectors=_empty_vectors(files),
    )


def _holds_copies(locations: pa.StringArray) -> bool:
    return bool(pc.any(pc.match_substring_regex(locations, f"/{FIELD_ID_COPY}$")).as_py())


def _empty_vectors(files: pa.Table) -> pa.StringArray | None:
    """Ids of vectors that delete nothing, which have no delete file to identify them."""
    is_empty = pc.equal(pc.struct_field(files["deletion_vector"], "cardinality"), 0)
    if not pc.any(is_empty).as_py():
        return None
    return pc.if_else(is_empty, files["dv_id"], None).combine_chunks()


def _delete_rows(
    context: VersionContext, made: DeleteRows, partitions: pa.StructArray, statuses: np.ndarray
) -> ManifestRows:
    count = len(made.rows)
    return ManifestRows(
        content=FileContent.POSITION_DELETES,
        file_format=made.file_format,
        statuses=statuses[made.rows],
        snapshot_ids=np.full(count, context.version, np.int64),
        sequence_numbers=np.full(count, context.sequence_number, np.int64),
        file_paths=made.file_paths,
        partitions=partitions.take(pa.array(made.rows)) if context.spec.fields else None,
        file_sizes=made.file_sizes,
        metrics=made.metrics,
        referenced_data_files=made.referenced_data_files,
        content_offsets=made.content_offsets,
        content_sizes=made.content_sizes,
    )


def _write(
    context: VersionContext,
    rows: ManifestRows,
    location: str,
    artifacts: ArtifactFiles,
) -> ManifestFile:
    manifest: EncodedManifest = write_manifest(
        rows,
        schema=context.schema,
        spec=context.spec,
        partition_types=[column.type for column in context.translated.partition_fields],
        format_version=context.format_version,
    )
    manifest = replace(manifest, data=artifacts.write(location, manifest.data, keep=True))
    return manifest.manifest_file(
        location, snapshot_id=context.version, sequence_number=context.sequence_number
    )


def _in_partition_order(files: pa.Table) -> npt.NDArray[np.int64]:
    """Row numbers. Files of a partition are side by side, so that a filter on it skips manifests."""
    count = files.schema.field("partition_values").type.num_fields
    keys = {
        f"key {position}": pc.struct_field(files["partition_values"], [position]) for position in range(count)
    }
    sorting = pa.table({**keys, "path": files["path"]})
    order = pc.sort_indices(sorting, [(name, "ascending") for name in sorting.column_names])
    return np.asarray(order.to_numpy(), np.int64)
