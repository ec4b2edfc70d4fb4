"""Manifests and manifest lists as bytes, written by fastavro from the field tables of the specification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any

import fastavro

__all__ = ["ENTRY_FIELDS", "LIST_FIELDS", "entry", "manifest_bytes", "manifest_list_bytes"]

_PARTITION = {
    "type": "record",
    "name": "r102",
    "fields": [{"name": "day", "type": ["null", "int"], "default": None, "field-id": 1000}],
}
_COUNTS = {
    "type": "array",
    "logicalType": "map",
    "items": {
        "type": "record",
        "name": "k117_v118",
        "fields": [
            {"name": "key", "type": "int", "field-id": 117},
            {"name": "value", "type": "long", "field-id": 118},
        ],
    },
}


def _optional(name: str, type_: Any, field_id: int) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None, "field-id": field_id}


def _required(name: str, type_: Any, field_id: int) -> dict[str, Any]:
    return {"name": name, "type": type_, "field-id": field_id}


_FILE_FIELDS = [
    _required("content", "int", 134),
    _required("file_path", "string", 100),
    _required("file_format", "string", 101),
    _required("partition", _PARTITION, 102),
    _required("record_count", "long", 103),
    _required("file_size_in_bytes", "long", 104),
    _optional("column_sizes", _COUNTS, 108),
    _optional("key_metadata", "bytes", 131),
    _optional("first_row_id", "long", 142),
    _optional("referenced_data_file", "string", 143),
    _optional("content_offset", "long", 144),
    _optional("content_size_in_bytes", "long", 145),
]

ENTRY_FIELDS = [
    _required("status", "int", 0),
    _optional("snapshot_id", "long", 1),
    _optional("sequence_number", "long", 3),
    _optional("file_sequence_number", "long", 4),
    _required("data_file", {"type": "record", "name": "r2", "fields": _FILE_FIELDS}, 2),
]

_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _required("contains_null", "boolean", 509),
        _optional("contains_nan", "boolean", 518),
        _optional("lower_bound", "bytes", 510),
        _optional("upper_bound", "bytes", 511),
    ],
}

LIST_FIELDS = [
    _required("manifest_path", "string", 500),
    _required("manifest_length", "long", 501),
    _required("partition_spec_id", "int", 502),
    _required("content", "int", 517),
    _required("sequence_number", "long", 515),
    _required("min_sequence_number", "long", 516),
    _required("added_snapshot_id", "long", 503),
    _required("added_files_count", "int", 504),
    _required("existing_files_count", "int", 505),
    _required("deleted_files_count", "int", 506),
    _required("added_rows_count", "long", 512),
    _required("existing_rows_count", "long", 513),
    _required("deleted_rows_count", "long", 514),
    _optional("partitions", {"type": "array", "element-id": 508, "items": _SUMMARY}, 507),
    _optional("first_row_id", "long", 520),
]

_LIST_DEFAULTS: dict[str, Any] = {
    "manifest_length": 10,
    "partition_spec_id": 0,
    "content": 0,
    "sequence_number": 1,
    "min_sequence_number": 1,
    "added_snapshot_id": 1,
    "added_files_count": 1,
    "existing_files_count": 0,
    "deleted_files_count": 0,
    "added_rows_count": 5,
    "existing_rows_count": 0,
    "deleted_rows_count": 0,
    "partitions": [{"contains_null": False, "lower_bound": b"\x01\x00\x00\x00"}],
}


def entry(path: str, *, status: int = 1, **data_file: Any) -> dict[str, Any]:
    """An entry of a manifest."""
    return {
        "status": status,
        "snapshot_id": 1,
        "data_file": {
            "content": 0,
            "file_path": path,
            "file_format": "PARQUET",
            "partition": {"day": 3},
            "record_count": 5,
            "file_size_in_bytes": 100,
            "column_sizes": [{"key": 1, "value": 50}],
        }
        | data_file,
    }


def manifest_bytes(
    entries: Iterable[Mapping[str, Any]],
    *,
    fields: list[dict[str, Any]] = ENTRY_FIELDS,
    codec: str = "deflate",
) -> bytes:
    """A manifest."""
    schema = {"type": "record", "name": "manifest_entry", "fields": fields}
    return _avro(schema, entries, codec, {"format-version": "2", "content": "data"})


def manifest_list_bytes(
    manifests: Iterable[Mapping[str, Any]], *, fields: list[dict[str, Any]] = LIST_FIELDS
) -> bytes:
    """A manifest list; what an entry leaves out gets a value of no importance."""
    schema = {"type": "record", "name": "manifest_file", "fields": fields}
    return _avro(
        schema, ({**_LIST_DEFAULTS, **item} for item in manifests), "deflate", {"format-version": "2"}
    )


def _avro(
    schema: dict[str, Any], records: Iterable[Mapping[str, Any]], codec: str, metadata: dict[str, str]
) -> bytes:
    buffer = BytesIO()
    fastavro.writer(buffer, schema, records, codec=codec, metadata=metadata)
    return buffer.getvalue()
