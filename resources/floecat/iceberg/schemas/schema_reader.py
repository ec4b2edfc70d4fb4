"""Reads a schema from JSON: checks structure, ids and defaults, and normalizes the spelling of types.

Works on the decoded JSON objects and changes them in place, so that unknown fields survive.
"""

from __future__ import annotations

from collections.abc import Callable

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.default_values import check_default
from floecat.iceberg.schemas.types import (
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    parse_primitive,
)
from floecat.iceberg.values.encoded_json import JsonObject

__all__ = ["read_struct", "renumber_struct"]

_MAX_DEPTH = 128
_UNKNOWN = PrimitiveType("unknown")


def read_struct(json: JsonObject, depth: int = 0) -> StructType:
    """Reads a struct; `json` is normalised in place.

    Raises:
        IllegalArgumentError: a part of a field is missing or wrong, or the type is nested too deeply.
    """
    fields = json.get("fields")
    if not isinstance(fields, list):
        raise IllegalArgumentError("Cannot parse struct fields from non-array")
    return StructType(tuple([_read_field(field, depth) for field in fields]))


def _read_field(json: object, depth: int) -> NestedField:
    if not isinstance(json, dict):
        raise IllegalArgumentError("Cannot parse struct field from non-object")
    for optional in ("doc", "initial-default", "write-default"):
        # Readers of the reference implementation fail on an explicit null here.
        if optional in json and json[optional] is None:
            del json[optional]
    name = json.get("name")
    if not isinstance(name, str):
        raise IllegalArgumentError("Cannot parse struct field: missing string name")
    field_id = _read_id(json, "id", name)
    field_type = _read_type(json, "type", name, depth + 1)
    required = _read_bool(json, "required", name)
    doc = json.get("doc")
    if doc is not None and not isinstance(doc, str):
        raise IllegalArgumentError(f"Cannot parse to a string value: doc of field {name}")
    if required and field_type == _UNKNOWN:
        raise IllegalArgumentError(f"Cannot create required field with unknown type: {name}")
    for default in ("initial-default", "write-default"):
        if default in json:
            json[default] = check_default(json[default], field_type, name)
    return NestedField(
        field_id, name, field_type, required, doc, json.get("initial-default"), json.get("write-default")
    )


def _read_type(json: JsonObject, key: str, owner: str, depth: int) -> Type:
    value = json.get(key)
    if isinstance(value, str):
        primitive = parse_primitive(value)
        if value != primitive.name:
            geospatial = primitive.name in ("geometry", "geography")
            # Some readers refuse capitals, and blanks that the reference implementation does not write. The
            # name of a coordinate system stays as it is.
            json[key] = primitive.name + value[len(primitive.name) :] if geospatial else str(primitive)
        return primitive
    if not isinstance(value, dict):
        raise IllegalArgumentError(f"Cannot parse type of field {owner}: missing {key}")
    if depth > _MAX_DEPTH:
        raise IllegalArgumentError(f"Cannot parse type of field {owner}: nested too deeply")
    kind = value.get("type")
    if kind == "struct":
        return read_struct(value, depth)
    if kind == "list":
        return ListType(
            element_id=_read_id(value, "element-id", owner),
            element=_read_type(value, "element", owner, depth + 1),
            element_required=_read_bool(value, "element-required", owner),
        )
    if kind == "map":
        return MapType(
            key_id=_read_id(value, "key-id", owner),
            key=_read_type(value, "key", owner, depth + 1),
            value_id=_read_id(value, "value-id", owner),
            value=_read_type(value, "value", owner, depth + 1),
            value_required=_read_bool(value, "value-required", owner),
        )
    raise IllegalArgumentError(f"Cannot parse type of field {owner}: neither struct, list nor map")


def _read_id(json: JsonObject, key: str, owner: str) -> int:
    value = json.get(key)
    if type(value) is not int or not -(2**31) <= value < 2**31:
        raise IllegalArgumentError(f"Cannot parse to an integer value: {key} of field {owner}")
    return value


def _read_bool(json: JsonObject, key: str, owner: str) -> bool:
    value = json.get(key)
    if not isinstance(value, bool):
        raise IllegalArgumentError(f"Cannot parse to a boolean value: {key} of field {owner}")
    return value


def renumber_struct(json: JsonObject, next_id: Callable[[], int], old_to_new: dict[int, int]) -> None:
    """Gives fresh ids to all fields of a struct that `read_struct` accepted.

    Fields of a struct are numbered before those nested in them, as in the reference implementation.

    Args:
        json: the struct, changed in place.
        next_id: gives the next unused field id.
        old_to_new: filled with the fresh id of each old one.
    """
    for field in json["fields"]:
        # Python assigns from left to right: the old id is the key before it is replaced
        old_to_new[field["id"]] = field["id"] = next_id()
    for field in json["fields"]:
        _renumber_type(field["type"], next_id, old_to_new)


def _renumber_type(json: object, next_id: Callable[[], int], old_to_new: dict[int, int]) -> None:
    if not isinstance(json, dict):
        return
    if json["type"] == "struct":
        renumber_struct(json, next_id, old_to_new)
        return
    parts = ("element",) if json["type"] == "list" else ("key", "value")
    for part in parts:
        old_to_new[json[f"{part}-id"]] = json[f"{part}-id"] = next_id()
    for part in parts:
        _renumber_type(json[part], next_id, old_to_new)
