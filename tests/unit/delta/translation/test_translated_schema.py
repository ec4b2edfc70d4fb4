from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.delta.protocol.actions import Metadata
from floecat.delta.translation.column_ids import FIRST_HIGH_ID, FieldIds, assign_history
from floecat.delta.translation.translated_schema import (
    LeafColumn,
    PartitionColumn,
    TranslatedSchema,
    translate_schema,
)
from floecat.errors import InvalidDeltaTableError, UnsupportedDeltaTableError
from floecat.iceberg.schemas.partitioning import PartitionField, PartitionSpec, check_partition_spec
from floecat.iceberg.schemas.schema import parse_schema
from floecat.iceberg.schemas.types import PrimitiveType
from tests.delta_tables import all_tables, delta_table
from tests.unit.delta.delta_metadata import (
    TRAP,
    array,
    field,
    map_of,
    mapped,
    metadata,
    metadata_in_log,
    nested_ids,
    struct,
)

HIGH = FIRST_HIGH_ID


def translated(version: Metadata, ids: FieldIds | None = None) -> TranslatedSchema:
    return translate_schema(version, FieldIds() if ids is None else ids)


def fields_of(schema: TranslatedSchema) -> list[dict]:
    fields: list[dict] = json.loads(schema.schema.raw)["fields"]
    return fields


@pytest.mark.parametrize(
    ("delta", "iceberg"),
    [
        ("byte", "int"),
        ("short", "int"),
        ("integer", "int"),
        ("long", "long"),
        ("float", "float"),
        ("double", "double"),
        ("decimal(9,2)", "decimal(9, 2)"),
        ("boolean", "boolean"),
        ("string", "string"),
        ("binary", "binary"),
        ("date", "date"),
        ("timestamp", "timestamptz"),
        ("timestamp_ntz", "timestamp"),
        ("void", "string"),
    ],
)
def test_primitive_types(delta: str, iceberg: str) -> None:
    schema = translated(metadata(field("c", delta, comment="what it is")))
    assert fields_of(schema) == [
        {"id": 1, "name": "c", "required": False, "type": iceberg, "doc": "what it is"}
    ]
    [leaf] = schema.leaves
    assert (str(leaf.type), leaf.delta_type) == (iceberg, delta)
    assert schema.format_version == 2


def test_variant_needs_format_version_3() -> None:
    schema = translated(metadata(field("v", "variant"), field("l", array("variant"))))
    assert schema.format_version == 3
    schema.schema.check_format_version(3)
    assert [str(leaf.type) for leaf in schema.leaves] == ["variant"]


@pytest.mark.parametrize(
    "type", ["interval", "interval year to month", "geometry(OGC:CRS84)", "int", "decimal(5,-2)", "udt"]
)
def test_types_without_an_equal_are_refused_by_column(type: str) -> None:
    inner = struct(field("x", array(map_of("string", type))))
    with pytest.raises(UnsupportedDeltaTableError) as refusal:
        translated(metadata(field("a"), field("s", inner)))
    assert (
        refusal.value.message
        == f"Column s.x.element.value has type {type}, which has no equivalent in Iceberg"
    )


def test_nested_types_take_their_ids_from_the_table() -> None:
    inner = struct(field("x", "double", comment="across"), field("y", map_of("string", array("long"))))
    schema = translated(metadata(field("s", inner), field("l", array(inner))))
    assert fields_of(schema)[0]["type"]["fields"] == [
        {"id": 2, "name": "x", "required": False, "type": "double", "doc": "across"},
        {
            "id": 3,
            "name": "y",
            "required": False,
            "type": {
                "type": "map",
                "key-id": HIGH,
                "key": "string",
                "value-id": HIGH + 1,
                "value": {
                    "type": "list",
                    "element-id": HIGH + 2,
                    "element": "long",
                    "element-required": False,
                },
                "value-required": False,
            },
        },
    ]
    assert schema.schema.names_by_id[HIGH + 3] == "l.element"
    assert schema.physical_paths[HIGH + 3] == ("l", "element")
    assert schema.delta_types == {
        1: "struct",
        2: "double",
        3: "map",
        HIGH: "string",
        HIGH + 1: "array",
        HIGH + 2: "long",
        4: "array",
        HIGH + 3: "struct",
        5: "double",
        6: "map",
        HIGH + 4: "string",
        HIGH + 5: "array",
        HIGH + 6: "long",
    }
    assert parse_schema(schema.schema.raw) == schema.schema


