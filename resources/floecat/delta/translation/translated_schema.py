"""Schemas of Delta tables as schemas of Iceberg tables.

Decisions:

- A column is required only if no writer can have written a null: it and all structs around it are declared
  not nullable, and it is outside lists and maps, where Delta's writers do not enforce it. Partition columns
  are optional: an empty string is null, and readers refuse a required column that a data file does not hold.
- `void` columns are in no data file. They become optional strings, which every reader fills with nulls; the
  equivalent type `unknown` needs format version 3 and readers that support it.
- A schema with `variant` needs format version 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from floecat.delta.protocol.delta_schema import (
    DeltaArray,
    DeltaField,
    DeltaMap,
    DeltaPrimitive,
    DeltaStruct,
    DeltaType,
    find_columns,
    mapping_mode,
    parse_delta_schema,
    physical_name,
)
from floecat.delta.translation.column_ids import FieldIds, PhysicalPath, Slot, slots_of
from floecat.errors import IllegalArgumentError, InvalidDeltaTableError, UnsupportedDeltaTableError
from floecat.iceberg.schemas.schema import Schema, parse_schema
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.encoded_json import JsonObject, encode_json

if TYPE_CHECKING:
    from floecat.delta.protocol.actions import Metadata

__all__ = [
    "LeafColumn",
    "PartitionColumn",
    "TranslatedSchema",
    "translate_schema",
]

_PRIMITIVES = {
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "variant": "variant",
    "void": "string",
}
_NO_PARTITION_TYPES = frozenset({"variant", "void"})


@dataclass(frozen=True)
class LeafColumn:
    """A primitive column outside lists and maps: one that statistics can describe.

    Attributes:
        field_id: id of the Iceberg field.
        physical_path: physical names from the root through structs, as statistics and data files spell them.
        logical_name: dotted name as readers see it, e.g. `address.city`.
        type: the Iceberg type; of a `variant` only nulls are counted.
        delta_type: the Delta type, e.g. `short` or `decimal(9,2)`.
        partition: whether the table is partitioned by the column.
        earlier_types: Delta types that the column was widened from; older files may have them.
    """

    field_id: int
    physical_path: tuple[str, ...]
    logical_name: str
    type: PrimitiveType
    delta_type: str
    partition: bool
    earlier_types: tuple[str, ...] = ()

    @property
    def was_float(self) -> bool:
        """Whether older files hold floats: 3.4 in the log is 3.4000000953674316 as a double."""
        return self.type.name == "double" and "float" in self.earlier_types


@dataclass(frozen=True)
class PartitionColumn:
    """A partition column of the Delta table, an identity field of the partition spec.

    Attributes:
        field_id: id of the partition field, 1000 or more.
        source_id: id of its source field.
        name: name of the partition field: the logical name of the column.
        physical_name: its name in `partitionValues` of the log.
        type: the Iceberg type.
        delta_type: the Delta type, e.g. `short`.
    """

    field_id: int
    source_id: int
    name: str
    physical_name: str
    type: PrimitiveType
    delta_type: str


@dataclass(frozen=True)
class TranslatedSchema:
    """The metadata of a Delta table as Iceberg readers see it.

    Attributes:
        schema: the Iceberg schema, its schema id is 0.
        leaves: all primitive columns outside of lists and maps, in order of the schema.
        partition_fields: fields of the partition spec, in order of the partition columns.
        format_version: the lowest format version that has all types: 2 or 3.
        mapping_mode: `none`, `name` or `id`: how data files name their columns.
        physical_paths: where data files hold each field, list elements and map entries included, by field id.
        delta_types: Delta type of each field, by field id; `struct`, `array` and `map` without their parts.
        without_field_ids: full names of the lists and maps to whose parts column mapping gave no ids, as it
            does without `icebergCompatV2`. In data files that carry ids such parts have none. Iceberg's Java
            library then fails on those columns, and DuckDB reads their elements as null.
    """

    schema: Schema
    leaves: tuple[LeafColumn, ...]
    partition_fields: tuple[PartitionColumn, ...]
    format_version: int
    mapping_mode: str
    physical_paths: Mapping[int, PhysicalPath] = field(default_factory=dict)
    delta_types: Mapping[int, str] = field(default_factory=dict)
    without_field_ids: tuple[str, ...] = ()


def translate_schema(metadata: Metadata, ids: FieldIds) -> TranslatedSchema:
    """Translates schema and partitioning of one version of a table.

    Recorded changes of type are checked elsewhere: see `floecat.delta.translation.widening`.

    Args:
        metadata: the metadata in force at the version.
        ids: the ids of the table; missing ones are added. If its `generation` rises, an id that was assigned
            before has changed, and older versions must be translated again.

    Raises:
        InvalidDeltaTableError: the schema is malformed, or a partition column is not in it.
        UnsupportedDeltaTableError: a type or a mapping mode has no equivalent in Iceberg.
    """
    mode = mapping_mode(metadata.configuration)
    struct = parse_delta_schema(metadata.schema_string)
    # Delta numbers mapped columns itself; low ids of our own would collide.
    slots = slots_of(metadata)
    assigned = ids.assign(slots, low=mode == "none")
    partitions = _partition_columns(metadata.partition_columns, struct)
    translator = _Translator(assigned, partitions, mapped=mode != "none")
    json = {"type": "struct", "schema-id": 0, "fields": translator.fields(struct, (), "", required=True)}
    schema = _parse(json)
    leaves = {leaf.logical_name: leaf for leaf in translator.leaves if leaf.partition}
    fields = tuple(_partition_column(column, leaves[column.name], ids) for column in partitions)
    return TranslatedSchema(
        schema=schema,
        leaves=tuple(translator.leaves),
        partition_fields=fields,
        format_version=3 if "variant" in translator.delta_types.values() else 2,
        mapping_mode=mode,
        physical_paths=translator.physical_paths,
        delta_types=translator.delta_types,
        without_field_ids=() if mode == "none" else _without_field_ids(slots, assigned, schema),
    )


def _without_field_ids(
    slots: Sequence[Slot], assigned: Mapping[PhysicalPath, int], schema: Schema
) -> tuple[str, ...]:
    owners = [slot.path[:-1] for slot in slots if not slot.named and slot.dictated is None]
    return tuple(dict.fromkeys(schema.names_by_id[assigned[path]] for path in owners))


def _parse(json: JsonObject) -> Schema:
    try:
        return parse_schema(encode_json(json))
    except IllegalArgumentError as error:
        # For example two columns with the same dotted name.
        raise UnsupportedDeltaTableError(f"The schema has no equivalent in Iceberg: {error}") from None


def _partition_columns(names: Sequence[str], struct: DeltaStruct) -> tuple[DeltaField, ...]:
    columns: dict[str, DeltaField] = {}
    for name, column in zip(names, find_columns(struct, names), strict=True):
        if column is None:
            raise InvalidDeltaTableError(f"Partition column {name} is not in the schema")
        if column.name in columns:
            raise InvalidDeltaTableError(f"Partition column {name} is named twice")
        if not isinstance(column.type, DeltaPrimitive) or column.type.name in _NO_PARTITION_TYPES:
            raise UnsupportedDeltaTableError(
                f"Partition column {name} has type {column.type}, which cannot partition an Iceberg table"
            )
        columns[column.name] = column
    return tuple(columns.values())


def _partition_column(column: DeltaField, leaf: LeafColumn, ids: FieldIds) -> PartitionColumn:
    return PartitionColumn(
        # A column that was replaced by one of another type is a new source, even if its id stays.
        field_id=ids.partition_id(f"{leaf.field_id}:{_type_family(leaf.type)}"),
        source_id=leaf.field_id,
        name=column.name,
        physical_name=leaf.physical_path[0],
        type=leaf.type,
        delta_type=leaf.delta_type,
    )


def _type_family(type: PrimitiveType) -> str:
    """A key that is equal for types that can be promoted to one another."""
    if type.name == "decimal":
        return f"decimal({type.parameters[1]})"
    return {"int": "long", "float": "double"}.get(type.name, str(type))


class _Translator:
    """Translates the fields of one schema and collects facts about them."""

    def __init__(
        self, ids: Mapping[PhysicalPath, int], partitions: Sequence[DeltaField], *, mapped: bool
    ) -> None:
        self._ids = ids
        self._partitions = {column.name for column in partitions}
        self._mapped = mapped
        self.leaves: list[LeafColumn] = []
        self.physical_paths: dict[int, PhysicalPath] = {}
        self.delta_types: dict[int, str] = {}

    def fields(
        self, struct: DeltaStruct, path: PhysicalPath, owner: str, *, required: bool, leaf: bool = True
    ) -> list[JsonObject]:
        """Fields of a struct as JSON.

        Args:
            path: where it is in data files.
            owner: its full name, empty for the table.
            required: whether it is never null.
            leaf: whether it is outside lists and maps.
        """
        return [self._field(column, path, owner, required, leaf) for column in struct.fields]

    def _field(
        self, column: DeltaField, parent: PhysicalPath, owner: str, required: bool, leaf: bool
    ) -> JsonObject:
        name = f"{owner}.{column.name}" if owner else column.name
        path = (*parent, physical_name(column, name, mapped=self._mapped))
        partition = not parent and column.name in self._partitions
        required = required and not column.nullable and not partition and str(column.type) != "void"
        json: JsonObject = {
            "id": self._note(path, column.type),
            "name": column.name,
            "required": required,
            "type": self._type(column.type, path, name, required=required, leaf=leaf),
        }
        if leaf and isinstance(column.type, DeltaPrimitive):
            type = _primitive(column.type, name)
            earlier = tuple(change.from_type for change in column.type_changes if not change.path)
            self.leaves.append(LeafColumn(json["id"], path, name, type, str(column.type), partition, earlier))
        return json if column.comment is None else json | {"doc": column.comment}

    def _type(self, type: DeltaType, path: PhysicalPath, name: str, *, required: bool, leaf: bool) -> object:
        match type:
            case DeltaPrimitive():
                return str(_primitive(type, name))
            case DeltaStruct():
                fields = self.fields(type, path, name, required=required, leaf=leaf)
                return {"type": "struct", "fields": fields}
            case DeltaArray():
                element = self._part("element", type.element, path, name)
                return {"type": "list", **element, "element-required": False}
            case DeltaMap():
                key = self._part("key", type.key, path, name)
                value = self._part("value", type.value, path, name)
                return {"type": "map", **key, **value, "value-required": False}

    def _part(self, part: str, type: DeltaType, parent: PhysicalPath, owner: str) -> JsonObject:
        path, name = (*parent, part), f"{owner}.{part}"
        id = self._note(path, type)
        return {f"{part}-id": id, part: self._type(type, path, name, required=False, leaf=False)}

    def _note(self, path: PhysicalPath, type: DeltaType) -> int:
        id = self._ids[path]
        self.physical_paths[id] = path
        self.delta_types[id] = str(type)
        return id


def _primitive(type: DeltaPrimitive, owner: str) -> PrimitiveType:
    if type.name == "decimal" and type.scale >= 0:
        return PrimitiveType("decimal", (type.precision, type.scale))
    name = _PRIMITIVES.get(type.name)
    if name is None:
        raise UnsupportedDeltaTableError(
            f"Column {owner} has type {str(type)[:80]}, which has no equivalent in Iceberg"
        )
    return PrimitiveType(name)
