from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from floecat.purge.deletion.read_ahead import read_ahead


def test_items_come_in_order_from_another_thread() -> None:
    threads = set()

    def items() -> Iterator[int]:
        for number in range(10_000):
            threads.add(threading.current_thread())
            yield number

    with read_ahead(items()) as numbers:
        assert list(numbers) == list(range(10_000))
    assert threads.isdisjoint({threading.current_thread()})
    assert not any(thread.is_alive() for thread in threads)


def test_what_is_raised_comes_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(700)
        raise ValueError("broken")

    seen: list[int] = []
    with read_ahead(items()) as numbers, pytest.raises(ValueError, match="broken"):
        seen.extend(numbers)
    assert seen == list(range(700))


def test_it_reads_a_bounded_number_ahead_and_ends_with_the_block() -> None:
    read = closed_by = 0

    def items() -> Iterator[int]:
        nonlocal read, closed_by
        try:
            while True:
                read += 1
                yield read
        finally:
            closed_by = threading.get_ident()

    with read_ahead(items()) as numbers:
        assert next(numbers) == 1
    assert read <= 5_000
    assert closed_by not in (0, threading.get_ident())
