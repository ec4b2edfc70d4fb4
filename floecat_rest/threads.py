"""The threads that handlers run in.

What may wait for object storage, or for an identity provider, has threads apart from what only asks the
store: while those hang, listings and look-ups go on. One object store, or the local disk, gets a share of the
threads for storage: while it hangs, catalogs on other stores go on. Accounts take turns where calls wait.
What finds no thread in a bounded time, or too many others that wait, is refused and did not run.

The executor of the standard library makes two futures for each call and chains them, which costs as much as a
load from a warm store. This one makes a single future of the event loop: 8 against 42 µs for a call under
load, measured. Event loops take what `submit` returns as it is, where it is a future of theirs already.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from itertools import chain
from queue import SimpleQueue
from typing import Any, Literal, ParamSpec, TypeVar

from litestar.concurrency import sync_to_thread

from floecat.errors import StoreUnavailableError, UnavailableError
from floecat.fair_queue import FairQueue, current_account
from floecat.settings import Settings

__all__ = [
    "AT_ONCE",
    "WITHOUT_STORAGE",
    "HandlerThreads",
    "RequestThreads",
    "in_login_thread",
    "in_storage_thread",
    "name_store",
    "read_at_once",
    "use_storage_threads",
]

WITHOUT_STORAGE = "without_storage"
"""Option of a handler that asks the store alone, or goes on `in_storage_thread`."""

AT_ONCE = "at_once"
"""Option of a handler without storage that reads a few rows by key. A local store answers on the event loop:
switching threads costs several times as much. What would read more there (`Store.check_may_wait`) takes a
thread after all."""

_RETRY_AFTER_S = 5

P = ParamSpec("P")
T = TypeVar("T")


_Kind = Literal["store", "storage", "login", "at once"]
_kind: ContextVar[_Kind] = ContextVar("kind", default="store")


_store: ContextVar[Callable[[], str | None]] = ContextVar("store", default=lambda: None)


def use_storage_threads() -> None:
    """Work that is submitted in this context from now on may wait for object storage."""
    _kind.set("storage")


def read_at_once() -> None:
    """Work that is submitted in this context from now on reads a few rows; see `AT_ONCE`."""
    _kind.set("at once")


def name_store(store: Callable[[], str | None]) -> None:
    """Say which store the work in this context waits for, if it goes to the threads for storage.

    Args:
        store: returns the name of the store, None for none; called when work is submitted.
    """
    _store.set(store)


async def in_storage_thread(work: Callable[[], T]) -> T:
    """Run work that waits for object storage, whatever the rest of the request does.

    Raises:
        UnavailableError: no thread was free for it in time.
    """
    return await _in_thread("storage", work)


async def in_login_thread(work: Callable[[], T]) -> T:
    """Run work that waits for an identity provider.

    Raises:
        UnavailableError: no thread was free for it in time.
    """
    return await _in_thread("login", work)


async def _in_thread(kind: _Kind, work: Callable[[], T]) -> T:
    token = _kind.set(kind)
    try:
        return await sync_to_thread(work)
    finally:
        _kind.reset(token)


class _Work:
    """A call for a thread. It is claimed once: by the thread that runs it, or when it is refused.

    Attributes:
        account: whose it is.
        store: the store that it waits for.
        is_queued: whether the next thread may take it; otherwise it waits until others of its store are done.
    """

    __slots__ = ("_calls", "account", "future", "is_queued", "loop", "store")

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], Any], store: str | None) -> None:
        self.loop = loop
        self.account = current_account()
        self.store = store
        self.is_queued = False
        self.future: asyncio.Future[Any] = loop.create_future()
        self._calls = [call]

    def claim(self) -> Callable[[], Any] | None:
        try:
            return self._calls.pop()
        except IndexError:
            return None


class HandlerThreads(ThreadPoolExecutor):
    """Executor for the event loop that runs it. Threads start when they are needed, up to a number."""

    def __init__(
        self,
        max_threads: int,
        *,
        queue_wait_ms: int | None = None,
        most_queued: int | None = None,
        most_of_store: int | None = None,
        ends_within_s: float = 3.0,
    ) -> None:
        """Sets the bounds.

        Args:
            max_threads: most threads.
            queue_wait_ms: how long a call waits for a thread before it is refused; None for ever.
            most_queued: how many calls wait for a thread before the next one is refused; None for any number.
            most_of_store: how many threads calls of one store (`name_store`) take; None for any number.
            ends_within_s: how long a shutdown waits for threads in all.
        """
        super().__init__(max_threads)
        self._most = max_threads
        self._queue_wait_ms = queue_wait_ms
        self._most_queued = most_queued
        self._most_of_store = max_threads if most_of_store is None else most_of_store
        self._in_flight: Counter[str] = Counter()
        """Calls of each store that are in the queue or run."""
        self._held_back: defaultdict[str, FairQueue[_Work]] = defaultdict(FairQueue)
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._started: list[threading.Thread] = []
        self._waiting = 0
        self._unclaimed = 0
        self._counting = threading.Lock()
        self._closed = False
        self._ends_within_s = ends_within_s
        self._ends_at_s = 0.0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:  # type: ignore[override]
        """Run a function in a thread. To be called in the thread of a running event loop.

        Returns:
            A future that fails with `UnavailableError` where no thread was free in time, or where too many
            calls wait and most of them are of this account.

        Raises:
            UnavailableError: too many calls wait already.
            RuntimeError: the executor is shut down, or there is no running event loop.
        """
        if self._closed:
            raise RuntimeError("the handler threads are shut down")
        call = (lambda: fn(*args, **kwargs)) if args or kwargs else fn
        work = _Work(asyncio.get_running_loop(), call, _store.get()())
        with self._counting:
            held_back = work.store is not None and self._in_flight[work.store] >= self._most_of_store
            lacking = not held_back and self._waiting <= self._queue.qsize()
            starts = lacking and len(self._started) < self._most
            waits = held_back or (lacking and not starts)
            ahead = len(self._held_back[str(work.store)]) if held_back else self._unclaimed
            if waits and ahead == self._most_queued:
                refusal = self._refusal(held_back, f"floecat.limits.queued-requests ({ahead}) wait for them")
                self._make_room(work, held_back, refusal)
            if held_back:
                self._held_back[str(work.store)].append(work)
            else:
                self._put(work)
        if starts:
            thread = threading.Thread(target=self._work, name=f"floecat-{len(self._started)}", daemon=True)
            self._started.append(thread)
            thread.start()
        elif waits and self._queue_wait_ms is not None:
            work.loop.call_later(self._queue_wait_ms / 1000, self._refuse, work)
        return work.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """End the threads once what was submitted is done, but leave behind those that hang."""
        if not self._closed:
            self._closed = True
            self._ends_at_s = time.monotonic() + self._ends_within_s
            with self._counting:
                for work in chain.from_iterable(self._held_back.values()):
                    self._put(work)
                self._held_back.clear()
            for _ in self._started:
                self._queue.put(None)
        if wait:
            for thread in self._started:
                thread.join(max(0.0, self._ends_at_s - time.monotonic()))

    @property
    def waiting(self) -> int:
        """Calls that wait for a thread."""
        with self._counting:
            return self._unclaimed + sum(map(len, self._held_back.values()))

    def _make_room(self, work: _Work, held_back: bool, refusal: UnavailableError) -> None:
        """Refuses a call of the account that keeps the others waiting: the new one, or one in its place."""
        given_up = self._held_back[str(work.store)].make_room(work.account) if held_back else None
        if given_up is None:
            raise refusal
        given_up.claim()
        _fail(given_up.future, refusal)

    def _put(self, work: _Work) -> None:
        work.is_queued = True
        self._unclaimed += 1
        if work.store is not None:
            self._in_flight[work.store] += 1
        self._queue.put(work)

    def _refuse(self, work: _Work) -> None:
        with self._counting:
            held_back = not work.is_queued
            if held_back:
                self._held_back[str(work.store)].remove(work)
        if self._claim(work) is not None:
            why = f"none was free for floecat.limits.queue-wait-ms ({self._queue_wait_ms})"
            _fail(work.future, self._refusal(held_back, why))

    def _refusal(self, held_back: bool, why: str) -> UnavailableError:
        whose = "All threads of the service are busy"
        if held_back:
            whose = (
                f"All {self._most_of_store} threads for one storage are busy"
                " (floecat.limits.threads-per-storage-percent)"
            )
        message = f"{whose}, and {why}; nothing was done, try again later"
        return UnavailableError(message, retry_after_s=_RETRY_AFTER_S)

    def _claim(self, work: _Work) -> Callable[[], Any] | None:
        with self._counting:
            call = work.claim()
            if call is not None and work.is_queued:
                self._unclaimed -= 1
        return call

    def _leave(self, store: str) -> None:
        """Let the next call of a store into the queue, as one was done."""
        with self._counting:
            self._in_flight[store] -= 1
            others = self._held_back[store]
            while others and self._in_flight[store] < self._most_of_store:
                self._put(others.popleft())
            if not others:
                del self._held_back[store]
            if not self._in_flight[store]:
                del self._in_flight[store]

    def _work(self) -> None:
        while True:
            with self._counting:
                self._waiting += 1
            work = self._queue.get()
            with self._counting:
                self._waiting -= 1
            if work is None:
                return
            call = self._claim(work)
            if call is not None and not work.future.done():  # its caller may be gone
                _run(work, call)
            if work.store is not None:
                self._leave(work.store)
            # An idle thread must not keep the last request alive.
            del work, call


class RequestThreads(ThreadPoolExecutor):
    """Executor of a service: threads for what waits for storage, for an identity provider, or for neither.

    Attributes:
        reads_at_once: whether the event loop may read the store; see `AT_ONCE`.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(1)  # its own thread never starts
        self.reads_at_once = False
        limits = settings.limits
        sizes: dict[_Kind, int] = {
            "storage": settings.gateway.threads,
            "store": limits.threads_without_storage,
            "login": limits.threads_for_logins,
        }
        of_storage = max(1, settings.gateway.threads * limits.threads_per_storage_percent // 100)
        self._pools = {
            kind: HandlerThreads(
                size,
                queue_wait_ms=limits.queue_wait_ms,
                most_queued=limits.queued_requests,
                most_of_store=of_storage if kind == "storage" else None,
            )
            for kind, size in sizes.items()
        }

    @property
    def waiting(self) -> dict[str, int]:
        """Calls that wait for a thread, by what the threads are for."""
        return {kind: pool.waiting for kind, pool in self._pools.items()}

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:  # type: ignore[override]
        """Run a function in a thread, as the context of the caller has it; see `HandlerThreads.submit`."""
        kind = _kind.get()
        if kind == "at once":
            if self.reads_at_once:
                done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
                try:
                    done.set_result(fn(*args, **kwargs))
                except StoreUnavailableError:
                    pass  # a thread can wait for what this one cannot
                except Exception as error:  # noqa: BLE001 - the outcome, raised where it is awaited
                    done.set_exception(error)
                if done.done():
                    return done
            kind = "store"
        return self._pools[kind].submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads once what was submitted is done; see `HandlerThreads.shutdown`."""
        # all of them end within the same time
        for waits in (False, wait):
            for threads in self._pools.values():
                threads.shutdown(waits, cancel_futures=cancel_futures)


def _run(work: _Work, call: Callable[[], Any]) -> None:
    try:
        result = call()
    except StopIteration as error:
        # A future cannot carry it: a coroutine would end instead of failing.
        _report(work, _fail, RuntimeError(f"handler raised {type(error).__name__}"))
    except BaseException as error:  # noqa: BLE001
        _report(work, _fail, error)
    else:
        _report(work, _finish, result)


def _report(work: _Work, how: Callable[[asyncio.Future[Any], Any], None], outcome: object) -> None:
    try:
        work.loop.call_soon_threadsafe(how, work.future, outcome)
    except RuntimeError:
        # The loop is closed: the process is ending and nobody waits for the outcome.
        return


def _finish(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
