"""Functions of other packages that are called with what happens to tables (`floecat.events.listeners`)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from floecat.errors import SettingsError
from floecat.events.table_events import TableEvent
from floecat.settings.imports import imported

__all__ = ["EventListeners", "Listener"]

Listener: TypeAlias = Callable[[TableEvent], object]
"""Takes an event on the thread that caused it; what it returns or raises changes nothing."""

_log = logging.getLogger(__name__)


class EventListeners:
    """Calls listeners. Safe to share between threads."""

    def __init__(self, listeners: Sequence[Listener] = ()) -> None:
        self._listeners: Final = list(listeners)
        self._lock = threading.Lock()
        self._failures = 0

    @classmethod
    def named(cls, places: Sequence[str]) -> EventListeners:
        """The listeners that the settings name.

        Args:
            places: each as `package.module:function`.

        Raises:
            SettingsError: one cannot be imported, or cannot be called.
        """
        found = [imported("floecat.events.listeners", place) for place in places]
        for place, listener in zip(places, found, strict=True):
            if not callable(listener):
                raise SettingsError(f"floecat.events.listeners: {place} cannot be called")
        return cls(found)  # type: ignore[arg-type]

    @property
    def failures(self) -> int:
        """The number of calls of listeners that raised."""
        return self._failures

    def add(self, listener: Listener) -> None:
        """Adds a listener."""
        self._listeners.append(listener)

    def emit(self, event: TableEvent) -> None:
        """Calls every listener on this thread. One that raises is logged and counted, and stops nothing."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:  # noqa: BLE001 - it is other people's code
                _log.exception("a listener failed with %s", type(event).__name__)
                with self._lock:
                    self._failures += 1
