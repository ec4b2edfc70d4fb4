from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.delta.translation.column_ids import FieldIds
from floecat.delta.translation.partitions import days_since_epoch, micros_since_epoch, partition_values
from floecat.delta.translation.translated_schema import TranslatedSchema, translate_schema
from floecat.errors import InvalidDeltaTableError
from tests.delta_tables import delta_table
from tests.unit.delta.delta_metadata import field, mapped, metadata, metadata_in_log


def schema_of(type: str) -> TranslatedSchema:
    return translate_schema(metadata(field("p", type), field("x"), partitions=["p"]), FieldIds())


def files(values: Sequence[dict | None], *names: str) -> pa.Table:
    type = pa.struct([(name, pa.string()) for name in names])
    return pa.table({"partition_values": pa.array(values, type)})


def read(type: str, *texts: str | None) -> pa.Array:
    found = partition_values(files([{"p": text} for text in texts], "p"), schema_of(type))
    assert found.null_count == 0
    return found.field("p")


@pytest.mark.parametrize(
    ("type", "texts", "arrow_type", "values"),
    [
        ("byte", ["-128", "127"], pa.int32(), [-128, 127]),
        ("short", ["-32768"], pa.int32(), [-32768]),
        ("integer", ["2147483647", " 7 "], pa.int32(), [2147483647, 7]),
        ("long", ["-9223372036854775808"], pa.int64(), [-(2**63)]),
        ("float", ["0.1", "-Infinity"], pa.float32(), [pa.scalar(0.1, pa.float32()).as_py(), -math.inf]),
        ("double", ["1.0E-5", "Infinity"], pa.float64(), [1e-5, math.inf]),
        ("boolean", ["true", "FALSE"], pa.bool_(), [True, False]),
        ("string", ["a/b c", "é"], pa.string(), ["a/b c", "é"]),
        ("date", ["2021-09-08", "0001-01-01"], pa.date32(), [date(2021, 9, 8), date(1, 1, 1)]),
        (
            "timestamp",
            ["2021-09-08 11:11:11", "2021-09-08T11:11:11.000001Z"],
            pa.timestamp("us", "UTC"),
            [datetime(2021, 9, 8, 11, 11, 11, tzinfo=UTC), datetime(2021, 9, 8, 11, 11, 11, 1, tzinfo=UTC)],
        ),
        (
            "timestamp_ntz",
            ["2021-11-18 02:30:00.123456"],
            pa.timestamp("us"),
            [datetime(2021, 11, 18, 2, 30, 0, 123456)],
        ),
        (
            "decimal(12,3)",
            ["1", "-0.5", "1E+2", "0E-18", "123456789.123", "1.5000"],
            pa.decimal128(12, 3),
            [Decimal(n) for n in ("1.000", "-0.500", "100.000", "0.000", "123456789.123", "1.500")],
        ),
    ],
)
def test_values_are_typed(type: str, texts: list[str], arrow_type: pa.DataType, values: list) -> None:
    found = read(type, *texts, None)
    assert found.type == arrow_type
    assert found.to_pylist() == [*values, None]


def test_not_a_number() -> None:
    assert math.isnan(read("double", "NaN")[0].as_py())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("\u0001\u0002\u0003", b"\x01\x02\x03"),
        ("abc", b"abc"),
        ("é", "é".encode()),
        (r"\u0001", rb"\u0001"),
    ],
)
def test_binary_values(text: str, value: bytes) -> None:
    assert read("binary", text, None).to_pylist() == [value, None]


@pytest.mark.parametrize(
    "type", ["integer", "double", "decimal(5,2)", "boolean", "string", "binary", "date", "timestamp"]
)
def test_null_empty_and_absent_values_are_null(type: str) -> None:
    assert read(type, None, "", None).to_pylist() == [None] * 3
    absent = partition_values(files([{}, None], "other"), schema_of(type)).field("p")
    assert absent.to_pylist() == [None, None]
    assert absent.type == read(type).type
    rows = partition_values(files([None, {"p": None}], "p"), schema_of(type))
    assert rows.field("p").to_pylist() == [None, None]
    assert rows.null_count == 0


