"""One budget for the work of all requests: who does not fit waits, then is refused by name."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard

from floecat.errors import UnavailableError
from floecat.gate import name_account
from floecat.settings.limits import LimitSettings
from floecat.store.entries.documents import compress, decompress
from floecat.working_memory import (
    WorkingMemory,
    WorkingMemoryError,
    part_of_work,
    take_memory,
    take_turn,
    without_waiting,
)

MIB = 1 << 20
LONG_MS = 120_000


def free(memory: WorkingMemory, size_bytes: int) -> bool:
    """Whether this much is free at once."""
    try:
        with WorkingMemoryProbe(memory) as probe:
            probe.take(size_bytes)
    except UnavailableError:
        return False
    return True


class WorkingMemoryProbe:
    """A reservation of another request."""

    def __init__(self, memory: WorkingMemory) -> None:
        self._work = memory.work()

    def __enter__(self):
        return self._work.__enter__()

    def __exit__(self, *error):
        return self._work.__exit__(*error)


def test_the_defaults() -> None:
    limits = LimitSettings()
    assert limits.working_memory_bytes == 128 * MIB
    assert limits.working_memory_wait_ms == 10_000


def test_what_does_not_fit_is_refused_by_name() -> None:
    memory = WorkingMemory(8 * MIB, wait_ms=0)
    with memory.work() as held:
        held.take(8 * MIB)
        with memory.work() as other, pytest.raises(UnavailableError, match="working-memory-bytes") as error:
            other.take(MIB + 1)
        assert error.value.retry_after_s > 0
    assert free(memory, 8 * MIB)


def test_a_part_of_a_long_request_gives_back_what_it_took() -> None:
    memory = WorkingMemory(8 * MIB, wait_ms=0)
    with memory.work():
        for _ in range(3):
            with part_of_work():
                take_memory(6 * MIB)
                assert not free(memory, 4 * MIB)
            assert free(memory, 8 * MIB)
    with part_of_work():
        take_memory(100 * MIB)  # commands count nothing


def test_small_requests_are_not_counted() -> None:
    memory = WorkingMemory(8 * MIB, wait_ms=0)
    with memory.work() as held:
        held.take(8 * MIB)
        with memory.work() as small:
            small.take(MIB)
            with pytest.raises(UnavailableError):
                small.take(1)


def test_a_request_that_needs_more_than_all_runs_alone() -> None:
    memory = WorkingMemory(8 * MIB, wait_ms=0)
    with memory.work() as held:
        held.take(800 * MIB)
        held.take(800 * MIB)
        assert not free(memory, 2 * MIB)
    assert free(memory, 8 * MIB)


def test_steps_add_up() -> None:
    memory = WorkingMemory(8 * MIB, wait_ms=0)
    with memory.work() as held:
        for _ in range(50):
            held.take(MIB // 10)
        assert free(memory, 3 * MIB)
        assert not free(memory, 3 * MIB + 1)


@pytest.mark.parametrize("in_loop", [False, True])
def test_one_that_waits_goes_on_when_another_ends(in_loop: bool) -> None:
    memory = WorkingMemory(8 * MIB, wait_ms=LONG_MS)
    first = WorkingMemoryProbe(memory)
    held = first.__enter__()
    held.take(6 * MIB)

    def second() -> None:
        with memory.work() as waiting:
            if in_loop:
                asyncio.run(waiting.take_async(4 * MIB))
            else:
                waiting.take(4 * MIB)

    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(second)
        with pytest.raises(TimeoutError):
            waits.result(0.05)
        first.__exit__(None, None, None)
        waits.result(LONG_MS / 1000)
    assert free(memory, 8 * MIB)


def test_one_who_holds_some_goes_before_those_who_hold_nothing() -> None:
    memory = WorkingMemory(8 * MIB, wait_ms=LONG_MS)
    started = threading.Event()

    def fresh() -> None:
        with memory.work() as all_of_it:
            started.set()
            all_of_it.take(8 * MIB)

    with ThreadPoolExecutor(1) as threads, memory.work() as held:
        held.take(5 * MIB)
        waits = threads.submit(fresh)
        assert started.wait(120)
        with pytest.raises(TimeoutError):
            waits.result(0.05)
        held.take(3 * MIB)  # behind the other it would wait for itself
        held.release()
        waits.result(120)


def test_accounts_that_wait_take_turns() -> None:
    memory = WorkingMemory(4 * MIB, wait_ms=LONG_MS)
    served: list[str] = []

    async def request(account: str) -> None:
        name_account(account)
        with memory.work() as work:
            await work.take_async(4 * MIB)
            served.append(account)

    async def main() -> None:
        with memory.work() as held:
            held.take(4 * MIB)
            waiting = [asyncio.create_task(request(account)) for account in "aaabc"]
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)

    asyncio.run(main())
    assert "".join(served) == "abcaa"


def test_large_answers_are_made_one_at_a_time_and_few_of_an_account_wait() -> None:
    memory = WorkingMemory(4 * MIB, wait_ms=LONG_MS)
    made: list[int] = []

    def answer(number: int) -> None:
        with memory.work():
            take_turn(2 * MIB)
            take_turn(2 * MIB)  # it has it
            made.append(number)

    with memory.work() as first, ThreadPoolExecutor(2) as threads:
        take_turn(2 * MIB)
        waiting = [threads.submit(answer, number) for number in range(2)]
        while memory.turns.waiting(None) < 2:
            time.sleep(0.001)
        with memory.work(), pytest.raises(WorkingMemoryError, match="others wait already"):
            take_turn(2 * MIB)
        with memory.work():
            take_turn(MIB)  # small ones wait for nothing
        assert made == []
        assert memory.turns.waiting("b") == 0
        first.release()
        for each in waiting:
            each.result(120)
    assert sorted(made) == [0, 1]


def test_a_request_that_is_cancelled_leaves_its_place_and_what_it_was_granted() -> None:
    memory = WorkingMemory(8 * MIB, wait_ms=LONG_MS)

    async def cancelled() -> None:
        with memory.work() as waiting:
            task = asyncio.create_task(waiting.take_async(4 * MIB))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    with memory.work() as held:
        held.take(8 * MIB)
        asyncio.run(cancelled())
    with memory.work() as held:
        held.take(8 * MIB)


@pytest.fixture
def full() -> Iterator[WorkingMemory]:
    memory = WorkingMemory(4 * MIB, wait_ms=0)
    with memory.work() as held:
        held.take(4 * MIB)
        yield memory


def test_readers_take_for_the_request_that_their_thread_works_on(full: WorkingMemory) -> None:
    take_memory(100 * MIB)  # takes from the request of the fixture, which has all
    with full.work(), pytest.raises(UnavailableError):
        take_memory(2 * MIB)


def test_a_stored_document_is_inflated_within_the_budget(full: WorkingMemory) -> None:
    body = compress(bytes(2 * MIB))
    assert zstandard.frame_content_size(body) == 2 * MIB
    with full.work(), pytest.raises(UnavailableError):
        decompress(body)
    with WorkingMemory(4 * MIB, wait_ms=0).work():
        assert decompress(body) == bytes(2 * MIB)


def test_outside_of_a_request_nothing_is_counted() -> None:
    take_memory(1 << 40)


def test_one_that_may_not_wait_is_refused_at_once_and_may_wait_later() -> None:
    memory = WorkingMemory(4 * MIB, wait_ms=LONG_MS)
    with memory.work() as held:
        held.take(4 * MIB)
        with memory.work() as other:
            with pytest.raises(WorkingMemoryError), without_waiting():
                take_memory(3 * MIB)
            held.release()
            take_memory(3 * MIB)
            assert other.waits
            with memory.work(), pytest.raises(WorkingMemoryError), without_waiting():
                take_memory(2 * MIB)


def test_without_a_request_there_is_nothing_to_wait_for() -> None:
    with without_waiting():
        take_memory(1 << 40)
