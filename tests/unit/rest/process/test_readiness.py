from __future__ import annotations

import asyncio
import threading

import pytest

from floecat.errors import StoreUnavailableError
from floecat_rest.process.readiness import Readiness


class Store:
    def __init__(self):
        self.begun = threading.Event()
        self.answers = threading.Event()
        self.asked = 0
        self.error = None

    def ping(self):
        self.asked += 1
        self.begun.set()
        assert self.answers.wait(120)
        if self.error:
            raise self.error


def run(work, timeout_ms):
    async def main():
        readiness, store = Readiness(timeout_ms=timeout_ms), Store()
        try:
            await work(readiness, store)
        finally:
            store.answers.set()
            readiness.close()

    asyncio.run(main())


async def outcome_of(probe):
    [outcome] = await asyncio.gather(probe, return_exceptions=True)
    return outcome


def test_a_store_that_hangs_is_reported_in_time_and_asked_once():
    async def work(readiness, store):
        probes = [readiness.check(store) for _ in range(50)]
        outcomes = await asyncio.gather(*probes, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {StoreUnavailableError}
        assert "floecat.store.timeout-ms" in outcomes[0].message
        assert store.begun.wait(120)
        assert store.asked == 1
        store.answers.set()
        async with asyncio.timeout(120):
            while isinstance(await outcome_of(readiness.check(store)), StoreUnavailableError):
                pass

    run(work, timeout_ms=100)


def test_each_probe_learns_whether_the_store_answers():
    async def work(readiness, store):
        store.answers.set()
        await readiness.check(store)
        store.error = StoreUnavailableError("away")
        with pytest.raises(StoreUnavailableError, match="away"):
            await readiness.check(store)
        store.error = None
        await readiness.check(store)
        assert store.asked == 3

    run(work, timeout_ms=120_000)


def test_a_question_is_answered_to_all_who_ask_meanwhile():
    async def work(readiness, store):
        def question():
            store.ping()
            return store.asked

        asked = [asyncio.create_task(readiness.ask(question)) for _ in range(50)]
        await asyncio.to_thread(store.begun.wait)
        store.answers.set()
        assert set(await asyncio.gather(*asked)) == {1}
        assert await readiness.ask(question) == 2

    run(work, timeout_ms=120_000)


def test_a_probe_whose_client_is_gone_does_not_end_the_question():
    async def work(readiness, store):
        gone = asyncio.create_task(readiness.check(store))
        other = asyncio.create_task(readiness.check(store))
        await asyncio.sleep(0)
        gone.cancel()
        store.answers.set()
        await other
        assert store.asked == 1

    run(work, timeout_ms=120_000)
