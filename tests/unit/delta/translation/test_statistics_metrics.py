from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from floecat.delta.translation.column_ids import FieldIds
from floecat.delta.translation.statistics_metrics import file_metrics
from floecat.delta.translation.translated_schema import TranslatedSchema, translate_schema
from floecat.iceberg.file_metrics import FileMetrics
from tests.unit.delta.delta_metadata import array, field, mapped, metadata
from tests.unit.delta.delta_metadata import struct as struct_type


def schema_of(*fields: dict, **options: Any) -> TranslatedSchema:
    return translate_schema(metadata(*fields, **options), FieldIds())


def files(stats: Sequence[Mapping[str, Any] | str | None], parsed: pa.Array | None = None) -> pa.Table:
    texts = [json.dumps(each) if isinstance(each, Mapping) else each for each in stats]
    columns = {"path": [f"f{number}" for number in range(len(texts))], "stats": pa.array(texts, pa.string())}
    return pa.table(columns | ({} if parsed is None else {"stats_parsed": parsed}))


def rows(metrics: FileMetrics, field_id: int) -> list[tuple[Any, ...]]:
    """Value count, null count, lower and upper bound of a column, file by file."""
    column = next(column for column in metrics.columns if column.field_id == field_id)
    unknown = [None] * len(metrics.record_counts)
    parts = (column.value_counts, column.null_value_counts, column.lower_bounds, column.upper_bounds)
    return list(zip(*(unknown if part is None else part.to_pylist() for part in parts), strict=True))