def test_leaves_lie_in_structs_only() -> None:
    schema = translated(
        metadata(
            mapped("part", 1, "col-1", "string"),
            mapped(
                "a b", 2, "col-2", struct(mapped("x", 3, "col-3", "short"), mapped("n", 4, "col-4", "void"))
            ),
            mapped("l", 5, "col-5", array(struct(mapped("y", 6, "col-6")))),
            partitions=["part"],
            mode="name",
        )
    )
    string = PrimitiveType("string")
    assert schema.leaves == (
        LeafColumn(1, ("col-1",), "part", string, "string", partition=True),
        LeafColumn(3, ("col-2", "col-3"), "a b.x", PrimitiveType("int"), "short", partition=False),
        LeafColumn(4, ("col-2", "col-4"), "a b.n", string, "void", partition=False),
    )
    assert schema.mapping_mode == "name"


def test_columns_are_required_where_no_writer_can_put_a_null() -> None:
    inner = struct(field("x", nullable=False), field("y"))
    schema = translated(
        metadata(
            field("a", nullable=False),
            field("s", inner, nullable=False),
            field("o", inner),
            field("l", array(inner, contains_null=False), nullable=False),
            field("m", map_of("string", inner, contains_null=False), nullable=False),
            field("n", "void", nullable=False),
            field("p", "string", nullable=False),
            partitions=["p"],
        )
    )
    names = schema.schema.names_by_id
    required = {names[id] for id, found in schema.schema.fields_by_id.items() if found.required}
    assert required == {"a", "s", "s.x", "l", "m", "m.key"}


@pytest.mark.parametrize(("mode", "unnumbered"), [("name", ("l", "m.value")), (None, ())])
def test_parts_that_files_give_no_ids_are_told(mode: str | None, unnumbered: tuple[str, ...]) -> None:
    schema = translated(
        metadata(
            mapped("l", 1, "p", array("long")),
            mapped("m", 2, "q", map_of("long", array("long")), **nested_ids(q_key=4, q_value=5)),
            mapped("n", 3, "r", array("long"), **nested_ids(r_element=6)),
            mode=mode,
        )
    )
    assert schema.without_field_ids == unnumbered


def test_partition_columns_are_identity_fields() -> None:
    version = metadata(
        mapped("day", 1, "col-1", "date"),
        mapped("n", 2, "col-2", "byte"),
        mapped("x", 3, "col-3"),
        partitions=["n", "DAY"],
        mode="id",
    )
    schema = translated(version)
    assert schema.partition_fields == (
        PartitionColumn(1000, 2, "n", "col-2", PrimitiveType("int"), "byte"),
        PartitionColumn(1001, 1, "day", "col-1", PrimitiveType("date"), "date"),
    )
    spec = [
        PartitionField(column.name, "identity", column.source_id, column.field_id)
        for column in schema.partition_fields
    ]
    check_partition_spec(PartitionSpec(0, tuple(spec)), schema.schema)


def test_partition_fields_keep_their_ids_unless_the_type_is_another() -> None:
    ids = FieldIds()

    def partition_ids(*columns: dict, by: list[str]) -> list[int]:
        schema = translate_schema(metadata(*columns, partitions=by), ids)
        return [column.field_id for column in schema.partition_fields]

    assert partition_ids(field("a"), field("b", "decimal(4,1)"), by=["a", "b"]) == [1000, 1001]
    assert partition_ids(field("a", "long"), field("b", "decimal(9,1)"), by=["b", "a"]) == [1001, 1000]
    assert partition_ids(field("a", "string"), field("b", "decimal(9,2)"), by=["a", "b"]) == [1002, 1003]
    assert partition_ids(field("a", "byte"), field("c"), by=["c", "a"]) == [1004, 1000]
    assert partition_ids(field("a", "byte"), by=[]) == []


@pytest.mark.parametrize("type", ["variant", "void", array("long"), struct(field("x"))])
def test_types_that_cannot_partition_are_refused(type: object) -> None:
    with pytest.raises(UnsupportedDeltaTableError, match="Partition column c has type"):
        translated(metadata(field("c", type), field("d"), partitions=["c"]))


