from __future__ import annotations

import json
from itertools import count

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.schema import Schema, assign_fresh_ids, parse_schema
from tests.unit.iceberg.table_documents import ID, TEXT, column, encode, schema

POINTS = column(
    4,
    "points",
    {
        "type": "list",
        "element-id": 5,
        "element-required": True,
        "element": {"type": "struct", "fields": [column(6, "x", "double"), column(7, "y", "double")]},
    },
)
TAGS = column(
    8,
    "tags",
    {
        "type": "map",
        "key-id": 9,
        "key": "string",
        "value-id": 10,
        "value-required": False,
        "value": {"type": "struct", "fields": [column(11, "weight", "int")]},
    },
)


def parsed(*columns: dict, **more: object) -> Schema:
    return parse_schema(encode(schema(*columns, **more)))


def test_names_of_nested_fields() -> None:
    found = parsed(ID, POINTS, TAGS)

    assert found.names_by_id == {
        1: "id",
        4: "points",
        5: "points.element",
        6: "points.element.x",
        7: "points.element.y",
        8: "tags",
        9: "tags.key",
        10: "tags.value",
        11: "tags.value.weight",
    }
    assert found.ids_by_name["points.x"] == 6
    assert found.ids_by_name["tags.weight"] == 11
    assert found.parents == {5: 4, 6: 5, 7: 5, 9: 8, 10: 8, 11: 10}


def test_highest_field_id_counts_nested_fields() -> None:
    assert parsed(ID, POINTS, TAGS).highest_field_id == 11
    assert parsed().highest_field_id == 0


def test_unknown_fields_and_emoji_survive() -> None:
    body = schema(column(1, "id", doc="row id 🧊", **{"x-hint": [1, {"deep": None}]}), **{"x-top": {"a": 1}})

    written = json.loads(parse_schema(encode(body)).raw)

    assert written == body
    assert "🧊".encode() in parse_schema(encode(body)).raw


def test_numbers_beyond_64_bits_survive_in_unknown_fields() -> None:
    body = schema(column(1, "id", **{"x-big": 2**70}))
    assert json.loads(parse_schema(encode(body)).raw) == body


def test_types_are_written_in_lower_case_and_nulls_of_optional_parts_dropped() -> None:
    found = parsed(column(1, "id", "LONG", doc=None), **{"identifier-field-ids": None})
    assert json.loads(found.raw) == schema(column(1, "id", "long"))


def test_same_schema_ignores_the_id_only() -> None:
    one = parsed(ID, TEXT)

    assert one.content == parsed(ID, TEXT, schema_id=7).content
    assert one.content != parsed(TEXT, ID).content
    assert one.content != parsed(ID, TEXT | {"doc": "x"}).content
    assert one.content != parsed(ID, TEXT | {"required": True}).content
    assert one.content != parsed(ID, TEXT, **{"identifier-field-ids": [1]}).content
    assert one.content != parsed(ID, TEXT | {"write-default": "a"}).content
    assert parsed(ID | {"initial-default": 3}).content == parsed(ID | {"initial-default": 3}).content


def test_with_schema_id_rewrites_the_id() -> None:
    moved = parsed(ID, schema_id=4, **{"x-more": 1}).with_schema_id(9)

    assert moved.schema_id == 9
    assert json.loads(moved.raw) == schema(ID, schema_id=9, **{"x-more": 1})


def test_a_schema_without_id_is_schema_0_and_gets_it_written() -> None:
    found = parse_schema(encode({"type": "struct", "fields": [ID]}))

    assert found.schema_id == 0
    assert json.loads(found.with_schema_id(0).raw)["schema-id"] == 0


def test_fresh_ids_go_level_by_level() -> None:
    old = schema(column(40, "points", POINTS["type"]), column(50, "tags", TAGS["type"]), column(60, "id"))

    fresh = assign_fresh_ids(encode(old), count(1).__next__)

    assert {name: fresh.schema.ids_by_name[name] for name in fresh.schema.names_by_id.values()} == {
        "points": 1,
        "tags": 2,
        "id": 3,
        "points.element": 4,
        "points.element.x": 5,
        "points.element.y": 6,
        "tags.key": 7,
        "tags.value": 8,
        "tags.value.weight": 9,
    }
    assert fresh.old_to_new == {40: 1, 50: 2, 60: 3, 5: 4, 6: 5, 7: 6, 9: 7, 10: 8, 11: 9}


