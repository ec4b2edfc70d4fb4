"""Logs for tests, as the lines of their files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = [
    "PARTITIONED",
    "PROTOCOL",
    "add",
    "checkpoint_bytes",
    "commit_bytes",
    "descriptor",
    "metadata",
    "remove",
    "schema_string",
]

PROTOCOL: dict[str, Any] = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def schema_string(*names: str, **metadata: Mapping[str, Any]) -> str:
    """A schema of texts."""
    fields = [
        {"name": name, "type": "string", "nullable": True, "metadata": metadata.get(name, {})}
        for name in names
    ]
    return json.dumps({"type": "struct", "fields": fields})


def metadata(
    schema: str | None = None, partitions: Sequence[str] = (), **configuration: str
) -> dict[str, Any]:
    """A metadata action; keys of the configuration with `__` for a full stop."""
    return {
        "metaData": {
            "id": "some-id",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema or schema_string("a", "p"),
            "partitionColumns": list(partitions),
            "configuration": {key.replace("__", "."): value for key, value in configuration.items()},
            "createdTime": 1700000000000,
        }
    }


PARTITIONED = metadata(partitions=["p"])


def descriptor(
    storage_type: str = "u", path: str = "ab^-aqEH.-t@S}K{vb[*k^", **changes: Any
) -> dict[str, Any]:
    """A descriptor of a deletion vector."""
    given = {
        "storageType": storage_type,
        "pathOrInlineDv": path,
        "offset": 1,
        "sizeInBytes": 36,
        "cardinality": 2,
    }
    return {key: value for key, value in {**given, **changes}.items() if value is not None}


def add(path: str, **changes: Any) -> dict[str, Any]:
    """An add action."""
    given = {"path": path, "partitionValues": {}, "size": 100, "modificationTime": 5, "dataChange": True}
    return {"add": {**given, **changes}}


def remove(path: str, **changes: Any) -> dict[str, Any]:
    """A remove action."""
    return {"remove": {"path": path, "deletionTimestamp": 6, "dataChange": True, **changes}}


def commit_bytes(*actions: Mapping[str, Any]) -> bytes:
    """A file of lines."""
    return b"".join(json.dumps(action).encode() + b"\n" for action in actions)


_TEXTS = pa.map_(pa.string(), pa.string())
_DESCRIPTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD: dict[str, pa.DataType] = {
    "path": pa.string(),
    "partitionValues": _TEXTS,
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "dataChange": pa.bool_(),
    "stats": pa.string(),
    "tags": _TEXTS,
    "deletionVector": _DESCRIPTOR,
}
_COLUMNS: dict[str, pa.DataType] = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64())]),
    "remove": pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64())]),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(pa.string())),
            ("writerFeatures", pa.list_(pa.string())),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("createdTime", pa.int64()),
            ("configuration", _TEXTS),
        ]
    ),
    "sidecar": pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())]),
}


def checkpoint_bytes(
    *actions: Mapping[str, Any],
    add_types: Mapping[str, pa.DataType | None] | None = None,
    **options: Any,
) -> bytes:
    """A Parquet checkpoint.

    Args:
        actions: one for each row, as in a commit.
        add_types: fields of the adds that are of another type, or are left out if it is None.
        options: of the Parquet writer.
    """
    add_fields = {**_ADD, **(add_types or {})}
    add_type = pa.struct([(name, kind) for name, kind in add_fields.items() if kind is not None])
    columns = {**_COLUMNS, "add": add_type}
    rows = {name: [_pairs(action.get(name)) for action in actions] for name in columns}
    table = pa.table({name: pa.array(rows[name], kind) for name, kind in columns.items()})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return bytes(sink.getvalue())


def _pairs(action: Any) -> Any:
    """Maps as Arrow takes them."""
    if not isinstance(action, dict):
        return action
    maps = ("partitionValues", "tags", "configuration", "options")
    return {
        key: list(value.items()) if key in maps and isinstance(value, dict) else _pairs(value)
        for key, value in action.items()
    }