@pytest.mark.parametrize(
    ("partitions", "message"), [(["x"], "x is not in"), (["a", "A"], "A is named twice")]
)
def test_partition_columns_must_be_columns(partitions: list[str], message: str) -> None:
    with pytest.raises(InvalidDeltaTableError, match=message):
        translated(metadata(field("a"), field("b"), partitions=partitions))


def test_names_that_iceberg_cannot_tell_apart_are_refused() -> None:
    with pytest.raises(UnsupportedDeltaTableError, match=r"multiple fields for name a\.b"):
        translated(metadata(field("a", struct(field("b"))), field("a.b")))


def test_columns_keep_their_ids_when_they_are_renamed() -> None:
    ids = FieldIds()
    before = translate_schema(metadata(mapped("old", 1, "old"), mapped("b", 2, "b"), mode="name"), ids)
    after = translate_schema(metadata(mapped("b", 2, "b"), mapped("new", 1, "old"), mode="name"), ids)
    assert before.schema.names_by_id == {1: "old", 2: "b"}
    assert after.schema.names_by_id == {1: "new", 2: "b"}


def test_a_replaced_table_whose_ids_start_anew() -> None:
    ids = FieldIds()
    assign_history(TRAP, ids)
    names = [translate_schema(version, ids).schema.names_by_id for version in TRAP]
    first = {1: "id", 2: "name", 3: "amount", 4: "region"}
    assert names == [
        first,
        first,
        first | {2: "full_name", 7: "note"},
        first | {2: "full_name", 7: "note"},
        first | {2: "full_name", 8: "tag"},
    ]
    last = translate_schema(TRAP[-1], ids)
    assert [str(last.schema.find_type(id)) for id in (1, 2, 3)] == ["long", "string", "long"]
    assert last.physical_paths[8] == ("col-c",)


@pytest.mark.parametrize("name", [facts.name for facts in all_tables()])
def test_schemas_of_real_tables(name: str) -> None:
    history = metadata_in_log(delta_table(name))
    ids = FieldIds()
    assign_history(history, ids)
    for version in history:
        schema = translate_schema(version, ids)
        assert parse_schema(schema.schema.raw) == schema.schema
        schema.schema.check_format_version(schema.format_version)
        assert set(schema.physical_paths) == set(schema.schema.fields_by_id)
    assert ids.generation == 0


def test_icebergs_own_numbers_are_kept() -> None:
    [version] = metadata_in_log(delta_table("delta/table-with-icebegCompatV2Enabled"))
    ids = FieldIds()
    schema = translate_schema(version, ids)
    assert not ids.own
    assert schema.without_field_ids == ()
    assert sorted(schema.schema.fields_by_id) == list(range(1, 54))


TYPES = st.recursive(
    st.sampled_from(["integer", "string", "decimal(7,3)", "timestamp", "void", "variant"]),
    lambda inner: st.one_of(
        st.builds(array, inner),
        st.builds(map_of, st.just("string"), inner),
        st.lists(
            st.tuples(st.sampled_from("abcd"), inner, st.booleans()), min_size=1, unique_by=lambda x: x[0]
        ).map(lambda found: struct(*(field(name, type, nullable=null) for name, type, null in found))),
    ),
    max_leaves=8,
)


@given(st.lists(TYPES, min_size=1, max_size=5))
@settings(max_examples=60)
def test_any_schema_becomes_a_schema_that_iceberg_takes(types: list[object]) -> None:
    version = metadata(*(field(f"c{position}", type) for position, type in enumerate(types)))
    schema = translated(version)
    schema.schema.check_format_version(schema.format_version)
    named = [id for id, path in schema.physical_paths.items() if id < HIGH]
    assert sorted(named) == list(range(1, len(named) + 1))
    assert list(schema.schema.fields_by_id) == list(schema.physical_paths)


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.decode("latin-1")))
@settings(max_examples=60)
def test_any_text_is_a_schema_or_refused(text: str) -> None:
    version = Metadata(id="x", schema_string=text)
    with suppress(InvalidDeltaTableError, UnsupportedDeltaTableError):
        translated(version)
