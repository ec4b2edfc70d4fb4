from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import Counter
from contextlib import suppress
from contextvars import copy_context
from functools import partial

import pytest
from litestar.handlers import HTTPRouteHandler

from floecat.errors import StoreUnavailableError, UnavailableError
from floecat.gate import name_account
from floecat.settings import GatewaySettings, Settings
from floecat.settings.limits import LimitSettings
from floecat.working_memory import WorkingMemory, take_memory
from floecat_rest.app import CONTROLLERS
from floecat_rest.http.options import WAITS_FOR_CATALOGS, WITHOUT_STORAGE
from floecat_rest.process.request_threads import BoundedThreads, RequestThreads


def submit(threads, function, *arguments):
    return threads.submit(partial(function, *arguments))


def run(work, max_threads=4, queue_wait_ms=None):
    async def main():
        threads = BoundedThreads(max_threads, queue_wait_ms=queue_wait_ms)
        try:
            return await work(threads)
        finally:
            threads.shutdown()

    return asyncio.run(main())


def test_results_and_errors_come_back():
    async def work(threads):
        assert await submit(threads, max, 1, 2) == 2
        with pytest.raises(ZeroDivisionError):
            await submit(threads, lambda: 1 / 0)
        with pytest.raises(RuntimeError, match="StopIteration"):
            await submit(threads, next, iter(()))
        return await submit(threads, threading.current_thread)

    assert run(work) is not threading.current_thread()


def test_work_is_done_at_the_same_time_up_to_the_limit():
    running, peak, lock, others = 0, 0, threading.Lock(), threading.Barrier(3, timeout=120)

    def busy():
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
        others.wait()
        with lock:
            running -= 1

    async def work(threads):
        await asyncio.gather(*(submit(threads, busy) for _ in range(12)))

    run(work, max_threads=3)
    assert peak == 3


def test_one_request_at_a_time_keeps_to_few_threads():
    async def work(threads):
        return {await submit(threads, threading.get_ident) for _ in range(200)}

    # A thread may not be back at the queue yet when the next call comes.
    assert len(run(work, max_threads=200)) < 100


def test_work_goes_on_when_its_caller_is_gone_and_does_not_start_later():
    started, go_on, done = threading.Event(), threading.Event(), threading.Event()
    late = []

    async def work(threads):
        first = submit(threads, lambda: started.set() or (go_on.wait(120) and done.set()))
        second = submit(threads, late.append, 1)
        while not started.is_set():
            await asyncio.sleep(0.01)
        first.cancel()
        second.cancel()
        go_on.set()
        return await submit(threads, done.wait, 20)

    assert run(work, max_threads=1)
    assert late == []


def test_shutdown_leaves_behind_a_thread_that_hangs():
    hang, ended = threading.Event(), threading.Event()

    async def main():
        threads = BoundedThreads(1, ends_within_s=0.1)
        threads.submit(lambda: hang.wait(120) and ended.set())
        threads.shutdown()
        threads.shutdown()

    asyncio.run(main())
    assert not ended.is_set()
    hang.set()
    assert ended.wait(120)


def test_shutdown_finishes_what_was_submitted():
    finished = []

    async def work(threads):
        futures = [submit(threads, lambda: time.sleep(0.01) or finished.append(1)) for _ in range(6)]
        threads.shutdown()
        with pytest.raises(RuntimeError, match="shut down"):
            submit(threads, int)
        await asyncio.gather(*futures)

    run(work, max_threads=2)
    assert len(finished) == 6


def test_an_idle_thread_keeps_nothing_alive():
    class Held:
        pass

    async def work(threads):
        held = Held()
        seen = weakref.ref(held)
        await submit(threads, id, held)
        del held
        async with asyncio.timeout(120):
            while seen() is not None:
                await asyncio.sleep(0.01)

    run(work)


