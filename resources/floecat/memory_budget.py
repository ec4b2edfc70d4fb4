"""The memory that all caches of a process share, and which part of it each of them gets."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Final, Generic, TypeVar

__all__ = ["SHARES", "LruCache", "MemoryBudget", "default_memory_bytes", "memory_limit_bytes"]


V = TypeVar("V")

_WHOLE: Final = 1024

SHARES: Final[Mapping[str, int]] = {
    "documents": 440,  # metadata documents: one of 237 MB, counted twice, fits into the largest default
    "known-states": 24,
    "answers": 56,  # compressed, as they are sent
    "lists": 16,  # as they are sent
    "gzip-blocks": 56,  # blocks of metadata files and answers
    "stored-frames": 64,  # zstd frames of documents in the store
    "delta-artifacts": 88,
    "delta-indexes": 56,  # of manifests, decoded
    "delta-listed": 24,  # what manifests name, to check that it exists
    "delta-copies": 64,  # data files while they are copied
    "plan-manifests": 80,  # of small scans, decoded
    "plan-filters": 8,  # large sets as JSON, while tasks are fetched
    "purge-areas": 24,
    "tokens": 4,
    "catalogs": 4,
    "access": 8,  # grants of principals and roles
    "keys": 4,  # of storage, for clients
    "vended": 4,  # what clients are told of tables, with keys
}
"""Parts of 1024 by cache: of 1 GiB each gets as many MiB."""

_LARGEST_DEFAULT: Final = 1 << 30
_DEFAULT_DIVISOR: Final = 4


class MemoryBudget:
    """Gives each cache of `SHARES` its bytes."""

    def __init__(self, total_bytes: int | None = None) -> None:
        self._total_bytes = default_memory_bytes() if total_bytes is None else total_bytes
        self._caches: dict[str, LruCache[Any]] = {}

    def share(self, name: str) -> int:
        """The bytes of one cache of `SHARES`."""
        return self._total_bytes * SHARES[name] // _WHOLE

    def cache(self, name: str, *, largest_part: int = 1) -> LruCache[Any]:
        """A cache, to be filled with sizes in bytes; one for each name.

        Args:
            name: the name in `SHARES`.
            largest_part: a value larger than the share divided by this is not kept.
        """
        share = self.share(name)
        made = self._caches[name] = LruCache(share, largest=share // largest_part)
        return made

    def held_bytes(self) -> dict[str, int]:
        """The bytes that each cache holds that was made here."""
        return {name: made.size for name, made in self._caches.items()}


@cache
def default_memory_bytes(root: Path = Path("/")) -> int:
    """A quarter of the memory that this process may use, at most 1 GiB. Read once."""
    return min(memory_limit_bytes(root) // _DEFAULT_DIVISOR, _LARGEST_DEFAULT)


def memory_limit_bytes(root: Path = Path("/")) -> int:
    """The smallest limit of the process's control groups, or the memory of the machine if none is smaller.

    Reads `memory.max` of version 2 (kernel documentation, "Control Group v2") and `memory.limit_in_bytes` of
    version 1, for the group of the process and those above it.

    Args:
        root: the folder that has `proc` and `sys`.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_group_limits(root)])


class LruCache(Generic[V]):
    """A map that drops the least recently used values beyond a budget. Thread-safe."""

    def __init__(self, budget: int, *, largest: int | None = None) -> None:
        """Takes the budget, in the unit that `put` uses.

        Args:
            budget: of all values together.
            largest: a larger value is not kept, as it would cost too many others; by default the budget.
        """
        self._budget = budget
        self._largest = budget if largest is None else largest
        self._held: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._size = 0
        self._lock = Lock()
        self._being_made: dict[Hashable, Future[V]] = {}

    @property
    def size(self) -> int:
        """The size of all values together, as `put` counts."""
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

    def get_or_make(
        self,
        key: Hashable,
        make: Callable[[], V],
        size_of: Callable[[V], int],
        is_good: Callable[[V], bool] = lambda _: True,
    ) -> V:
        """The value, which one caller makes while others that ask for it wait.

        Args:
            key: names the value.
            make: makes it. What it raises, everyone who waits gets too.
            size_of: its size, as `put` counts.
            is_good: whether a value that is kept still serves.
        """
        value = self.get(key)
        if value is not None and is_good(value):
            return value
        with self._lock:
            held = self._held.get(key)  # it may have been made since
            if held is not None and is_good(held[0]):
                return held[0]
            waiting = self._being_made.get(key)
            made = waiting or self._being_made.setdefault(key, Future())
        if waiting is None:
            try:
                value = make()
                self.put(key, value, size_of(value))
                made.set_result(value)
            except BaseException as error:
                made.set_exception(error)
                raise
            finally:
                del self._being_made[key]
        return made.result()

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


def _group_limits(root: Path) -> Iterator[int]:
    groups = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        hierarchy, _, named = line.partition(":")
        controllers, _, path = named.partition(":")
        if hierarchy == "0":
            top, name = groups, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        # in a container the group of the process may be mounted as the top
        own = top / path.strip("/")
        for folder in (own, *own.parents):
            limit = _text(folder / name).strip()
            if limit.isdecimal():
                yield int(limit)
            if folder == top:
                break


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # no such system, version or group
        return ""
