"""The partition fields that the specs of a table have, while updates change these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from floecat.iceberg.schemas.partitioning import PartitionField, PartitionSpec
from floecat.iceberg.schemas.transforms import VOID

__all__ = ["PartitionFieldIndex"]

_Meaning: TypeAlias = tuple[tuple[int, ...], str]
"""Sources and transform: what a field is, whatever its name."""


class PartitionFieldIndex:
    """Partition fields of all specs, by what they are derived from, and by their ids."""

    def __init__(self, specs: Iterable[PartitionSpec]) -> None:
        """Takes the specs of the table, in their order."""
        # by meaning, then by spec: a spec that goes takes its ids with it
        self._ids: dict[_Meaning, dict[int, int | None]] = {}
        self._meanings: dict[int | None, Counter[_Meaning]] = {}
        for spec in specs:
            self.add(spec)

    def add(self, spec: PartitionSpec) -> None:
        """Takes up the fields of a spec, which is the newest now."""
        for field in spec.fields:
            self._ids.setdefault(_meaning(field), {})[spec.spec_id] = field.field_id
            if field.transform != VOID:
                self._meanings.setdefault(field.field_id, Counter())[_meaning(field)] += 1

    def remove(self, spec: PartitionSpec) -> None:
        """Forgets the fields of a spec that was added."""
        for field in spec.fields:
            self._ids[_meaning(field)].pop(spec.spec_id, None)
            if field.transform != VOID:
                meanings = self._meanings[field.field_id]
                meanings[_meaning(field)] -= 1
                if not meanings[_meaning(field)]:
                    del meanings[_meaning(field)]

    def id_of(self, field: PartitionField) -> int | None:
        """The id that such a field has in the newest spec with one, None if it is new."""
        ids = self._ids.get(_meaning(field))
        return next(reversed(ids.values())) if ids else None

    def belongs_to_another(self, field: PartitionField) -> bool:
        """Whether the id of a field stands for another one.

        Files of all specs share one partition struct, in which an id can mean one thing only.
        """
        known = self._meanings.get(field.field_id, ())
        return bool(known) and field.transform != VOID and _meaning(field) not in known


def _meaning(field: PartitionField) -> _Meaning:
    return (field.sources, field.transform)
