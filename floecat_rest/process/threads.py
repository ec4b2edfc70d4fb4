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
from collections import defaultdict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, cast

from floecat.errors import StoreUnavailableError, UnavailableError
from floecat.fair_queue import FairQueue, current_account
from floecat.settings import Settings
from floecat.working_memory import current_reservation

__all__ = [
    "HandlerThreads",
    "RequestThreads",
    "in_login_thread",
    "in_storage_thread",
    "name_store",
    "use_storage_threads",
]

_RETRY_AFTER_S = 5

P = ParamSpec("P")
T = TypeVar("T")


_Kind = Literal["store", "storage", "login"]
_kind: ContextVar[_Kind] = ContextVar("kind", default="store")


_store: ContextVar[Callable[[], str | None]] = ContextVar("store", default=lambda: None)


def use_storage_threads() -> None:
    """Work that is submitted in this context from now on may wait for object storage."""
    _kind.set("storage")


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
        return await asyncio.get_running_loop().run_in_executor(None, copy_context().run, work)
    finally:
        _kind.reset(token)


class _Work(NamedTuple):
    """A call for a thread.

    Attributes:
        store: the store that it waits for, if its calls have a share of the threads.
        account: whose it is.
    """

    call: Callable[[], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    store: str | None
    account: Hashable


class _Thread(threading.Thread):
    """A thread that runs one call after the other. While it is idle, it waits for its own lock."""

    def __init__(self, name: str, next_work: Callable[[_Thread, _Work | None], _Work | None]) -> None:
        super().__init__(name=name, daemon=True)
        self._next_work = next_work
        self._is_idle = threading.Lock()
        self._is_idle.acquire()
        self.ends = False

    def wake(self) -> None:
        """Have the thread, which is idle or new, look for work, or end.

        Raises:
            RuntimeError: it is new, and the system starts no more threads.
        """
        if self.ident is None:
            self.start()
        else:
            self._is_idle.release()

    def run(self) -> None:
        """Run calls until the thread is to end."""
        while True:
            work = self._next_work(self, None)
            # an idle thread has no call, so it does not keep the last request alive
            while work is not None:
                _run(work)
                work = self._next_work(self, work)
            if self.ends:
                return
            self._is_idle.acquire()


class HandlerThreads(ThreadPoolExecutor):
    """Executor for the event loop that runs it. Threads start when they are needed, up to a number.

    One idle thread is woken at a time, the one that was busy last. It wakes the next one if there is more to
    do than its own call. So short calls that come together take few threads, which hinder each other less.
    """

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
            most_of_store: how many threads calls of one store (`name_store`) take, fewer beside others;
                None for any number.
            ends_within_s: how long a shutdown waits for threads in all.
        """
        super().__init__(max_threads)
        self._most = max_threads
        self._queue_wait_ms = queue_wait_ms
        self._most_queued = most_queued
        self._most_of_store = most_of_store
        self._counting = threading.Lock()
        self._started: list[_Thread] = []
        self._idle: list[_Thread] = []
        self._is_waking = False
        """Whether a thread was woken or started, and has not looked for work yet."""
        self._queue: FairQueue[_Work] = FairQueue()
        self._in_flight: dict[str, int] = {}
        """Calls of each store that are in the queue or run."""
        self._held_back: defaultdict[str, FairQueue[_Work]] = defaultdict(FairQueue)
        """Calls that wait until others of their store are done."""
        self._closed = False
        self._ends_within_s = ends_within_s
        self._ends_at_s = 0.0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:  # type: ignore[override]
        """Run a function in a thread. To be called in the thread of a running event loop.

        Returns:
            A future that fails with `UnavailableError` where no thread was free in time, or where too many
            calls wait and most of them are of this account.

        Raises:
            UnavailableError: too many calls wait already, or the system starts no thread.
            RuntimeError: the executor is shut down, or there is no running event loop.
        """
        if self._closed:
            raise RuntimeError("the handler threads are shut down")
        call = partial(fn, *args, **kwargs) if args or kwargs else fn
        loop = asyncio.get_running_loop()
        store = None if self._most_of_store is None else _store.get()()
        work = _Work(call, loop.create_future(), loop, store, current_account())
        with self._counting:
            waits = self._append(work)
            thread = self._next_thread()
        if not self._wake(thread):
            if not self._started and self._withdraw(work) is not None:
                raise self._refusal(False, "the system starts no more")
            waits = True
        if waits and self._queue_wait_ms is not None:
            timer = loop.call_later(self._queue_wait_ms / 1000, self._refuse, work)
            work.future.add_done_callback(partial(self._forget, work, timer))
        return work.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """End the threads once what was submitted is done, but leave behind those that hang."""
        if not self._closed:
            self._ends_at_s = time.monotonic() + self._ends_within_s
            with self._counting:
                self._closed = True
                for work in chain.from_iterable(self._held_back.values()):
                    self._put(work)
                self._held_back.clear()
                idle, self._idle = self._idle, []
            for thread in idle:
                thread.wake()
        if wait:
            for thread in self._started:
                thread.join(max(0.0, self._ends_at_s - time.monotonic()))

    @property
    def waiting(self) -> int:
        """Calls that wait for a thread."""
        with self._counting:
            return len(self._queue) + sum(map(len, self._held_back.values()))

    def _append(self, work: _Work) -> bool:
        """Put a call into its queue.

        Returns:
            Whether it waits for another one.
        """
        held_back = work.store is not None and not self._has_share(work.store)
        if held_back:
            ahead = len(self._held_back[str(work.store)])
        else:
            ahead = len(self._queue) - self._is_waking - len(self._idle) - self._most + len(self._started)
        if self._most_queued is not None and ahead >= self._most_queued:
            refusal = self._refusal(held_back, f"floecat.limits.queued-requests ({ahead}) wait for them")
            self._make_room(work, held_back, refusal)
        if held_back:
            self._held_back[str(work.store)].append(work)
        else:
            self._put(work)
        return ahead >= 0

    def _put(self, work: _Work) -> None:
        self._queue.append(work)
        if work.store is not None:
            self._in_flight[work.store] = self._in_flight.get(work.store, 0) + 1

    def _make_room(self, work: _Work, held_back: bool, refusal: UnavailableError) -> None:
        """Refuses a call of the account that keeps the others waiting: the new one, or one in its place."""
        queue = self._held_back[str(work.store)] if held_back else self._queue
        given_up = queue.make_room(work.account)
        if given_up is None:
            raise refusal
        _fail(given_up.future, refusal)
        if not held_back and given_up.store is not None:
            self._leave(given_up.store)

    def _next_thread(self) -> _Thread | None:
        """The thread to wake, if there is work for one and none is about to take it."""
        if self._is_waking or not self._queue:
            return None
        if self._idle:
            self._is_waking = True
            return self._idle.pop()
        if len(self._started) == self._most:
            return None
        self._is_waking = True
        thread = _Thread(f"floecat-{len(self._started)}", self._next_work)
        self._started.append(thread)
        return thread

    def _wake(self, thread: _Thread | None) -> bool:
        """Wake or start a thread, if there is one.

        Returns:
            False if the system starts no more threads. Those that are there take the call when they can.
        """
        try:
            if thread is not None:
                thread.wake()
        except RuntimeError:
            with self._counting:
                self._is_waking = False
                self._started.remove(cast("_Thread", thread))
            return False
        return True

    def _next_work(self, thread: _Thread, done: _Work | None) -> _Work | None:
        """What a thread does next.

        Args:
            thread: the thread.
            done: the call that it has run; None if it was woken.

        Returns:
            The next call; None if the thread is idle now, or is to end.
        """
        with self._counting:
            if done is None:
                self._is_waking = False
            elif done.store is not None:
                self._leave(done.store)
            work = self._queue.popleft() if self._queue else None
            if work is None:
                thread.ends = self._closed
                if not thread.ends:
                    self._idle.append(thread)
                return None
            next_thread = self._next_thread()
        self._wake(next_thread)
        return work

    def _leave(self, store: str) -> None:
        """Let calls that were held back into the queue, as one of a store was done or refused."""
        left = self._in_flight.pop(store) - 1
        if left:
            self._in_flight[store] = left
        # stores with few threads first
        for each in sorted(self._held_back, key=lambda each: self._in_flight.get(each, 0)):
            others = self._held_back[each]
            while others and self._has_share(each):
                self._put(others.popleft())
            if not others:
                del self._held_back[each]

    def _has_share(self, store: str) -> bool:
        """Whether a store may take one more thread: it has none, or fewer than a multiple of those left.

        Alone, a store takes `most_of_store`. However many hang, they leave some, so that another finds one.
        """
        most = self._most_of_store or self._most
        taken, left = self._in_flight.get(store, 0), self._most - sum(self._in_flight.values())
        return not taken or taken * (self._most - most) < most * left

    def _refuse(self, work: _Work) -> None:
        held_back = self._withdraw(work)
        if held_back is not None:
            why = f"none was free for floecat.limits.queue-wait-ms ({self._queue_wait_ms})"
            _fail(work.future, self._refusal(held_back, why))

    def _forget(self, work: _Work, timer: asyncio.TimerHandle, future: asyncio.Future[Any]) -> None:
        """Drop what refers to a call that is done, or whose caller is gone: it holds the whole request."""
        timer.cancel()
        if future.cancelled():
            self._withdraw(work)

    def _withdraw(self, work: _Work) -> bool | None:
        """Take a call out of its queue.

        Returns:
            Whether it was held back; None if it waits no more.
        """
        with self._counting:
            others = self._held_back.get(str(work.store))
            if others is not None and others.remove(work):
                return True
            if not self._queue.remove(work):
                return None
            if work.store is not None:
                self._leave(work.store)
            return False

    def _refusal(self, held_back: bool, why: str) -> UnavailableError:
        whose = "All threads of the service are busy"
        if held_back:
            whose = (
                f"All {self._most_of_store} threads for one storage, or fewer beside others, are busy"
                " (floecat.limits.threads-per-storage-percent)"
            )
        message = f"{whose}, and {why}; nothing was done, try again later"
        return UnavailableError(message, retry_after_s=_RETRY_AFTER_S)


class RequestThreads(ThreadPoolExecutor):
    """Executor of a service: threads for what waits for storage, for an identity provider, or for neither.

    Attributes:
        reads_at_once: whether the event loop may read the store; see `run`.
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

    async def run(self, work: Callable[[], T], *, at_once: bool) -> T:
        """Run work of a request in a thread, or on the event loop, in the context of the caller.

        Args:
            work: the work.
            at_once: whether it reads a few rows; see `run`.

        Raises:
            UnavailableError: no thread was free for it in time, or too many calls wait already.
        """
        if at_once and self.reads_at_once:
            try:
                return work()
            except StoreUnavailableError:
                pass  # a thread can wait for what this one cannot
        return await self.submit(copy_context().run, work)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:  # type: ignore[override]
        """Run a function in a thread of the kind that the context names; see `HandlerThreads.submit`.

        The working memory of the request stays taken until the function has returned, also where the client
        is gone by then.
        """
        reservation = current_reservation()
        if reservation is not None:
            return self._pools[_kind.get()].submit(reservation.keep, partial(fn, *args, **kwargs))
        return self._pools[_kind.get()].submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads once what was submitted is done; see `HandlerThreads.shutdown`."""
        # all of them end within the same time
        for waits in (False, wait):
            for threads in self._pools.values():
                threads.shutdown(waits, cancel_futures=cancel_futures)


def _run(work: _Work) -> None:
    if work.future.done():
        return  # its caller is gone
    try:
        result = work.call()
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
