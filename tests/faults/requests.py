"""Bodies of requests, and paths."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["SCHEMA", "appending", "creating", "setting", "table_path", "transaction", "unique_key"]

Json = Any

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


def unique_key() -> str:
    """An idempotency key."""
    return str(uuid.uuid4())


def table_path(name: str, namespace: str = "ns") -> str:
    """A table by name."""
    return f"/namespaces/{namespace}/tables/{name}"


def creating(name: str, **fields: Json) -> Json:
    """A `CreateTableRequest`."""
    return {"name": name, "schema": SCHEMA, **fields}


def setting(properties: Mapping[str, str], requirements: Sequence[Json] = ()) -> Json:
    """A commit that sets properties."""
    return {
        "requirements": list(requirements),
        "updates": [{"action": "set-properties", "updates": dict(properties)}],
    }


def appending(snapshot_id: int, metadata: Json) -> Json:
    """An append to main on top of a metadata document, as a client sends it that has loaded this document."""
    parent = metadata.get("current-snapshot-id")
    parent = None if parent == -1 else parent
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": max(metadata["last-updated-ms"], time.time_ns() // 1_000_000),
        "summary": {"operation": "append"},
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "schema-id": 0,
    }
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent
    return {
        "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}],
        "updates": [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot_id},
        ],
    }


def transaction(changes: Mapping[str, Json], namespace: str = "ns") -> Json:
    """A `CommitTransactionRequest` over tables of a namespace."""
    return {
        "table-changes": [
            {"identifier": {"namespace": [namespace], "name": name}, **change}
            for name, change in changes.items()
        ]
    }
