"""Answers of the store to probes and scrapes, in bounded time whatever its threads are doing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from floecat.errors import StoreUnavailableError
from floecat_rest.process.request_threads import BoundedThreads

__all__ = ["Readiness"]

T = TypeVar("T")

_PART_OF_TIMEOUT = 0.9
"""The rest is for the answer."""


class Answering(Protocol):
    """A store, as far as it is asked here."""

    def ping(self) -> None:
        """Fails unless the store answers."""
        ...


class Readiness:
    """Asks the store a question in a thread of its own, once for all who ask meanwhile."""

    def __init__(self, *, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._threads = BoundedThreads(1)
        self._asked: asyncio.Future[Any] | None = None

    async def check(self, store: Answering) -> None:
        """Fails unless the store answers.

        Raises:
            StoreUnavailableError: it fails, or does not answer in time.
        """
        await self.ask(store.ping)

    async def ask(self, question: Callable[[], T]) -> T:
        """The answer of the store to a question, the same for all who ask meanwhile.

        Args:
            question: always the same.

        Raises:
            StoreUnavailableError: there is no answer in time.
        """
        if self._asked is None or self._asked.done():
            self._asked = self._threads.submit(question)
            # a late failure is of no interest to anyone
            self._asked.add_done_callback(lambda asked: asked.cancelled() or asked.exception())
        asked = self._asked
        done, _ = await asyncio.wait([asked], timeout=self._timeout_ms * _PART_OF_TIMEOUT / 1000)
        if not done:
            raise StoreUnavailableError(
                f"The store does not answer within floecat.store.timeout-ms ({self._timeout_ms} ms)"
            )
        answer: T = asked.result()
        return answer

    def close(self) -> None:
        """Ends the thread once the store has answered."""
        self._threads.shutdown(wait=False)
