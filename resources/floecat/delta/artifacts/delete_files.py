"""Delete files made of the deletion vectors of a chunk.

Format version 2 has position deletes only: each vector becomes a file of them. Format version 3 has the same
vectors as Delta: their bytes are checked and copied into Puffin files, one vector each, as DuckDB 1.5 applies
the first vector of a file to every data file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.data_files import checked_location
from floecat.delta.artifacts.version_context import VersionContext
from floecat.delta.vectors.deletion_vectors import (
    VERSION_RANGE,
    DeletionVector,
    check,
    check_file_version,
    file_of,
    framed_range,
    inline_payload,
    position_chunks,
    unframe,
)
from floecat.errors import FileMissingError
from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics
from floecat.iceberg.position_deletes import FILE_PATH_ID, POS_ID, write_position_deletes
from floecat.iceberg.puffin import DeletionVectorBlob, write_puffin

__all__ = ["DeleteFiles", "DeleteRows"]

_BYTES_PER_ROW = 3
"""Memory for a row of position deletes while its file is written: Parquet takes 1 byte, Avro more."""


@dataclass(frozen=True)
class DeleteRows:
    """Delete files as a manifest lists them, one row each.

    Attributes:
        rows: the row of its data file in the chunk.
        file_format: of all of them.
        file_paths, file_sizes: the files.
        metrics: number of deleted rows, and bounds of position deletes.
        referenced_data_files: location of the data file.
        content_offsets, content_sizes: where a vector lies in its Puffin file; None for position deletes.
    """

    rows: npt.NDArray[np.int64]
    file_format: str
    file_paths: pa.StringArray
    file_sizes: npt.NDArray[np.int64]
    metrics: FileMetrics
    referenced_data_files: pa.StringArray
    content_offsets: npt.NDArray[np.int64] | None = None
    content_sizes: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True)
class _Vector:
    row: int
    data_file: str
    record_count: int
    descriptor: DeletionVector

    @property
    def deletes(self) -> bool:
        return self.descriptor.cardinality != 0


class DeleteFiles:
    """Writes the delete files of a version."""

    def __init__(self, context: VersionContext, artifacts: ArtifactFiles) -> None:
        self._context = context
        self._artifacts = artifacts

    def write(
        self,
        vectors: pa.ChunkedArray,
        locations: pa.StringArray,
        record_counts: pa.Int64Array,
    ) -> DeleteRows:
        """Writes the delete files of the vectors of a chunk.

        Args:
            vectors: descriptors, null for files without one.
            locations: data files.
            record_counts: their rows; negative if unknown.

        Raises:
            InvalidDeltaTableError: a vector is broken, or deletes rows that its file does not have.
            FileMissingError: the file of a vector is missing.
            LocationNotAllowedError: it is located outside the allowed locations.
            UnsupportedDeltaTableError: its file is in an unsupported storage.
        """
        every = _vectors(vectors, locations, record_counts)
        # a vector that deletes nothing gets no file, but is read and checked: the log may be wrong about it
        deleting = [pair for pair in zip(every, self._payloads(every), strict=True) if pair[0].deletes]
        found = [vector for vector, _ in deleting]
        payloads = [payload for _, payload in deleting]
        if self._context.format_version >= 3:
            return self._write_puffins(found, payloads)
        return self._write_position_deletes(found, payloads)

    def _payloads(self, vectors: Sequence[_Vector]) -> list[bytes]:
        by_file: dict[str, list[int]] = defaultdict(list)
        payloads: list[bytes] = [b""] * len(vectors)
        for index, vector in enumerate(vectors):
            descriptor = vector.descriptor
            if descriptor.is_inline:
                payloads[index] = inline_payload(descriptor, vector.data_file)
            else:
                by_file[file_of(descriptor, self._context.location, vector.data_file)].append(index)

        def read(item: tuple[str, list[int]]) -> None:
            location, indices = item
            checked = checked_location(location, self._artifacts.allowed)
            about = [(vectors[index].descriptor, vectors[index].data_file) for index in indices]
            ranges = [VERSION_RANGE, *(framed_range(*vector) for vector in about)]
            try:
                version, *frames = self._artifacts.storage.read_ranges(checked, ranges)
            except FileMissingError:
                raise FileMissingError(f"Deletion vector file {checked.shown} is missing") from None
            check_file_version(version, *about[0])
            for index, frame, vector in zip(indices, frames, about, strict=True):
                payloads[index] = unframe(frame, *vector)

        self._artifacts.each(read, list(by_file.items()))
        for vector, payload in zip(vectors, payloads, strict=True):
            rows = vector.record_count if vector.record_count >= 0 else None
            check(payload, vector.descriptor, vector.data_file, rows)
        return payloads

    def _write_position_deletes(self, vectors: Sequence[_Vector], payloads: Sequence[bytes]) -> DeleteRows:
        context = self._context
        file_format = context.position_delete_format
        paths = [
            context.paths.position_deletes(
                context.version, vector.data_file, vector.descriptor.unique_id, file_format
            )
            for vector in vectors
        ]

        def write(item: tuple[_Vector, bytes, str]) -> tuple[int, bytes, bytes]:
            vector, payload, path = item
            deleted = position_chunks(payload, vector.descriptor, vector.data_file)
            with self._artifacts.copies.holding(_BYTES_PER_ROW * vector.descriptor.cardinality):
                made = write_position_deletes(vector.data_file, deleted, format=file_format)
                written = self._artifacts.write(path, made.data)
            return len(written), made.pos_lower_bound, made.pos_upper_bound

        made = self._artifacts.each(write, list(zip(vectors, payloads, paths, strict=True)))
        names = pa.array([vector.data_file.encode() for vector in vectors], pa.binary())
        bounds = (
            ColumnMetrics(
                POS_ID,
                lower_bounds=pa.array([lower for _, lower, _ in made], pa.binary()),
                upper_bounds=pa.array([upper for _, _, upper in made], pa.binary()),
            ),
            # by equal bounds readers see that the file is for one data file
            ColumnMetrics(FILE_PATH_ID, lower_bounds=names, upper_bounds=names),
        )
        return self._rows(vectors, file_format, paths, [size for size, _, _ in made], bounds)

    def _write_puffins(self, vectors: Sequence[_Vector], payloads: Sequence[bytes]) -> DeleteRows:
        paths = [
            self._context.paths.puffin(self._context.version, vector.data_file, vector.descriptor.unique_id)
            for vector in vectors
        ]

        def write(item: tuple[_Vector, bytes, str]) -> tuple[int, int, int]:
            vector, payload, path = item
            blob = DeletionVectorBlob(payload, vector.data_file, vector.descriptor.cardinality)
            made = write_puffin([blob])
            self._artifacts.write(path, made.data)
            return (len(made.data), *made.blobs[0])

        made = self._artifacts.each(write, list(zip(vectors, payloads, paths, strict=True)))
        return replace(
            self._rows(vectors, "puffin", paths, [size for size, _, _ in made], ()),
            content_offsets=np.array([offset for _, offset, _ in made], np.int64),
            content_sizes=np.array([size for _, _, size in made], np.int64),
        )

    def _rows(
        self,
        vectors: Sequence[_Vector],
        file_format: str,
        paths: Sequence[str],
        sizes: Sequence[int],
        bounds: tuple[ColumnMetrics, ...],
    ) -> DeleteRows:
        counts = pa.array([vector.descriptor.cardinality for vector in vectors], pa.int64())
        return DeleteRows(
            rows=np.array([vector.row for vector in vectors], np.int64),
            file_format=file_format,
            file_paths=pa.array(paths, pa.string()),
            file_sizes=np.array(sizes, np.int64),
            metrics=FileMetrics(counts, bounds),
            referenced_data_files=pa.array([vector.data_file for vector in vectors], pa.string()),
        )


def _vectors(
    vectors: pa.ChunkedArray, locations: pa.StringArray, record_counts: pa.Int64Array
) -> list[_Vector]:
    column = vectors.combine_chunks() if isinstance(vectors, pa.ChunkedArray) else vectors
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    chosen = pa.array(rows)
    return [
        _Vector(int(row), location, count, DeletionVector(**descriptor))
        for row, location, count, descriptor in zip(
            rows,
            locations.take(chosen).to_pylist(),
            record_counts.take(chosen).to_pylist(),
            column.take(chosen).to_pylist(),
            strict=True,
        )
    ]
