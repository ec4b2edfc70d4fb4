"""Bitmaps of deletion vectors: what writers make of them, what damage does, and how much they may claim."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from floecat.delta.vectors.deletion_vectors import DeletionVector, check, position_chunks
from floecat.errors import InvalidDeltaTableError

MAGIC = bytes.fromhex("d1d33964")
DATA = "part-0.parquet"
BUCKET = 1 << 32
LARGEST = ((1 << 31) - 2 << 32) + BUCKET - 1


def serialized(values: Iterable[int], *, runs: bool = False) -> bytes:
    bitmap = BitMap64(values, optimize=False)
    if runs:
        bitmap.run_optimize()
    return bytes(bitmap.serialize())


def vector(cardinality: int) -> DeletionVector:
    return DeletionVector("u", "^-aqEH.-t@S}K{vb[*k^", 1, 0, cardinality)


def check_bitmap(data: bytes, cardinality: int, rows: int | None = None) -> None:
    check(MAGIC + data, vector(cardinality), DATA, rows)


def values_of(data: bytes) -> list[int]:
    chunks = list(position_chunks(MAGIC + data, vector(0), DATA))
    assert all(0 < len(chunk) <= 1 << 20 and chunk.dtype == np.int64 for chunk in chunks)
    return [int(value) for chunk in chunks for value in chunk]


def refused(reason: str = "its bitmap is damaged") -> pytest.RaisesExc[InvalidDeltaTableError]:
    return pytest.raises(InvalidDeltaTableError, match=f"{DATA} .*: {reason}")


def words(*numbers: int) -> bytes:
    """16-bit numbers."""
    return struct.pack(f"<{len(numbers)}H", *numbers)


def doublewords(*numbers: int) -> bytes:
    """32-bit numbers."""
    return struct.pack(f"<{len(numbers)}I", *numbers)


def bitmap(*parts: bytes, key: int = 0, bitmaps: int = 1) -> bytes:
    """A 64-bit bitmap of one 32-bit bitmap, or of several if the parts go on."""
    return struct.pack("<QI", bitmaps, key) + b"".join(parts)


def bits(*numbers: int) -> bytes:
    """The content of a container of bits."""
    return sum(1 << number for number in numbers).to_bytes(8192, "little")


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
    "several chunks": [5, *range((1 << 20) - 3, (1 << 20) + 9), 5 << 20, *range(6 << 20, 7 << 20, 9)],
}


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("values", SETS.values(), ids=SETS.keys())
def test_bitmaps_of_every_kind_of_container(values: Iterable[int], runs: bool) -> None:
    expected = list(values)
    data = serialized(expected, runs=runs)
    assert values_of(data) == expected
    check_bitmap(data, len(expected), rows=expected[-1] + 1 if expected else 0)
    if expected:
        with refused(f"it deletes row {expected[-1]}, counted from 0"):
            check_bitmap(data, len(expected), rows=expected[-1])


RANGES = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 3, 77]),
        st.integers(0, 400_000),
        st.integers(1, 9_000),
        st.sampled_from([1, 1, 2, 16, 1000]),
    ),
    max_size=6,
)


@settings(max_examples=60)
@given(ranges=RANGES, runs=st.booleans())
def test_random_bitmaps(ranges: list[tuple[int, int, int, int]], runs: bool) -> None:
    values = {
        key * BUCKET + start + number * step for key, start, count, step in ranges for number in range(count)
    }
    data = serialized(values, runs=runs)
    assert values_of(data) == sorted(values)
    check_bitmap(data, len(values))


def test_bitmaps_without_containers_are_legal() -> None:
    """Writers that keep one bitmap for each key write those that are empty too."""
    empty = doublewords(12346, 0)
    data = bitmap(empty, doublewords(1), *ONE_ARRAY, doublewords(2), empty, bitmaps=3)
    assert values_of(data) == [BUCKET + 3, BUCKET + 9]
    check_bitmap(data, 2, rows=BUCKET + 10)
    check_bitmap(bitmap(empty), 0, rows=0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(7),
        bitmap(*ONE_ARRAY, bitmaps=2),
        bitmap(*ONE_ARRAY, bitmaps=(1 << 64) - 1),
        bitmap(*ONE_ARRAY, doublewords(0), *ONE_ARRAY, bitmaps=2),
        bitmap(doublewords(12345, 1)),
        bitmap(doublewords(0)),
        bitmap(doublewords(12346, 65537)),
        bitmap(doublewords(12346, 65536)),
        bitmap(doublewords(12346, 2), words(1, 0, 0, 0), doublewords(24, 26), words(3, 9)),
        bitmap(doublewords(12346, 2), words(1, 0, 1, 0), doublewords(24, 26), words(3, 9)),
        bitmap(doublewords(12346, 1), words(0, 4096), doublewords(16), bytes(8191)),
        bitmap(doublewords(12347 | 7 << 16), b"\xff"),
        bitmap(RUNS, words(0, 0)),
        bitmap(RUNS, words(0, 0, 9, 0, 0)),
        bitmap(doublewords(12346, 1), words(0, 1), doublewords(16), words(9, 3)),
        bitmap(doublewords(12346, 1), words(0, 1), doublewords(16), words(3, 3)),
        bitmap(doublewords(12346, 1), words(0, 4096), doublewords(16), bits(1, 2)),
        bitmap(doublewords(12346, 1), words(0, 4096), doublewords(16), bits()),
        bitmap(doublewords(12346, 1), words(0, 65535), doublewords(16), bits(*range(65535))),
        bitmap(RUNS, words(0, 0, 0)),
        bitmap(RUNS, words(0, 9, 1, 65530, 9)),
        bitmap(RUNS, words(0, 9, 2, 5, 4, 0, 4)),
        bitmap(RUNS, words(0, 9, 2, 0, 4, 4, 4)),
        bitmap(RUNS, words(0, 9, 2, 0, 4, 5, 4)),  # runs that touch are one
    ],
)
def test_refuses_what_contradicts_itself(data: bytes) -> None:
    with refused():
        check_bitmap(data, 2)
    with refused():
        values_of(data)


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (bitmap(*ONE_ARRAY, b"\x00"), [3, 9]),
        (bitmap(doublewords(12346, 1), words(0, 1), doublewords(17), words(3, 9)), [3, 9]),
        (bitmap(RUNS, words(0, 8, 1, 0, 4)), [0, 1, 2, 3, 4]),
    ],
    ids=["bytes after it", "wrong offsets", "wrong count of a run container"],
)
def test_what_pyroaring_does_not_validate_changes_no_row(data: bytes, values: list[int]) -> None:
    check_bitmap(data, len(values))
    assert values_of(data) == values
    with refused("its number of rows is not the one in the log"):
        check_bitmap(data, len(values) + 1)


@pytest.mark.parametrize("key", [(1 << 31) - 1, 1 << 31, (1 << 32) - 1])
def test_refuses_rows_that_java_readers_cannot_count_up_to(key: int) -> None:
    data = bitmap(*ONE_ARRAY, key=key)
    with refused("it deletes row numbers that readers do not support"):
        check_bitmap(data, 2)
    with refused("it deletes row numbers that readers do not support"):
        values_of(data)


@pytest.mark.parametrize("name", ["array", "smallest bits", "runs", "several bitmaps", "all kinds"])
def test_refuses_a_bitmap_that_was_cut_off(name: str) -> None:
    data = serialized(SETS[name], runs=True)
    for size in {*range(min(len(data), 300)), len(data) // 2, len(data) - 1}:
        with refused():
            check_bitmap(data[:size], len(SETS[name]))


def test_damage_is_refused_or_leaves_a_bitmap_of_that_many_rows() -> None:
    """2,000 bitmaps, changed near their start or anywhere, cut off or prolonged."""
    random_ = random.Random(7)
    originals = [(serialized(values, runs=runs), len(values)) for values in SETS.values() for runs in (0, 1)]
    refusals = 0
    for _ in range(2_000):
        original, count = random_.choice(originals)
        data = bytearray(original)
        front = random_.choice((16, 64, len(data)))
        for _ in range(random_.randint(1, 6)):
            data[random_.randrange(min(front, len(data)))] = random_.randrange(256)
        if random_.random() < 0.2:
            del data[random_.randrange(len(data)) :]
        elif random_.random() < 0.1:
            data += random_.randbytes(random_.randint(1, 40))
        refusals += not is_read(bytes(data), count)
    assert 1_000 < refusals < 2_000


@settings(max_examples=200)
@given(head=st.sampled_from([b"", bitmap(RUNS), bitmap(doublewords(12346))]), rest=st.binary(max_size=200))
def test_any_bytes_are_refused_or_are_a_bitmap(head: bytes, rest: bytes) -> None:
    for cardinality in range(3):
        is_read(head + rest, cardinality)


def is_read(data: bytes, cardinality: int) -> bool:
    """Whether a vector of that many rows is read; it has as many then, in order."""
    try:
        check_bitmap(data, cardinality)
    except InvalidDeltaTableError:
        return False
    values = values_of(data)
    assert len(values) == cardinality
    assert values == sorted(set(values))
    return True


def test_a_chunk_is_bounded_whatever_the_bitmap_claims() -> None:
    """A megabyte that stands for four billion values."""
    count = 65536
    data = bitmap(
        doublewords(12347 | count - 1 << 16),
        b"\xff" * (count // 8),
        b"".join(words(key, 65535) for key in range(count)),
        b"".join(doublewords(4 + count // 8 + 8 * count + 6 * key) for key in range(count)),
        words(1, 0, 65535) * count,
    )
    check_bitmap(data, 1 << 32, rows=1 << 32)
    tracemalloc.start()
    try:
        chunks = position_chunks(MAGIC + data, vector(1 << 32), DATA)
        assert sum(len(next(chunks)) for _ in range(50)) == 50 << 20
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000
