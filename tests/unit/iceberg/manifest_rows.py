"""Entries of manifests as rows: by the reader under test, and by fastavro from the writer's own schema."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from floecat.iceberg.avro.container import read_header
from floecat.iceberg.manifests.metric_maps import METRIC_IDS
from floecat.iceberg.manifests.reader import ENTRY_FIELDS, read_manifest
from tests.unit.iceberg.manifest_samples import read_entries

__all__ = ["rows_by_columns", "rows_by_fastavro"]

_IDS = {
    0: "status",
    1: "snapshot_id",
    3: "sequence_number",
    4: "file_sequence_number",
    134: "content",
    100: "file_path",
    101: "file_format",
    102: "partition",
    103: "record_count",
    104: "file_size_in_bytes",
    131: "key_metadata",
    132: "split_offsets",
    135: "equality_ids",
    140: "sort_order_id",
    142: "first_row_id",
    143: "referenced_data_file",
    144: "content_offset",
    145: "content_size_in_bytes",
    **{id: name for name, id in METRIC_IDS.items()},
}


def rows_by_columns(data: bytes, **arguments: Any) -> list[dict[str, Any]]:
    """All entries; metric maps as dictionaries, empty where there is none, partition values as a list."""
    rows: list[dict[str, Any]] = []
    for entries in read_manifest(data, location="", **arguments):
        entries.table.validate(full=True)
        names = entries.table.column_names
        columns = {name: [] if name == "partition" else entries.table[name].to_pylist() for name in names}
        if "partition" in columns:
            arrays = [_plain(array) for array in entries.column("partition").flatten()]
            values = [array.to_pylist() for array in arrays]
            columns["partition"] = (
                list(map(list, zip(*values, strict=True))) if values else [[]] * len(entries)
            )
        found = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        for name in METRIC_IDS:
            if name in arguments.get("fields", ENTRY_FIELDS):
                for row in found:
                    row[name] = {}
        for column in entries.metrics:
            for name in METRIC_IDS:
                array = getattr(column, name)
                for row, value in zip(found, [] if array is None else array.to_pylist(), strict=False):
                    if value is not None:
                        row[name][column.field_id] = value
        rows += found
    return rows


def _plain(array: pa.Array) -> pa.Array:
    if pa.types.is_date32(array.type):
        return array.cast(pa.int32())
    return array.cast(pa.int64()) if pa.types.is_temporal(array.type) else array


def rows_by_fastavro(data: bytes) -> list[dict[str, Any]]:
    """The same as fastavro reads it."""
    schema = json.loads(read_header(data, location="", what="").metadata["avro.schema"])
    entry_names = {field["name"]: field["field-id"] for field in schema["fields"]}
    (data_file,) = (field["type"]["fields"] for field in schema["fields"] if field["field-id"] == 2)
    file_names = {field["name"]: field["field-id"] for field in data_file}
    rows = []
    for record in read_entries(data):
        row: dict[str, Any] = dict.fromkeys(_IDS.values())
        (file,) = (value for name, value in record.items() if entry_names[name] == 2)
        for names, part in ((entry_names, record), (file_names, file)):
            row |= {_IDS[names[name]]: value for name, value in part.items() if names[name] in _IDS}
        row["content"] = row["content"] or 0
        row["partition"] = list(row["partition"].values())
        for name in METRIC_IDS:
            row[name] = {pair["key"]: pair["value"] for pair in row[name] or []}
        rows.append(row)
    return rows