def long(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def stats(rows: int, nulls: int | None, low: Any, high: Any, **more: Any) -> dict[str, Any]:
    """Statistics of one column, a."""
    return {
        "numRecords": rows,
        "minValues": {} if low is None else {"a": low},
        "maxValues": {} if high is None else {"a": high},
        "nullCount": {} if nulls is None else {"a": nulls},
        **more,
    }


def one(type: object, *each: Mapping[str, Any] | str | None) -> list[tuple[Any, ...]]:
    return rows(file_metrics(files(each), schema_of(field("a", type))), 1)


def test_counts_and_bounds_of_a_file() -> None:
    metrics = file_metrics(files([stats(10, 2, 1, 9)]), schema_of(field("a", "long")))
    assert metrics.record_counts.to_pylist() == [10]
    assert rows(metrics, 1) == [(10, 2, long(1), long(9))]
    assert metrics.columns[0].value_counts is metrics.record_counts


@pytest.mark.parametrize(
    ("type", "low", "high", "lower", "upper"),
    [
        ("byte", -128, 127, (-128).to_bytes(4, "little", signed=True), (127).to_bytes(4, "little")),
        ("short", 0, 1, bytes(4), b"\x01" + bytes(3)),
        ("integer", -1, 1, b"\xff" * 4, b"\x01" + bytes(3)),
        ("long", -1, 2**40, b"\xff" * 8, long(2**40)),
        ("float", 1.5, 2.5, struct.pack("<f", 1.5), struct.pack("<f", 2.5)),
        ("double", 1.5, 2.5, struct.pack("<d", 1.5), struct.pack("<d", 2.5)),
        ("boolean", False, True, b"\x00", b"\x01"),
        ("string", "a", "z", b"a", b"z"),
        ("date", "1970-01-01", "1970-01-02", bytes(4), b"\x01" + bytes(3)),
        ("timestamp", "1970-01-01T00:00:00.001Z", "1970-01-01T00:00:00.002Z", long(1000), long(2999)),
        ("timestamp_ntz", "1970-01-01T00:00:00.001", "1970-01-01T00:00:00.002", long(1000), long(2999)),
        ("decimal(9,2)", 1.5, 1.28, b"\x00\x96", b"\x00\x80"),
        ("binary", "a", "b", None, None),
    ],
)
def test_every_type_has_its_encoding(type: str, low: Any, high: Any, lower: bytes, upper: bytes) -> None:
    assert one(type, stats(10, 2, low, high)) == [(10, 2, lower, upper)]


def test_decimals_are_exact_from_the_text() -> None:
    text = '{"numRecords":1,"minValues":{"a":%s},"maxValues":{"a":%s},"nullCount":{"a":0}}'
    smallest, largest = "-99999999999999999999.999999999999999999", "12345678901234567890.123456789012345678"
    (_, _, lower, upper), *_ = one("decimal(38,18)", text % (smallest, largest))
    for bound, exact in ((lower, smallest), (upper, largest)):
        assert int.from_bytes(bound, "big", signed=True) == int(exact.replace(".", ""))


def test_only_a_file_with_known_counts_has_value_counts() -> None:
    assert one(
        "long",
        stats(10, 2, 1, 9),
        {"minValues": {"a": 1}, "maxValues": {"a": 9}, "nullCount": {"a": 3}},
        {"numRecords": 10, "minValues": {"a": 1}},
        {"numRecords": 10},
        None,
    ) == [
        (10, 2, long(1), long(9)),
        (None, 3, long(1), long(9)),
        (None, None, long(1), None),
        (None, None, None, None),
        (None, None, None, None),
    ]


def test_row_counts_are_those_of_the_data_file() -> None:
    metrics = file_metrics(
        files([{"numRecords": 10}, {}, None, "{", {"numRecords": -1}]), schema_of(field("a"))
    )
    assert metrics.record_counts.to_pylist() == [10, None, None, None, None]
    assert metrics.columns == ()


@pytest.mark.parametrize("nulls", [-1, 11, "2", 2.5, None])
def test_null_counts_that_cannot_be_are_unknown(nulls: Any) -> None:
    assert one("long", stats(10, nulls, 1, 9)) == [(None, None, long(1), long(9))]


def test_without_values_there_is_nothing_to_bound() -> None:
    assert one("long", stats(10, 10, 5, 5), stats(0, 0, 5, 5)) == [(10, 10, None, None), (0, 0, None, None)]


def test_wide_bounds_stay_bounds_and_their_null_counts_say_none_or_all() -> None:
    wide = {"tightBounds": False}
    assert one(
        "long",
        stats(10, 0, 1, 9, **wide),
        stats(10, 10, 1, 9, **wide),
        stats(10, 3, 1, 9, **wide),
        stats(10, 3, 1, 9, tightBounds=True),
        stats(10, 3, 1, 9, tightBounds=None),
    ) == [
        (10, 0, long(1), long(9)),
        (10, 10, None, None),
        (None, None, long(1), long(9)),
        (10, 3, long(1), long(9)),
        (10, 3, long(1), long(9)),
    ]


@pytest.mark.parametrize(
    "text", ["", "{", "nonsense", "[]", "null", '{"numRecords":1', '"x"', '{"numRecords":1}}']
)
def test_a_text_that_is_no_statistics_leaves_its_file_without(text: str) -> None:
    good = stats(10, 2, 1, 9)
    expected = (10, 2, long(1), long(9))
    assert one("long", good, text, good) == [expected, (None,) * 4, expected]


@pytest.mark.parametrize("value", ["9", 9.5, 1e300, 2**63, True, [9], {"a": 9}, None])
def test_a_value_of_another_type_is_a_bound_that_is_missing(value: Any) -> None:
    good = stats(10, 2, 1, 9)
    expected = (10, 2, long(1), long(9))
    odd = stats(10, 2, 1, 9, maxValues={"a": value})
    assert one("long", good, odd, good) == [expected, (10, 2, long(1), None), expected]


def test_nested_columns_have_metrics_and_lists_have_none() -> None:
    inner = struct_type(
        field("b.c", "long"), field("d e", struct_type(field("f", "timestamp"))), field("g", array("long"))
    )
    schema = schema_of(field("a", inner), field("h", array("long")))
    names = {leaf.physical_path: leaf.field_id for leaf in schema.leaves}
    values = {"a": {"b.c": 1, "d e": {"f": "1970-01-01T00:00:00.001Z"}}}
    nulls = {"a": {"b.c": 0, "d e": {"f": 4}, "g": 2}, "h": 3}
    text = {"numRecords": 10, "minValues": values, "maxValues": values, "nullCount": nulls}
    metrics = file_metrics(files([text]), schema)
    assert rows(metrics, names["a", "b.c"]) == [(10, 0, long(1), long(1))]
    assert rows(metrics, names["a", "d e", "f"]) == [(10, 4, long(1000), long(1999))]
    assert len(metrics.columns) == 2


def test_statistics_have_physical_names() -> None:
    schema = schema_of(mapped("a", 5, "col-1", "long"), mapped("b", 4, "a", "string"), mode="name")
    text = {"numRecords": 1, "minValues": {"col-1": 7, "a": "x"}, "nullCount": {"col-1": 0, "a": 0}}
    metrics = file_metrics(files([text]), schema)
    assert [column.field_id for column in metrics.columns] == [4, 5]
    assert rows(metrics, 5) == [(1, 0, long(7), None)]
    assert rows(metrics, 4) == [(1, 0, b"x", None)]


def test_partition_columns_have_no_metrics() -> None:
    schema = schema_of(field("a", "long"), field("p", "long"), partitions=["p"])
    text = {"numRecords": 1, "minValues": {"a": 1, "p": 1}, "nullCount": {"a": 0, "p": 0}}
    assert [column.field_id for column in file_metrics(files([text]), schema).columns] == [1]


def test_bounds_have_the_type_that_the_column_has_now() -> None:
    assert one("long", stats(1, 0, 1, 2)) == [(1, 0, long(1), long(2))]
    assert one("decimal(12,2)", stats(1, 0, 1.5, 1.5))[0][2] == b"\x00\x96"


def test_of_a_variant_only_nulls_are_counted() -> None:
    assert one("variant", stats(10, 3, "0S&u501fk+", "0S&u500&]L")) == [(10, 3, None, None)]


def test_a_column_that_was_a_float_holds_floats_as_doubles() -> None:
    schema = schema_of(field("a", "double"))
    schema = replace(schema, leaves=(replace(schema.leaves[0], earlier_types=("float",)),))
    single = float(np.float32(3.4))
    for table in (files([stats(1, 0, 3.4, 3.4)]), files([None], struct_of_doubles(3.4))):
        ((_, _, lower, upper),) = rows(file_metrics(table, schema), 1)
        assert struct.unpack("<dd", lower + upper) == (3.4, single)


def struct_of_doubles(value: float) -> pa.Array:
    return pa.array([{"numRecords": 1, "minValues": {"a": value}, "maxValues": {"a": value}}])


def test_there_may_be_no_files_and_no_columns() -> None:
    metrics = file_metrics(files([]), schema_of(field("a", "long")))
    assert (len(metrics.record_counts), metrics.columns) == (0, ())
    metrics = file_metrics(files([{"numRecords": 3}]), schema_of())
    assert (metrics.record_counts.to_pylist(), metrics.columns) == ([3], ())


PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("tightBounds", pa.bool_()),
        ("minValues", pa.struct([("a", pa.int64()), ("s.t", pa.struct([("d", pa.decimal128(9, 2))]))])),
        ("maxValues", pa.struct([("a", pa.int64()), ("s.t", pa.struct([("d", pa.decimal128(9, 2))]))])),
        ("nullCount", pa.struct([("a", pa.int64()), ("s.t", pa.struct([("d", pa.int64())]))])),
    ]
)


