"""What was used last, in memory, within a budget."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

__all__ = ["LruCache"]

V = TypeVar("V")


class LruCache(Generic[V]):
    """A map that drops the least recently used values beyond a budget. Thread-safe."""

    def __init__(self, budget: int, *, largest: int | None = None) -> None:
        """Takes the budget, in whatever `put` counts.

        Args:
            budget: of all values together.
            largest: a larger value is not kept, as it would cost too many others; by default the budget.
        """
        self._budget = budget
        self._largest = budget if largest is None else largest
        self._held: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    @property
    def size(self) -> int:
        """Of all values together, as `put` counts."""
        return self._size

    def resize(self, budget: int, *, largest: int | None = None) -> None:
        """Changes the budget, and drops values that are beyond it; arguments as of the class."""
        with self._lock:
            self._budget, self._largest = budget, budget if largest is None else largest
            self._shrink()

    def get(self, key: Hashable) -> V | None:
        """The value, or `None`."""
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return None
            self._held.move_to_end(key)
            return held[0]

    def put(self, key: Hashable, value: V, size: int = 1) -> None:
        """Keeps a value, in the place of the one before, and drops others beyond the budget."""
        with self._lock:
            self._forget(key)
            if size > self._largest:
                return
            self._held[key] = (value, size)
            self._size += size
            self._shrink()

    def drop(self, key: Hashable) -> None:
        """Forgets a value."""
        with self._lock:
            self._forget(key)

    def _shrink(self) -> None:
        while self._size > self._budget:
            _, (_, dropped) = self._held.popitem(last=False)
            self._size -= dropped

    def _forget(self, key: Hashable) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self._size -= held[1]