def test_words_for_null_are_data_in_a_string_column() -> None:
    texts = ["__HIVE_DEFAULT_PARTITION__", "null", " "]
    assert read("string", *texts).to_pylist() == texts


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("integer", "__HIVE_DEFAULT_PARTITION__"),
        ("integer", "null"),
        ("integer", "1.0"),
        ("integer", "2147483648"),
        ("byte", "128"),
        ("short", "32768"),
        ("double", "secret"),
        ("boolean", "perhaps"),
        ("date", "2021-02-30"),
        ("timestamp", "noon"),
        ("timestamp_ntz", "2021-01-01T00:00:00Z"),
        ("decimal(5,2)", "1.234"),
        ("decimal(5,2)", "12345"),
        ("decimal(5,2)", "1e-99999999"),
        ("decimal(5,2)", "1e99999999"),
        ("decimal(5,2)", "NaN"),
    ],
)
def test_other_values_are_refused_by_column(type: str, text: str) -> None:
    with pytest.raises(InvalidDeltaTableError) as refusal:
        read(type, None, text)
    assert refusal.value.message == f"A partition value of column p is not of its type {type}"
    assert refusal.value.__cause__ is None


def test_columns_are_looked_up_by_their_physical_names() -> None:
    version = metadata(
        mapped("a", 1, "col-1", "string"),
        mapped("b", 2, "a"),
        mapped("c", 3, "c"),
        partitions=["b", "a"],
        mode="id",
    )
    values = [{"col-1": "x", "a": "1"}, {"col-1": "", "a": "2"}, {"col-1": "x", "a": None}]
    found = partition_values(files(values, "col-1", "a"), translate_schema(version, FieldIds()))
    assert found.to_pylist() == [{"b": 1, "a": "x"}, {"b": 2, "a": None}, {"b": None, "a": "x"}]


def test_files_in_many_chunks() -> None:
    chunks = [files([{"p": str(number)} for number in range(3)], "p")] * 3
    found = partition_values(pa.concat_tables(chunks), schema_of("long"))
    assert found.field("p").to_pylist() == [0, 1, 2] * 3
    assert len(partition_values(files([], "p"), schema_of("date"))) == 0
    no_chunks = pa.table({"partition_values": pa.chunked_array([], pa.struct([("p", pa.string())]))})
    assert len(partition_values(no_chunks, schema_of("date"))) == 0


def test_unpartitioned_tables_have_a_row_for_each_file() -> None:
    schema = translate_schema(metadata(field("x")), FieldIds())
    assert partition_values(files([{}, {}]), schema).to_pylist() == [{}, {}]


@pytest.mark.parametrize(
    "name",
    ["golden/data-reader-partition-values/delta", "delta/data-reader-partition-values-column-mapping-name"],
)
def test_values_of_real_tables(name: str) -> None:
    table = delta_table(name)
    schema = translate_schema(metadata_in_log(table)[-1], FieldIds())
    names = [column.physical_name for column in schema.partition_fields]
    lines = (table / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    adds = [json.loads(line)["add"]["partitionValues"] for line in lines if line.startswith('{"add"')]
    rows = partition_values(files(adds, *names), schema).to_pylist()
    [one] = [row for row in rows if row["as_int"] == 1]
    at = datetime(2021, 9, 8, 11, 11, 11, tzinfo=UTC)
    expected = {
        "as_byte": 1,
        "as_boolean": False,
        "as_double": 1.0,
        "as_date": date(2021, 9, 8),
        "as_timestamp": at,
    }
    assert one.items() >= expected.items()
    assert one["as_big_decimal"] == Decimal(1)
    assert dict.fromkeys(one) in rows


@given(
    st.lists(
        st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**8), max_value=10**8)
    )
)
@settings(max_examples=50)
def test_any_decimal_is_exact(values: list[Decimal]) -> None:
    assert read("decimal(12,3)", *map(str, values)).to_pylist() == values


@given(st.lists(st.floats(allow_nan=False)))
@settings(max_examples=50)
def test_any_double_is_exact(values: list[float]) -> None:
    assert read("double", *map(repr, values)).to_pylist() == values


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def days(*texts: str) -> list[int]:
    return list(days_since_epoch(pa.array(texts, pa.string())))


