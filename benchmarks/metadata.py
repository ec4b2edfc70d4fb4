"""Table metadata of a wanted size, as a client with a long history would leave it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["SCHEMA", "snapshot", "table_metadata", "write_metadata"]

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": position + 1, "name": f"c{position}", "required": False, "type": kind}
        for position, kind in enumerate(
            [
                "long",
                "string",
                "double",
                "timestamp",
                "boolean",
                "int",
                "date",
                "string",
                "binary",
                "decimal(18, 4)",
            ]
        )
    ],
}

_UUID = "6f1c2b4a-8d5e-4f6a-9b7c-0d1e2f3a4b5c"
_START_MS = 1_700_000_000_000


def snapshot(
    location: str, number: int, parent: int | None, *, timestamp_ms: int | None = None
) -> dict[str, Any]:
    """A snapshot with the summary of an ordinary append."""
    snapshot_id = 1_000_000_000_000_000_000 + number
    made: dict[str, Any] = {
        "sequence-number": number,
        "snapshot-id": snapshot_id,
        "timestamp-ms": timestamp_ms or _START_MS + number * 1000,
        "summary": {
            "operation": "append",
            "added-data-files": "4",
            "added-records": "100000",
            "added-files-size": "12582912",
            "changed-partition-count": "1",
            "total-records": str(100_000 * number),
            "total-files-size": str(12_582_912 * number),
            "total-data-files": str(4 * number),
            "total-delete-files": "0",
            "total-position-deletes": "0",
            "total-equality-deletes": "0",
        },
        "manifest-list": f"{location}/metadata/snap-{snapshot_id}-1-{_UUID}.avro",
        "schema-id": 0,
    }
    if parent is not None:
        made["parent-snapshot-id"] = parent
    return made


def table_metadata(location: str, table_uuid: str, snapshots: int) -> dict[str, Any]:
    """Format version 2 metadata with so many snapshots, all on main."""
    history = []
    parent = None
    for number in range(1, snapshots + 1):
        history.append(snapshot(location, number, parent))
        parent = history[-1]["snapshot-id"]
    document: dict[str, Any] = {
        "format-version": 2,
        "table-uuid": table_uuid,
        "location": location,
        "last-sequence-number": snapshots,
        "last-updated-ms": _START_MS + snapshots * 1000,
        "last-column-id": len(SCHEMA["fields"]),
        "current-schema-id": 0,
        "schemas": [SCHEMA],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {"owner": "benchmarks", "write.parquet.compression-codec": "zstd"},
        "current-snapshot-id": parent if parent is not None else -1,
        "refs": {} if parent is None else {"main": {"snapshot-id": parent, "type": "branch"}},
        "snapshots": history,
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [
            {"snapshot-id": entry["snapshot-id"], "timestamp-ms": entry["timestamp-ms"]} for entry in history
        ],
        "metadata-log": [],
    }
    return document


def write_metadata(folder: Path, table_uuid: str, snapshots: int) -> str:
    """Writes such metadata under a folder of the local disk and returns its `file://` location."""
    location = folder.as_uri()
    file = folder / "metadata" / "00000-benchmark.metadata.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(table_metadata(location, table_uuid, snapshots)))
    return file.as_uri()
