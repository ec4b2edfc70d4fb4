"""Holding a lease while work goes on: renewed in the background, checked before what cannot be undone.

The lease ends by the clock of this machine even if nobody says so: a worker that was stopped for longer than
the lease, or that the store does not answer, gives up by itself.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType

from floecat.errors import FloecatError

__all__ = ["HeldLease", "LeaseLostError"]

_log = logging.getLogger(__name__)


class LeaseLostError(Exception):
    """What the lease is about may be another worker's by now."""


class HeldLease:
    """A lease that was taken, as a context: it is renewed at a third of its duration until the end."""

    def __init__(self, what: str, renew: Callable[[], bool], *, duration_ms: int, taken_at: float) -> None:
        """Takes a lease that is held.

        Args:
            what: how the log calls it.
            renew: extends it by `duration_ms` from now; False if it is somebody else's.
            duration_ms: for how long it is held.
            taken_at: when it was asked for, in seconds of `time.monotonic`.
        """
        self._what = what
        self._renew_now = renew
        self._duration_ms = duration_ms
        self._ends_at = taken_at + duration_ms / 1000
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_stopped, name="lease", daemon=True)

    def check(self) -> None:
        """Returns if the lease is surely still held.

        Raises:
            LeaseLostError: it may not be.
        """
        if self._lost or time.monotonic() >= self._ends_at:
            raise LeaseLostError

    def __enter__(self) -> HeldLease:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _renew_until_stopped(self) -> None:
        while not self._stop.wait(self._duration_ms / 3000):
            try:
                self._renew()
            except FloecatError as failure:
                # the lease still stands; there is time for another two tries
                _log.warning("the lease of %s was not renewed: %s", self._what, failure.message)
            if self._lost:
                return

    def _renew(self) -> None:
        started = time.monotonic()
        if self._renew_now():
            self._ends_at = started + self._duration_ms / 1000
        else:
            self._lost = True
