"""Metadata documents in memory, by location.

A metadata location names the same bytes for ever, so what is cached is never wrong; a budget in bytes
bounds it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar
from uuid import UUID

from floecat.identifiers.namespace import TableIdentifier

__all__ = ["ByteCache", "Document", "KnownLocations"]

V = TypeVar("V")


class Document(Generic[V]):
    """The bytes of a metadata document, and what they parse to once somebody asks."""

    __slots__ = ("_lock", "_parse", "_parsed", "_refs_only", "data")

    def __init__(self, data: bytes, parse: Callable[[bytes], V], parsed: V | None = None) -> None:
        """Takes the JSON bytes and how to parse them; `parsed` if that is already done."""
        self.data = data
        self._parse = parse
        self._parsed = parsed
        self._lock = Lock()

    def parsed_already(self) -> V | None:
        """The parsed document, if somebody has asked for it before."""
        return self._parsed

    def parsed(self) -> V:
        """The parsed document; parses on first use, once over all threads.

        Raises:
            InvalidMetadataError: the bytes are not a metadata document.
        """
        if self._parsed is None:
            with self._lock:
                if self._parsed is None:
                    self._parsed = self._parse(self.data)
        return self._parsed


class ByteCache(Generic[V]):
    """A least-recently-used map with a budget in bytes. Thread-safe."""

    def __init__(self, budget_bytes: int) -> None:
        """Takes the budget; an entry larger than it is not kept."""
        self._budget_bytes = budget_bytes
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()
        self._size_bytes = 0
        self._lock = Lock()

    def get(self, key: Hashable) -> V | None:
        """The value, or `None`."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: V, size_bytes: int) -> None:
        """Keeps a value and drops the least recently used ones beyond the budget."""
        if size_bytes > self._budget_bytes:
            return
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self._size_bytes -= old[1]
            self._entries[key] = (value, size_bytes)
            self._size_bytes += size_bytes
            while self._size_bytes > self._budget_bytes:
                _, (_, dropped_bytes) = self._entries.popitem(last=False)
                self._size_bytes -= dropped_bytes

    def drop(self, key: Hashable) -> None:
        """Forgets a value."""
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self._size_bytes -= entry[1]

    @property
    def size_bytes(self) -> int:
        """Bytes held now."""
        return self._size_bytes


class KnownLocations:
    """The metadata location that each name had when last seen: a hint, checked by every load.

    With it a load asks the store for the document only when the pointer has moved, in the same statement.
    """

    def __init__(self, max_entries: int = 100_000) -> None:
        """Takes how many names are remembered."""
        self._max_entries = max_entries
        self._locations: OrderedDict[tuple[UUID, TableIdentifier], str] = OrderedDict()
        self._lock = Lock()

    def get(self, catalog_id: UUID, identifier: TableIdentifier) -> str | None:
        """The last known metadata location."""
        return self._locations.get((catalog_id, identifier))

    def put(self, catalog_id: UUID, identifier: TableIdentifier, location: str) -> None:
        """Remembers a location."""
        key = (catalog_id, identifier)
        with self._lock:
            self._locations[key] = location
            self._locations.move_to_end(key)
            if len(self._locations) > self._max_entries:
                self._locations.popitem(last=False)
