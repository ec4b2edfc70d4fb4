"""Admission of requests to the memory of the process."""

from __future__ import annotations

from typing import Self

from floecat.working_memory import Reservation, WorkingMemory
from floecat_rest.process.services import Services

__all__ = ["Admission", "AdmittedRequest"]


class Admission:
    """Admits requests.

    A request holds memory from its body to the start of its answer. Requests with large bodies take turns,
    once their bodies are there.
    """

    def __init__(self, services: Services) -> None:
        self.memory = services.working_memory
        # of what needs more than the whole budget, one runs at a time
        self.turns = WorkingMemory(1, wait_ms=services.settings.limits.working_memory_wait_ms)

    def request(self) -> AdmittedRequest:
        """The work of a request, a context: what it holds is given back at the end."""
        return AdmittedRequest(self)


class AdmittedRequest:
    """What one request holds."""

    __slots__ = ("_held", "_limits", "_turn")

    def __init__(self, limits: Admission) -> None:
        self._limits = limits
        self._held = limits.memory.work()
        self._turn: Reservation | None = None

    def __enter__(self) -> Self:
        self._held.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()
        self._held.__exit__(*error)

    def release(self) -> None:
        """Give everything back: an answer is sent as fast as the client reads it, which is no work."""
        self._held.release()
        if self._turn is not None:
            self._turn.release()

    async def hold(self, size_bytes: int) -> None:
        """Hold memory for a part of the body.

        Raises:
            UnavailableError: other requests held the memory all the time.
        """
        await self._held.take_async(size_bytes)

    async def take_turn(self, size_bytes: int) -> None:
        """Wait for the turn of a large body.

        Raises:
            UnavailableError: others had it all the time.
        """
        self._turn = self._limits.turns.work()
        await self._turn.take_async(size_bytes)
