"""Schemas of Delta tables, read from JSON (Delta transaction log protocol, "Schema Serialization Format").

Parsing accepts types that the protocol does not define and keeps their names. The translation refuses them by
column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from floecat.errors import IllegalArgumentError, InvalidDeltaTableError, UnsupportedDeltaTableError
from floecat.iceberg.values.json_checks import check_json

__all__ = [
    "DeltaArray",
    "DeltaField",
    "DeltaMap",
    "DeltaPrimitive",
    "DeltaStruct",
    "DeltaType",
    "TypeChange",
    "find_columns",
    "mapping_mode",
    "parse_delta_schema",
    "parse_primitive",
    "physical_name",
]

_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_COLUMN_ID = "delta.columnMapping.id"
_NESTED_IDS = "delta.columnMapping.nested.ids"
_TYPE_CHANGES = "delta.typeChanges"

_LAST_ID = 2147483447
"""Iceberg reserves higher ids for metadata columns."""

_MAX_DEPTH = 100

_DECIMAL = re.compile(r"decimal\(\s*(\d{1,9})\s*,\s*(-?\d{1,9})\s*\)")
_SPELLINGS = {"null": "void", "decimal": "decimal(10,0)", "timestamp_ltz": "timestamp"}
"""Aliases that Spark reads, and the names that it writes."""


class DeltaPrimitive(msgspec.Struct, frozen=True):
    """A type without fields, possibly one that the protocol does not define.

    Attributes:
        name: the type without its parameters, e.g. `integer`, `decimal`, `timestamp_ntz`.
        precision: of decimals, 1 to 38.
        scale: of decimals; may be negative, which Iceberg does not support.
    """

    name: str
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name


class DeltaArray(msgspec.Struct, frozen=True):
    """A list. Writers do not enforce `contains_null`."""

    element: DeltaType
    contains_null: bool

    def __str__(self) -> str:
        return "array"


class DeltaMap(msgspec.Struct, frozen=True):
    """A map. Writers do not enforce `value_contains_null`."""

    key: DeltaType
    value: DeltaType
    value_contains_null: bool

    def __str__(self) -> str:
        return "map"


class DeltaStruct(msgspec.Struct, frozen=True):
    """Named fields, in order."""

    fields: tuple[DeltaField, ...]

    def __str__(self) -> str:
        return "struct"


class TypeChange(msgspec.Struct, frozen=True):
    """A change of type of a column. Files of the older type may still be live.

    Attributes:
        from_type: the older type, e.g. `integer` or `decimal(6,2)`.
        to_type: the type after the change.
        path: which part of the column changed, e.g. `("element", "value")`; empty for the column itself.
    """

    from_type: str
    to_type: str
    path: tuple[str, ...] = ()


class DeltaField(msgspec.Struct, frozen=True):
    """A column, or a field of a struct.

    Attributes:
        physical_name: its name in files and statistics if the table maps columns; None if it has none.
        column_id: id that column mapping gave it; None if it has none.
        nested_ids: ids of the list elements, map keys and map values directly inside it, by physical name
            and parts, e.g. `col-1.element.key`. Files of such tables carry them.
        type_changes: oldest first.
    """

    name: str
    type: DeltaType
    nullable: bool = True
    comment: str | None = None
    physical_name: str | None = None
    column_id: int | None = None
    nested_ids: Mapping[str, int] = {}
    type_changes: tuple[TypeChange, ...] = ()


DeltaType: TypeAlias = DeltaPrimitive | DeltaArray | DeltaMap | DeltaStruct
"""Any Delta type."""


def parse_delta_schema(text: str) -> DeltaStruct:
    """Reads the `schemaString` of a `metaData` action.

    The text is empty, without columns, for a table that never had a schema.

    Raises:
        InvalidDeltaTableError: it is not a schema, or a part of a column is missing or wrong.
        UnsupportedDeltaTableError: types are nested too deeply.
    """
    if not text:
        return DeltaStruct(())
    try:
        json = msgspec.json.decode(text)
        check_json(text.encode())
        if not isinstance(json, dict) or json.get("type") != "struct":
            raise InvalidDeltaTableError("Invalid Delta schema: not a struct")
        return _read_struct(json, "", 0)
    except (msgspec.MsgspecError, UnicodeError):
        raise InvalidDeltaTableError("Invalid Delta schema: malformed JSON") from None
    except IllegalArgumentError as error:
        raise InvalidDeltaTableError(f"Invalid Delta schema: {error.message}") from None
    except RecursionError:
        raise UnsupportedDeltaTableError("The Delta schema is nested too deeply") from None


def find_columns(struct: DeltaStruct, names: Iterable[str]) -> list[DeltaField | None]:
    """Columns by their names, None for each that is missing; without an exact match, regardless of case."""
    by_name = {column.name: column for column in struct.fields}
    folded = {column.name.casefold(): column for column in struct.fields}
    return [by_name.get(name) or folded.get(name.casefold()) for name in names]


def mapping_mode(configuration: Mapping[str, str]) -> str:
    """The way in which data files name the columns of a table: `none`, `name` or `id`.

    Args:
        configuration: the table's properties.

    Raises:
        UnsupportedDeltaTableError: the mode is unknown.
    """
    mode = configuration.get("delta.columnMapping.mode", "none").lower()
    if mode not in ("none", "name", "id"):
        raise UnsupportedDeltaTableError(f"Unknown column mapping mode: {mode[:80]}")
    return mode


def parse_primitive(text: str, owner: str) -> DeltaPrimitive:
    """Reads a type that JSON holds as a string, e.g. `decimal(9,2)`.

    Args:
        text: the type.
        owner: full name of its column, for messages.

    Raises:
        InvalidDeltaTableError: a decimal has more than 38 digits, or a scale above its precision.
    """
    text = _SPELLINGS.get(text, text)
    match = _DECIMAL.fullmatch(text)
    if match is None:
        return DeltaPrimitive(text)
    precision, scale = int(match[1]), int(match[2])
    if not 1 <= precision <= 38 or scale > precision:
        raise InvalidDeltaTableError(f"Invalid Delta schema: type {text[:80]} of column {owner}")
    return DeltaPrimitive("decimal", precision, scale)


def physical_name(field: DeltaField, full_name: str, *, mapped: bool) -> str:
    """The name of a field in files and in the log.

    Args:
        full_name: its dotted logical name, for messages.
        mapped: whether column mapping is on.

    Raises:
        InvalidDeltaTableError: column mapping is on and the field has no physical name.
    """
    if not mapped:
        return field.name
    if field.physical_name is None:
        raise InvalidDeltaTableError(f"Column {full_name} has no delta.columnMapping.physicalName")
    return field.physical_name


def _read_struct(json: dict[str, Any], owner: str, depth: int) -> DeltaStruct:
    fields = json.get("fields")
    if not isinstance(fields, list):
        raise InvalidDeltaTableError(f"Invalid Delta schema: a struct has no fields: {owner or 'table'}")
    return DeltaStruct(tuple(_read_field(field, owner, depth) for field in fields))


def _read_field(json: object, owner: str, depth: int) -> DeltaField:
    if not isinstance(json, dict) or not isinstance(json.get("name"), str):
        raise InvalidDeltaTableError(f"Invalid Delta schema: a field has no name: {owner or 'table'}")
    name = f"{owner}.{json['name']}" if owner else json["name"]
    metadata = json.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InvalidDeltaTableError(f"Invalid Delta schema: metadata of column {name} is not an object")
    comment = metadata.get("comment")
    return DeltaField(
        name=json["name"],
        type=_read_type(json.get("type"), name, depth + 1),
        nullable=_read_flag(json, "nullable", name),
        comment=comment if isinstance(comment, str) else None,
        physical_name=_read_physical_name(metadata, name),
        column_id=None if metadata.get(_COLUMN_ID) is None else _read_id(metadata[_COLUMN_ID], name),
        nested_ids=_read_nested_ids(metadata, name),
        type_changes=_read_type_changes(metadata, name),
    )


def _read_type(json: object, owner: str, depth: int) -> DeltaType:
    if depth > _MAX_DEPTH:
        raise UnsupportedDeltaTableError("The Delta schema is nested too deeply")
    if isinstance(json, str):
        return parse_primitive(json, owner)
    if not isinstance(json, dict) or not isinstance(json.get("type"), str):
        raise InvalidDeltaTableError(f"Invalid Delta schema: column {owner} has no type")
    match json["type"]:
        case "struct":
            return _read_struct(json, owner, depth)
        case "array":
            element = _read_type(json.get("elementType"), f"{owner}.element", depth + 1)
            return DeltaArray(element, _read_flag(json, "containsNull", owner))
        case "map":
            key = _read_type(json.get("keyType"), f"{owner}.key", depth + 1)
            value = _read_type(json.get("valueType"), f"{owner}.value", depth + 1)
            return DeltaMap(key, value, _read_flag(json, "valueContainsNull", owner))
        case name:
            return parse_primitive(name, owner)


def _read_flag(json: dict[str, Any], key: str, owner: str) -> bool:
    value = json.get(key, True)
    if not isinstance(value, bool):
        raise InvalidDeltaTableError(f"Invalid Delta schema: {key} of column {owner} is not a boolean")
    return value


def _read_physical_name(metadata: dict[str, Any], owner: str) -> str | None:
    name = metadata.get(_PHYSICAL_NAME)
    if name is not None and not isinstance(name, str):
        raise InvalidDeltaTableError(f"Invalid Delta schema: {_PHYSICAL_NAME} of column {owner}")
    return name


def _read_id(value: object, owner: str) -> int:
    if type(value) is not int or not 0 < value <= _LAST_ID:
        raise InvalidDeltaTableError(f"Invalid Delta schema: column {owner} has an id out of range")
    return value


def _read_nested_ids(metadata: dict[str, Any], owner: str) -> dict[str, int]:
    nested = metadata.get(_NESTED_IDS) or {}
    if not isinstance(nested, dict):
        raise InvalidDeltaTableError(f"Invalid Delta schema: {_NESTED_IDS} of column {owner}")
    return {key: _read_id(value, owner) for key, value in nested.items()}


def _read_type_changes(metadata: dict[str, Any], owner: str) -> tuple[TypeChange, ...]:
    changes = metadata.get(_TYPE_CHANGES) or []
    if not isinstance(changes, list):
        raise InvalidDeltaTableError(f"Invalid Delta schema: {_TYPE_CHANGES} of column {owner}")
    return tuple(_read_type_change(change, owner) for change in changes)


def _read_type_change(json: object, owner: str) -> TypeChange:
    types = [json.get("fromType"), json.get("toType")] if isinstance(json, dict) else [None]
    path = json.get("fieldPath") if isinstance(json, dict) else None
    if any(not isinstance(type, str) for type in types) or not isinstance(path, str | None):
        raise InvalidDeltaTableError(f"Invalid Delta schema: {_TYPE_CHANGES} of column {owner}")
    before, after = (str(parse_primitive(str(type), owner)) for type in types)
    return TypeChange(before, after, tuple(path.split(".")) if path else ())
