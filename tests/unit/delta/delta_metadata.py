"""Metadata of Delta tables, written down shortly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from floecat.delta.protocol.actions import Metadata

_COLUMN_MAPPING = "delta.columnMapping"


def field(name: str, type: object = "integer", *, nullable: bool = True, **metadata: object) -> dict:
    """A column, or a field of a struct."""
    return {"name": name, "type": type, "nullable": nullable, "metadata": metadata}


def mapped(name: str, id: int, physical: str, type: object = "integer", **metadata: object) -> dict:
    """A column as column mapping describes it."""
    found = {f"{_COLUMN_MAPPING}.id": id, f"{_COLUMN_MAPPING}.physicalName": physical}
    return field(name, type, **found, **metadata)


def nested_ids(**ids: int) -> dict:
    """Metadata of a column that numbers what lies in its lists and maps; `_` stands for `.` in the keys."""
    return {f"{_COLUMN_MAPPING}.nested.ids": {key.replace("_", "."): id for key, id in ids.items()}}


def changed(*changes: tuple[str, ...]) -> dict:
    """Metadata of a column whose type changed: from, to, and in which part of it."""
    keys = ("fromType", "toType", "fieldPath")
    return {"delta.typeChanges": [dict(zip(keys, change, strict=False)) for change in changes]}


def struct(*fields: dict) -> dict:
    return {"type": "struct", "fields": list(fields)}


def array(element: object, *, contains_null: bool = True) -> dict:
    return {"type": "array", "elementType": element, "containsNull": contains_null}


def map_of(key: object, value: object, *, contains_null: bool = True) -> dict:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": contains_null}


def metadata(*fields: dict, partitions: Sequence[str] = (), mode: str | None = None) -> Metadata:
    """The metadata of a table."""
    return Metadata(
        id="0f0f0f0f-0000-4000-8000-000000000000",
        schema_string=json.dumps(struct(*fields)),
        partition_columns=tuple(partitions),
        configuration={} if mode is None else {f"{_COLUMN_MAPPING}.mode": mode},
    )


def metadata_in_log(table: Path) -> list[Metadata]:
    """The metadata in the commits of a table, oldest first."""
    found = []
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_text(errors="replace").splitlines():
            action = json.loads(line) if line.startswith('{"metaData"') else {}
            if told := action.get("metaData"):
                configuration = told.get("configuration") or {}
                partitions = tuple(told.get("partitionColumns") or ())
                found.append(Metadata(told["id"], told.get("schemaString") or "", partitions, configuration))
    return found


TRAP = (
    metadata(field("id"), field("name", "string"), field("amount"), field("region", "string")),
    metadata(
        mapped("id", 1, "id"),
        mapped("name", 2, "name", "string"),
        mapped("amount", 3, "amount"),
        mapped("region", 4, "region", "string"),
        mode="name",
    ),
    metadata(
        mapped("id", 1, "id"),
        mapped("full_name", 2, "name", "string"),
        mapped("amount", 3, "amount"),
        mapped("region", 4, "region", "string"),
        mapped("note", 7, "col-a", "string"),
        mode="name",
    ),
    metadata(
        mapped("id", 1, "id", "long"),
        mapped("full_name", 2, "full_name", "string"),
        mapped("amount", 3, "amount", "long"),
        mapped("region", 4, "region", "string"),
        mapped("note", 7, "col-b", "string"),
        mode="name",
    ),
    metadata(
        mapped("id", 1, "id", "long"),
        mapped("full_name", 2, "full_name", "string"),
        mapped("amount", 3, "amount", "long"),
        mapped("region", 4, "region", "string"),
        mapped("tag", 8, "col-c", "string"),
        mode="name",
    ),
)
"""A history in which mapping is turned on after the first files, a column is added, one is renamed, and then
the table is replaced twice, whereby ids start anew: they get other physical names and types, and 7 names two
columns."""
