"""Requests of a commit, short to write."""

from __future__ import annotations

import json
import time
from typing import Any

from msgspec import Raw

from floecat.commits.commit import CreateTable
from floecat.commits.table_changes import TableChange
from floecat.entries.calls import Call, LoadedTable
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel
from tests.updates import decode_requirements, decode_updates

SCHEMA = Raw(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                {"id": 1, "name": "id", "required": True, "type": "long"},
                {"id": 2, "name": "text", "required": False, "type": "string"},
            ],
        }
    ).encode()
)


def table(name: str) -> TableIdentifier:
    """A table of the namespace `ns`."""
    return TableIdentifier(("ns",), name)


def create(kernel: Kernel, call: Call, name: str, **fields: Any) -> LoadedTable:
    """Creates a table in `ns`."""
    return kernel.commits.tables.create_table(call, ("ns",), CreateTable(name=name, schema=SCHEMA, **fields))


def change(
    name: str, updates: list[dict[str, Any]], requirements: list[dict[str, Any]] | None = None
) -> TableChange:
    """A change of a table of `ns`."""
    return TableChange(
        table(name),
        decode_requirements(Raw(json.dumps(requirements or []).encode())),
        decode_updates(Raw(json.dumps(updates).encode())),
    )


def set_property(name: str, key: str, value: str) -> TableChange:
    """A change that requires nothing."""
    return change(name, [{"action": "set-properties", "updates": {key: value}}])


def append(name: str, number: int, parent: int | None, location: str) -> TableChange:
    """An append to main on top of a parent snapshot; the snapshot's id is its number."""
    snapshot: dict[str, Any] = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": time.time_ns() // 1_000_000,
        "summary": {"operation": "append", "total-records": str(number)},
        "manifest-list": f"{location}/metadata/snap-{number}.avro",
        "schema-id": 0,
    }
    if parent is not None:
        snapshot["parent-snapshot-id"] = parent
    return change(
        name,
        [
            {"action": "add-snapshot", "snapshot": snapshot},
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number},
        ],
        [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}],
    )
