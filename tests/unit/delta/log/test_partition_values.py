from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from floecat.delta.log.partition_values import physical_partition_names, texts_of_map, texts_of_struct
from floecat.delta.protocol.actions import Metadata
from floecat.errors import InvalidDeltaTableError
from tests.unit.delta.log_lines import schema_string

MAPS = pa.map_(pa.string(), pa.string())
UTC = dt.UTC


def test_values_of_maps() -> None:
    maps = pa.chunked_array(
        [
            pa.array([[("a", "1"), ("b", None)], [], [("b", ""), ("x", "y"), ("a", "2")]], MAPS),
            pa.array([None, [("b", "3")], [("skipped", "x")]], MAPS)[:2],
        ]
    )
    found = texts_of_map(maps, ["b", "a", "c"])
    assert found.null_count == 0
    assert found.to_pylist() == [
        {"b": None, "a": "1", "c": None},
        {"b": None, "a": None, "c": None},
        {"b": "", "a": "2", "c": None},
        {"b": None, "a": None, "c": None},
        {"b": "3", "a": None, "c": None},
    ]
    assert texts_of_map(maps[1:2], ["b"]).to_pylist() == [{"b": None}]
    assert texts_of_map(maps[2:4], ["a"]).to_pylist() == [{"a": "2"}, {"a": None}]


def test_no_names_and_no_maps() -> None:
    maps = pa.chunked_array([pa.array([[("a", "1")], None], MAPS)])
    assert texts_of_map(maps, []).to_pylist() == [{}, {}]
    assert texts_of_map(pa.chunked_array([], MAPS), ["a"]).type == pa.struct([("a", pa.string())])


def test_maps_of_other_texts() -> None:
    maps = pa.array([[("a", "1")]], pa.map_(pa.large_string(), pa.large_string()))
    assert texts_of_map(pa.chunked_array([maps]), ["a"]).to_pylist() == [{"a": "1"}]


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("x y", pa.string(), "x y"),
        ("", pa.large_string(), ""),
        (-128, pa.int8(), "-128"),
        (2**63 - 1, pa.int64(), "9223372036854775807"),
        (True, pa.bool_(), "true"),
        (1.5, pa.float32(), "1.5"),
        (float("-inf"), pa.float64(), "-Infinity"),
        (float("nan"), pa.float64(), "NaN"),
        (Decimal("-12.50"), pa.decimal128(10, 2), "-12.50"),
        (dt.date(1582, 10, 5), pa.date32(), "1582-10-05"),
        (
            dt.datetime(2021, 9, 8, 11, 11, 11, 5, UTC),
            pa.timestamp("us", "UTC"),
            "2021-09-08T11:11:11.000005Z",
        ),
        (
            dt.datetime(2021, 9, 8, 11, 11, 11, 0, UTC),
            pa.timestamp("ms", "UTC"),
            "2021-09-08T11:11:11.000000Z",
        ),
        (dt.datetime(2021, 9, 8, 11, 11, 11, 5), pa.timestamp("us"), "2021-09-08 11:11:11.000005"),
        (b"\x01a", pa.binary(), "\x01a"),
        (None, pa.int32(), None),
    ],
)
def test_typed_values_become_the_texts_of_a_map(value: Any, kind: pa.DataType, text: str | None) -> None:
    structs = pa.chunked_array(
        [pa.array([{"p": value, "q": 1}, None], pa.struct([("p", kind), ("q", pa.int8())]))]
    )
    assert texts_of_struct(structs, ["p", "z"]).to_pylist() == [
        {"p": text, "z": None},
        {"p": None, "z": None},
    ]


def test_times_without_a_zone_that_are_in_utc() -> None:
    value = dt.datetime(2021, 9, 8, 11, 11, 11)
    structs = pa.chunked_array(
        [pa.array([{"p": value, "q": value}], pa.struct([(n, pa.timestamp("us")) for n in "pq"]))]
    )
    assert texts_of_struct(structs, ["p", "q"], utc={"p"}).to_pylist() == [
        {"p": "2021-09-08T11:11:11.000000Z", "q": "2021-09-08 11:11:11.000000"}
    ]


def test_binary_values_that_are_no_text() -> None:
    structs = pa.chunked_array([pa.array([{"p": b"\xff"}])])
    with pytest.raises(pa.ArrowInvalid):
        texts_of_struct(structs, ["p"])


MAPPED = {"delta.columnMapping.physicalName": "col-1", "delta.columnMapping.id": 4}


def test_names_of_a_table_without_mapping() -> None:
    schema = schema_string("a", "b", "c", b=MAPPED)
    assert physical_partition_names(Metadata("id", schema, ("c", "b"))) == ("c", "b")
    assert physical_partition_names(Metadata("id", schema, ())) == ()


@pytest.mark.parametrize("mode", ["name", "id", "NAME"])
def test_names_of_a_mapped_table(mode: str) -> None:
    metadata = Metadata("id", schema_string("a", "b", b=MAPPED), ("b",), {"delta.columnMapping.mode": mode})
    assert physical_partition_names(metadata) == ("col-1",)


def test_a_mapping_that_was_never_turned_on() -> None:
    metadata = Metadata("id", schema_string("b", b=MAPPED), ("b",), {"delta.columnMapping.mode": "none"})
    assert physical_partition_names(metadata) == ("b",)


def test_broken_metadata() -> None:
    with pytest.raises(InvalidDeltaTableError, match="one column twice"):
        physical_partition_names(Metadata("id", schema_string("a"), ("a", "a")))
    with pytest.raises(InvalidDeltaTableError, match="'z' is not in the schema"):
        physical_partition_names(Metadata("id", schema_string("a"), ("z",)))
    with pytest.raises(InvalidDeltaTableError, match="'a' of a mapped table has no physical name"):
        physical_partition_names(
            Metadata("id", schema_string("a"), ("a",), {"delta.columnMapping.mode": "id"})
        )
    with pytest.raises(InvalidDeltaTableError, match="not valid JSON") as raised:
        physical_partition_names(Metadata("id", "{secret", ("a",)))
    assert "secret" not in raised.value.message
