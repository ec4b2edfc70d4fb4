"""Admission of requests to the memory and the threads of the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar

from floecat.working_memory import Reservation
from floecat_rest.process.request_threads import WaitsFor
from floecat_rest.process.services import Services

__all__ = ["AdmittedRequest"]

T = TypeVar("T")


class AdmittedRequest:
    """A request, a context: what it holds, and the threads that its work runs in.

    It holds memory from its body to the start of its answer. Requests with large bodies take turns, once
    their bodies are there.

    Attributes:
        store: returns the name of the object store that it may wait for, None for none.
    """

    __slots__ = ("_held", "_services", "_turn", "store")

    def __init__(self, services: Services) -> None:
        self._services = services
        self._held = services.working_memory.work()
        self._turn: Reservation | None = None
        self.store: Callable[[], str | None] = lambda: None

    def __enter__(self) -> Self:
        self._held.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()
        self._held.__exit__(*error)

    def release(self) -> None:
        """Gives everything back: an answer is sent as fast as the client reads it, which is no work."""
        self._held.release()
        if self._turn is not None:
            self._turn.release()

    async def hold(self, size_bytes: int) -> None:
        """Holds memory for a part of the body.

        Raises:
            UnavailableError: other requests held the memory all the time.
        """
        await self._held.take_async(size_bytes)

    async def take_turn(self, size_bytes: int) -> None:
        """Waits for the turn of a large body.

        Raises:
            UnavailableError: others had it all the time.
        """
        self._turn = self._services.turns.work()
        await self._turn.take_async(size_bytes)

    async def run(self, work: Callable[[], T], waits_for: WaitsFor = "store", *, at_once: bool = False) -> T:
        """Runs work in a thread; see `RequestThreads.run`.

        Raises:
            UnavailableError: no thread was free for it in time, or too many calls wait already.
        """
        store = self.store() if waits_for == "storage" else None
        return await self._services.threads.run(work, waits_for, store=store, at_once=at_once)
