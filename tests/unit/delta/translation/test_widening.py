from __future__ import annotations

from itertools import pairwise

import pytest

from floecat.delta.translation.column_ids import FieldIds
from floecat.delta.translation.translated_schema import translate_schema
from floecat.delta.translation.widening import check_type_changes, check_widening
from floecat.errors import UnsupportedDeltaTableError
from tests.delta_tables import delta_table
from tests.unit.delta.delta_metadata import (
    TRAP,
    array,
    changed,
    field,
    map_of,
    mapped,
    metadata,
    metadata_in_log,
    struct,
)

EXPRESSIBLE = [
    ("byte", "short", False),
    ("byte", "integer", False),
    ("short", "integer", False),
    ("byte", "long", True),
    ("short", "long", True),
    ("integer", "long", True),
    ("float", "double", True),
    ("decimal(5,2)", "decimal(9,2)", True),
    ("void", "string", False),
    ("void", "long", False),
    ("string", "string", False),
]
INEXPRESSIBLE = [
    ("byte", "double"),
    ("integer", "double"),
    ("integer", "decimal(10,0)"),
    ("long", "decimal(20,0)"),
    ("decimal(5,2)", "decimal(7,3)"),
    ("decimal(9,2)", "decimal(5,2)"),
    ("date", "timestamp_ntz"),
    ("long", "integer"),
    ("short", "byte"),
    ("double", "float"),
    ("integer", "string"),
    ("string", "binary"),
]
PLACES = {
    "c": lambda type: type,
    "c.x": lambda type: struct(field("x", type)),
    "c.element": array,
    "c.key": lambda type: map_of(type, "string"),
    "c.value.element": lambda type: map_of("string", array(type)),
}


def widened(before: object, after: object) -> bool:
    ids = FieldIds()
    old = translate_schema(metadata(field("c", before), field("d")), ids)
    return check_widening(old, translate_schema(metadata(field("d"), field("c", after)), ids))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("before", "after", "is_change"), EXPRESSIBLE)
def test_changes_that_iceberg_knows(place: str, before: str, after: str, is_change: bool) -> None:
    assert widened(PLACES[place](before), PLACES[place](after)) is is_change


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("before", "after"), INEXPRESSIBLE)
def test_changes_that_iceberg_does_not_know(place: str, before: str, after: str) -> None:
    with pytest.raises(UnsupportedDeltaTableError) as refusal:
        widened(PLACES[place](before), PLACES[place](after))
    assert refusal.value.message == (
        f"The type of column {place} was changed from {before} to {after}, which Iceberg cannot express"
    )


def test_another_shape_is_no_widening() -> None:
    with pytest.raises(UnsupportedDeltaTableError, match="column c was changed from integer to array"):
        widened("integer", array("integer"))


def test_only_columns_of_one_physical_path_compare() -> None:
    ids = FieldIds()
    old = translate_schema(metadata(mapped("c", 7, "col-a"), mode="name"), ids)
    new = translate_schema(metadata(mapped("c", 7, "col-b", "string"), mode="name"), ids)
    assert not check_widening(old, new)
    added = translate_schema(metadata(mapped("d", 8, "col-a", "string"), mode="name"), ids)
    assert not check_widening(old, added)


def test_a_replaced_table_with_wider_columns() -> None:
    ids = FieldIds()
    schemas = [translate_schema(version, ids) for version in TRAP]
    assert [check_widening(old, new) for old, new in pairwise(schemas)] == [False, False, True, False]


@pytest.mark.parametrize(("before", "after", "is_change"), EXPRESSIBLE)
def test_recorded_changes_that_iceberg_knows(before: str, after: str, is_change: bool) -> None:
    check_type_changes(metadata(field("c", after, **changed((before, after)))))


@pytest.mark.parametrize(("before", "after"), INEXPRESSIBLE)
def test_recorded_changes_that_iceberg_does_not_know(before: str, after: str) -> None:
    column = field(
        "c", array(struct(field("m", map_of("string", after), **changed((before, after, "value")))))
    )
    with pytest.raises(UnsupportedDeltaTableError) as refusal:
        check_type_changes(metadata(field("a"), column))
    assert refusal.value.message == (
        f"The type of column c.element.m.value was changed from {before} to {after},"
        " which Iceberg cannot express"
    )


def test_every_recorded_step_counts() -> None:
    steps = changed(("byte", "integer"), ("integer", "decimal(12,0)"), ("decimal(12,0)", "decimal(14,0)"))
    with pytest.raises(UnsupportedDeltaTableError, match=r"integer to decimal\(12,0\)"):
        check_type_changes(metadata(field("c", map_of("decimal(14,0)", "string"), **steps)))


@pytest.mark.parametrize("name", ["made/sail-tw", "delta/type-widening-nested"])
def test_widened_tables_that_iceberg_can_express(name: str) -> None:
    history = metadata_in_log(delta_table(name))
    ids = FieldIds()
    schemas = [translate_schema(version, ids) for version in history]
    assert check_widening(schemas[0], schemas[-1])
    check_type_changes(history[-1])


@pytest.mark.parametrize("name", ["delta/type-widening", "kernel-rs/type-widening"])
def test_widened_tables_that_iceberg_cannot_express(name: str) -> None:
    history = metadata_in_log(delta_table(name))
    ids = FieldIds()
    schemas = [translate_schema(version, ids) for version in history]
    for check in (
        lambda: check_widening(schemas[0], schemas[-1]),
        lambda: check_type_changes(history[-1]),
    ):
        with pytest.raises(
            UnsupportedDeltaTableError, match="column byte_double was changed from byte to double"
        ):
            check()