def test_a_call_that_finds_no_thread_in_time_is_refused_and_never_runs():
    goes_on, ran = threading.Event(), []

    async def work(threads):
        busy = submit(threads, goes_on.wait, 120)
        with pytest.raises(UnavailableError, match="queue-wait-ms") as error:
            await submit(threads, ran.append, "refused")
        assert error.value.retry_after_s > 0
        goes_on.set()
        assert await busy

    run(work, max_threads=1, queue_wait_ms=20)
    assert ran == []


def test_a_call_that_runs_is_not_refused_however_long_it_takes():
    first_ends, begun, second_ends = threading.Event(), threading.Event(), threading.Event()

    async def work(threads):
        first = submit(threads, first_ends.wait, 120)
        second = submit(threads, lambda: begun.set() or second_ends.wait(120))
        first_ends.set()
        begun.wait(120)  # on the event loop: meanwhile it cannot be refused
        with pytest.raises(UnavailableError, match="queue-wait-ms"):
            await submit(threads, int)
        second_ends.set()
        assert await first
        assert await second

    run(work, max_threads=1, queue_wait_ms=20)


def test_one_call_more_than_may_wait_is_refused_at_once_and_never_runs():
    most, goes_on, ran = LimitSettings().queued_requests, threading.Event(), []

    async def main():
        threads = BoundedThreads(1, queue_wait_ms=60_000, most_queued=most)
        begun = threading.Event()
        busy = submit(threads, lambda: begun.set() or goes_on.wait(120))
        begun.wait(120)
        waiting = [submit(threads, ran.append, number) for number in range(most)]
        with pytest.raises(UnavailableError, match=rf"floecat.limits.queued-requests \({most}\)") as error:
            submit(threads, ran.append, "refused")
        assert error.value.retry_after_s > 0
        goes_on.set()
        await asyncio.gather(busy, *waiting)
        await submit(threads, ran.append, "later")
        threads.shutdown()

    asyncio.run(main())
    assert ran == [*range(most), "later"]


def of_store(threads, store, call, *arguments, account=None):
    """Submits a call that waits for a store."""

    def submitted():
        name_account(account)
        return threads.submit(partial(call, *arguments), store=store)

    return copy_context().run(submitted)


