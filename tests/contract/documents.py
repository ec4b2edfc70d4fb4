"""Parts of requests: schemas, specs, orders, snapshots, statistics, view versions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "ALL_TYPES",
    "ID_AND_DATA",
    "NESTED",
    "column",
    "order",
    "partition_statistics",
    "schema",
    "snapshot",
    "sort_field",
    "spec",
    "spec_field",
    "sql",
    "sql_version",
    "statistics",
]

Json = Any

NOW_MS = time.time_ns() // 1_000_000
"""What clients write into snapshots and versions; the catalog refuses times far in the future."""


def column(field_id: int, name: str, kind: Json = "long", *, required: bool = False, **more: Json) -> Json:
    """A field of a schema; `more` are further attributes, with `_` for `-`."""
    attributes = {key.replace("_", "-"): value for key, value in more.items()}
    return {"id": field_id, "name": name, "type": kind, "required": required, **attributes}


def schema(*fields: Json, schema_id: int = 0, identifiers: Sequence[int] = ()) -> Json:
    """A schema."""
    made = {"type": "struct", "schema-id": schema_id, "fields": list(fields)}
    return made | {"identifier-field-ids": list(identifiers)} if identifiers else made


ID_AND_DATA = schema(column(1, "id", "long", required=True), column(2, "data", "string"))

NESTED = schema(
    column(10, "id", "long", required=True),
    column(
        20,
        "points",
        {
            "type": "list",
            "element-id": 21,
            "element-required": True,
            "element": {"type": "struct", "fields": [column(22, "x", "double"), column(23, "y", "double")]},
        },
    ),
    column(
        30,
        "labels",
        {
            "type": "map",
            "key-id": 31,
            "key": "string",
            "value-id": 32,
            "value-required": False,
            "value": "int",
        },
    ),
    column(40, "place", {"type": "struct", "fields": [column(41, "city", "string")]}),
)

ALL_TYPES = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "decimal(10,2)",
    "decimal(38, 38)",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "string",
    "uuid",
    "fixed[16]",
    "binary",
)


def spec_field(source_id: int, transform: str, name: str, field_id: int | None = None) -> Json:
    """A field of a partition spec."""
    made: dict[str, Json] = {"source-id": source_id, "transform": transform, "name": name}
    return made if field_id is None else {"field-id": field_id, **made}


def spec(*fields: Json, spec_id: int = 0) -> Json:
    """A partition spec."""
    return {"spec-id": spec_id, "fields": list(fields)}


def sort_field(source_id: int, transform: str = "identity", *, descending: bool = False) -> Json:
    """A field of a sort order."""
    direction, nulls = ("desc", "nulls-last") if descending else ("asc", "nulls-first")
    return {"source-id": source_id, "transform": transform, "direction": direction, "null-order": nulls}


def order(*fields: Json, order_id: int = 1) -> Json:
    """A sort order."""
    return {"order-id": order_id, "fields": list(fields)}


def snapshot(
    snapshot_id: int,
    sequence_number: int | None = None,
    parent_id: int | None = None,
    *,
    operation: str = "append",
    summary: Mapping[str, str] | None = None,
    **more: Json,
) -> Json:
    """A snapshot with schema 0, made at `NOW_MS` plus its id in ms, unless `more` says otherwise."""
    made: dict[str, Json] = {
        "snapshot-id": snapshot_id,
        "timestamp-ms": NOW_MS + snapshot_id % 1000,
        "summary": {"operation": operation, **(summary or {})},
        "manifest-list": f"file:///nowhere/snap-{snapshot_id}.avro",
        "schema-id": 0,
    }
    if sequence_number is not None:
        made["sequence-number"] = sequence_number
    if parent_id is not None:
        made["parent-snapshot-id"] = parent_id
    return made | {key.replace("_", "-"): value for key, value in more.items()}


def statistics(snapshot_id: int, path: str = "file:///nowhere/stats.puffin") -> Json:
    """A statistics file with one blob."""
    return {
        "snapshot-id": snapshot_id,
        "statistics-path": path,
        "file-size-in-bytes": 413,
        "file-footer-size-in-bytes": 42,
        "blob-metadata": [
            {
                "type": "apache-datasketches-theta-v1",
                "snapshot-id": snapshot_id,
                "sequence-number": 1,
                "fields": [1],
                "properties": {"ndv": "7"},
            }
        ],
    }


def partition_statistics(snapshot_id: int, path: str = "file:///nowhere/partition-stats.parquet") -> Json:
    """A partition statistics file."""
    return {"snapshot-id": snapshot_id, "statistics-path": path, "file-size-in-bytes": 43}


def sql(text: str = "select id, data from t", dialect: str = "spark") -> Json:
    """A representation of a view version."""
    return {"type": "sql", "sql": text, "dialect": dialect}


def sql_version(
    *representations: Json,
    version_id: int = 1,
    schema_id: int = 0,
    namespace: Sequence[str] = ("ns",),
    **more: Json,
) -> Json:
    """A version of a view."""
    made = {
        "version-id": version_id,
        "timestamp-ms": NOW_MS + version_id,
        "schema-id": schema_id,
        "summary": {"engine-name": "test"},
        "representations": list(representations or [sql()]),
        "default-namespace": list(namespace),
    }
    return made | {key.replace("_", "-"): value for key, value in more.items()}
