"""The files of a version in chunks, each of which becomes one manifest, and threads that build them.

Texts of statistics may be most of what a process holds: the files are ordered by row numbers, and a chunk is
copied out when it is built.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.manifest_chunks import ChunkManifests, build_chunk
from floecat.delta.artifacts.version_context import VersionContext
from floecat.delta.log.file_tables import take_rows
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations

__all__ = ["CHUNK_FILES", "ChunkRunner", "FileChunks", "local_chunks"]

CHUNK_FILES = 5_000
"""Files in a manifest: about 1 MB without statistics, 10 MB with those of a hundred columns."""

Mask: TypeAlias = npt.NDArray[np.bool_]


class FileChunks:
    """Files in the order of their partitions, `CHUNK_FILES` at a time.

    Attributes:
        files: all of them, in no order; columns of `floecat.delta.log.file_tables.files_schema`.
    """

    def __init__(self, files: pa.Table, is_added: Mask) -> None:
        """Takes files, and for each whether the version brought it."""
        self.files = files
        self._is_added = is_added
        self._order = _in_partition_order(files)

    def __len__(self) -> int:
        return math.ceil(len(self._order) / CHUNK_FILES)

    def __getitem__(self, number: int) -> tuple[pa.Table, Mask]:
        """A chunk: its files, copied, and which of them the version brought."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        rows = self._order[number * CHUNK_FILES : (number + 1) * CHUNK_FILES]
        return take_rows(self.files, rows), self._is_added[rows]

    def __iter__(self) -> Iterator[tuple[pa.Table, Mask]]:
        return (self[number] for number in range(len(self)))


ChunkRunner = Callable[[VersionContext, FileChunks], Sequence[ChunkManifests]]
"""Builds all chunks; a chunk's number is part of the names of its artifacts."""


def _in_partition_order(files: pa.Table) -> npt.NDArray[np.int64]:
    """Numbers of rows. Files of a partition are beside each other, so a filter on it leaves manifests out."""
    count = files.schema.field("partition_values").type.num_fields
    keys = {
        f"key {position}": pc.struct_field(files["partition_values"], [position]) for position in range(count)
    }
    sorting = pa.table({**keys, "path": files["path"]})
    order = pc.sort_indices(sorting, [(name, "ascending") for name in sorting.column_names])
    return np.asarray(order.to_numpy(), np.int64)


_MOST_THREADS = 4


def local_chunks(files: FileIO, artifacts: ArtifactFiles, allowed: AllowedLocations) -> ChunkRunner:
    """Builds chunks here.

    Args:
        files: reads footers and deletion vectors.
        artifacts: writes what is made.
        allowed: the allowed locations of the catalog.
    """

    def run(context: VersionContext, chunks: FileChunks) -> Sequence[ChunkManifests]:
        def build(number: int) -> ChunkManifests:
            rows, is_added = chunks[number]
            return build_chunk(context, number, rows, is_added, files, artifacts, allowed)

        numbers = range(len(chunks))
        if len(numbers) <= 1:
            return [build(number) for number in numbers]
        threads = min(os.cpu_count() or 1, _MOST_THREADS)
        with ThreadPoolExecutor(threads, thread_name_prefix="delta-chunk") as pool:
            return list(pool.map(build, numbers))

    return run
