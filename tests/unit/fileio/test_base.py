from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.fileio import base
from floecat.fileio.base import Counters, Counts, check_range, read_merged

CONTENT = bytes(range(200))


def test_threads_count_together() -> None:
    counters = Counters()
    with ThreadPoolExecutor(8) as threads:
        for _ in range(4000):
            threads.submit(counters.add, "reads")
    counters.add("bytes_read", number=10)
    assert counters.counts == Counts(reads=4000, bytes_read=10)
    assert counters.counts.calls == 4000


def test_counts_can_be_compared_over_time() -> None:
    counters = Counters()
    counters.add("writes")
    before = counters.counts
    counters.add("writes")
    counters.add("lists", number=3)
    assert counters.counts - before == Counts(writes=1, lists=3)


def merged(*wanted: tuple[int, int]) -> tuple[list[bytes], list[tuple[int, int]]]:
    asked: list[tuple[int, int]] = []

    def read(offset: int, length: int) -> bytes:
        asked.append((offset, length))
        return CONTENT[offset : offset + length]

    return read_merged(wanted, read), asked


def test_ranges_that_lie_close_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LARGEST_GAP", 10)
    parts, asked = merged((50, 5), (0, 2), (12, 3), (100, 1), (51, 1), (26, 0), (66, 2))
    assert asked == [(0, 15), (50, 5), (66, 2), (100, 1)]
    assert parts == [
        CONTENT[50:55],
        CONTENT[0:2],
        CONTENT[12:15],
        CONTENT[100:101],
        CONTENT[51:52],
        b"",
        CONTENT[66:68],
    ]


def test_a_range_within_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LARGEST_GAP", 0)
    parts, asked = merged((0, 50), (10, 5), (50, 1))
    assert asked == [(0, 51)]
    assert parts == [CONTENT[:50], CONTENT[10:15], CONTENT[50:51]]


def test_nothing_is_read_for_nothing() -> None:
    assert merged() == ([], [])
    assert merged((5, 0), (0, 0)) == ([b"", b""], [])


@given(st.lists(st.tuples(st.integers(0, 250), st.integers(0, 60)), max_size=12), st.integers(0, 50))
def test_every_part_is_what_the_file_holds_there(wanted: list[tuple[int, int]], gap: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "LARGEST_GAP", gap)
        parts, _ = merged(*wanted)
    assert parts == [CONTENT[offset : offset + length] for offset, length in wanted]


def test_no_range() -> None:
    check_range(0, 0)
    for offset, length in [(-1, 0), (0, -1)]:
        with pytest.raises(ValueError, match="negative"):
            check_range(offset, length)
        with pytest.raises(ValueError, match="negative"):
            merged((offset, length))