class TestShareOfAStore:
    SETTING = "2 threads .*floecat.limits.threads-per-storage-percent"

    def run(self, work, **bounds):
        async def main():
            threads = BoundedThreads(3, most_of_store=2, **bounds)
            hung = threading.Barrier(3, timeout=120)
            busy = [of_store(threads, "hung", hung.wait) for _ in range(2)]
            waiting = await work(threads, lambda call, *given: of_store(threads, "hung", call, *given))
            hung.wait()
            await asyncio.gather(*busy, *(waiting or ()))
            threads.shutdown()

        asyncio.run(main())

    def test_others_go_on_while_it_hangs(self):
        ran = []

        async def work(threads, submit):
            waiting = [submit(ran.append, number) for number in range(20)]
            for number in range(20):
                assert await of_store(threads, "other", abs, number) == number
            await threads.submit(int)
            assert ran == []
            return waiting

        self.run(work)
        assert ran == list(range(20))

    def test_what_waits_for_it_is_refused_in_time_and_never_runs(self):
        ran = []

        async def work(_, submit):
            with pytest.raises(UnavailableError, match=rf"{self.SETTING}.*queue-wait-ms") as error:
                await submit(ran.append, 1)
            assert error.value.retry_after_s > 0

        self.run(work, queue_wait_ms=20)
        assert ran == []

    def test_one_more_than_may_wait_for_it_is_refused_at_once(self):
        async def work(threads, submit):
            submit(int)
            with pytest.raises(UnavailableError, match=rf"{self.SETTING}.*queued-requests"):
                submit(int)
            assert await of_store(threads, "other", int) == 0

        self.run(work, most_queued=1)

    def test_refused_ones_make_room_for_later_ones(self):
        async def work(_, submit):
            for _ in range(3):
                with pytest.raises(UnavailableError, match="queue-wait-ms"):
                    await submit(int)

        self.run(work, most_queued=1, queue_wait_ms=20)

    def test_accounts_take_turns(self):
        ran = []

        async def work(threads, _):
            return [
                of_store(threads, "hung", ran.append, account, account=account)
                for account in ("a", "a", "a", "b", "c", "b")
            ]

        self.run(work)
        assert ran[:3] == ["a", "b", "c"]
        assert sorted(ran) == list("aaabbc")

    def test_an_account_that_fills_the_queue_makes_room_for_others(self):
        ran = []

        async def work(threads, _):
            mine = [of_store(threads, "hung", ran.append, number, account="a") for number in range(3)]
            others = of_store(threads, "hung", ran.append, "b", account="b")
            with pytest.raises(UnavailableError, match=rf"{self.SETTING}.*queued-requests \(3\)"):
                await mine.pop()
            with pytest.raises(UnavailableError, match="queued-requests"):
                of_store(threads, "hung", ran.append, "too many", account="a")
            return [*mine, others]

        self.run(work, most_queued=3, queue_wait_ms=60_000)
        assert sorted(map(str, ran)) == ["0", "1", "b"]

    def test_a_shutdown_finishes_what_waits_for_it(self):
        ran = []

        async def work(threads, submit):
            waiting = submit(ran.append, 1)
            threads.shutdown(wait=False)
            return [waiting]

        self.run(work)
        assert ran == [1]

    def test_many_at_once_never_take_more_than_their_share(self):
        running, peak, lock = Counter(), Counter(), threading.Lock()
        begun, go_on = threading.Semaphore(0), threading.Event()

        def busy(store):
            with lock:
                running[store] += 1
                peak[store] = max(peak[store], running[store])
            begun.release()
            assert go_on.wait(120)
            with lock:
                running[store] -= 1

        async def main():
            threads = BoundedThreads(5, most_of_store=3)
            calls = [of_store(threads, store, busy, store) for store in "ab" for _ in range(100)]
            for _ in range(5):
                assert begun.acquire(timeout=120)
            assert running == {"a": 3, "b": 2}
            go_on.set()
            await asyncio.gather(*calls)
            threads.shutdown()

        asyncio.run(main())
        assert peak["a"] == 3
        assert peak["b"] <= 3

    def test_another_store_goes_on_while_many_hang(self):
        hung, begun = threading.Event(), threading.Semaphore(0)

        def hang():
            begun.release()
            assert hung.wait(120)

        async def main():
            threads = BoundedThreads(40, most_of_store=30)
            calls = [of_store(threads, f"hung{number % 12}", hang) for number in range(240)]
            for _ in range(36):
                assert begun.acquire(timeout=120)
            for number in range(20):
                assert await of_store(threads, "other", abs, number) == number
            hung.set()
            await asyncio.gather(*calls)
            threads.shutdown()

        asyncio.run(main())


def test_a_call_whose_caller_is_gone_leaves_its_place_to_others():
    goes_on, ran = threading.Event(), []

    async def main():
        threads = BoundedThreads(1, queue_wait_ms=600_000, most_queued=2)
        busy = submit(threads, goes_on.wait, 120)
        for _ in range(100):
            gone = submit(threads, ran.append, "gone")
            gone.cancel()
            await asyncio.sleep(0)
        assert threads.waiting == 0
        others = [submit(threads, ran.append, number) for number in range(2)]
        goes_on.set()
        await asyncio.gather(busy, *others)
        threads.shutdown()

    asyncio.run(main())
    assert ran == [0, 1]


def test_a_call_that_waited_leaves_memory_when_it_is_done():
    class Held:
        pass

    async def work(threads):
        goes_on, held = threading.Event(), Held()
        seen = weakref.ref(held)
        busy = submit(threads, goes_on.wait, 120)
        waiting = submit(threads, id, held)
        del held
        goes_on.set()
        await asyncio.gather(busy, waiting)
        del waiting
        async with asyncio.timeout(120):
            while seen() is not None:
                await asyncio.sleep(0.01)

    run(work, max_threads=1, queue_wait_ms=600_000)


