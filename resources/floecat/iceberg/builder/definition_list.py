"""What a table has several of and uses one of, while updates change it: schemas, specs, sort orders."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Set
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.encoded_json import (
    EMPTY_ARRAY,
    MAX_INT32,
    Fragment,
    append_elements,
    array_of,
    split_array,
)

__all__ = [
    "DefinitionList",
]

T = TypeVar("T")


class DefinitionList(Generic[T]):
    """Definitions with ids. Those of the base are decoded only when one is looked at.

    A request may hold thousands of changes: what one of them costs does not depend on how many there are.
    """

    def __init__(
        self,
        base: TableMetadata | None,
        name: str,
        read: Callable[[TableMetadata], Sequence[T]],
        id_of: Callable[[T], int],
        content_of: Callable[[T], Hashable],
    ) -> None:
        """Starts from a base.

        Args:
            base: None for a new table.
            name: the top-level array.
            read: decodes the definitions of the base, in the order of its array.
            id_of: the id of a definition.
            content_of: equal for definitions that say the same, whatever their ids.
        """
        self.name = name
        self._base = base
        self._read = read
        self._id_of = id_of
        self._content_of = content_of
        self._items: dict[int, T] | None = None
        self._added: dict[int, bytes] = {}
        self._removed: set[int] = set()
        # both are made when first asked for, and kept up then
        self._by_content: dict[Hashable, dict[int, T]] | None = None
        self._heap: list[int] | None = None

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
        """The id of the next one: one more than the highest.

        Raises:
            IllegalArgumentError: the highest id is taken.
        """
        if self._heap is None:
            self._heap = [-item_id for item_id in self.items]
            heapify(self._heap)
        while self._heap and -self._heap[0] not in self.items:
            heappop(self._heap)
        next_id = max(first, 1 - self._heap[0]) if self._heap else first
        if next_id > MAX_INT32:
            raise IllegalArgumentError(f"Cannot add to {self.name}: the highest id {MAX_INT32} is taken")
        return next_id

    def find(self, item: T) -> T | None:
        """The first definition that says the same, None without one."""
        if self._by_content is None:
            self._by_content = {}
            for existing in self.items.values():
                self._group(existing)[self._id_of(existing)] = existing
        same = self._by_content.get(self._content_of(item))
        return next(iter(same.values())) if same else None

    def add(self, item: T, raw: bytes) -> None:
        """Adds a definition."""
        item_id = self._id_of(item)
        self.items[item_id] = item
        self._added[item_id] = raw
        self._group(item)[item_id] = item
        if self._heap is not None:
            heappush(self._heap, -item_id)

    def remove(self, ids: Set[int]) -> list[T]:
        """Removes definitions and answers them; unknown ids do nothing."""
        removed = [self.items.pop(item_id) for item_id in ids & self.items.keys()]
        for item in removed:
            item_id = self._id_of(item)
            self._group(item).pop(item_id, None)
            if self._added.pop(item_id, None) is None:
                self._removed.add(item_id)
        return removed

    def _group(self, item: T) -> dict[int, T]:
        """The definitions that say the same as one, by id."""
        if self._by_content is None:
            return {}
        return self._by_content.setdefault(self._content_of(item), {})

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
