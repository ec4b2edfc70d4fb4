"""Iceberg types: primitives with their parameters, structs, lists and maps.

Types are immutable and compare by value. Their JSON form is read in `floecat.iceberg.schemas.schema_reader`
(table specification, "Schemas and Data Types" and Appendix C).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from floecat.errors import IllegalArgumentError

__all__ = [
    "MIN_FORMAT_VERSIONS",
    "ListType",
    "MapType",
    "NestedField",
    "PrimitiveType",
    "StructType",
    "Type",
    "parse_primitive",
    "struct_with_ids",
]

MIN_FORMAT_VERSIONS = {
    "timestamp_ns": 3,
    "timestamptz_ns": 3,
    "variant": 3,
    "unknown": 3,
    "geometry": 3,
    "geography": 3,
}
"""Types added after format version 1, with the version that added them."""

_DEFAULT_CRS = "OGC:CRS84"
_EDGE_ALGORITHMS = frozenset({"spherical", "vincenty", "thomas", "andoyer", "karney"})

_FIXED = re.compile(r"fixed\[\s*([0-9]{1,9})\s*\]")
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\)")
# possessive: blanks that may belong to several parts take cubic time
_GEOMETRY = re.compile(r"geometry\s*+(?:\(([^)]*+)\))?", re.IGNORECASE)
_GEOGRAPHY = re.compile(r"geography\s*+(?:\(([^,)]*+)(?:,\s*+(\w*+)\s*+)?\))?", re.IGNORECASE)


class PrimitiveType(msgspec.Struct, frozen=True):
    """A type without fields, `variant` included.

    Attributes:
        name: the type without its parameters, in lower case, e.g. `decimal`.
        parameters: precision and scale; length; or coordinate system and algorithm. The coordinate system is
            case-folded, as it compares without case.
    """

    name: str
    parameters: tuple[int | str, ...] = ()

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        inner = ", ".join(str(parameter) for parameter in self.parameters)
        return f"fixed[{inner}]" if self.name == "fixed" else f"{self.name}({inner})"

    @property
    def is_primitive(self) -> bool:
        """Whether the specification calls it primitive: all but `variant`."""
        return self.name != "variant"


_PLAIN = {
    name: PrimitiveType(name)
    for name in (
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "string",
        "uuid",
        "binary",
        "unknown",
        "variant",
    )
}


class NestedField(msgspec.Struct, frozen=True):
    """A column, or a field of a struct.

    Attributes:
        initial_default: JSON single value for rows that are older than the field, None for null.
        write_default: JSON single value for writers that do not supply the field, None for null.
    """

    id: int
    name: str
    type: Type
    required: bool
    doc: str | None = None
    initial_default: object = None
    write_default: object = None


class StructType(msgspec.Struct, frozen=True):
    """Named fields, in order."""

    fields: tuple[NestedField, ...]

    def __str__(self) -> str:
        return "struct"


class ListType(msgspec.Struct, frozen=True):
    """A list of elements of one type."""

    element_id: int
    element: Type
    element_required: bool

    def __str__(self) -> str:
        return "list"


class MapType(msgspec.Struct, frozen=True):
    """A map; its keys are always required."""

    key_id: int
    key: Type
    value_id: int
    value: Type
    value_required: bool

    def __str__(self) -> str:
        return "map"


Type: TypeAlias = PrimitiveType | StructType | ListType | MapType
"""Any Iceberg type."""


def struct_with_ids(struct: StructType, ids: Mapping[int, int]) -> StructType:
    """A struct with other field ids, in all levels; `ids` has the new one of each."""
    return StructType(
        tuple(
            [
                NestedField(
                    ids[field.id],
                    field.name,
                    _with_ids(field.type, ids),
                    field.required,
                    field.doc,
                    field.initial_default,
                    field.write_default,
                )
                for field in struct.fields
            ]
        )
    )


def _with_ids(type: Type, ids: Mapping[int, int]) -> Type:
    match type:
        case PrimitiveType():
            return type
        case StructType():
            return struct_with_ids(type, ids)
        case ListType(element_id, element, required):
            return ListType(ids[element_id], _with_ids(element, ids), required)
        case MapType(key_id, key, value_id, value, required):
            return MapType(ids[key_id], _with_ids(key, ids), ids[value_id], _with_ids(value, ids), required)


def parse_primitive(text: str) -> PrimitiveType:
    """Reads a type that JSON holds as a string, e.g. `decimal(9, 2)`. Case does not matter.

    Raises:
        IllegalArgumentError: unknown type, or parameters out of range.
    """
    lowered = text.lower()
    plain = _PLAIN.get(lowered)
    if plain is not None:
        return plain
    for pattern, subject, build in _PARAMETRISED:
        if match := pattern.fullmatch(subject(text)):
            return build(match)
    raise IllegalArgumentError(f"Cannot parse type string to primitive: {text[:80]}")


def _fixed(match: re.Match[str]) -> PrimitiveType:
    return PrimitiveType("fixed", (int(match[1]),))


def _decimal(match: re.Match[str]) -> PrimitiveType:
    precision, scale = int(match[1]), int(match[2])
    if precision > 38:
        raise IllegalArgumentError(f"Decimals with precision larger than 38 are not supported: {precision}")
    return PrimitiveType("decimal", (precision, scale))


def _geometry(match: re.Match[str]) -> PrimitiveType:
    return PrimitiveType("geometry", (_crs(match[1]),))


def _geography(match: re.Match[str]) -> PrimitiveType:
    algorithm = "spherical" if match[2] is None else match[2].lower()
    if algorithm not in _EDGE_ALGORITHMS:
        raise IllegalArgumentError(f"Invalid edge interpolation algorithm: {algorithm[:80]}")
    return PrimitiveType("geography", (_crs(match[1]), algorithm))


def _crs(text: str | None) -> str:
    name = _DEFAULT_CRS if text is None else text.strip()
    if not name:
        raise IllegalArgumentError("Invalid CRS: (empty string)")
    return name.casefold()


_PARAMETRISED: tuple[
    tuple[re.Pattern[str], Callable[[str], str], Callable[[re.Match[str]], PrimitiveType]], ...
] = (
    (_FIXED, str.lower, _fixed),
    (_DECIMAL, str.lower, _decimal),
    (_GEOMETRY, str, _geometry),
    (_GEOGRAPHY, str, _geography),
)
