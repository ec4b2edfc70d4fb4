"""Names under which the log keeps partition values (Delta protocol, "Column Mapping")."""

from __future__ import annotations

from typing import Any

import msgspec

from floecat.delta.protocol.actions import Metadata
from floecat.errors import InvalidDeltaTableError

__all__ = ["physical_partition_names"]


class _Field(msgspec.Struct):
    name: str
    metadata: dict[str, Any] = {}


class _Schema(msgspec.Struct):
    fields: list[_Field] = []


def physical_partition_names(metadata: Metadata) -> tuple[str, ...]:
    """Physical names of the partition columns, in their order.

    Raises:
        InvalidDeltaTableError: the schema cannot be read, lacks one of them, or has one twice.
    """
    if not metadata.partition_columns:
        return ()
    try:
        schema = msgspec.json.decode(metadata.schema_string, type=_Schema)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise InvalidDeltaTableError("The schema of the table is not valid JSON of a schema") from None
    mapped = metadata.configuration.get("delta.columnMapping.mode", "none").lower() != "none"
    fields = {field.name: field for field in schema.fields}
    names = [_physical_name(fields.get(name), name, mapped=mapped) for name in metadata.partition_columns]
    if len(set(names)) < len(names):
        raise InvalidDeltaTableError("The table is partitioned by one column twice")
    return tuple(names)


def _physical_name(field: _Field | None, name: str, *, mapped: bool) -> str:
    if field is None:
        raise InvalidDeltaTableError(f"Partition column {name!r} is not in the schema of the table")
    if not mapped:
        return name
    physical_name = field.metadata.get("delta.columnMapping.physicalName")
    if not isinstance(physical_name, str):
        raise InvalidDeltaTableError(f"Partition column {name!r} of a mapped table has no physical name")
    return physical_name
