"""Table metadata documents and commits, short to write."""

from __future__ import annotations

import json
from typing import Any

from floecat.iceberg.builder.metadata_builder import apply_updates
from floecat.iceberg.builder.table_builder import AppliedUpdates
from floecat.iceberg.metadata.table_metadata import TableMetadata
from tests.updates import decode_updates

BASE_MS = 1_700_000_000_000
NOW_MS = BASE_MS + 600_000
BASE_FILE = "s3://lake/db/t/metadata/00004-5d1e3b3c.metadata.json"
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def column(
    field_id: int, name: str, type: object = "long", *, required: bool = False, **more: object
) -> dict:
    return {"id": field_id, "name": name, "required": required, "type": type, **more}


def schema(*columns: dict, schema_id: int = 0, **more: object) -> dict:
    return {"type": "struct", "schema-id": schema_id, "fields": list(columns), **more}


ID, TEXT, TS = column(1, "id", required=True), column(2, "text", "string"), column(3, "ts", "timestamp")


def partition_field(field_id: int, source_id: int, name: str, transform: str = "identity") -> dict:
    return {"name": name, "transform": transform, "source-id": source_id, "field-id": field_id}


def spec(*fields: dict, spec_id: int = 0) -> dict:
    return {"spec-id": spec_id, "fields": list(fields)}


def sort_field(source_id: int, transform: str = "identity") -> dict:
    return {"transform": transform, "source-id": source_id, "direction": "asc", "null-order": "nulls-first"}


def order(*fields: dict, order_id: int = 1) -> dict:
    return {"order-id": order_id, "fields": list(fields)}


def snapshot(snapshot_id: int, sequence_number: int, parent: int | None = None, **more: object) -> dict:
    body: dict[str, Any] = {
        "sequence-number": sequence_number,
        "snapshot-id": snapshot_id,
        "timestamp-ms": BASE_MS + sequence_number * 1000,
        "summary": {"operation": "append", "added-records": "7"},
        "manifest-list": f"s3://lake/db/t/metadata/snap-{snapshot_id}.avro",
        "schema-id": 0,
    }
    if parent is not None:
        body["parent-snapshot-id"] = parent
    return body | more


def document(version: int = 2, **changes: object) -> dict:
    """A table of columns id, text and ts, unpartitioned, with the snapshots 11, 12 and 13 on main."""
    snapshots = [snapshot(11, 1), snapshot(12, 2, 11), snapshot(13, 3, 12)]
    body: dict[str, Any] = {
        "format-version": version,
        "table-uuid": UUID,
        "location": "s3://lake/db/t",
        "last-sequence-number": 3,
        "last-updated-ms": BASE_MS + 5000,
        "last-column-id": 3,
        "current-schema-id": 0,
        "schemas": [schema(ID, TEXT, TS)],
        "default-spec-id": 0,
        "partition-specs": [spec()],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [order(order_id=0)],
        "properties": {"owner": "ops"},
        "current-snapshot-id": 13,
        "refs": {"main": {"snapshot-id": 13, "type": "branch"}},
        "snapshots": snapshots,
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [
            {"timestamp-ms": item["timestamp-ms"], "snapshot-id": item["snapshot-id"]} for item in snapshots
        ],
        "metadata-log": [],
    }
    if version == 3:
        body["next-row-id"] = 100
    if version == 1:
        del body["last-sequence-number"]
        body |= {"schema": body["schemas"][0], "partition-spec": []}
        for item in snapshots:
            del item["sequence-number"]
    body |= changes
    return {name: value for name, value in body.items() if value is not ...}


def empty(version: int = 2, **changes: object) -> dict:
    """The same table without snapshots."""
    none: dict[str, object] = {
        "current-snapshot-id": None if version == 3 else -1,
        "refs": {},
        "snapshots": [],
        "snapshot-log": [],
        "last-sequence-number": ... if version == 1 else 0,
    }
    if version == 3:
        none["next-row-id"] = 0
    return document(version, **(none | changes))


def encode(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def parse(body: dict) -> TableMetadata:
    return TableMetadata.parse(encode(body))


def commit(
    base: TableMetadata | None, *updates: dict, now_ms: int = NOW_MS, location: str | None = BASE_FILE
) -> AppliedUpdates:
    return apply_updates(
        base,
        decode_updates(encode(list(updates))),
        now_ms=now_ms,
        base_metadata_location=None if base is None else location,
        table_uuid=UUID if base is None else None,
    )


def read(metadata: TableMetadata) -> dict:
    """The encoded document, decoded by another parser."""
    return json.loads(metadata.to_bytes())


def update(action: str, **fields: object) -> dict:
    return {"action": action} | {name.replace("_", "-"): value for name, value in fields.items()}


def set_ref(name: str, snapshot_id: int, type: str = "branch", **more: object) -> dict:
    return update("set-snapshot-ref", ref_name=name, type=type, snapshot_id=snapshot_id, **more)


def append(snapshot_id: int, sequence_number: int, parent: int | None, **more: object) -> list[dict]:
    """The updates of an append to main."""
    more = {"timestamp-ms": NOW_MS, **more}
    return [
        update("add-snapshot", snapshot=snapshot(snapshot_id, sequence_number, parent, **more)),
        set_ref("main", snapshot_id),
    ]
