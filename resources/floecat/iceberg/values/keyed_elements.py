"""Encoded elements of an array, found by a key."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Generic, TypeVar

from floecat.iceberg.values.json_arrays import Fragment, Piece, array_of

__all__ = ["KeyedElements"]

K = TypeVar("K")


class KeyedElements(Generic[K]):
    """Elements in their order; several may have one key. No change looks at the others."""

    def __init__(self, elements: Iterable[tuple[K, Piece]]) -> None:
        """Takes the elements of an array, each with its key."""
        self._next_place = count()
        self._elements: dict[int, Piece] = {}
        self._places: dict[K, list[int]] = {}
        for key, element in elements:
            self.add(key, element)

    def get(self, key: K) -> list[Piece]:
        """The elements that have a key."""
        return [self._elements[place] for place in self._places.get(key, ())]

    def add(self, key: K, element: Piece) -> None:
        """Adds an element at the end."""
        place = next(self._next_place)
        self._elements[place] = element
        self._places.setdefault(key, []).append(place)

    def remove(self, key: K) -> bool:
        """Removes the elements that have a key, and answers whether there were any."""
        places = self._places.pop(key, [])
        for place in places:
            del self._elements[place]
        return bool(places)

    def array(self) -> Fragment:
        """All elements."""
        return array_of(self._elements.values())
