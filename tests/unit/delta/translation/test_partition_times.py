from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floecat.delta.translation.partition_times import days_since_epoch, micros_since_epoch

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
@settings(max_examples=50, deadline=None)
def test_any_date(dates: list[date]) -> None:
    assert days(*map(str, dates)) == [day.toordinal() - date(1970, 1, 1).toordinal() for day in dates]


@given(st.lists(st.datetimes(), max_size=20), st.integers(-14 * 60, 14 * 60))
@settings(max_examples=50, deadline=None)
def test_any_timestamp(times: list[datetime], offset_minutes: int) -> None:
    expected = [(time.replace(tzinfo=UTC) - EPOCH) // MICROSECOND for time in times]
    assert micros(*map(str, times)) == expected
    assert micros(*(time.isoformat() for time in times), zoned=False) == expected
    zone = timezone(timedelta(minutes=offset_minutes))
    zoned = [time.replace(tzinfo=zone).isoformat() for time in times]
    assert micros(*zoned) == [micros - offset_minutes * 60_000_000 for micros in expected]
