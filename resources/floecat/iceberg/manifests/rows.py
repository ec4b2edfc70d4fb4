"""Entries of a manifest as columns (table specification, "Manifests")."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.iceberg.avro.string_columns import Int64s
from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics
from floecat.iceberg.manifests.reader import FileContent

__all__ = ["ManifestRows"]


@dataclass(frozen=True, eq=False)
class ManifestRows:
    """The entries of one manifest, column by column; every column is as long as `file_paths`.

    Attributes:
        content: of all entries. Data files and delete files never share a manifest.
        file_format: of all entries: `parquet`, `avro`, `orc` or `puffin`, in any case.
        statuses: `ManifestEntryStatus` of each, uint8.
        snapshot_ids: the snapshot that added the file, or deleted it if the status is DELETED; int64.
        sequence_numbers: data and file sequence number alike, int64.
        file_paths: locations, byte for byte as readers are to see them; Arrow strings without nulls.
        file_sizes: bytes, int64.
        metrics: record counts, negative but never null if unknown, and what is known of the columns.
        partitions: Arrow structs with one field for each field of the spec, in its order; None without
            partition fields.
        referenced_data_files: of delete files: the only data file that they apply to, null if several; Arrow
            strings.
        content_offsets: of deletion vectors: where the blob starts in its Puffin file, int64.
        content_sizes: of deletion vectors: bytes of the blob, int64.
        first_row_ids: of data files in format version 3: row id of the first row; Arrow int64, null to
            inherit it. None if all inherit.
        empty_vectors: of data files: id of a deletion vector that deletes nothing, and so has no delete file;
            Arrow strings, null if there is none. For the index only.
    """

    content: FileContent
    file_format: str
    statuses: npt.NDArray[np.uint8]
    snapshot_ids: Int64s
    sequence_numbers: Int64s
    file_paths: pa.StringArray
    file_sizes: Int64s
    metrics: FileMetrics
    partitions: pa.StructArray | None = None
    referenced_data_files: pa.StringArray | None = None
    content_offsets: Int64s | None = None
    content_sizes: Int64s | None = None
    first_row_ids: pa.Int64Array | None = None
    empty_vectors: pa.StringArray | None = None

    def __len__(self) -> int:
        return len(self.file_paths)

    def slice(self, start: int, stop: int) -> ManifestRows:
        """The entries from `start` up to `stop`, without copying; to split rows over several manifests."""
        length = stop - start

        def cut(array: Any) -> Any:
            return None if array is None else array.slice(start, length)

        metrics = FileMetrics(
            cut(self.metrics.record_counts),
            tuple(
                ColumnMetrics(
                    column.field_id,
                    cut(column.value_counts),
                    cut(column.null_value_counts),
                    cut(column.lower_bounds),
                    cut(column.upper_bounds),
                )
                for column in self.metrics.columns
            ),
        )
        return replace(
            self,
            statuses=self.statuses[start:stop],
            snapshot_ids=self.snapshot_ids[start:stop],
            sequence_numbers=self.sequence_numbers[start:stop],
            file_paths=cut(self.file_paths),
            file_sizes=self.file_sizes[start:stop],
            metrics=metrics,
            partitions=cut(self.partitions),
            referenced_data_files=cut(self.referenced_data_files),
            content_offsets=None if self.content_offsets is None else self.content_offsets[start:stop],
            content_sizes=None if self.content_sizes is None else self.content_sizes[start:stop],
            first_row_ids=cut(self.first_row_ids),
            empty_vectors=cut(self.empty_vectors),
        )
