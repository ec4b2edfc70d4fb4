"""Writes manifest lists (Iceberg table specification, "Manifest Lists"; format versions 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import NamedTuple

import fastavro
import msgspec
import numpy as np

from floecat.iceberg.avro.container import BlockWriter, encode_container
from floecat.iceberg.manifests.lists import DATA_MANIFEST, ManifestFile
from floecat.iceberg.manifests.schema import manifest_list_schema
from floecat.iceberg.values.json_values import encode_json

__all__ = ["RowIds", "assign_row_ids", "write_manifest_list"]


class RowIds(NamedTuple):
    """Manifests whose rows have ids, and the next free one (`next-row-id` of the table)."""

    manifests: tuple[ManifestFile, ...]
    next_row_id: int


def assign_row_ids(manifests: Sequence[ManifestFile], first_row_id: int) -> RowIds:
    """Gives a first row id to each data manifest that has none (format version 3).

    Args:
        manifests: in the order of the list.
        first_row_id: the table's `next-row-id` before the snapshot.

    Raises:
        ValueError: the counts of a manifest are unknown.
    """
    next_row_id = first_row_id
    assigned = []
    for manifest in manifests:
        if manifest.content == DATA_MANIFEST and manifest.first_row_id is None:
            if manifest.existing_rows_count is None or manifest.added_rows_count is None:
                raise ValueError(f"The row counts of manifest {manifest.manifest_path} are unknown")
            # existing rows too: a file that is older than row ids gets its first ones here
            rows = manifest.existing_rows_count + manifest.added_rows_count
            assigned.append(msgspec.structs.replace(manifest, first_row_id=next_row_id))
            next_row_id += rows
        else:
            assigned.append(manifest)
    return RowIds(tuple(assigned), next_row_id)


def write_manifest_list(
    manifests: Sequence[ManifestFile],
    *,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    format_version: int,
    first_row_id: int | None = None,
) -> bytes:
    """Encodes a manifest list. The same arguments always give the same bytes.

    Args:
        manifests: in the order of the file; in format version 3 with their first row ids (`assign_row_ids`).
        snapshot_id: the snapshot whose list it is.
        parent_snapshot_id: None for the first one.
        sequence_number: of the snapshot.
        format_version: 2 or 3.
        first_row_id: of the snapshot; format version 3 only, and required there.

    Raises:
        ValueError: counts are unknown, or row ids are missing.
    """
    has_row_ids = format_version >= 3
    if format_version not in (2, 3) or has_row_ids != (first_row_id is not None):
        raise ValueError(f"No manifest list of format version {format_version}, or none with such row ids")
    json_schema = manifest_list_schema(format_version)
    schema = fastavro.parse_schema(json_schema, _write_hint=False)
    records = []
    for manifest in manifests:
        _check(manifest, has_row_ids=has_row_ids)
        record = BytesIO()
        fields = msgspec.to_builtins(manifest, builtin_types=(bytes,))
        if manifest.partitions is not None:
            fields["partitions"] = list(
                fields["partitions"]
            )  # fastavro takes a tuple for a branch of the union
        fastavro.schemaless_writer(record, schema, fields)
        records.append(record.getvalue())
    metadata = {
        "avro.schema": encode_json(json_schema),
        "snapshot-id": str(snapshot_id).encode(),
        # what the reference implementation writes for a missing parent
        "parent-snapshot-id": b"null" if parent_snapshot_id is None else str(parent_snapshot_id).encode(),
        "sequence-number": str(sequence_number).encode(),
        "format-version": str(format_version).encode(),
    }
    if has_row_ids:
        metadata["first-row-id"] = str(first_row_id).encode()
    sizes = np.array([len(record) for record in records], np.int64)
    blocks = BlockWriter()
    blocks.write(np.frombuffer(b"".join(records), np.uint8), sizes)
    return encode_container(metadata, blocks.finish())


def _check(manifest: ManifestFile, *, has_row_ids: bool) -> None:
    required = (
        manifest.added_snapshot_id,
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
        manifest.added_rows_count,
        manifest.existing_rows_count,
        manifest.deleted_rows_count,
    )
    if any(value is None for value in required):
        raise ValueError(f"The counts of manifest {manifest.manifest_path} are unknown")
    if has_row_ids and manifest.content == DATA_MANIFEST and manifest.first_row_id is None:
        raise ValueError(f"The rows of manifest {manifest.manifest_path} have no ids")
