from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.delta.translation.statistics_bounds import (
    Bounds,
    bounds_from_tokens,
    bounds_from_values,
    bounds_of_longs,
    has_bounds,
    is_long,
)
from floecat.iceberg.schemas.types import parse_primitive

LARGEST = 2**63 - 1
LAST = "\U0010ffff"


def from_tokens(type: str, minimum: str | None, maximum: str | None, **options: bool) -> tuple[Any, Any]:
    minima, maxima = (pa.array([None, token], pa.string()) for token in (minimum, maximum))
    return only(bounds_from_tokens(parse_primitive(type), minima, maxima, **options))


def from_values(type: str, arrow_type: pa.DataType, minimum: Any, maximum: Any, **options: bool) -> Any:
    minima, maxima = (pa.array([None, value], arrow_type) for value in (minimum, maximum))
    bounds = bounds_from_values(parse_primitive(type), minima, maxima, **options)
    return bounds and only(bounds)


def only(bounds: Bounds) -> tuple[Any, Any]:
    (no_lower, lower), (no_upper, upper) = bounds.lower.to_pylist(), bounds.upper.to_pylist()
    assert no_lower is no_upper is None
    return lower, upper


@pytest.mark.parametrize("type", ["binary", "variant", "uuid", "unknown"])
def test_delta_has_no_bounds_of_some_types(type: str) -> None:
    assert not has_bounds(parse_primitive(type))


def test_whole_numbers_are_read_as_such() -> None:
    assert [type for type in ("int", "long", "date", "timestamp") if is_long(parse_primitive(type))] == [
        "int",
        "long",
    ]


def test_an_int_column_holds_ints_only() -> None:
    minima, maxima = pa.array([1, -(2**31), -(2**31) - 1, None]), pa.array([2, 2**31 - 1, 2**31, 3])
    bounds = bounds_of_longs(parse_primitive("int"), minima, maxima)
    assert bounds.lower.type == bounds.upper.type == pa.int32()
    assert bounds.lower.to_pylist() == [1, -(2**31), None, None]
    assert bounds.upper.to_pylist() == [2, 2**31 - 1, None, 3]
    assert bounds_of_longs(parse_primitive("long"), minima, maxima).lower is not None


