"""Schemas, partition specs, sort orders and properties of other writers, normalized for every reader."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.properties import NAME_MAPPING
from floecat.iceberg.normalization.values import (
    Rewrite,
    each,
    each_value,
    encode_object,
    integer,
    is_string,
    keep,
    object_of,
    renamed,
    text,
)
from floecat.iceberg.schemas.partitioning import FIRST_PARTITION_FIELD_ID
from floecat.iceberg.schemas.schema import parse_schema
from floecat.iceberg.schemas.transforms import normalize_transform, only_source
from floecat.iceberg.values.encoded_json import RawJson, decode_fields, decode_json, encode_json

__all__ = [
    "canonical",
    "normalize_partition_field",
    "normalize_properties",
    "normalize_schema",
    "normalize_sort_order",
    "normalize_spec",
    "numbered",
]

_KNOWN_TRANSFORM = re.compile(r"identity|void|year|month|day|hour|(?:bucket|truncate)\[[0-9]+\]")
_WHITESPACE = re.compile(r"\s+")

_canonical_encoder = msgspec.json.Encoder(order="deterministic")


def canonical(raw: RawJson) -> bytes:
    """An encoding that ignores blanks and the order of fields."""
    return _canonical_encoder.encode(msgspec.json.decode(raw))


def _type(raw: RawJson) -> RawJson:
    return raw if is_string(raw) else _nested_type(raw)


_field = object_of(
    {
        "id": integer,
        "name": keep,
        "type": _type,
        "required": keep,
        "doc": keep,
        "initial-default": keep,
        "write-default": keep,
    }
)
_nested_type = object_of(
    {
        "schema-id": integer,
        "identifier-field-ids": each(integer),
        "fields": each(_field),
        "element-id": integer,
        "element": _type,
        "key-id": integer,
        "key": _type,
        "value-id": integer,
        "value": _type,
    }
)


def normalize_schema(raw: RawJson) -> RawJson:
    """A schema with its id, types as readers spell them, and no nulls for what is optional.

    Raises:
        IllegalArgumentError: it is not a schema.
    """
    made = _nested_type(raw)
    schema = parse_schema(made)
    complete = schema.with_schema_id(schema.schema_id).raw
    return made if canonical(made) == canonical(complete) else complete


def _transform(written: str) -> str:
    transform = normalize_transform(_WHITESPACE.sub("", written))
    if _KNOWN_TRANSFORM.fullmatch(transform) is None:
        raise IllegalArgumentError(f"not every reader knows the transform {written[:80]}")
    return transform


def _null_order(written: str) -> str:
    return re.sub(r"[\s_]+", "-", written.strip().lower())


_SOURCES: Mapping[str, Rewrite] = {
    "transform": lambda raw: renamed(raw, _transform),
    "source-id": integer,
    "source-ids": each(integer),
}
_partition_field = object_of({**_SOURCES, "name": keep, "field-id": integer})
_sort_field = object_of(
    {
        **_SOURCES,
        "direction": lambda raw: renamed(raw, lambda written: written.strip().lower()),
        "null-order": lambda raw: renamed(raw, _null_order),
    }
)


def normalize_partition_field(raw: RawJson) -> RawJson:
    """A partition field with one `source-id`, and its transform as readers spell it.

    Raises:
        IllegalArgumentError: it is derived from several columns, or not every reader knows its transform.
    """
    return _with_one_source(_partition_field(raw), "a partition field")


def _normalize_sort_field(raw: RawJson) -> RawJson:
    return _with_one_source(_sort_field(raw), "a sort field")


def _with_one_source(raw: RawJson, owner: str) -> RawJson:
    fields = decode_fields(raw, "field")
    several = fields.pop("source-ids", None)
    if several is None:
        return raw
    source_id = decode_json(fields["source-id"], int, "source-id") if "source-id" in fields else None
    source_ids = decode_json(several, tuple[int, ...], "source-ids")
    return encode_json(fields | {"source-id": only_source(source_id, source_ids, owner)})


def numbered(array: RawJson) -> RawJson:
    """Partition fields with ids: if all are missing they count from 1000, as in version 1."""
    fields = decode_json(array, list[dict[str, msgspec.Raw]], "partition fields")
    if not fields or any("field-id" in field for field in fields):
        return array
    return encode_json(
        [field | {"field-id": number} for number, field in enumerate(fields, FIRST_PARTITION_FIELD_ID)]
    )


_spec = object_of({"spec-id": integer, "fields": lambda raw: numbered(each(normalize_partition_field)(raw))})
_order = object_of({"order-id": integer, "fields": each(_normalize_sort_field)})


def normalize_spec(raw: RawJson) -> RawJson:
    """A partition spec with its id and the ids of its fields.

    Raises:
        IllegalArgumentError: see `normalize_partition_field`.
    """
    return _with_id(_spec(raw), "spec-id")


def normalize_sort_order(raw: RawJson) -> RawJson:
    """A sort order with its id, directions and null orders as readers spell them.

    Raises:
        IllegalArgumentError: see `normalize_partition_field`.
    """
    return _with_id(_order(raw), "order-id")


def _with_id(raw: RawJson, name: str) -> RawJson:
    fields = decode_fields(raw, "object")
    return raw if name in fields else encode_json({name: 0} | fields)


def normalize_properties(raw: RawJson) -> RawJson:
    """Properties whose values are strings, and whose name mapping PyIceberg and DuckDB read."""
    made = each_value(text)(raw)
    fields = decode_fields(made, "properties")
    if NAME_MAPPING not in fields:
        return made
    before = fields[NAME_MAPPING]
    after = renamed(before, _name_mapping)
    return made if after is before else encode_object({**fields, NAME_MAPPING: after})


def _name_mapping(written: str) -> str:
    """Each column with `names` and without nulls; anything else is left for the check to refuse."""
    data = written.encode()
    try:
        made = _mapped_columns(data)
    except (IllegalArgumentError, RecursionError):
        return written
    return written if made is data else bytes(made).decode()


def _mapped_column(raw: RawJson) -> RawJson:
    made = _mapped(raw)
    fields = decode_fields(made, "name mapping")
    return made if "names" in fields else encode_json(fields | {"names": ()})


_mapped_columns = each(_mapped_column)
_mapped = object_of({"field-id": integer, "names": keep, "fields": _mapped_columns})
