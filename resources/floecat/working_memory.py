"""Memory for the work of requests: large bodies and inflated documents share one budget in a process.

What does not fit waits a bounded time for others to end, then is refused; nothing was done by then. Accounts
take turns. A request that needs more than the whole budget runs when it can have all of it. The first
mebibyte of a request is not counted, so that small requests never wait here.

A request enters `WorkingMemory.work`; readers of foreign bytes call `take_memory`, wherever they are.
Commands and jobs enter nothing, and `take_memory` counts nothing for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from functools import cached_property
from threading import Lock
from typing import Final, Self, TypeVar

from floecat.allocator import trim_soon
from floecat.errors import UnavailableError
from floecat.gate import LockedGate, Turn, current_account

__all__ = [
    "Reservation",
    "WorkingMemory",
    "WorkingMemoryError",
    "current_reservation",
    "new_part_of_work",
    "part_of_work",
    "take_memory",
    "take_turn",
    "without_waiting",
]

_FREE_BYTES: Final = 1 << 20
_STEP_BYTES: Final = 1 << 20
_MOST_WAITING: Final = 2
_TRIM_FROM_BYTES: Final = 4 << 20
_RETRY_AFTER_S: Final = 5

T = TypeVar("T")


class WorkingMemoryError(UnavailableError):
    """Others held the budget all the time."""


class WorkingMemory(LockedGate):
    """Shares out the budget, to accounts by turns, in the order of their requests. Thread-safe."""

    def __init__(self, total_bytes: int, *, wait_ms: int) -> None:
        """Sets the budget.

        Args:
            total_bytes: of all requests together.
            wait_ms: how long a request waits for its part.
        """
        super().__init__(total_bytes)
        self.total_bytes: Final = total_bytes
        self.wait_s: Final = wait_ms / 1000
        """The time that a request waits, in seconds."""

    @cached_property
    def turns(self) -> WorkingMemory:
        """Large answers, of which one is made at a time: decoding and rendering them hold the interpreter."""
        return WorkingMemory(1, wait_ms=round(self.wait_s * 1000))

    def work(self) -> Reservation:
        """The work of one request, a context: what `take_memory` reserves inside is given back at the end."""
        return Reservation(self)


class Reservation:
    """The part of the budget that one request holds. Used by one thread at a time."""

    def __init__(self, memory: WorkingMemory) -> None:
        self._memory = memory
        self._taken_bytes = 0
        self._held_bytes = 0
        self._most_bytes = 0
        self._waited_s = 0.0
        self._lock = Lock()
        self._working = 0
        self._is_released = False
        self.waits = True
        self._token: Token[Reservation | None] | None = None
        self._turn: Reservation | None = None

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)
        self.release()
        # not before: what was given back at the start of an answer is still being sent
        if self._most_bytes >= _TRIM_FROM_BYTES:
            trim_soon()

    def take(self, size_bytes: int) -> None:
        """Adds bytes; the thread waits for them.

        Raises:
            WorkingMemoryError: others held the budget all the time.
        """
        part = self._ask(size_bytes)
        if part is None:
            return
        try:
            with self._timed():
                part.granted.result(self._left_s if self.waits else 0)
        except FutureTimeoutError:
            self._give_up(part)
        self._held_bytes += part.units

    async def take_async(self, size_bytes: int) -> None:
        """As `take`, from an event loop.

        Raises:
            WorkingMemoryError: others held the budget all the time.
        """
        part = self._ask(size_bytes)
        if part is None:
            return
        try:
            if not part.granted.done():
                with self._timed():
                    async with asyncio.timeout(self._left_s):
                        await asyncio.wrap_future(part.granted)
        except TimeoutError:
            self._give_up(part)
        except asyncio.CancelledError:
            if not self._memory.withdraw(part):
                self._memory.give_back(part.units)
            raise
        self._held_bytes += part.units

    def take_turn(self, size_bytes: int) -> None:
        """Waits for its turn among large answers, before it holds memory for one.

        Raises:
            WorkingMemoryError: others had it all the time, or several of the account wait, each in a thread.
        """
        if self._turn is not None:
            return
        if size_bytes > _FREE_BYTES and self._memory.turns.waiting(current_account()) >= _MOST_WAITING:
            raise WorkingMemoryError(
                "Too many large answers at once: others wait already; try again later",
                retry_after_s=_RETRY_AFTER_S,
            )
        self._turn = Reservation(self._memory.turns)
        self._turn.take(size_bytes)

    def keep(self, work: Callable[[], T]) -> T:
        """Does work of the request in a thread, which may go on after the request was stopped.

        What is released meanwhile is given back when the work ends.
        """
        with self._lock:
            self._working += 1
        try:
            return work()
        finally:
            with self._lock:
                self._working -= 1
            if self._is_released:
                self.release()

    def lend(self, work: Callable[[], T]) -> T:
        """Does work in another thread than that of the request; what it takes counts here."""
        token = _current.set(self)
        try:
            return self.keep(work)
        finally:
            _current.reset(token)

    def release(self) -> None:
        """Gives everything back, once no thread works on the request; it counts nothing more."""
        with self._lock:
            self._is_released = True
            if self._working:
                return
            held, self._held_bytes = self._held_bytes, 0
        if self._turn is not None:
            self._turn.release()
        self._most_bytes = max(self._most_bytes, held)
        if held:
            self._memory.give_back(held)

    @property
    def _left_s(self) -> float:
        """The time that the request may still wait, in all."""
        return max(self._memory.wait_s - self._waited_s, 0)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        begun_s = time.monotonic()
        try:
            yield
        finally:
            self._waited_s += time.monotonic() - begun_s

    def _ask(self, size_bytes: int) -> Turn | None:
        self._taken_bytes += size_bytes
        if self._taken_bytes <= max(_FREE_BYTES, self._held_bytes):
            return None
        whole_steps = -(-self._taken_bytes // _STEP_BYTES) * _STEP_BYTES
        lacking = min(whole_steps, self._memory.total_bytes) - self._held_bytes
        if lacking <= 0:
            return None
        part = Turn(lacking)
        self._memory.ask(part, first=self._held_bytes > 0)
        return part

    def _give_up(self, part: Turn) -> None:
        if self._memory.withdraw(part):
            self._taken_bytes = self._held_bytes
            raise WorkingMemoryError(
                "Too many large requests at once: floecat.limits.working-memory-bytes were in use for"
                f" floecat.limits.working-memory-wait-ms ({self._memory.wait_s * 1000:.0f}); try again later",
                retry_after_s=_RETRY_AFTER_S,
            )


def part_of_work() -> AbstractContextManager[object]:
    """A part of a long request, a context: what is taken inside is given back at its end."""
    return new_part_of_work() or nullcontext()


def new_part_of_work() -> Reservation | None:
    """A part of a long request that its caller releases; None in commands and jobs."""
    current = _current.get()
    return None if current is None else Reservation(current._memory)


def current_reservation() -> Reservation | None:
    """The reservation of this thread's request, for threads that help with it; None in commands and jobs."""
    return _current.get()


def take_memory(size_bytes: int) -> None:
    """Reserves bytes for the request that this thread works on, until its answer is sent.

    Raises:
        WorkingMemoryError: others held the budget all the time.
    """
    reservation = _current.get()
    if reservation is not None:
        reservation.take(size_bytes)


def take_turn(size_bytes: int) -> None:
    """Waits for the turn of the request that this thread works on, to make an answer of so many bytes.

    Raises:
        WorkingMemoryError: others had it all the time, or several of the account wait.
    """
    reservation = _current.get()
    if reservation is not None:
        reservation.take_turn(size_bytes)


@contextmanager
def without_waiting() -> Iterator[None]:
    """Inside, `take_memory` fails at once where it would wait: the caller has few threads."""
    reservation = _current.get()
    if reservation is None:
        yield
        return
    reservation.waits = False
    try:
        yield
    finally:
        reservation.waits = True


_current: ContextVar[Reservation | None] = ContextVar("reservation", default=None)