@pytest.mark.parametrize("type", ["timestamp", "timestamptz"])
def test_timestamps_were_cut_to_milliseconds(type: str) -> None:
    token = '"2020-01-01T20:04:53.080' + ('Z"' if type == "timestamptz" else '"')
    at = (datetime(2020, 1, 1, 20, 4, 53, 80_000) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert from_tokens(type, token, token) == (at, at + 999)
    arrow_type = pa.timestamp("us", "UTC" if type == "timestamptz" else None)
    assert from_values(type, arrow_type, at, at) == (at, at + 999)
    assert from_values(type, pa.timestamp("ms", arrow_type.tz), at // 1000, at // 1000) == (at, at + 999)


def test_the_last_timestamps_stay_in_range() -> None:
    assert from_tokens("timestamptz", None, '"+294247-01-10T04:00:54.775Z"') == (None, LARGEST)
    assert from_values("timestamp", pa.timestamp("us"), None, LARGEST) == (None, LARGEST)
    assert from_values("timestamp", pa.timestamp("ms"), 0, LARGEST) is None


def test_nanoseconds_may_have_run_over() -> None:
    assert from_values("timestamptz", pa.timestamp("ns"), 0, 1) is None


@pytest.mark.parametrize(
    ("minimum", "maximum", "expected"),
    [
        ("1.5", "2.5", (1.5, 2.5)),
        ("-1.0E-5", "1E300", (-1e-5, 1e300)),
        ("1", "2", (1.0, 2.0)),
        ('"-Infinity"', '"Infinity"', (-math.inf, math.inf)),
        ('"Infinity"', '"-Infinity"', (None, None)),
        ("1.5", '"NaN"', (1.5, None)),
        ('"NaN"', '"NaN"', (None, None)),
        ("1e400", "-1e400", (None, None)),
        ("x", "true", (None, None)),
        ('"one"', '"1.5.5"', (None, None)),
    ],
)
def test_doubles(minimum: str, maximum: str, expected: tuple[Any, Any]) -> None:
    assert from_tokens("double", minimum, maximum) == expected
    assert from_tokens("double", "null", '"x"') == (None, None)


@pytest.mark.parametrize("type", ["float", "double"])
@pytest.mark.parametrize("zero", ["0.0", "-0.0", "0"])
def test_zeros_of_either_sign_are_within_bounds(type: str, zero: str) -> None:
    lower, upper = from_tokens(type, zero, zero)
    assert (math.copysign(1, lower), math.copysign(1, upper)) == (-1, 1)
    lower, upper = from_values(type, pa.float32(), float(zero), float(zero))
    assert (math.copysign(1, lower), math.copysign(1, upper)) == (-1, 1)


def test_floats_are_read_as_floats() -> None:
    single = float(np.float32(0.234))
    assert from_tokens("float", "0.234", "0.234") == (single, single)
    assert from_tokens("float", repr(single), repr(single)) == (single, single)


def test_a_double_that_was_a_float_holds_both_readings() -> None:
    single = float(np.float32(3.4))
    assert from_tokens("double", "3.4", "3.4") == (3.4, 3.4)
    assert from_tokens("double", "3.4", "3.4", was_float=True) == (3.4, single)
    assert from_tokens("double", "-3.4", "-3.4", was_float=True) == (-single, -3.4)
    assert from_tokens("double", "1e300", "1e300", was_float=True) == (1e300, 1e300)
    assert from_values("double", pa.float64(), 3.4, 3.4, was_float=True) == (3.4, single)


@given(value=st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_bounds_hold_floats_that_became_doubles(value: float) -> None:
    token = str(np.float32(value))
    lower, upper = from_tokens("double", token, token, was_float=True)
    assert lower <= value <= upper


def test_booleans() -> None:
    assert from_tokens("boolean", "false", "true") == (False, True)
    assert from_tokens("boolean", '"false"', "1") == (None, None)
    assert from_values("boolean", pa.bool_(), False, True) == (False, True)


def test_dates() -> None:
    assert from_tokens("date", '"1969-12-31"', '"2020-01-01"') == (-1, 18262)
    assert from_tokens("date", "18262", '"soon"') == (None, None)
    assert from_values("date", pa.date32(), -1, 1) == (date(1969, 12, 31), date(1970, 1, 2))


@pytest.mark.parametrize(
    ("maximum", "expected"),
    [
        ("zebra", "zebra"),
        ("", ""),
        ("x" * 31, "x" * 31),
        # tie-breakers of Delta, above all that has the prefix unless it is data
        ("x" * 20 + "\x7f", "x" * 20 + "\x7f"),
        ("x" * 32 + "\x7f", "x" * 32 + "\x80"),
        ("x" * 32 + LAST, "x" * 31 + "y"),
        # the old one, which is not above
        ("x" * 32 + "\ufffd", "x" * 31 + "y"),
        ("x" * 31 + "?\ufffd", "x" * 30 + "y"),
        ("?\ufffd", None),
        # a prefix, or all of it
        ("x" * 32, "x" * 31 + "y"),
        ("00000000-0000-0000-0000-00000000000f", "00000000-0000-0000-0000-00000000000g"),
        # no need for more
        ("x" * 1000, "x" * 63 + "y"),
        (LAST * 70, None),
    ],
)
def test_maxima_of_strings_are_above_what_was_cut_off(maximum: str, expected: str | None) -> None:
    assert from_tokens("string", '"a"', json.dumps(maximum, ensure_ascii=False)) == ("a", expected)
    for arrow_type in (pa.string(), pa.large_string()):
        assert from_values("string", arrow_type, "a", maximum) == ("a", expected)


def test_minima_of_strings_are_prefixes() -> None:
    assert from_tokens("string", json.dumps("é" * 100, ensure_ascii=False), '"z"') == ("é" * 64, "z")


def test_strings_are_unescaped() -> None:
    assert from_tokens("string", r'"\u00e9\"\\"', '"\U0001f600"') == ('é"\\', "\U0001f600")


@pytest.mark.parametrize("token", ["5", "true", '"', '"a"b"', '"a', r'"\ud83d"', r'"\x"', "{}"])
def test_what_is_no_string_is_unknown(token: str) -> None:
    assert from_tokens("string", token, token) == (None, None)
    assert from_tokens("date", token, token) == (None, None)


def prefix_of(text: str, length: int) -> str:
    """As many code units as Java's `substring`, without half a pair."""
    return text.encode("utf-16-le")[: 2 * length].decode("utf-16-le", "ignore")


def spark_maximum(text: str, length: int = 32) -> str | None:
    """What Delta 3.3 and later make of a long maximum."""
    end = len(prefix_of(text, length))
    while len(text[:end].encode("utf-16-le")) // 2 <= 2 * length:
        if end >= len(text):
            return text
        if text[end] == LAST:
            end += 1
        else:
            return text[:end] + ("\x7f" if text[end] < "\x7f" else LAST)
    return None


def old_spark_maximum(text: str, length: int = 32) -> str:
    """What Delta before that made of it: by code units, and with a tie-breaker below some of them."""
    units = text.encode("utf-16-le")
    unit = [units[at : at + 2] for at in range(0, len(units), 2)]
    rest = unit[length:]
    more = 0
    while more < len(rest) and int.from_bytes(rest[more], "little") >= 0xFFFD:
        more += 1
    kept = b"".join(unit[: length + more]).decode("utf-16-le", "replace")
    # half a pair becomes a question mark in Java
    if kept.endswith("\ufffd") and not text.startswith(kept):
        kept = kept[:-1] + "?"
    return kept + "\ufffd"


CHARACTERS = st.sampled_from("a~\x7f\x80é\ud7ff\ue000\ufffc\ufffd\uffff\U00010000\U0001f600" + LAST)
MAXIMA: list[Callable[[str], str | None]] = [
    lambda text: text,
    lambda text: prefix_of(text, 32),
    lambda text: prefix_of(text, 64),
    spark_maximum,
    lambda text: old_spark_maximum(text) if len(text.encode("utf-16-le")) > 64 else text,
]


@settings(max_examples=300)
@given(
    text=st.text(CHARACTERS, min_size=14, max_size=80),
    write=st.sampled_from(MAXIMA),
    escape=st.booleans(),
)
def test_bounds_hold_strings_however_a_writer_cuts_them(
    text: str, write: Callable[[str], str | None], escape: bool
) -> None:
    maximum = write(text)
    token = None if maximum is None else json.dumps(maximum, ensure_ascii=escape)
    lower, upper = from_tokens("string", json.dumps(text[:32], ensure_ascii=escape), token)
    assert lower.encode() <= text.encode()
    assert upper is None or upper.encode() >= text.encode()


@given(value=st.datetimes(timezones=st.just(UTC)))
def test_bounds_hold_timestamps(value: datetime) -> None:
    exact = (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    token = json.dumps(value.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
    lower, upper = from_tokens("timestamptz", token, token)
    assert lower <= exact <= upper
    local = json.dumps(value.replace(tzinfo=None).isoformat(timespec="milliseconds"))
    assert from_tokens("timestamp", local, local) == (lower, upper)


@pytest.mark.parametrize(
    ("type", "array"),
    [
        ("int", pa.array(["1"])),
        ("string", pa.array([1])),
        ("double", pa.array([1])),
        ("float", pa.array([1.0])),
        ("boolean", pa.array([1])),
        ("date", pa.array([1])),
        ("timestamp", pa.array(["2020-01-01"])),
        ("decimal(9, 2)", pa.array([1.5])),
    ],
)
def test_values_of_another_type_are_unknown(type: str, array: Any) -> None:
    assert bounds_from_values(parse_primitive(type), array, array) is None


def test_minima_and_maxima_have_one_type() -> None:
    assert bounds_from_values(parse_primitive("long"), pa.array([1]), pa.array([1], pa.int32())) is None
    narrow = pa.array([1, None], pa.int8())
    bounds = bounds_from_values(parse_primitive("long"), narrow, narrow)
    assert bounds is not None
    assert bounds.lower.to_pylist() == [1, None]
