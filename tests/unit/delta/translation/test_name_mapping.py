from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.name_mapping import parse_mapping_from_json

from floecat.delta.protocol.actions import Metadata
from floecat.delta.translation.column_ids import FIRST_HIGH_ID, FieldIds, assign_history
from floecat.delta.translation.name_mapping import name_mapping, resolved_schemas
from floecat.delta.translation.translated_schema import TranslatedSchema, translate_schema
from floecat.iceberg.parquet.field_ids import FIRST_HIDDEN_ID
from tests.unit.delta.delta_metadata import TRAP, array, field, map_of, mapped, metadata, struct

HIGH = FIRST_HIGH_ID


def translated(*history: Metadata) -> list[TranslatedSchema]:
    ids = FieldIds()
    assign_history(history, ids)
    return [translate_schema(version, ids) for version in history]


def mapping(*history: Metadata) -> list[dict]:
    found: list[dict] = json.loads(name_mapping(translated(*history)))
    return found


def test_lists_and_maps_name_their_parts() -> None:
    version = metadata(
        field("l", array(struct(field("x")))), field("m", map_of("string", array("long"))), field("a.b")
    )
    assert mapping(version) == [
        {
            "field-id": 1,
            "names": ["l"],
            "fields": [{"field-id": HIGH, "names": ["element"], "fields": [{"field-id": 2, "names": ["x"]}]}],
        },
        {
            "field-id": 3,
            "names": ["m"],
            "fields": [
                {"field-id": HIGH + 1, "names": ["key"]},
                {
                    "field-id": HIGH + 2,
                    "names": ["value"],
                    "fields": [{"field-id": HIGH + 3, "names": ["element"]}],
                },
            ],
        },
        {"field-id": 4, "names": ["a.b"]},
    ]


def test_names_are_physical_ones() -> None:
    version = metadata(
        mapped("new", 1, "old"), mapped("s", 2, "col-2", struct(mapped("x", 3, "col-3"))), mode="id"
    )
    assert mapping(version) == [
        {"field-id": 1, "names": ["old"]},
        {"field-id": 2, "names": ["col-2"], "fields": [{"field-id": 3, "names": ["col-3"]}]},
    ]


def test_a_new_column_does_not_read_what_a_dropped_one_of_its_name_left() -> None:
    first = metadata(field("a"), field("b"))
    last = metadata(mapped("b", 2, "b"), mapped("a", 3, "col-3"), mode="name")
    for history in ((first, last), (last,)):
        listed = {name: found["field-id"] for found in mapping(*history) for name in found["names"]}
        assert listed["col-3"] == 3
        assert listed.get("a") in (None, 1, HIGH)


def test_columns_that_are_gone_stay_listed() -> None:
    first = metadata(field("s", struct(field("x"), field("y"))), field("gone"))
    last = metadata(field("s", struct(field("y"), field("z"))))
    assert mapping(first, last) == [
        {
            "field-id": 1,
            "names": ["s"],
            "fields": [
                {"field-id": 2, "names": ["y"]},
                {"field-id": 3, "names": ["z"]},
                {"field-id": HIGH, "names": ["x"]},
            ],
        },
        {"field-id": HIGH + 1, "names": ["gone"]},
    ]


def test_older_physical_names_of_an_id_are_listed() -> None:
    assert mapping(*TRAP) == [
        {"field-id": 1, "names": ["id"]},
        {"field-id": 2, "names": ["full_name", "name"]},
        {"field-id": 3, "names": ["amount"]},
        {"field-id": 4, "names": ["region"]},
        {"field-id": 8, "names": ["col-c"]},
        {"field-id": 7, "names": ["col-b", "col-a"]},
    ]
    assert resolved_schemas(translated(*TRAP)) == (True,) * 5


def test_the_newer_schema_decides_whose_name_it_is() -> None:
    first = metadata(field("a"), field("b"))
    on = metadata(mapped("a", 1, "a"), mapped("b", 2, "b"), mode="name")
    anew = metadata(mapped("b", 1, "b"), mode="name")
    assert mapping(first, on, anew) == [{"field-id": 1, "names": ["b", "a"]}]
    assert resolved_schemas(translated(first, on, anew)) == (False, False, True)


def test_an_id_stands_in_one_place() -> None:
    first = metadata(mapped("s", 1, "p", struct(mapped("x", 2, "q"))), mode="name")
    anew = metadata(mapped("x", 2, "q"), mapped("t", 1, "r", array("long")), mode="name")
    assert mapping(first, anew) == [
        {"field-id": 2, "names": ["q"]},
        {"field-id": 1, "names": ["r", "p"], "fields": [{"field-id": HIGH, "names": ["element"]}]},
    ]
    assert resolved_schemas(translated(first, anew)) == (False, True)


def test_a_table_without_columns() -> None:
    assert mapping(metadata()) == []


HIDDEN = FIRST_HIDDEN_ID


