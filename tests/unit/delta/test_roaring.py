from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from floecat.delta.roaring import BitmapError, Extent, bitmap_chunks, bitmap_extent, check_bitmap

BUCKET = 1 << 32
LARGEST = ((1 << 31) - 2 << 32) + BUCKET - 1


def serialized(values: Iterable[int], *, runs: bool = False) -> bytes:
    bitmap = BitMap64(values)
    if runs:
        bitmap.run_optimize()
    return bytes(bitmap.serialize())


def values_of(data: bytes) -> list[int]:
    chunks = list(bitmap_chunks(data))
    assert all(0 < len(chunk) <= 1 << 20 and chunk.dtype == np.int64 for chunk in chunks)
    return [int(value) for chunk in chunks for value in chunk]


def words(*numbers: int) -> bytes:
    """16-bit numbers."""
    return struct.pack(f"<{len(numbers)}H", *numbers)


def doublewords(*numbers: int) -> bytes:
    """32-bit numbers."""
    return struct.pack(f"<{len(numbers)}I", *numbers)


def bitmap(*parts: bytes, key: int = 0, bitmaps: int = 1) -> bytes:
    """A 64-bit bitmap of one 32-bit bitmap, or of several if the parts go on."""
    return struct.pack("<QI", bitmaps, key) + b"".join(parts)


ONE_ARRAY = (doublewords(12346, 1), words(0, 1), doublewords(16), words(3, 9))
RUNS = doublewords(12347) + b"\x01"


SETS = {
    "nothing": [],
    "first row": [0],
    "last row of all": [LARGEST],
    "array": [3, 4, 7, 11, 18, 29],
    "largest array": range(0, 8192, 2),
    "smallest bits": range(0, 8194, 2),
    "bits": range(1, 65536, 3),
    "all of a container": range(65536),
    "run": range(10, 50_000),
    "runs": [*range(10, 500), *range(600, 5_000), 65535],
    "run over containers": range(60_000, 200_000),
    "runs in more than three containers": range(60_000, 400_000),
    "all kinds": [*range(10, 9_000), 65536, 70_000, *range(131_072, 196_608, 3), *range(300_000, 600_000)],
    "several bitmaps": [1, BUCKET - 1, BUCKET, 5 * BUCKET + 7, *range(9 * BUCKET, 9 * BUCKET + 9_000)],
    "end of a container": [65_535, 131_071],
}


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("values", SETS.values(), ids=SETS.keys())
def test_reads_what_croaring_writes(values: Iterable[int], runs: bool) -> None:
    expected = list(values)
    data = serialized(expected, runs=runs)
    assert values_of(data) == expected
    check_bitmap(data)
    assert bitmap_extent(data) == Extent(len(expected), expected[-1] if expected else None)


RANGES = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 3, 77]),
        st.integers(0, 400_000),
        st.integers(1, 9_000),
        st.sampled_from([1, 1, 2, 16, 1000]),
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(ranges=RANGES, runs=st.booleans())
def test_reads_random_bitmaps(ranges: list[tuple[int, int, int, int]], runs: bool) -> None:
    values = BitMap64()
    for key, start, count, step in ranges:
        values |= BitMap64(range(key * BUCKET + start, key * BUCKET + start + count * step, step))
    data = serialized(values, runs=runs)
    assert values_of(data) == list(values)
    assert bitmap_extent(data) == Extent(len(values), max(values) if values else None)


def test_bitmaps_without_containers_are_legal() -> None:
    """Writers that keep one bitmap for each key write those that are empty too."""
    empty = doublewords(12346, 0)
    data = bitmap(empty, doublewords(1), *ONE_ARRAY, doublewords(2), empty, bitmaps=3)
    assert values_of(data) == [BUCKET + 3, BUCKET + 9]
    assert bitmap_extent(data) == Extent(2, BUCKET + 9)
    assert bitmap_extent(bitmap(empty)) == Extent(0, None)


def test_runs_may_touch() -> None:
    data = bitmap(RUNS, words(0, 9, 2, 0, 4, 5, 4))
    assert values_of(data) == list(range(10))
    assert bitmap_extent(data) == Extent(10, 9)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too early"),
        (bytes(7), "too early"),
        (bytes(9), "other bytes"),
        (bitmap(*ONE_ARRAY, b"\x00"), "other bytes"),
        (bitmap(*ONE_ARRAY, bitmaps=2), "too early"),
        (bitmap(*ONE_ARRAY, bitmaps=(1 << 64) - 1), "too early"),
        (bitmap(*ONE_ARRAY, key=(1 << 31) - 1), "out of order"),
        (bitmap(*ONE_ARRAY, key=1 << 31), "out of order"),
        (bitmap(*ONE_ARRAY, doublewords(0), *ONE_ARRAY, bitmaps=2), "out of order"),
        (bitmap(doublewords(12345, 1)), "cookie"),
        (bitmap(doublewords(0)), "cookie"),
        (bitmap(doublewords(12346, 65537)), "too many containers"),
        (bitmap(doublewords(12346, 65536)), "too early"),
        (bitmap(doublewords(12346, 1), words(0, 1), doublewords(17), words(3, 9)), "offsets"),
        (
            bitmap(doublewords(12346, 2), words(1, 0, 0, 0), doublewords(24, 26), words(3, 9)),
            "containers are out of order",
        ),
        (
            bitmap(doublewords(12346, 2), words(1, 0, 1, 0), doublewords(24, 26), words(3, 9)),
            "containers are out of order",
        ),
        (bitmap(doublewords(12346, 1), words(0, 4096), doublewords(16), bytes(8191)), "too early"),
        (bitmap(doublewords(12347 | 7 << 16), b"\xff"), "too early"),
        (bitmap(RUNS, words(0, 0)), "too early"),
        (bitmap(RUNS, words(0, 0, 9, 0, 0)), "too early"),
    ],
)
def test_refuses_what_the_headers_give_away(data: bytes, reason: str) -> None:
    with pytest.raises(BitmapError, match=reason):
        bitmap_extent(data)
    with pytest.raises(BitmapError, match=reason):
        list(bitmap_chunks(data))


