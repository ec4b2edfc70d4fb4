"""The threads that handlers run in.

What may wait for object storage, or for an identity provider, has threads apart from what only asks the
store: while those hang, listings and look-ups go on. What finds no thread in a bounded time, or too many
others that wait, is refused and did not run.

The executor of the standard library makes two futures for each call and chains them, which costs as much as a
load from a warm store. This one makes a single future of the event loop: 8 against 42 µs for a call under
load, measured. Event loops take what `submit` returns as it is, where it is a future of theirs already.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, Literal, ParamSpec, TypeVar

from litestar.concurrency import sync_to_thread

from floecat.errors import UnavailableError
from floecat.settings import Settings

__all__ = [
    "WITHOUT_STORAGE",
    "HandlerThreads",
    "RequestThreads",
    "in_login_thread",
    "in_storage_thread",
    "use_storage_threads",
]

WITHOUT_STORAGE = "without_storage"
"""Option of a handler that asks the store alone, or goes on `in_storage_thread`."""

_RETRY_AFTER_S = 5

P = ParamSpec("P")
T = TypeVar("T")


_Kind = Literal["store", "storage", "login"]
_kind: ContextVar[_Kind] = ContextVar("kind", default="store")


def use_storage_threads() -> None:
    """Work that is submitted in this context from now on may wait for object storage."""
    _kind.set("storage")


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
    """A call for a thread. It is claimed once: by the thread that runs it, or when it is refused."""

    __slots__ = ("_calls", "future", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], Any]) -> None:
        self.loop = loop
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
        ends_within_s: float = 3.0,
    ) -> None:
        """Sets the bounds.

        Args:
            max_threads: most threads.
            queue_wait_ms: how long a call waits for a thread before it is refused; None for ever.
            most_queued: how many calls wait for a thread before the next one is refused; None for any number.
            ends_within_s: how long a shutdown waits for threads in all.
        """
        super().__init__(max_threads)
        self._most = max_threads
        self._queue_wait_ms = queue_wait_ms
        self._most_queued = most_queued
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
            A future that fails with `UnavailableError` where no thread was free in time.

        Raises:
            UnavailableError: too many calls wait already.
            RuntimeError: the executor is shut down, or there is no running event loop.
        """
        if self._closed:
            raise RuntimeError("the handler threads are shut down")
        work = _Work(asyncio.get_running_loop(), (lambda: fn(*args, **kwargs)) if args or kwargs else fn)
        with self._counting:
            lacking = self._waiting <= self._queue.qsize()
            full = self._unclaimed == self._most_queued and len(self._started) == self._most
            if not (lacking and full):
                self._unclaimed += 1
        if lacking and full:
            raise UnavailableError(
                "All threads of the service are busy, and floecat.limits.queued-requests"
                f" ({self._most_queued}) wait for them; nothing was done, try again later",
                retry_after_s=_RETRY_AFTER_S,
            )
        if lacking and len(self._started) < self._most:
            thread = threading.Thread(target=self._work, name=f"floecat-{len(self._started)}", daemon=True)
            self._started.append(thread)
            thread.start()
        elif lacking and self._queue_wait_ms is not None:
            work.loop.call_later(self._queue_wait_ms / 1000, self._refuse, work)
        self._queue.put(work)
        return work.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """End the threads once what was submitted is done, but leave behind those that hang."""
        if not self._closed:
            self._closed = True
            self._ends_at_s = time.monotonic() + self._ends_within_s
            for _ in self._started:
                self._queue.put(None)
        if wait:
            for thread in self._started:
                thread.join(max(0.0, self._ends_at_s - time.monotonic()))

    def _refuse(self, work: _Work) -> None:
        if self._claim(work) is not None:
            message = (
                "All threads of the service were busy for floecat.limits.queue-wait-ms"
                f" ({self._queue_wait_ms} ms); nothing was done, try again later"
            )
            _fail(work.future, UnavailableError(message, retry_after_s=_RETRY_AFTER_S))

    def _claim(self, work: _Work) -> Callable[[], Any] | None:
        call = work.claim()
        if call is not None:
            with self._counting:
                self._unclaimed -= 1
        return call

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
            # An idle thread must not keep the last request alive.
            del work, call


class RequestThreads(ThreadPoolExecutor):
    """Executor of a service: threads for what waits for storage, for an identity provider, or for neither."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(1)  # its own thread never starts
        limits = settings.limits
        sizes: dict[_Kind, int] = {
            "storage": settings.gateway.threads,
            "store": limits.threads_without_storage,
            "login": limits.threads_for_logins,
        }
        self._pools = {
            kind: HandlerThreads(size, queue_wait_ms=limits.queue_wait_ms, most_queued=limits.queued_requests)
            for kind, size in sizes.items()
        }

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:  # type: ignore[override]
        """Run a function in a thread, as the context of the caller has it; see `HandlerThreads.submit`."""
        return self._pools[_kind.get()].submit(fn, *args, **kwargs)

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
