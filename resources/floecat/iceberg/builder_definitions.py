"""What a table has several of and uses one of, while updates change it: schemas, specs, sort orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Generic, TypeVar

from floecat.iceberg.json_arrays import EMPTY_ARRAY, Fragment, append_elements, array_of, split_array
from floecat.iceberg.metadata import TableMetadata

__all__ = ["DefinitionList"]

T = TypeVar("T")


class DefinitionList(Generic[T]):
    """Definitions with ids. Those of the base are decoded only when one is looked at."""

    def __init__(
        self,
        base: TableMetadata | None,
        name: str,
        read: Callable[[TableMetadata], Sequence[T]],
        id_of: Callable[[T], int],
    ) -> None:
        """Starts from a base.

        Args:
            base: None for a new table.
            name: the top-level array.
            read: decodes the definitions of the base, in the order of its array.
            id_of: the id of a definition.
        """
        self.name = name
        self._base = base
        self._read = read
        self._id_of = id_of
        self._items: dict[int, T] | None = None
        self._added: dict[int, bytes] = {}
        self._removed: set[int] = set()

    @property
    def items(self) -> dict[int, T]:
        """All definitions by id, as they are now."""
        if self._items is None:
            existing = () if self._base is None else self._read(self._base)
            self._items = {self._id_of(item): item for item in existing}
        return self._items

    @property
    def changed(self) -> bool:
        """Whether any was added or removed."""
        return bool(self._added or self._removed)

    def next_id(self, first: int = 0) -> int:
        """The id of the next one: one more than the highest."""
        return max(first, max(self.items, default=first - 1) + 1)

    def add(self, item: T, raw: bytes) -> None:
        """Adds a definition."""
        self.items[self._id_of(item)] = item
        self._added[self._id_of(item)] = raw

    def remove(self, ids: Set[int]) -> None:
        """Removes definitions; unknown ids do nothing."""
        for removed in ids & self.items.keys():
            del self.items[removed]
            if self._added.pop(removed, None) is None:
                self._removed.add(removed)

    def array(self) -> Fragment:
        """The array as it is now; what stays keeps its bytes."""
        if self._base is None:
            return array_of(self._added.values()) if self._added else EMPTY_ARRAY
        array = self._base.array(self.name)
        if self._removed:
            elements = split_array(array, self.name)
            existing = zip(elements, self._read(self._base), strict=True)
            kept = [memoryview(raw) for raw, item in existing if self._id_of(item) not in self._removed]
            array = array_of(kept)
        return append_elements(array, self._added.values())