def parsed(number: int, **more: Any) -> dict[str, Any]:
    values = {"a": number, "s.t": {"d": Decimal(number)}}
    counts = {"a": 2, "s.t": {"d": 0}}
    return {"numRecords": 10, "minValues": values, "maxValues": values, "nullCount": counts, **more}


def test_struct_statistics_are_read_as_texts_are() -> None:
    schema = schema_of(field("a", "long"), field("s.t", struct_type(field("d", "decimal(9,2)"))))
    array = pa.array(
        [
            parsed(1),
            parsed(2, tightBounds=False),
            None,
            parsed(4, minValues=None, maxValues={"a": 4, "s.t": None}, nullCount=None),
            {},
        ],
        PARSED,
    )
    metrics = file_metrics(files([None] * 5, array), schema)
    assert metrics.record_counts.to_pylist() == [10, 10, None, 10, None]
    assert rows(metrics, 1) == [
        (10, 2, long(1), long(1)),
        (None, None, long(2), long(2)),
        (None, None, None, None),
        (None, None, None, long(4)),
        (None, None, None, None),
    ]
    inner = schema.leaves[1].field_id
    assert rows(metrics, inner)[:2] == [(10, 0, b"\x64", b"\x64"), (10, 0, b"\x00\xc8", b"\x00\xc8")]
    assert rows(metrics, inner)[2:] == [(None,) * 4] * 3


