from __future__ import annotations

import json

import pytest

from floecat.delta.protocol.delta_schema import (
    DeltaArray,
    DeltaField,
    DeltaMap,
    DeltaPrimitive,
    DeltaStruct,
    TypeChange,
    mapping_mode,
    parse_delta_schema,
    parse_primitive,
)
from floecat.errors import InvalidDeltaTableError, UnsupportedDeltaTableError
from tests.unit.delta.delta_metadata import array, changed, field, map_of, mapped, nested_ids, struct


def parsed(*fields: object) -> tuple[DeltaField, ...]:
    return parse_delta_schema(json.dumps({"type": "struct", "fields": fields})).fields


def test_nested_types_are_read() -> None:
    [column] = parsed(
        field("c", map_of("string", array(struct(field("x", "date", nullable=False))), contains_null=False))
    )
    x = DeltaField("x", DeltaPrimitive("date"), nullable=False)
    assert column == DeltaField(
        "c", DeltaMap(DeltaPrimitive("string"), DeltaArray(DeltaStruct((x,)), True), False)
    )


def test_what_column_mapping_says_is_read() -> None:
    [column] = parsed(
        mapped("c", 4, "col-1", array("integer"), comment="a list", **nested_ids(**{"col-1_element": 9}))
    )
    assert (column.column_id, column.physical_name, column.comment) == (4, "col-1", "a list")
    assert column.nested_ids == {"col-1.element": 9}


def test_changes_of_type_are_read() -> None:
    [column] = parsed(
        field(
            "c", map_of("long", "double"), **changed(("integer", "long", "key"), ("float", "double", "value"))
        )
    )
    assert column.type_changes == (
        TypeChange("integer", "long", ("key",)),
        TypeChange("float", "double", ("value",)),
    )


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("decimal( 12 , 3)", DeltaPrimitive("decimal", 12, 3)),
        ("decimal(5,-2)", DeltaPrimitive("decimal", 5, -2)),
        ("decimal", DeltaPrimitive("decimal", 10, 0)),
        ("null", DeltaPrimitive("void")),
        ("timestamp_ltz", DeltaPrimitive("timestamp")),
        ("interval day to second", DeltaPrimitive("interval day to second")),
    ],
)
def test_spellings(text: str, type: DeltaPrimitive) -> None:
    assert parse_primitive(text, "c") == type


def test_a_primitive_may_be_written_as_an_object() -> None:
    assert parsed(field("c", array({"type": "variant"})))[0].type == DeltaArray(
        DeltaPrimitive("variant"), True
    )


def test_what_is_not_told_may_be_null() -> None:
    [column] = parsed({"name": "c", "type": {"type": "array", "elementType": "string"}})
    assert column == DeltaField("c", DeltaArray(DeltaPrimitive("string"), True), nullable=True)


def test_a_table_without_a_schema_has_no_columns() -> None:
    assert parse_delta_schema("") == DeltaStruct(())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"type":"struct","fields":[', "malformed JSON"),
        ('{"type":"struct","fields":[],"fields":[]}', "a key more than once"),
        ('"integer"', "not a struct"),
        ('{"type":"array"}', "not a struct"),
        ('{"type":"struct","fields":{}}', "no fields: table"),
        ('{"type":"struct","fields":[{"type":"integer"}]}', "no name: table"),
        ('{"type":"struct","fields":[{"name":"a"}]}', "column a has no type"),
        ('{"type":"struct","fields":[{"name":"a","type":"integer","nullable":1}]}', "nullable of column a"),
        ('{"type":"struct","fields":[{"name":"a","type":{"type":"struct"}}]}', "no fields: a"),
        (
            '{"type":"struct","fields":[{"name":"a","type":{"type":"map","keyType":"string"}}]}',
            "a.value has no",
        ),
        ('{"type":"struct","fields":[{"name":"a","type":"decimal(39,0)"}]}', "decimal\\(39,0\\) of column a"),
        ('{"type":"struct","fields":[{"name":"a","type":"decimal(3,4)"}]}', "decimal\\(3,4\\) of column a"),
        ('{"type":"struct","fields":[{"name":"a","type":"integer","metadata":[1]}]}', "metadata of column a"),
    ],
)
def test_broken_schemas_name_the_place(text: str, message: str) -> None:
    with pytest.raises(InvalidDeltaTableError, match=message):
        parse_delta_schema(text)


@pytest.mark.parametrize(
    "column",
    [
        mapped("a", 0, "p"),
        mapped("a", 2**31 - 1, "p"),
        field("a", **{"delta.columnMapping.id": "1"}),
        field("a", **{"delta.columnMapping.physicalName": 1}),
        field("a", **{"delta.columnMapping.nested.ids": [1]}),
        field("a", **{"delta.typeChanges": {}, "delta.columnMapping.nested.ids": {"p.element": True}}),
        field("a", **{"delta.typeChanges": [{"fromType": "integer"}]}),
        field("a", **{"delta.typeChanges": ["integer"]}),
        field("a", **{"delta.typeChanges": "integer"}),
    ],
)
def test_broken_metadata_of_a_column_is_refused(column: dict) -> None:
    with pytest.raises(InvalidDeltaTableError, match="column a"):
        parsed(column)


@pytest.mark.parametrize("depth", [120, 100_000])
def test_endless_nesting_is_refused(depth: int) -> None:
    inner = '{"type":"array","elementType":' * depth + '"integer"' + "}" * depth
    with pytest.raises(UnsupportedDeltaTableError, match="nested too deeply"):
        parse_delta_schema(f'{{"type":"struct","fields":[{{"name":"a","type":{inner}}}]}}')


@pytest.mark.parametrize(
    ("configured", "mode"), [({}, "none"), ({"delta.columnMapping.mode": "Name"}, "name")]
)
def test_mapping_modes(configured: dict, mode: str) -> None:
    assert mapping_mode(configured) == mode


def test_unknown_mapping_modes_are_refused() -> None:
    with pytest.raises(UnsupportedDeltaTableError, match="mapping mode: position"):
        mapping_mode({"delta.columnMapping.mode": "position"})