def test_fresh_ids_may_overlap_with_the_old_ones() -> None:
    old = schema(column(2, "a"), column(1, "b", required=True), **{"identifier-field-ids": [1]})

    fresh = assign_fresh_ids(encode(old), count(1).__next__)

    assert fresh.old_to_new == {2: 1, 1: 2}
    assert fresh.schema.identifier_field_ids == {2}
    assert json.loads(fresh.schema.raw)["identifier-field-ids"] == [2]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([ID, TEXT | {"id": 1}], "field id 1 is used more than once"),
        ([ID, TEXT | {"name": "id"}], "multiple fields for name id: 1 and 2"),
        ([{"name": "x", "required": True, "type": "int"}], "id of field x"),
        ([ID | {"id": 2**31}], "id of field id"),
        ([ID | {"id": True}], "id of field id"),
        ([ID | {"required": "yes"}], "required of field id"),
        ([ID | {"doc": 3}], "doc of field id"),
        ([ID | {"type": "varchar"}], "varchar"),
        ([ID | {"type": {"type": "set"}}], "neither struct, list nor map"),
        ([{"id": 1, "name": "x", "required": True}], "missing type"),
        ([{"id": 1, "required": True, "type": "int"}], "missing string name"),
        ([5], "non-object"),
        ([column(1, "u", "unknown", required=True)], "Cannot create required field with unknown type: u"),
    ],
)
def test_refuses_broken_columns(columns: list[dict], message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        parsed(*columns)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"fields":[]}',
        b'{"type":"list","fields":[]}',
        b'{"type":"struct"}',
        b"[]",
        b"{",
        b'{"type":"struct","fields":[],"schema-id":"1"}',
        b'{"type":"struct","fields":[],"identifier-field-ids":["1"]}',
        b'{"type":"struct","fields":[],"x":"\xff"}',
    ],
)
def test_refuses_what_is_no_schema(raw: bytes) -> None:
    with pytest.raises(IllegalArgumentError):
        parse_schema(raw)


def test_refuses_bottomless_nesting() -> None:
    levels = 5000
    deep = (
        '{"type":"list","element-id":1,"element-required":true,"element":' * levels + '"int"' + "}" * levels
    )
    raw = '{"type":"struct","fields":[{"id":1,"name":"d","required":false,"type":' + deep + "}]}"
    with pytest.raises(IllegalArgumentError, match="nested too deeply"):
        parse_schema(raw.encode())


@pytest.mark.parametrize(
    ("identifier", "message"),
    [
        (99, "Cannot add fieldId 99 as an identifier field: field does not exist"),
        (2, "Cannot add field text as an identifier field: not a required field"),
        (3, "Cannot add field ratio as an identifier field: must not be float or double field"),
        (4, "Cannot add field inner as an identifier field: not a primitive type field"),
        (5, "Cannot add field a as an identifier field: must not be nested in an optional field inner"),
        (7, "Cannot add field element as an identifier field: must not be nested in list"),
    ],
)
def test_identifier_fields_must_identify(identifier: int, message: str) -> None:
    columns = [
        ID,
        TEXT,
        column(3, "ratio", "double", required=True),
        column(4, "inner", {"type": "struct", "fields": [column(5, "a", required=True)]}),
        column(
            6,
            "list",
            {"type": "list", "element-id": 7, "element": "int", "element-required": True},
            required=True,
        ),
    ]
    with pytest.raises(IllegalArgumentError) as caught:
        parsed(*columns, **{"identifier-field-ids": [identifier]})
    assert caught.value.message == message


def test_an_identifier_field_may_lie_in_required_structs() -> None:
    inner = column(4, "inner", {"type": "struct", "fields": [column(5, "a", required=True)]}, required=True)
    assert parsed(inner, **{"identifier-field-ids": [5]}).identifier_field_ids == {5}


@pytest.mark.parametrize(
    "name", ["timestamp_ns", "timestamptz_ns", "variant", "unknown", "geometry", "geography"]
)
def test_new_types_need_version_3(name: str) -> None:
    found = parsed(column(1, "data", name))

    with pytest.raises(
        IllegalArgumentError, match=f"Invalid type for data: {name}.* is not supported until v3"
    ):
        found.check_format_version(2)
    found.check_format_version(3)


def test_version_problems_are_listed_by_column() -> None:
    found = parsed(
        column(1, "old", "int", **{"initial-default": 3}),
        column(2, "list", {"type": "list", "element-id": 3, "element": "variant", "element-required": False}),
    )

    with pytest.raises(IllegalArgumentError) as caught:
        found.check_format_version(2)

    assert caught.value.message == (
        "Invalid schema for v2:\n"
        "- Invalid initial default for old: non-null default is not supported until v3\n"
        "- Invalid type for list.element: variant is not supported until v3"
    )
