"""Avro schemas of manifests and manifest lists (table specification, "Manifests", and appendix A, "Avro").

Readers find fields by id; names and order are those of the reference implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from floecat.iceberg.manifests.partition_tuples import decimal_length
from floecat.iceberg.schemas.partitioning import PartitionSpec
from floecat.iceberg.schemas.types import PrimitiveType

__all__ = ["AvroSchema", "manifest_list_schema", "manifest_schema", "sanitize_name"]

AvroSchema: TypeAlias = dict[str, Any]


def manifest_schema(
    spec: PartitionSpec, partition_types: Sequence[PrimitiveType], format_version: int
) -> AvroSchema:
    """Schema of the entries of a manifest.

    Args:
        spec: the partition spec of the files.
        partition_types: result types of its fields, in order.
        format_version: 2 or 3.
    """
    fields = [
        _required("content", "int", 134),
        _required("file_path", "string", 100),
        _required("file_format", "string", 101),
        _required("partition", _partition_schema(spec, partition_types), 102),
        _required("record_count", "long", 103),
        _required("file_size_in_bytes", "long", 104),
        _optional("column_sizes", _map(117, 118, "long"), 108),
        _optional("value_counts", _map(119, 120, "long"), 109),
        _optional("null_value_counts", _map(121, 122, "long"), 110),
        _optional("nan_value_counts", _map(138, 139, "long"), 137),
        _optional("lower_bounds", _map(126, 127, "bytes"), 125),
        _optional("upper_bounds", _map(129, 130, "bytes"), 128),
        _optional("key_metadata", "bytes", 131),
        _optional("split_offsets", {"type": "array", "items": "long", "element-id": 133}, 132),
        _optional("equality_ids", {"type": "array", "items": "int", "element-id": 136}, 135),
        _optional("sort_order_id", "int", 140),
    ]
    if format_version >= 3:
        fields.append(_optional("first_row_id", "long", 142))
    fields.append(_optional("referenced_data_file", "string", 143))
    if format_version >= 3:
        fields.append(_optional("content_offset", "long", 144))
        fields.append(_optional("content_size_in_bytes", "long", 145))
    return _record(
        "manifest_entry",
        [
            _required("status", "int", 0),
            _optional("snapshot_id", "long", 1),
            _optional("sequence_number", "long", 3),
            _optional("file_sequence_number", "long", 4),
            _required("data_file", _record("r2", fields), 2),
        ],
    )


def manifest_list_schema(format_version: int) -> AvroSchema:
    """Schema of the entries of a manifest list.

    Args:
        format_version: 2 or 3.
    """
    summary = _record(
        "r508",
        [
            _required("contains_null", "boolean", 509),
            _optional("contains_nan", "boolean", 518),
            _optional("lower_bound", "bytes", 510),
            _optional("upper_bound", "bytes", 511),
        ],
    )
    fields = [
        _required("manifest_path", "string", 500),
        _required("manifest_length", "long", 501),
        _required("partition_spec_id", "int", 502),
        _required("content", "int", 517),
        _required("sequence_number", "long", 515),
        _required("min_sequence_number", "long", 516),
        _required("added_snapshot_id", "long", 503),
        _required("added_files_count", "int", 504),
        _required("existing_files_count", "int", 505),
        _required("deleted_files_count", "int", 506),
        _required("added_rows_count", "long", 512),
        _required("existing_rows_count", "long", 513),
        _required("deleted_rows_count", "long", 514),
        _optional("partitions", {"type": "array", "items": summary, "element-id": 508}, 507),
        _optional("key_metadata", "bytes", 519),
    ]
    if format_version >= 3:
        fields.append(_optional("first_row_id", "long", 520))
    return _record("manifest_file", fields)


def sanitize_name(name: str) -> str:
    """The Avro name of an Iceberg field: characters other than letters, digits and `_` are written in hex.

    Characters count as the reference implementation counts them, in UTF-16 code units.
    """
    units = name.encode("utf-16-be", "surrogatepass")
    characters = [chr(int.from_bytes(units[at : at + 2])) for at in range(0, len(units), 2)]
    return "".join(_sanitize(character, index == 0) for index, character in enumerate(characters))


def _sanitize(character: str, is_first: bool) -> str:
    # Avro admits ASCII only. The reference implementation leaves other letters as they are, which its own
    # Avro library reads back and others refuse.
    if character == "_" or (character.isascii() and character.isalpha()):
        return character
    if character.isascii() and character.isdigit():
        return f"_{character}" if is_first else character
    return f"_x{ord(character):X}"


def _partition_schema(spec: PartitionSpec, types: Sequence[PrimitiveType]) -> AvroSchema:
    taken: set[str] = set()
    fields: list[AvroSchema] = []
    for field, type in zip(spec.fields, types, strict=True):
        avro_type = _partition_type(type)
        if isinstance(avro_type, dict) and "name" in avro_type:
            # A name is defined once in an Avro schema, and not every reader follows references to it.
            if avro_type["name"] in taken:
                avro_type["name"] = f"{avro_type['name']}_{field.field_id}"
            taken.add(avro_type["name"])
        name = sanitize_name(field.name)
        if any(other["name"] == name for other in fields):
            name = f"{name}_{field.field_id}"
        column = _optional(name, avro_type, field.field_id or 0)
        if name != field.name:
            column["iceberg-field-name"] = field.name
        fields.append(column)
    return _record("r102", fields)


def _partition_type(type: PrimitiveType) -> str | AvroSchema:
    match type.name:
        case "decimal":
            precision, scale = type.parameters
            return {
                "type": "fixed",
                "name": f"decimal_{precision}_{scale}",
                "size": decimal_length(int(precision)),
                "logicalType": "decimal",
                "precision": precision,
                "scale": scale,
            }
        case "fixed":
            return {"type": "fixed", "name": f"fixed_{type.parameters[0]}", "size": type.parameters[0]}
        case "uuid":
            return {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
        case name:
            return dict(logical) if isinstance(logical := _PLAIN_TYPES[name], dict) else logical


def _timestamp(unit: str, *, in_utc: bool) -> AvroSchema:
    return {"type": "long", "logicalType": f"timestamp-{unit}", "adjust-to-utc": in_utc}


_PLAIN_TYPES: dict[str, str | AvroSchema] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": _timestamp("micros", in_utc=False),
    "timestamptz": _timestamp("micros", in_utc=True),
    "timestamp_ns": _timestamp("nanos", in_utc=False),
    "timestamptz_ns": _timestamp("nanos", in_utc=True),
    "string": "string",
    "binary": "bytes",
}


def _record(name: str, fields: list[AvroSchema]) -> AvroSchema:
    return {"type": "record", "name": name, "fields": fields}


def _required(name: str, type: str | AvroSchema, field_id: int) -> AvroSchema:
    return {"name": name, "type": type, "field-id": field_id}


def _optional(name: str, type: str | AvroSchema, field_id: int) -> AvroSchema:
    return {"name": name, "type": ["null", type], "default": None, "field-id": field_id}


def _map(key_id: int, value_id: int, value_type: str) -> AvroSchema:
    pair = _record(
        f"k{key_id}_v{value_id}", [_required("key", "int", key_id), _required("value", value_type, value_id)]
    )
    return {"type": "array", "items": pair, "logicalType": "map"}
