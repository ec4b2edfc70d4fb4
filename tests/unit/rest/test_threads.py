from __future__ import annotations

import asyncio
import threading
import time

import pytest

from floecat_rest.threads import HandlerThreads


def run(work, max_threads=4):
    async def main():
        threads = HandlerThreads(max_threads)
        asyncio.get_running_loop().set_default_executor(threads)
        try:
            return await work(asyncio.get_running_loop(), threads)
        finally:
            threads.shutdown()

    return asyncio.run(main())


def test_results_and_errors_come_back():
    async def work(loop, _):
        assert await loop.run_in_executor(None, max, 1, 2) == 2
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 / 0)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await loop.run_in_executor(None, next, iter(()))
        return await loop.run_in_executor(None, threading.current_thread)

    assert run(work) is not threading.current_thread()


def test_work_is_done_at_the_same_time_up_to_the_limit():
    running, peak, lock = 0, 0, threading.Lock()

    def busy():
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    async def work(loop, _):
        await asyncio.gather(*(loop.run_in_executor(None, busy) for _ in range(12)))

    run(work, max_threads=3)
    assert peak == 3


def test_all_threads_of_a_barrier_meet():
    barrier = threading.Barrier(4, timeout=20)

    async def work(loop, _):
        await asyncio.gather(*(loop.run_in_executor(None, barrier.wait) for _ in range(4)))

    run(work, max_threads=4)


def test_one_request_at_a_time_keeps_to_few_threads():
    async def work(loop, _):
        return {await loop.run_in_executor(None, threading.get_ident) for _ in range(200)}

    # A thread may not be back at the queue yet when the next call comes.
    assert len(run(work, max_threads=40)) < 20


def test_a_caller_that_went_away_does_not_matter():
    done = threading.Event()

    async def work(loop, _):
        future = loop.run_in_executor(None, lambda: time.sleep(0.02) or done.set())
        future.cancel()
        return await loop.run_in_executor(None, done.wait, 20)

    assert run(work)


def test_shutdown_finishes_what_was_submitted():
    finished = []

    async def work(loop, threads):
        futures = [
            loop.run_in_executor(None, lambda: time.sleep(0.01) or finished.append(1)) for _ in range(6)
        ]
        threads.shutdown()
        with pytest.raises(RuntimeError, match="shut down"):
            loop.run_in_executor(None, int)
        await asyncio.gather(*futures)

    run(work, max_threads=2)
    assert len(finished) == 6


def test_an_idle_thread_keeps_nothing_alive():
    import weakref

    class Held:
        pass

    async def work(loop, _):
        held = Held()
        seen = weakref.ref(held)
        await loop.run_in_executor(None, id, held)
        del held
        await asyncio.sleep(0.05)
        return seen()

    assert run(work) is None