def bits(*numbers: int) -> bytes:
    """The content of a container of bits."""
    return sum(1 << number for number in numbers).to_bytes(8192, "little")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bitmap(doublewords(12346, 1), words(0, 1), doublewords(16), words(9, 3)), "out of order"),
        (bitmap(doublewords(12346, 1), words(0, 1), doublewords(16), words(3, 3)), "out of order"),
        (bitmap(doublewords(12346, 1), words(0, 4096), doublewords(16), bits(1, 2)), "header"),
        (bitmap(doublewords(12346, 1), words(0, 65535), doublewords(16), bits(*range(65535))), "header"),
        (bitmap(RUNS, words(0, 5, 1, 0, 4)), "header"),
        (bitmap(RUNS, words(0, 9, 2, 5, 4, 0, 4)), "runs are out of order"),
        (bitmap(RUNS, words(0, 9, 2, 0, 4, 4, 4)), "runs are out of order"),
    ],
)
def test_refuses_contents_that_contradict_themselves(data: bytes, reason: str) -> None:
    with pytest.raises(BitmapError, match=reason):
        list(bitmap_chunks(data))
    with pytest.raises(BitmapError, match=reason):
        check_bitmap(data)


def test_counts_bits_without_the_newest_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(np, "bitwise_count", raising=False)
    head = doublewords(12346, 1), words(0, 4096), doublewords(16)
    check_bitmap(bitmap(*head, bits(*range(4097))))
    with pytest.raises(BitmapError, match="header"):
        check_bitmap(bitmap(*head, bits(*range(4096))))


@pytest.mark.parametrize(
    "data",
    [
        bitmap(RUNS, words(0, 0, 0)),
        bitmap(RUNS, words(0, 9, 1, 65530, 9)),
        bitmap(doublewords(12346, 1), words(0, 4096), doublewords(16), bits()),
    ],
)
def test_refuses_a_last_container_without_a_last_value(data: bytes) -> None:
    with pytest.raises(BitmapError, match="header"):
        bitmap_extent(data)
    with pytest.raises(BitmapError, match="header"):
        list(bitmap_chunks(data))


@pytest.mark.parametrize("name", ["array", "smallest bits", "runs", "several bitmaps", "all kinds"])
def test_refuses_a_bitmap_that_was_cut_off(name: str) -> None:
    data = serialized(SETS[name], runs=True)
    for size in {*range(min(len(data), 300)), len(data) // 2, len(data) - 1}:
        with pytest.raises(BitmapError):
            bitmap_extent(data[:size])


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(SETS)),
    runs=st.booleans(),
    changes=st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=6),
    front=st.booleans(),
)
def test_damage_is_refused_or_leaves_a_bitmap(
    name: str, runs: bool, changes: list[tuple[int, int]], front: bool
) -> None:
    """Nothing but the one error, and no values that the headers did not announce."""
    data = bytearray(serialized(SETS[name], runs=runs))
    for place, value in changes:
        data[place % (min(len(data), 64) if front else len(data))] = value
    check_any(bytes(data))


@settings(max_examples=200, deadline=None)
@given(head=st.sampled_from([b"", bitmap(RUNS), bitmap(doublewords(12346))]), rest=st.binary(max_size=200))
def test_any_bytes_are_refused_or_are_a_bitmap(head: bytes, rest: bytes) -> None:
    check_any(head + rest)


def check_any(data: bytes) -> None:
    try:
        extent = bitmap_extent(data)
        values = values_of(data) if extent.cardinality < 300_000 else []
    except BitmapError:
        # what is not decoded is told all the same, by its headers or by its content
        with pytest.raises(BitmapError):
            check_headers_and_content(data)
        return
    if extent.cardinality < 300_000:
        check_bitmap(data)
    if values:
        assert values == sorted(set(values))
        assert extent == Extent(len(values), values[-1])


def check_headers_and_content(data: bytes) -> None:
    bitmap_extent(data)
    check_bitmap(data)


def test_a_chunk_is_bounded_whatever_the_bitmap_claims() -> None:
    """A hundred kilobytes that stand for four billion values."""
    count = 65536
    data = bitmap(
        doublewords(12347 | count - 1 << 16),
        b"\xff" * (count // 8),
        b"".join(words(key, 65535) for key in range(count)),
        b"".join(doublewords(4 + count // 8 + 8 * count + 6 * key) for key in range(count)),
        words(1, 0, 65535) * count,
    )
    assert bitmap_extent(data) == Extent(1 << 32, (1 << 32) - 1)
    tracemalloc.start()
    try:
        chunks = bitmap_chunks(data)
        assert sum(len(next(chunks)) for _ in range(50)) == 50 * 65536
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000