def test_accounts_take_turns_and_make_room_for_each_other():
    goes_on, ran = threading.Event(), []

    async def main():
        threads = BoundedThreads(1, queue_wait_ms=600_000, most_queued=4)
        busy = submit(threads, goes_on.wait, 120)
        mine = [of_store(threads, None, ran.append, number, account="a") for number in range(4)]
        others = [of_store(threads, None, ran.append, "b", account="b")]
        with pytest.raises(UnavailableError, match=r"queued-requests \(4\)"):
            await mine.pop()
        goes_on.set()
        await asyncio.gather(busy, *mine, *others)
        threads.shutdown()

    asyncio.run(main())
    assert ran == [0, "b", 1, 2]


@pytest.mark.parametrize("started", [0, 1])
def test_calls_are_served_again_after_the_system_started_no_threads(started):
    async def main():
        threads = BoundedThreads(3, queue_wait_ms=600_000)
        goes_on = threading.Event()
        busy = [submit(threads, goes_on.wait, 120) for _ in range(started)]
        usual = threading.stack_size(1 << 60)  # more than any system has
        try:
            if started:
                waiting = [submit(threads, abs, -number) for number in range(5)]
            else:
                with pytest.raises(UnavailableError, match="the system starts no more"):
                    submit(threads, int)
                waiting = []
        finally:
            threading.stack_size(usual)
        goes_on.set()
        assert await asyncio.gather(*busy, *waiting) == [True] * started + [*range(5)] * started
        assert await asyncio.gather(*(submit(threads, abs, -number) for number in range(5))) == [*range(5)]
        threads.shutdown()

    asyncio.run(main())


class TestRequestThreads:
    SETTINGS = Settings(
        gateway=GatewaySettings(threads=1),
        limits=LimitSettings(threads_without_storage=20, threads_for_logins=1, queue_wait_ms=50),
    )

    def run(self, work):
        async def main():
            threads = self.threads = RequestThreads(self.SETTINGS)
            try:
                return await work()
            finally:
                threads.shutdown()

        return asyncio.run(main())

    def test_work_without_storage_goes_on_while_storage_hangs(self):
        hangs = threading.Event()

        async def work():
            storage = asyncio.create_task(self.threads.run(lambda: hangs.wait(120), "storage"))
            await asyncio.sleep(0)
            for _ in range(10):
                await self.threads.run(int)
            with pytest.raises(UnavailableError):
                await self.threads.run(int, "storage")
            await self.threads.run(int)
            hangs.set()
            await storage

        self.run(work)

    def test_reads_at_once_run_on_the_event_loop_of_a_local_store(self):
        async def work():
            own = threading.get_ident()
            assert await self.threads.run(threading.get_ident, at_once=True) != own
            self.threads.reads_at_once = True
            assert await self.threads.run(threading.get_ident, at_once=True) == own
            assert await self.threads.run(threading.get_ident, at_once=False) != own

        self.run(work)

    def test_a_read_at_once_that_would_wait_goes_to_a_thread(self):
        async def work():
            self.threads.reads_at_once = True
            own = threading.get_ident()

            def read():
                if threading.get_ident() == own:
                    raise StoreUnavailableError("locked")
                return 1

            assert await self.threads.run(read, at_once=True) == 1
            with pytest.raises(ZeroDivisionError):
                await self.threads.run(lambda: 1 / 0, at_once=True)

        self.run(work)

    def test_work_that_goes_on_without_its_request_gives_its_memory_back_when_it_ends(self):
        memory, mib = WorkingMemory(4 << 20, wait_ms=0), 1 << 20

        async def work():
            begun, goes_on = threading.Event(), threading.Event()

            def read():
                take_memory(2 * mib)
                begun.set()
                assert goes_on.wait(120)
                take_memory(2 * mib)

            async def request():
                with memory.work():
                    await self.threads.run(read, at_once=False)

            stopped = asyncio.create_task(request())
            await asyncio.to_thread(begun.wait, 120)
            stopped.cancel()
            await asyncio.wait([stopped])
            with memory.work() as other, pytest.raises(UnavailableError):
                other.take(4 * mib)
            goes_on.set()
            async with asyncio.timeout(120):
                while True:
                    await asyncio.sleep(0.01)
                    with memory.work() as other, suppress(UnavailableError):
                        other.take(4 * mib)
                        break

        self.run(work)

    def test_an_identity_provider_that_hangs_holds_up_nothing_else(self):
        hangs = threading.Event()

        async def work():
            login = asyncio.create_task(self.threads.run(lambda: hangs.wait(120), "login"))
            await asyncio.sleep(0)
            assert await self.threads.run(int) == 0
            with pytest.raises(UnavailableError):
                await self.threads.run(int, "login")
            hangs.set()
            await login

        self.run(work)

    def test_storage_goes_on_while_other_work_hangs(self):
        hangs = threading.Event()

        async def work():
            hung = [asyncio.create_task(self.threads.run(lambda: hangs.wait(120))) for _ in range(20)]
            await asyncio.sleep(0)
            assert await self.threads.run(lambda: 1, "storage") == 1
            assert await self.threads.run(lambda: 2, "login") == 2
            assert await self.threads.run(lambda: 3, "catalogs") == 3
            hangs.set()
            await asyncio.gather(*hung)

        self.run(work)


