"""Schemas of tables and views: parsed, checked, numbered and compared.

A schema keeps the JSON it was read from, so that fields unknown to this version are written back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.schema_reader import read_struct, renumber_struct
from floecat.iceberg.schemas.types import (
    MIN_FORMAT_VERSIONS,
    ListType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    Type,
    struct_with_ids,
)
from floecat.iceberg.values.bounds import process_bounds
from floecat.iceberg.values.encoded_json import (
    JsonObject,
    RawJson,
    decode_fields,
    decode_json,
    encode_json,
    take_json,
)

__all__ = ["HIGHEST_COLUMN_ID", "Schema", "assign_fresh_ids", "parse_schema"]

HIGHEST_COLUMN_ID = 2**31 - 1 - 200
"""Higher ids belong to metadata columns (table specification, "Reserved Field IDs")."""

_DEFAULTS_MIN_FORMAT_VERSION = 3

_content_encoder = msgspec.json.Encoder(order="deterministic")


@dataclass(frozen=True)
class Schema:
    """A schema of a table or a view.

    Attributes:
        schema_id: 0 if the JSON has none.
        struct: the columns.
        identifier_field_ids: ids of the columns that identify a row.
        raw: the JSON object, with `schema-id`.
    """

    schema_id: int
    struct: StructType
    identifier_field_ids: frozenset[int]
    raw: bytes = field(repr=False, compare=False)

    @cached_property
    def highest_field_id(self) -> int:
        """The highest id, nested fields included; 0 without columns."""
        return max(self.fields_by_id, default=0)

    @cached_property
    def fields_by_id(self) -> dict[int, NestedField]:
        """All fields, nested ones included; list elements, map keys and values appear as fields."""
        return {entry.field.id: entry.field for entry in self._entries}

    @cached_property
    def names_by_id(self) -> dict[int, str]:
        """Full dotted name of every field, e.g. `points.element.x`."""
        return {entry.field.id: entry.name for entry in self._entries}

    @cached_property
    def ids_by_name(self) -> dict[str, int]:
        """Field ids by full name, and by short name (`points.x`) where no full name takes it."""
        short: dict[str, int] = {}
        for entry in self._entries:
            short.setdefault(entry.short_name, entry.field.id)
        return short | {entry.name: entry.field.id for entry in self._entries}

    @cached_property
    def parents(self) -> dict[int, int]:
        """Id of the field that directly holds a nested field."""
        return {entry.field.id: entry.parent for entry in self._entries if entry.parent is not None}

    @cached_property
    def _entries(self) -> list[_Entry]:
        nested = [column for column in self.struct.fields if not isinstance(column.type, PrimitiveType)]
        if sum(_name_bytes(column, 0) for column in nested) > process_bounds.limits.schema_name_bytes:
            raise IllegalArgumentError(
                "Invalid schema: the full names of its nested fields are too long together"
                " (floecat.limits.schema-name-bytes)"
            )
        entries: list[_Entry] = []
        for column in self.struct.fields:
            _walk(entries, column, column.name, column.name, column.name, None)
        return entries

    def find_type(self, field_id: int) -> Type | None:
        """Type of a field, None if the schema has no such field."""
        found = self.fields_by_id.get(field_id)
        return None if found is None else found.type

    @cached_property
    def content(self) -> bytes:
        """A key that is equal for schemas that differ in their schema ids only; docs and defaults count."""
        return _content_encoder.encode((self.struct, sorted(self.identifier_field_ids)))

    def with_schema_id(self, schema_id: int) -> Schema:
        """The same schema under another id."""
        fields = decode_fields(self.raw, "schema")
        if self.schema_id == schema_id and "schema-id" in fields:
            return self
        head = {"type": fields.pop("type", "struct"), "schema-id": schema_id}
        fields.pop("schema-id", None)
        return Schema(schema_id, self.struct, self.identifier_field_ids, encode_json(head | fields))

    def check_format_version(self, format_version: int) -> None:
        """Refuses types and defaults that are newer than a format version.

        Raises:
            IllegalArgumentError: with one line for each such column.
        """
        problems = [
            problem
            for _, field in sorted(self.fields_by_id.items())
            for problem in self._version_problems(field, format_version)
        ]
        if problems:
            raise IllegalArgumentError(f"Invalid schema for v{format_version}:\n- " + "\n- ".join(problems))

    def _version_problems(self, field: NestedField, format_version: int) -> Iterator[str]:
        if isinstance(field.type, PrimitiveType):
            minimum = MIN_FORMAT_VERSIONS.get(field.type.name, 1)
            if format_version < minimum:
                name = self.names_by_id[field.id]
                yield f"Invalid type for {name}: {field.type} is not supported until v{minimum}"
        if field.initial_default is not None and format_version < _DEFAULTS_MIN_FORMAT_VERSION:
            yield (
                f"Invalid initial default for {self.names_by_id[field.id]}: non-null default is not supported"
                f" until v{_DEFAULTS_MIN_FORMAT_VERSION}"
            )


class FreshSchema(NamedTuple):
    """A schema with fresh ids, and the new id of each old one."""

    schema: Schema
    old_to_new: dict[int, int]


def parse_schema(raw: RawJson) -> Schema:
    """Reads and checks a schema.

    Type names become lower case, nulls for optional parts of fields are dropped; everything else is kept.

    Raises:
        IllegalArgumentError: not a schema; duplicate ids or names; invalid identifier fields.
    """
    json = _decode(raw)
    return _build(json)


def assign_fresh_ids(raw: RawJson, next_id: Callable[[], int], *, schema_id: int = 0) -> FreshSchema:
    """Reads a schema and gives fresh ids to all its fields, level by level; identifier fields follow.

    Args:
        raw: the JSON object.
        next_id: gives the next unused field id.
        schema_id: id of the result.

    Raises:
        IllegalArgumentError: as `parse_schema`.
    """
    json = _decode(raw)
    sent = _build(json)
    old_to_new: dict[int, int] = {}
    renumber_struct(json, next_id, old_to_new)
    if sent.identifier_field_ids:
        json["identifier-field-ids"] = [old_to_new[old] for old in json["identifier-field-ids"]]
    json.pop("schema-id", None)
    schema = Schema(
        schema_id,
        struct_with_ids(sent.struct, old_to_new),
        frozenset([old_to_new[old] for old in sent.identifier_field_ids]),
        encode_json({"type": "struct", "schema-id": schema_id} | json),
    )
    return FreshSchema(schema, old_to_new)


def _decode(raw: RawJson) -> JsonObject:
    json: JsonObject = decode_json(take_json(raw, "schema"), dict, "schema")
    if json.get("type") != "struct":
        raise IllegalArgumentError("Cannot create schema, not a struct type")
    for optional in ("schema-id", "identifier-field-ids"):
        if optional in json and json[optional] is None:
            del json[optional]
    return json


def _build(json: JsonObject) -> Schema:
    struct = read_struct(json)
    schema_id = json.get("schema-id", 0)
    if type(schema_id) is not int or not -(2**31) <= schema_id < 2**31:
        raise IllegalArgumentError("Cannot parse to an integer value: schema-id")
    identifiers = json.get("identifier-field-ids", [])
    if not isinstance(identifiers, list) or any(type(value) is not int for value in identifiers):
        raise IllegalArgumentError("Cannot parse to a list of integers: identifier-field-ids")
    schema = Schema(schema_id, struct, frozenset(identifiers), encode_json(json))
    _check_unique(schema)
    for field_id in identifiers:
        _check_identifier(schema, field_id)
    return schema


def _check_unique(schema: Schema) -> None:
    names: dict[str, int] = {}
    ids: set[int] = set()
    for entry in schema._entries:
        if entry.field.id in ids:
            raise IllegalArgumentError(f"Invalid schema: field id {entry.field.id} is used more than once")
        if entry.name in names:
            raise IllegalArgumentError(
                f"Invalid schema: multiple fields for name {entry.name}:"
                f" {names[entry.name]} and {entry.field.id}"
            )
        ids.add(entry.field.id)
        names[entry.name] = entry.field.id


def _check_identifier(schema: Schema, field_id: int) -> None:
    found = schema.fields_by_id.get(field_id)
    if found is None:
        raise IllegalArgumentError(
            f"Cannot add fieldId {field_id} as an identifier field: field does not exist"
        )
    problem = _identifier_problem(schema, found)
    if problem is not None:
        raise IllegalArgumentError(f"Cannot add field {found.name} as an identifier field: {problem}")


def _identifier_problem(schema: Schema, found: NestedField) -> str | None:
    if not isinstance(found.type, PrimitiveType) or not found.type.is_primitive:
        return "not a primitive type field"
    if not found.required:
        return "not a required field"
    if found.type.name in ("float", "double"):
        return "must not be float or double field"
    parent_id = schema.parents.get(found.id)
    while parent_id is not None:
        parent = schema.fields_by_id[parent_id]
        if not isinstance(parent.type, StructType):
            return f"must not be nested in {parent.name}"
        if not parent.required:
            return f"must not be nested in an optional field {parent.name}"
        parent_id = schema.parents.get(parent_id)
    return None


class _Entry(msgspec.Struct, frozen=True):
    field: NestedField
    name: str
    short_name: str
    parent: int | None


def _walk(
    entries: list[_Entry], nested: NestedField, name: str, short: str, inner: str, parent: int | None
) -> None:
    """Adds a field and all fields nested in it.

    Args:
        entries: where they are added.
        nested: the field.
        name: its full name.
        short: its short name.
        inner: prefix of the short names of its fields.
        parent: id of the field that holds it.
    """
    entries.append(_Entry(nested, name, short, parent))
    if isinstance(nested.type, PrimitiveType):
        return
    for part in _parts(nested.type):
        part_short = f"{inner}.{part.name}"
        # short names leave out "element" and "value" before the fields of a struct
        skipped = not isinstance(nested.type, StructType) and part.name != "key"
        part_inner = inner if skipped and isinstance(part.type, StructType) else part_short
        _walk(entries, part, f"{name}.{part.name}", part_short, part_inner, nested.id)


def _name_bytes(nested: NestedField, above_bytes: int) -> int:
    """Length of the full names of a field and of all fields nested in it, without making any."""
    size_bytes = above_bytes + len(nested.name)
    if isinstance(nested.type, PrimitiveType):
        return size_bytes
    return size_bytes + sum(_name_bytes(part, size_bytes + 1) for part in _parts(nested.type))


def _parts(type: StructType | ListType | MapType) -> tuple[NestedField, ...]:
    match type:
        case StructType():
            return type.fields
        case ListType():
            return (NestedField(type.element_id, "element", type.element, type.element_required),)
        case MapType():
            key = NestedField(type.key_id, "key", type.key, required=True)
            return (key, NestedField(type.value_id, "value", type.value, type.value_required))