def micros(*texts: str, zoned: bool = True) -> list[int]:
    return list(micros_since_epoch(pa.array(texts, pa.string()), zoned=zoned))


def test_dates() -> None:
    assert days("1970-01-01", "1969-12-31", "2000-02-29", "2021-9-8") == [0, -1, 11016, 18878]
    assert days("0001-01-01", "0000-02-29", "-0001-01-01", "+10000-01-01", "294247-01-10") == [
        -719162,
        -719469,
        -719893,
        2932897,
        106751991,
    ]
    assert days() == []


def test_timestamps() -> None:
    second = 1_000_000
    assert micros("1970-01-01 00:00:01", "1970-01-01 00:00:01.5", "1970-01-01T00:00:01.000001Z") == [
        second,
        second * 3 // 2,
        second + 1,
    ]
    assert micros("1969-12-31 23:59:59.999999", "1970-01-01", "1970-01-01 1:2:3") == [-1, 0, 3723 * second]
    # Digits behind the sixth are cut off, as Spark does.
    assert micros("1970-01-01 00:00:00.123456789") == [123456]


def test_zones() -> None:
    hour = 3_600_000_000
    assert micros("1970-01-01 00:00:00+01:00", "1970-01-01T00:00:00-0530", "1970-01-01T00:00:00Z") == [
        -hour,
        hour * 11 // 2,
        0,
    ]
    assert micros("1970-01-01 01:00:00", zoned=False) == [hour]


def test_the_range_of_64_bits() -> None:
    last, first = "294247-01-07 23:59:59.999999-18:00", "-290308-12-25 00:00:00+18:00"
    assert micros(last, first) == [
        (106_751_989 * 24 + 18) * 3_600_000_000 - 1,
        -(106_751_988 * 24 + 18) * 3_600_000_000,
    ]
    for text in ("294247-01-08 00:00:00", "-290308-12-24 00:00:00", "999999-12-31 00:00:00"):
        with pytest.raises(ValueError, match="out of range"):
            micros(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1970",
        "1970-13-01",
        "1970-00-01",
        "2001-02-29",
        "1900-02-29",
        "1970-04-31",
        "1970-01-00",
        " 1970-01-01",
        "1970-01-01 00:00:00",
        "1234567-01-01",
        "١٩٧٠-01-01",
        "1970-01-01\n",
    ],
)
def test_no_dates(text: str) -> None:
    with pytest.raises(ValueError, match=r"date|calendar"):
        days("1970-01-01", text)


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01 24:00:00",
        "1970-01-01 00:60:00",
        "1970-01-01 00:00:60",
        "1970-01-01 00:00",
        "1970-01-01Z",
        "1970-01-01 00:00:00.",
        "1970-01-01 00:00:00.1234567890",
        "1970-01-01 00:00:00 Z",
        "1970-01-01 00:00:00+19:00",
        "1970-01-01 00:00:00+01:60",
        "today",
    ],
)
def test_no_timestamps(text: str) -> None:
    with pytest.raises(ValueError, match=r"timestamp|time of the day"):
        micros("1970-01-01 00:00:00", text)


def test_a_zone_where_none_may_be() -> None:
    with pytest.raises(ValueError, match="zone"):
        micros("1970-01-01T00:00:00Z", zoned=False)


@given(st.lists(st.dates(), max_size=20))
@settings(max_examples=50)
def test_any_date(dates: list[date]) -> None:
    assert days(*map(str, dates)) == [day.toordinal() - date(1970, 1, 1).toordinal() for day in dates]


@given(st.lists(st.datetimes(), max_size=20), st.integers(-14 * 60, 14 * 60))
@settings(max_examples=50)
def test_any_timestamp(times: list[datetime], offset_minutes: int) -> None:
    expected = [(time.replace(tzinfo=UTC) - EPOCH) // MICROSECOND for time in times]
    assert micros(*map(str, times)) == expected
    assert micros(*(time.isoformat() for time in times), zoned=False) == expected
    zone = timezone(timedelta(minutes=offset_minutes))
    zoned = [time.replace(tzinfo=zone).isoformat() for time in times]
    assert micros(*zoned) == [micros - offset_minutes * 60_000_000 for micros in expected]
