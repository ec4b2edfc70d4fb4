"""Schemas, specs and sort orders of a table while updates change them: several are kept, one is in use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence, Set
from heapq import heapify, heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.updates import LAST_ADDED
from floecat.iceberg.values.encoded_json import (
    EMPTY_ARRAY,
    MAX_INT32,
    Fragment,
    append_elements,
    array_of,
    encode_json,
    is_empty_array,
    split_array,
)

__all__ = ["DefinitionKind", "DefinitionList"]

T = TypeVar("T")


class DefinitionKind(NamedTuple, Generic[T]):
    """A kind of definitions, of which there are three.

    Attributes:
        array: the field of the document that holds them.
        selector: the field that holds the id of the one in use.
        noun: the name of one in messages, e.g. "schema".
        role: the name of the one in use in messages, e.g. "current schema".
        read: decodes those of a document, in the order of its array.
        id_of: the id of a definition.
        content_of: equal for definitions that differ in their ids only.
    """

    array: str
    selector: str
    noun: str
    role: str
    read: Callable[[TableMetadata], Sequence[T]]
    id_of: Callable[[T], int]
    content_of: Callable[[T], Hashable]


class DefinitionList(Generic[T]):
    """Definitions with ids, one of them selected. Those of the base are decoded only when needed.

    A request may hold thousands of changes: the cost of one does not depend on their number.
    """

    def __init__(self, base: TableMetadata | None, kind: DefinitionKind[T], selected_id: int) -> None:
        """Starts from a base.

        Args:
            base: None for a new table.
            kind: what the definitions are.
            selected_id: the id of the one in use; that of a new table need not exist yet.
        """
        self._base = base
        self._kind = kind
        self._base_selected_id = None if base is None else selected_id
        self.selected_id = selected_id
        self.last_added_id: int | None = None
        self._items: dict[int, T] | None = None
        self._added: dict[int, bytes] = {}
        self._removed: set[int] = set()
        # both are built on first use and maintained from then on
        self._by_content: dict[Hashable, dict[int, T]] | None = None
        self._heap: list[int] | None = None

    @property
    def items(self) -> dict[int, T]:
        """All definitions by id, with the changes so far."""
        if self._items is None:
            existing = () if self._base is None else self._kind.read(self._base)
            self._items = {self._kind.id_of(item): item for item in existing}
        return self._items

    @property
    def is_empty(self) -> bool:
        """Whether there is no definition; those of the base are not decoded for it."""
        if self._items is None and self._base is not None:
            return is_empty_array(self._base.array(self._kind.array))
        return not self.items

    @property
    def list_changed(self) -> bool:
        """Whether a definition was added or removed."""
        return bool(self._added or self._removed)

    @property
    def selection_changed(self) -> bool:
        """Whether another definition is in use than in the base."""
        return self.selected_id != self._base_selected_id

    @property
    def changed(self) -> bool:
        """Whether anything is different from the base."""
        return self.list_changed or self.selection_changed

    @property
    def selected(self) -> T:
        """The definition in use.

        Raises:
            IllegalArgumentError: there is none yet.
        """
        item = self.items.get(self.selected_id)
        if item is None:
            raise IllegalArgumentError(f"Cannot find {self._kind.role}: {self.selected_id}")
        return item

    def select(self, item_id: int) -> None:
        """Puts a definition in use.

        Raises:
            IllegalArgumentError: no such definition, or none was added by this request.
        """
        noun = self._kind.noun
        if item_id == LAST_ADDED:
            if self.last_added_id is None:
                raise IllegalArgumentError(f"Cannot set last added {noun}: no {noun} has been added")
            item_id = self.last_added_id
        if item_id != self.selected_id and item_id not in self.items:
            raise IllegalArgumentError(f"Cannot set {self._kind.role} to unknown {noun}: {item_id}")
        self.selected_id = item_id

    def next_id(self, first: int = 0) -> int:
        """The id for the next definition: one more than the highest.

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
            raise IllegalArgumentError(
                f"Cannot add to {self._kind.array}: the highest id {MAX_INT32} is taken"
            )
        return next_id

    def find(self, item: T) -> T | None:
        """The first definition with the same content, None without one."""
        if self.is_empty:
            return None
        if self._by_content is None:
            self._by_content = {}
            for existing in self.items.values():
                self._group(existing)[self._kind.id_of(existing)] = existing
        same = self._by_content.get(self._kind.content_of(item))
        return next(iter(same.values())) if same else None

    def insert(self, item: T, raw: bytes) -> None:
        """Adds a definition under the id that it has."""
        item_id = self._kind.id_of(item)
        self.items[item_id] = item
        self._added[item_id] = raw
        self._group(item)[item_id] = item
        if self._heap is not None:
            heappush(self._heap, -item_id)
        self.last_added_id = item_id

    def remove(self, ids: Set[int]) -> list[T]:
        """Removes definitions and returns them; unknown ids are ignored.

        Raises:
            IllegalArgumentError: the one in use is among them.
        """
        if self.selected_id in ids:
            raise IllegalArgumentError(f"Cannot remove the {self._kind.role}")
        removed = [self.items.pop(item_id) for item_id in ids & self.items.keys()]
        for item in removed:
            item_id = self._kind.id_of(item)
            self._group(item).pop(item_id, None)
            if self._added.pop(item_id, None) is None:
                self._removed.add(item_id)
        return removed

    def _group(self, item: T) -> dict[int, T]:
        """The definitions with the same content, by id."""
        if self._by_content is None:
            return {}
        return self._by_content.setdefault(self._kind.content_of(item), {})

    def write(self, fields: dict[str, Fragment], format_version: int) -> None:
        """Writes what has changed into the fields of the next document."""
        del format_version
        fields[self._kind.selector] = (encode_json(self.selected_id),)
        if self.list_changed or self._kind.array not in fields:
            fields[self._kind.array] = self._array()

    def _array(self) -> Fragment:
        """The array with the changes; definitions that stay keep their bytes."""
        if self._base is None:
            return array_of(self._added.values()) if self._added else EMPTY_ARRAY
        array = self._base.array(self._kind.array)
        if self._removed:
            elements = split_array(array, self._kind.array)
            existing = zip(elements, self._kind.read(self._base), strict=True)
            kept = [memoryview(raw) for raw, item in existing if self._kind.id_of(item) not in self._removed]
            array = array_of(kept)
        return append_elements(array, self._added.values())