def test_operations_that_may_wait_for_storage():
    found = {
        str(handler.operation_id)
        for controller in CONTROLLERS
        for handler in vars(controller).values()
        if isinstance(handler, HTTPRouteHandler)
        and not (vars(controller).get("opt", {}) | dict(handler.opt)).get(WITHOUT_STORAGE)
    }
    in_no_thread = {"getToken", "live", "ready"}
    assert found - in_no_thread - {"None"} == {
        "addConstraints",
        "adoptTable",
        "captureStatistics",
        "commitTransaction",
        "createCatalog",
        "createConnector",
        "createTable",
        "createView",
        "deleteCapturePolicy",
        "deleteConstraints",
        "explainPlan",
        "fetchScanTasks",
        "listCapturedSnapshots",
        "listConstraints",
        "listIndexArtifacts",
        "listStatistics",
        "loadCapturePolicy",
        "listConnectorDifferences",
        "loadConstraints",
        "loadCredentials",
        "loadIndexArtifact",
        "loadStatistics",
        "planTableScan",
        "putIndexArtifacts",
        "putStatistics",
        "registerByLocation",
        "registerTable",
        "registerView",
        "replaceCapturePolicy",
        "replaceConstraints",
        "replaceView",
        "scanConnector",
        "signRequest",
        "signS3Request",
        "startScan",
        "unregisterTable",
        "updateConnector",
        "updateTable",
        "validateConnector",
    }


def test_operations_that_may_wait_for_other_catalogs():
    found = {
        str(handler.operation_id)
        for controller in CONTROLLERS
        for handler in vars(controller).values()
        if isinstance(handler, HTTPRouteHandler) and WAITS_FOR_CATALOGS in handler.opt
    }
    assert found == {
        "adoptTable",
        "listConnectorDifferences",
        "scanConnector",
        "startScan",
        "validateConnector",
    }


def test_the_defaults():
    assert LimitSettings().queue_wait_ms == 10_000
    assert LimitSettings().queued_requests == 1000
    assert LimitSettings().threads_without_storage == 10
    assert LimitSettings().threads_for_logins == 4
    assert LimitSettings().threads_for_catalogs == 16
    assert LimitSettings().threads_per_storage_percent == 75
