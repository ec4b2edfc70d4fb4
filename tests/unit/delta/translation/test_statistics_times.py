from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.delta.translation.statistics_times import parse_days, parse_moments

LARGEST, SMALLEST = 2**63 - 1, -(2**63)
EPOCH = datetime(1970, 1, 1)
MINUTE = 60_000_000


def moments(*texts: str | None, zoned: bool = True) -> list[tuple[int | None, int | None]]:
    earliest, latest = parse_moments(pa.array(texts, pa.string()), zoned=zoned)
    return list(zip(earliest.to_pylist(), latest.to_pylist(), strict=True))


def micros(*parts: int) -> int:
    return (datetime(*parts) - EPOCH) // timedelta(microseconds=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-01-01T00:00:00.123Z", micros(2020, 1, 1, 0, 0, 0, 123_000)),
        ("2020-01-01T00:00:00.123456Z", micros(2020, 1, 1, 0, 0, 0, 123_456)),
        ("2020-01-01T00:00:00Z", micros(2020, 1, 1)),
        ("2020-01-01 00:00Z", micros(2020, 1, 1)),
        ("2020-01-01T00:00:00.000+01:00", micros(2019, 12, 31, 23)),
        ("2000-01-01T00:00:00.000-08:00", micros(2000, 1, 1, 8)),
        ("0001-01-01T00:00:00.000Z", micros(1, 1, 1)),
        ("9999-12-31T23:59:59.999Z", micros(9999, 12, 31, 23, 59, 59, 999_000)),
        ("+10000-01-01T00:00:00.000Z", micros(9999, 12, 31) + 86_400_000_000),
        ("0000-12-31T00:00:00.000Z", micros(1, 1, 1) - 86_400_000_000),
        ("-0400-01-01T00:00:00.000Z", micros(1, 1, 1) - (146_097 + 366) * 86_400_000_000),
        ("1900-01-01T00:53:28.000+00:53:28", micros(1900, 1, 1)),
    ],
)
def test_reads_moments(text: str, expected: int) -> None:
    # beside others, since texts of the usual form are read at once
    assert moments(text, "2020-01-01T00:00:00.000Z") == [(expected, expected), (micros(2020, 1, 1),) * 2]
    assert moments("?", text) == [(None, None), (expected, expected)]


@pytest.mark.parametrize(
    "text",
    [
        "2020-01-01 00:00:00",
        "2020-01-01T00:00:00.123",
        "2020-01-01",
        "2020-01-01T00:00",
        "2020-01-01T00:00:00Z",
    ],
)
def test_reads_local_times(text: str) -> None:
    expected = micros(2020, 1, 1, 0, 0, 0, 123_000 if "." in text else 0)
    assert moments(text, zoned=False) == [(expected, expected)]
    assert moments("?", text, zoned=False)[1] == (expected, expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2020",
        "2020-02-30T00:00:00Z",
        "2020-13-01T00:00:00Z",
        "2020-01-01T24:00:00Z",
        "2020-01-01T00:60:00Z",
        "2020-01-01T00:00:60Z",
        "2020-01-01T00:00:00.Z",
        "20200101T000000Z",
        "1577836800000",
        "12345678901-01-01T00:00:00Z",
        "2020-01-01T00:00:00 UTC",
    ],
)
def test_what_is_no_time_is_unknown(text: str) -> None:
    assert moments(text) == moments(text, zoned=False) == [(None, None)]


def test_local_times_are_no_moments_and_offsets_make_no_local_time() -> None:
    assert moments("2020-01-01T00:00:00", "2020-01-01") == [(None, None)] * 2
    assert moments("2020-01-01T00:00:00+01:00", zoned=False) == [(None, None)]


def test_nanoseconds_are_between_two_microseconds() -> None:
    at = micros(1960, 1, 1)
    assert moments("1960-01-01T00:00:00.000001001Z") == [(at + 1, at + 2)]
    assert moments("1960-01-01T00:00:00.000001000Z") == [(at + 1, at + 1)]


def test_offsets_of_local_mean_time_lack_their_seconds() -> None:
    """Los Angeles was 7:52:58 behind until 1883, which writers print as -07:52."""
    at = micros(1850, 1, 1, 7, 52)
    assert moments("1850-01-01T00:00:00.000-07:52") == [(at - MINUTE, at + MINUTE)]
    earliest, latest = moments("1850-01-01T00:00:00.000-07:52", "?")[0]
    assert earliest is not None
    assert latest is not None
    assert earliest <= micros(1850, 1, 1, 7, 52, 58) <= latest
    assert moments("1850-01-01T00:00:00.000Z") == [(micros(1850, 1, 1),) * 2]


def test_moments_out_of_range_are_at_its_end_or_unknown() -> None:
    assert moments("+294247-01-10T04:00:54.775Z") == [(LARGEST - 807, LARGEST - 807)]
    assert moments("+294247-01-10T04:00:54.776Z") == [(None, LARGEST)]
    assert moments("-290308-12-21T19:59:05.225Z") == [(SMALLEST + 808, SMALLEST + 808)]
    assert moments("-290308-12-21T19:59:05.224Z") == [(SMALLEST, None)]
    assert moments("-300000-01-01T00:00:00.000Z") == [(SMALLEST, None)]


@given(
    values=st.lists(st.none() | st.datetimes(), max_size=10),
    separator=st.sampled_from("T "),
    spec=st.sampled_from(["milliseconds", "microseconds"]),
    hours=st.integers(-14, 14),
)
def test_moments_are_within_what_their_texts_mean(
    values: list[datetime | None], separator: str, spec: str, hours: int
) -> None:
    zone = timezone(timedelta(hours=hours))
    texts = [value and value.replace(tzinfo=zone).isoformat(separator, spec) for value in values]
    for value, (earliest, latest) in zip(values, moments(*texts), strict=True):
        if value is None:
            assert (earliest, latest) == (None, None)
            continue
        exact = micros(*value.timetuple()[:6], value.microsecond) - hours * 60 * MINUTE
        cut = exact // 1000 * 1000 if spec == "milliseconds" else exact
        assert earliest is not None
        assert latest is not None
        assert earliest <= cut <= latest <= exact + MINUTE
    local = moments(*[value and value.isoformat(separator, "microseconds") for value in values], zoned=False)
    expected = [value and micros(*value.timetuple()[:6], value.microsecond) for value in values]
    assert local == [(each, each) for each in expected]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("1970-01-01", 0),
        ("2024-02-29", (date(2024, 2, 29) - date(1970, 1, 1)).days),
        ("0001-01-01", (date.min - date(1970, 1, 1)).days),
        ("+10000-01-01", (date.max - date(1970, 1, 1)).days + 1),
        ("0000-12-31", (date.min - date(1970, 1, 1)).days - 1),
        ("5881580-07-11", 2**31 - 1),
        ("5881580-07-12", None),
        ("2023-02-29", None),
        ("20240101", None),
        ("2024-01-01T00:00:00", None),
        ("", None),
        (None, None),
    ],
)
def test_reads_days(text: str | None, day: int | None) -> None:
    assert parse_days(pa.array([text, "1970-01-02"], pa.string())).to_pylist() == [day, 1]


def test_an_offset_of_zero_may_lack_seconds_as_well() -> None:
    at = datetime(1930, 6, 1, tzinfo=UTC)
    zulu, offset = moments("1930-06-01T00:00:00.000Z", "1930-06-01T00:00:00.000+00:00")
    assert zulu == (int(at.timestamp()) * 10**6,) * 2
    assert offset == (zulu[0] - MINUTE, zulu[1] + MINUTE)  # type: ignore[operator]
