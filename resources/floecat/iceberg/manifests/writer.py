"""Writes manifests (Iceberg table specification, "Manifests"; format versions 2 and 3), column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.avro.container import BlockWriter, encode_container
from floecat.iceberg.avro.string_columns import Int64s
from floecat.iceberg.manifests.avro_schemas import manifest_schema
from floecat.iceberg.manifests.entries import ManifestRows, encode_entries
from floecat.iceberg.manifests.index import CONTENT_NAMES, INDEX_KEY, ManifestIndex, index_entries
from floecat.iceberg.manifests.lists import DATA_MANIFEST, DELETE_MANIFEST, ManifestFile
from floecat.iceberg.manifests.partition_tuples import partition_struct
from floecat.iceberg.manifests.reader import FileContent, ManifestEntryStatus
from floecat.iceberg.schemas.partitioning import PartitionSpec
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.encoded_json import encode_json

__all__ = ["EncodedManifest", "ManifestRows", "write_manifest"]


@dataclass(frozen=True, eq=False)
class EncodedManifest:
    """A manifest, and its entries in short.

    Attributes:
        data: the whole file.
        index: its entries in short, as they also stand in the header of the file.
    """

    data: bytes
    index: ManifestIndex

    def manifest_file(self, path: str, *, snapshot_id: int, sequence_number: int) -> ManifestFile:
        """The entry of the manifest in a manifest list.

        Args:
            path: where the file is.
            snapshot_id: the snapshot that adds this manifest.
            sequence_number: of that snapshot.
        """
        return self.index.manifest_file(
            path, len(self.data), snapshot_id=snapshot_id, sequence_number=sequence_number
        )


def write_manifest(
    rows: ManifestRows,
    *,
    schema: Schema,
    spec: PartitionSpec,
    partition_types: Sequence[PrimitiveType],
    format_version: int,
) -> EncodedManifest:
    """Encodes a manifest. The same arguments always give the same bytes.

    Args:
        rows: the entries, in the order of the file.
        schema: the table's current schema.
        spec: the spec that the files are partitioned by.
        partition_types: result types of the fields of the spec, in order.
        format_version: 2 or 3.

    Raises:
        ValueError: columns of different lengths, an unknown record count, partition values that do not fit
            the spec, or values that the format version has no field for.
    """
    _check(rows, format_version)
    record_counts = _record_counts(rows)
    partitions = partition_struct(rows.partitions, spec, partition_types, len(rows))
    blocks = BlockWriter()
    sizes = []
    for data, chunk_sizes in encode_entries(rows, record_counts, partitions, format_version):
        blocks.write(data, chunk_sizes)
        sizes.append(chunk_sizes)
    content = DATA_MANIFEST if rows.content is FileContent.DATA else DELETE_MANIFEST
    index = ManifestIndex(
        content=content,
        partition_spec_id=spec.spec_id,
        format_version=format_version,
        entries=_index_entries(rows, record_counts, partitions, sizes),
    )
    metadata = {
        "avro.schema": encode_json(manifest_schema(spec, partition_types, format_version)),
        "schema": schema.raw,
        "schema-id": str(schema.schema_id).encode(),
        "partition-spec": encode_json(spec.fields),
        "partition-spec-id": str(spec.spec_id).encode(),
        "format-version": str(format_version).encode(),
        "content": CONTENT_NAMES[content],
        INDEX_KEY: index.encode(),
    }
    return EncodedManifest(encode_container(metadata, blocks.finish()), index)


def _check(rows: ManifestRows, format_version: int) -> None:
    if format_version not in (2, 3):
        raise ValueError(f"No manifest is written in format version {format_version}")
    if rows.file_paths.null_count or (rows.statuses > ManifestEntryStatus.DELETED).any():
        raise ValueError("A path is missing, or a status unknown")
    columns = (
        rows.statuses,
        rows.snapshot_ids,
        rows.sequence_numbers,
        rows.file_sizes,
        rows.metrics.record_counts,
        rows.referenced_data_files,
        rows.content_offsets,
        rows.content_sizes,
        rows.first_row_ids,
        rows.empty_vectors,
    )
    if any(column is not None and len(column) != len(rows) for column in columns):
        raise ValueError("The columns of the entries differ in length")
    numbers = (rows.snapshot_ids, rows.sequence_numbers, rows.file_sizes)
    if any(column.dtype.kind != "i" for column in numbers):
        raise ValueError("Ids, sequence numbers and sizes must be integers")
    if format_version < 3 and any(
        column is not None for column in (rows.content_offsets, rows.content_sizes, rows.first_row_ids)
    ):
        raise ValueError(f"Format version {format_version} has neither deletion vectors nor row ids")
    if rows.content is FileContent.DATA and rows.referenced_data_files is not None:
        raise ValueError("Only delete files refer to data files")


def _record_counts(rows: ManifestRows) -> Int64s:
    counts: Any = rows.metrics.record_counts
    if counts.null_count:
        raise ValueError("The record count of a file is unknown")
    numbers: Int64s = counts.to_numpy()
    return numbers


def _index_entries(
    rows: ManifestRows, record_counts: Int64s, partitions: pa.StructArray, sizes: Sequence[Int64s]
) -> pa.Table:
    keys = rows.file_paths
    if rows.referenced_data_files is not None:
        keys = pc.coalesce(rows.referenced_data_files, rows.file_paths)
    first_row_ids, empty_vectors = rows.first_row_ids, rows.empty_vectors
    return index_entries(
        keys,
        partitions,
        {
            "entry_size": np.concatenate([np.zeros(0, np.int64), *sizes]),
            "status": rows.statuses,
            "snapshot_id": rows.snapshot_ids,
            "sequence_number": rows.sequence_numbers,
            "record_count": record_counts,
            "file_size": rows.file_sizes,
            "first_row_id": pa.nulls(len(rows), pa.int64()) if first_row_ids is None else first_row_ids,
            "empty_vector": pa.nulls(len(rows), pa.string()) if empty_vectors is None else empty_vectors,
        },
    )