def test_texts_and_structs_keep_their_places() -> None:
    schema = schema_of(field("a", "long"), field("b", "string"))
    texts = [None, stats(1, 0, 7, 7), None, {"numRecords": 2, "nullCount": {"b": 1}}, None]
    array = pa.array([parsed(1), parsed(2), None, None, parsed(5)], PARSED)
    metrics = file_metrics(files(texts, array), schema)
    assert metrics.record_counts.to_pylist() == [10, 1, None, 2, 10]
    assert [lower for _, _, lower, _ in rows(metrics, 1)] == [long(1), long(7), None, None, long(5)]
    assert [nulls for _, nulls, _, _ in rows(metrics, 2)] == [None, None, None, 1, None]


def test_struct_statistics_of_other_columns_and_types_are_unknown() -> None:
    type = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", pa.struct([("a", pa.string())])),
            ("nullCount", pa.int64()),
        ]
    )
    array = pa.array([{"numRecords": 3, "minValues": {"a": "1"}, "nullCount": 1}], type)
    metrics = file_metrics(files([None], array), schema_of(field("a", "long"), field("b", "long")))
    assert (metrics.record_counts.to_pylist(), metrics.columns) == ([3], ())


def test_numbers_without_sign_that_are_too_large_are_unknown() -> None:
    counts = pa.struct([("a", pa.uint64())])
    names = ["numRecords", "minValues", "maxValues", "nullCount"]
    type = pa.struct([("numRecords", pa.uint64()), *((name, counts) for name in names[1:])])
    array = pa.array(
        [
            {name: {"a": 2**63} for name in names} | {"numRecords": 2**64 - 1},
            {name: {"a": 3} for name in names} | {"numRecords": 7},
        ],
        type,
    )
    metrics = file_metrics(files([None] * 2, array), schema_of(field("a", "long")))
    assert metrics.record_counts.to_pylist() == [None, 7]
    assert rows(metrics, 1) == [(None,) * 4, (7, 3, long(3), long(3))]


def test_many_files_are_read_a_part_at_a_time() -> None:
    schema = schema_of(field("a", "long"), field("b", "string"))
    texts: list[dict[str, Any] | None] = [stats(number, 0, number, number) for number in range(1, 40)]
    texts[7] = None
    texts[25] = {"numRecords": 26, "minValues": {"b": "x"}}
    few = files(texts)
    whole = file_metrics(few, schema)
    repeats = 20_000 // len(few)
    many = file_metrics(pa.concat_tables([few] * repeats), schema)
    assert many.record_counts.to_pylist() == whole.record_counts.to_pylist() * repeats
    for field_id in (1, 2):
        assert rows(many, field_id) == rows(whole, field_id) * repeats
