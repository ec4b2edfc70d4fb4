"""The threads that requests run in.

What may wait for object storage, for an identity provider, or for other catalogs, has threads apart from
what only asks the store: while those hang, listings and look-ups go on. One object store, or the local disk,
gets a share of the threads for storage: while it hangs, catalogs on other stores go on. Accounts take turns
where calls wait. What finds no thread in a bounded time, or too many others that wait, is refused and did not
run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar

from floecat.errors import StoreUnavailableError, UnavailableError
from floecat.gate import Gate
from floecat.settings import Settings
from floecat.working_memory import current_reservation
from floecat_rest.process.threads import ThreadCall, Threads

__all__ = ["BoundedThreads", "RequestThreads", "WaitsFor"]

WaitsFor: TypeAlias = Literal["store", "storage", "login", "catalogs"]
"""The slowest thing that a call waits for; `catalogs` are those of others."""

_RETRY_AFTER_S: Final = 5

T = TypeVar("T")


class BoundedThreads(Threads):
    """Threads for which calls wait a bounded time."""

    def __init__(
        self,
        most: int,
        *,
        queue_wait_ms: int | None = None,
        most_queued: int | None = None,
        most_of_store: int | None = None,
        ends_within_s: float = 3.0,
    ) -> None:
        """Sets the bounds.

        Args:
            most: most threads.
            queue_wait_ms: how long a call waits for a thread before it is refused; None for ever.
            most_queued: how many calls wait for a thread before the next one is refused; None for any number.
            most_of_store: how many threads calls of one store take, fewer beside others; None for any number.
            ends_within_s: how long a shutdown waits for threads in all.
        """
        gate: Gate[ThreadCall] = Gate(most, most_of_group=most_of_store, most_waiting=most_queued)
        super().__init__(gate, ends_within_s=ends_within_s)
        self._queue_wait_ms = queue_wait_ms
        self._most_queued = most_queued
        self._most_of_store = most_of_store

    def submit(self, function: Callable[[], T], *, store: str | None = None) -> asyncio.Future[T]:
        """Runs a function in a thread. To be called in the thread of a running event loop.

        Args:
            store: the store that it waits for, if it waits for one.

        Returns:
            A future that fails with `UnavailableError` where no thread was free in time, or where too many
            calls wait and most of them are of this account.

        Raises:
            UnavailableError: too many calls wait already, or the system starts no thread.
            RuntimeError: the threads are shut down, or there is no running event loop.
        """
        call = ThreadCall(function, store)
        waits, crowded_out = self.start(call)
        if crowded_out is not None:
            refusal = self._refusal(f"floecat.limits.queued-requests ({self._most_queued}) wait for them")
            if crowded_out is call:
                raise refusal
            crowded_out.fail(refusal)
        if waits and self._queue_wait_ms is not None:
            timer = call.loop.call_later(self._queue_wait_ms / 1000, self._refuse, call)
            call.future.add_done_callback(partial(self._forget, call, timer))
        return call.future

    def _refuse(self, call: ThreadCall) -> None:
        refusal = self._refusal(f"none was free for floecat.limits.queue-wait-ms ({self._queue_wait_ms})")
        if self.withdraw(call):
            call.fail(refusal)

    def _forget(self, call: ThreadCall, timer: asyncio.TimerHandle, future: asyncio.Future[Any]) -> None:
        """Drops what refers to a call that is done, or whose caller is gone: it holds the whole request."""
        timer.cancel()
        if future.cancelled():
            self.withdraw(call)

    def _refusal(self, why: str) -> UnavailableError:
        whose = "All threads of the service are busy"
        if self._most_of_store is not None and self.gate.free:
            whose = (
                f"All {self._most_of_store} threads for one storage, or fewer beside others, are busy"
                " (floecat.limits.threads-per-storage-percent)"
            )
        message = f"{whose}, and {why}; nothing was done, try again later"
        return UnavailableError(message, retry_after_s=_RETRY_AFTER_S)


class RequestThreads:
    """The threads of a service, by what they wait for.

    Attributes:
        reads_at_once: whether the event loop may read the store.
    """

    def __init__(self, settings: Settings) -> None:
        self.reads_at_once = False
        limits = settings.limits
        of_storage = max(1, settings.gateway.threads * limits.threads_per_storage_percent // 100)
        sizes: dict[WaitsFor, tuple[int, int | None]] = {
            "storage": (settings.gateway.threads, of_storage),
            "store": (limits.threads_without_storage, None),
            "login": (limits.threads_for_logins, None),
            "catalogs": (limits.threads_for_catalogs, None),
        }
        self._all = {
            kind: BoundedThreads(
                most,
                queue_wait_ms=limits.queue_wait_ms,
                most_queued=limits.queued_requests,
                most_of_store=most_of_store,
            )
            for kind, (most, most_of_store) in sizes.items()
        }

    @property
    def waiting(self) -> dict[str, int]:
        """Calls that wait for a thread, by what the threads are for."""
        return {kind: threads.waiting for kind, threads in self._all.items()}

    async def run(
        self,
        work: Callable[[], T],
        waits_for: WaitsFor = "store",
        *,
        store: str | None = None,
        at_once: bool = False,
    ) -> T:
        """Runs work in a thread, or on the event loop, in the context of the caller.

        The working memory of the request stays taken until the work has returned, also where the client is
        gone by then.

        Args:
            waits_for: what it waits for at most.
            store: the object store that it waits for, if it is one.
            at_once: whether it reads a few rows by key, which a local store answers on the event loop.

        Raises:
            UnavailableError: no thread was free for it in time, or too many calls wait already.
        """
        if at_once and self.reads_at_once:
            try:
                return work()
            except StoreUnavailableError:
                pass  # a thread can wait for what this one cannot
        reservation = current_reservation()
        call = partial(copy_context().run, work)
        if reservation is not None:
            call = partial(reservation.keep, call)
        return await self._all[waits_for].submit(call, store=store)

    def shutdown(self) -> None:
        """Ends the threads once what was submitted is done, but leaves behind those that hang."""
        # all of them end within the same time
        for wait in (False, True):
            for threads in self._all.values():
                threads.shutdown(wait=wait)
