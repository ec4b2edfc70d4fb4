from __future__ import annotations

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.partitioning import (
    PartitionSpec,
    check_historical_spec,
    check_new_names,
    check_partition_spec,
    parse_partition_spec,
)
from floecat.iceberg.schemas.schema import Schema, parse_schema
from floecat.iceberg.schemas.transforms import can_transform, normalize_transform
from floecat.iceberg.schemas.types import parse_primitive
from tests.unit.iceberg.table_documents import ID, TEXT, TS, column, encode, partition_field, schema, spec


def parsed(*fields: dict, spec_id: int = 0) -> PartitionSpec:
    return parse_partition_spec(encode(spec(*fields, spec_id=spec_id)))


@pytest.fixture
def columns() -> Schema:
    inner = column(
        4, "inner", {"type": "struct", "fields": [column(5, "day", "date"), column(6, "blob", "variant")]}
    )
    items = column(7, "items", {"type": "list", "element-id": 8, "element": "int", "element-required": True})
    return parse_schema(encode(schema(ID, TEXT, TS, inner, items)))


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Identity", "identity"),
        ("BUCKET[16]", "bucket[16]"),
        ("truncate[007]", "truncate[7]"),
        ("Zorder", "Zorder"),
        ("Bucket", "Bucket"),
    ],
)
def test_known_transforms_are_written_in_lower_case(text: str, normal: str) -> None:
    assert normalize_transform(text) == normal


@pytest.mark.parametrize(
    "text", ["bucket[0]", "truncate[2147483648]", "bucket[9999999999]", "bucket[" + "9" * 5000 + "]"]
)
def test_widths_are_positive_ints(text: str) -> None:
    with pytest.raises(IllegalArgumentError, match="Invalid width"):
        normalize_transform(text)


@pytest.mark.parametrize(
    ("transform", "type", "allowed"),
    [
        ("identity", "double", True),
        ("identity", "geometry", False),
        ("year", "date", True),
        ("hour", "date", False),
        ("hour", "timestamptz_ns", True),
        ("day", "string", False),
        ("bucket[4]", "uuid", True),
        ("bucket[4]", "double", False),
        ("bucket[4]", "boolean", False),
        ("truncate[4]", "decimal(9,2)", True),
        ("truncate[4]", "fixed[4]", False),
        ("void", "geometry", True),
        ("zorder", "double", True),
        ("bucket", "double", True),
        ("bucket[a]", "double", True),
    ],
)
def test_what_transforms_take(transform: str, type: str, allowed: bool) -> None:
    assert can_transform(transform, parse_primitive(type)) is allowed


def test_specs_are_compatible_whatever_their_ids() -> None:
    one = parsed(partition_field(1000, 3, "ts_day", "day"))

    assert one.content == parsed(partition_field(1007, 3, "ts_day", "DAY"), spec_id=4).content
    assert one.content != parsed(partition_field(1000, 3, "day", "day")).content
    assert one.content != parsed(partition_field(1000, 3, "ts_day", "month")).content
    assert one.content != parsed().content


def test_properties_of_specs() -> None:
    both = parsed(partition_field(1000, 1, "id"), partition_field(1001, 2, "text", "void"))

    assert both.last_field_id == 1001
    assert both.has_sequential_ids
    assert parsed().last_field_id == 999
    assert not parsed(partition_field(1001, 1, "id")).has_sequential_ids


def test_fields_with_and_without_ids_do_not_mix() -> None:
    nameless = {"name": "b", "transform": "identity", "source-id": 2}
    with pytest.raises(IllegalArgumentError, match="1 missing of 2 fields"):
        parsed(partition_field(1000, 1, "id"), nameless)
    assert parsed(nameless).fields[0].field_id is None


def test_a_field_needs_a_source() -> None:
    with pytest.raises(IllegalArgumentError, match="source-id of partition field b"):
        parsed({"name": "b", "transform": "identity"})
    several = parsed({"name": "b", "transform": "zorder", "source-ids": [1, 2], "field-id": 1000})
    assert several.fields[0].sources == (1, 2)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (partition_field(1000, 9, "p"), "Cannot find source column for partition field: p"),
        (partition_field(1000, 4, "p"), "Cannot partition by non-primitive source field: struct"),
        (partition_field(1000, 6, "p"), "Cannot partition by non-primitive source field: variant"),
        (partition_field(1000, 2, "p", "hour"), "Invalid source type string for transform: hour"),
        (partition_field(1000, 8, "p"), "Invalid partition field parent: list"),
    ],
)
def test_fields_must_fit_the_schema(columns: Schema, field: dict, message: str) -> None:
    with pytest.raises(IllegalArgumentError) as caught:
        check_partition_spec(parsed(field), columns)
    assert caught.value.message.startswith(message)


def test_fields_in_structs_and_void_fields_of_dropped_columns_fit(columns: Schema) -> None:
    check_partition_spec(
        parsed(partition_field(1000, 5, "day"), partition_field(1001, 99, "gone", "void")), columns
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([partition_field(1000, 1, "")], "Cannot use empty partition name"),
        ([partition_field(1000, 1, "a"), partition_field(1001, 2, "a")], "more than once: a"),
        (
            [partition_field(1000, 3, "ts", "day")],
            "Cannot create partition from name that exists in schema: ts",
        ),
        ([partition_field(1000, 1, "text")], "sourced from different field in schema: text"),
        ([partition_field(1000, 5, "inner.blob")], "sourced from different field in schema: inner.blob"),
    ],
)
def test_new_names_must_not_clash(columns: Schema, fields: list[dict], message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        check_new_names(parsed(*fields), columns)


def test_the_identity_of_a_column_may_have_its_name(columns: Schema) -> None:
    check_new_names(parsed(partition_field(1000, 1, "id"), partition_field(1001, 2, "text", "void")), columns)


def test_a_column_must_not_be_named_like_a_partition_field_of_another(columns: Schema) -> None:
    with pytest.raises(IllegalArgumentError, match="sourced from different field in schema: text"):
        check_historical_spec(parsed(partition_field(1000, 1, "text", "bucket[4]")), columns)
    check_historical_spec(parsed(partition_field(1000, 99, "text", "void")), columns)
