"""Metadata documents in memory, by location.

A metadata location names the same bytes for ever, so what is cached is never wrong; a budget in bytes
bounds it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar
from uuid import UUID

from floecat.identifiers.namespace import TableIdentifier

__all__ = ["Document", "KnownLocations"]

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
