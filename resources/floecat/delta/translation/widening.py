"""Changes of a column's type while files of the older type stay live, as far as Iceberg supports them.

Iceberg supports `int` to `long`, `float` to `double`, and decimals of more digits and the same scale. Delta's
type widening supports more: integers to decimals or doubles, decimals of a larger scale, dates to timestamps.
Those are refused. (Iceberg has the last one in format version 3; readers do not.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from floecat.delta.protocol.delta_schema import (
    DeltaArray,
    DeltaMap,
    DeltaStruct,
    DeltaType,
    parse_delta_schema,
    parse_primitive,
)
from floecat.errors import UnsupportedDeltaTableError

if TYPE_CHECKING:
    from floecat.delta.protocol.actions import Metadata
    from floecat.delta.translation.translated_schema import TranslatedSchema

__all__ = ["check_type_changes", "check_widening"]

_INT_TYPES = ("byte", "short", "integer")
_INTEGERS = (*_INT_TYPES, "long")


def check_widening(old: TranslatedSchema, new: TranslatedSchema) -> bool:
    """Checks the changes of types from one version to a later one.

    For callers that carry files of the old version into the new one. A table that is replaced may change any
    type, since none of its files stays.

    Args:
        old: the schema of the files.
        new: the schema that they are read with.

    Returns:
        Whether the Iceberg type of a column changed, and with it the encoding of bounds and partition values.

    Raises:
        UnsupportedDeltaTableError: a type changed in a way that Iceberg cannot express.
    """
    changed = False
    for field_id, type in new.delta_types.items():
        # After a replacement that restarted the ids, the id names another column, at another path.
        if old.physical_paths.get(field_id) != new.physical_paths[field_id]:
            continue
        before = old.delta_types[field_id]
        if before != type and _changes_type(before, type, new.schema.names_by_id[field_id]):
            changed = True
    return changed


def check_type_changes(metadata: Metadata) -> None:
    """Checks the changes of type that a schema records.

    For callers without the schemas of older files: any file may have any earlier type of a column.

    Raises:
        InvalidDeltaTableError: the schema is malformed.
        UnsupportedDeltaTableError: a type changed in a way that Iceberg cannot express.
    """
    for name, before, after in _recorded(parse_delta_schema(metadata.schema_string), ""):
        _changes_type(before, after, name)


def _changes_type(before: str, after: str, column: str) -> bool:
    if before in (after, "void"):
        return False
    if before in _INTEGERS and after in _INTEGERS and _INTEGERS.index(before) < _INTEGERS.index(after):
        return after == "long"
    if (before, after) == ("float", "double") or _has_more_digits(before, after):
        return True
    raise UnsupportedDeltaTableError(
        f"The type of column {column} was changed from {before} to {after}, which Iceberg cannot express"
    )


def _has_more_digits(before: str, after: str) -> bool:
    old, new = parse_primitive(before, ""), parse_primitive(after, "")
    return old.name == new.name == "decimal" and old.scale == new.scale and old.precision < new.precision


def _recorded(type: DeltaType, owner: str) -> Iterator[tuple[str, str, str]]:
    match type:
        case DeltaStruct():
            for field in type.fields:
                name = f"{owner}.{field.name}" if owner else field.name
                for change in field.type_changes:
                    yield ".".join((name, *change.path)), change.from_type, change.to_type
                yield from _recorded(field.type, name)
        case DeltaArray():
            yield from _recorded(type.element, f"{owner}.element")
        case DeltaMap():
            yield from _recorded(type.key, f"{owner}.key")
            yield from _recorded(type.value, f"{owner}.value")
        case _:
            return