def test_partition_columns_are_found_in_no_file() -> None:
    version = metadata(field("p"), field("a"), partitions=["P"])
    assert mapping(version) == [{"field-id": 2, "names": ["a"]}, {"field-id": HIDDEN, "names": ["p"]}]
    assert resolved_schemas(translated(version)) == (True,)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_partition_column_that_is_a_column_of_files_in_other_versions(turns: int) -> None:
    partitioned, plain = metadata(field("a"), field("p"), partitions=["p"]), metadata(field("a"), field("p"))
    history = [partitioned, plain, partitioned, plain][-turns - 1 :]
    found = translated(*history)[history.index(plain)].schema.ids_by_name["p"]
    assert mapping(*history) == [{"field-id": 1, "names": ["a"]}, {"field-id": found, "names": ["p"]}]
    assert all(resolved_schemas(translated(*history)))


def test_one_id_in_both_roles_is_found_in_files() -> None:
    """Those of versions that have it as a partition column do not hold it."""
    columns = [mapped("a", 1, "a"), mapped("p", 2, "p")]
    plain = metadata(*columns, mode="name")
    partitioned = metadata(*columns, partitions=["p"], mode="name")
    for history in [(plain, partitioned), (partitioned, plain)]:
        assert mapping(*history)[1] == {"field-id": 2, "names": ["p"]}
        assert resolved_schemas(translated(*history)) == (True, True)


def test_what_files_hold_beside_columns_has_ids_of_no_column() -> None:
    version = metadata(field("a"), field("s", struct(field("x"))))
    hidden = [("t", "element", "y"), ("s", "z"), ("t",), ("a",), ("A",), ("S", "X"), ("s", "Z", "key")]
    found = json.loads(name_mapping(translated(version), hidden))
    assert found == [
        {"field-id": 1, "names": ["a", "A"]},
        {
            "field-id": 2,
            "names": ["s", "S"],
            "fields": [
                {"field-id": 3, "names": ["x", "X"]},
                {
                    "field-id": HIDDEN,
                    "names": ["z", "Z"],
                    "fields": [{"field-id": HIDDEN - 1, "names": ["key"]}],
                },
            ],
        },
        {
            "field-id": HIDDEN - 2,
            "names": ["t"],
            "fields": [
                {
                    "field-id": HIDDEN - 3,
                    "names": ["element"],
                    "fields": [{"field-id": HIDDEN - 4, "names": ["y"]}],
                }
            ],
        },
    ]


def test_ids_of_columns_are_not_given_to_anything_else() -> None:
    version = metadata(mapped("a", HIDDEN, "a"), mode="name")
    found = json.loads(name_mapping(translated(version), [("b",), ("c",)]))
    assert [each["field-id"] for each in found] == [HIDDEN, HIDDEN - 1, HIDDEN - 2]


NAMES = st.sampled_from(["a", "b", "c", "element"])


@st.composite
def histories(draw: st.DrawFn) -> list[Metadata]:
    history = []
    for _ in range(draw(st.integers(1, 4))):
        is_mapped = draw(st.booleans())
        free = iter(draw(st.permutations(range(1, 12))))

        def column(name: str, inner: list[str], is_mapped: bool = is_mapped, free: object = free) -> dict:
            id = next(free)
            type: object = struct(*(column(each, []) for each in inner)) if inner else array("long")
            return mapped(name, id, name, type) if is_mapped else field(name, type)

        names = draw(st.lists(NAMES, unique=True, min_size=1, max_size=3))
        inner = draw(st.lists(NAMES, unique=True, max_size=2))
        mode = "name" if is_mapped else None
        history.append(metadata(*(column(name, inner) for name in names), mode=mode))
    return history


@given(histories())
@settings(max_examples=60)
def test_readers_find_every_column_of_schemas_that_are_resolved(history: list[Metadata]) -> None:
    schemas = translated(*history)
    text = name_mapping(schemas)
    parse_mapping_from_json(text)
    seen: list[int] = []

    def index(fields: list[dict], owner: tuple[str, ...]) -> dict[tuple[str, ...], int]:
        found: dict[tuple[str, ...], int] = {}
        names = [name for each in fields for name in each["names"]]
        assert len(names) == len(set(names))
        for each in fields:
            seen.append(each["field-id"])
            assert each["names"]
            for name in each["names"]:
                found[(*owner, name)] = each["field-id"]
        for each in fields:
            for name in each["names"]:
                found |= index(each.get("fields", []), (*owner, name))
        return found

    found = index(json.loads(text), ())
    resolved = resolved_schemas(schemas)
    assert resolved[-1]
    for schema, is_resolved in zip(schemas, resolved, strict=True):
        by_path = {path: id for id, path in schema.physical_paths.items()}
        assert is_resolved == all(found.get(path) == id for path, id in by_path.items())
    listed = json.loads(text)
    assert len(all_ids(listed)) == len(set(all_ids(listed)))


def all_ids(fields: list[dict]) -> list[int]:
    return [id for each in fields for id in (each["field-id"], *all_ids(each.get("fields", [])))]
