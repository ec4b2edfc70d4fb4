"""Changes to the partition specs and sort orders of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import TypeAlias

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.builder.definition_list import DefinitionKind, DefinitionList
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.partitioning import (
    FIRST_PARTITION_FIELD_ID,
    NO_PARTITION_FIELD_ID,
    PartitionField,
    PartitionSpec,
    check_new_names,
    check_partition_spec,
)
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.sorting import (
    FIRST_SORT_ORDER_ID,
    UNSORTED,
    SortOrder,
    check_sort_order,
)
from floecat.iceberg.schemas.transforms import VOID
from floecat.iceberg.values.encoded_json import MAX_INT32, Fragment, encode_json

__all__ = [
    "PartitionSpecChanges",
    "SortOrderChanges",
]

_SPECS = DefinitionKind[PartitionSpec](
    array="partition-specs",
    selector="default-spec-id",
    noun="spec",
    role="default partition spec",
    read=lambda metadata: metadata.partition_specs,
    id_of=lambda spec: spec.spec_id,
    content_of=lambda spec: spec.content,
)


class PartitionSpecChanges(DefinitionList[PartitionSpec]):
    """Partition specs, the default one, and the highest partition field id ever assigned."""

    def __init__(self, base: TableMetadata | None) -> None:
        super().__init__(base, _SPECS, 0 if base is None else base.default_spec_id)
        self._known: _FieldIndex | None = None
        self.last_field_id = NO_PARTITION_FIELD_ID if base is None else base.last_partition_id

    def add(self, sent: PartitionSpec, schema: Schema, format_version: int) -> None:
        """Adds a spec under the next id, or finds the equal one.

        Args:
            sent: the spec, whose id does not matter; fields without ids get them.
            schema: the current schema, which the spec is bound to.
            format_version: of the table.

        Raises:
            IllegalArgumentError: it does not fit the schema, or its field ids are taken.
        """
        spec = sent.with_single_sources()
        existing = self.find(spec)
        if existing is not None:
            self.last_added_id = existing.spec_id
            return
        check_new_names(spec, schema)
        check_partition_spec(spec, schema)
        fields = self._numbered(spec.fields, format_version)
        added = PartitionSpec(self.next_id(), fields)
        self._check_field_ids(added, format_version)
        self.last_field_id = max(self.last_field_id, added.last_field_id)
        self.insert(added, encode_json(added))
        self._fields.add(added)

    def _numbered(
        self, fields: tuple[PartitionField, ...], format_version: int
    ) -> tuple[PartitionField, ...]:
        if all(field.field_id is not None for field in fields):
            return fields
        if format_version == 1:
            numbered = enumerate(fields, FIRST_PARTITION_FIELD_ID)
            return tuple(msgspec.structs.replace(field, field_id=field_id) for field_id, field in numbered)
        result = []
        known = self._fields
        last = self.last_field_id
        for field in fields:
            field_id = known.id_of(field)
            if field_id is None:
                field_id = last = last + 1
            result.append(msgspec.structs.replace(field, field_id=field_id))
        if last > MAX_INT32:
            raise IllegalArgumentError(
                f"Cannot add partition spec: the highest partition field id {MAX_INT32} is taken"
            )
        return tuple(result)

    @property
    def _fields(self) -> _FieldIndex:
        if self._known is None:
            specs = self.items.values()
            self._known = _FieldIndex(specs)
            # `last-partition-id` of a registered document may be too low
            self.last_field_id = max([self.last_field_id, *(spec.last_field_id for spec in specs)])
        return self._known

    def _check_field_ids(self, spec: PartitionSpec, format_version: int) -> None:
        if format_version == 1:
            if not spec.has_sequential_ids:
                raise IllegalArgumentError("Spec does not use sequential IDs that are required in v1")
            return
        ids = [field.field_id for field in spec.fields]
        if len(set(ids)) != len(ids):
            raise IllegalArgumentError("Cannot use partition field id more than once")
        for field in spec.fields:
            if self._fields.belongs_to_another(field):
                raise IllegalArgumentError(
                    f"Cannot use partition field id {field.field_id} for {field.name}:"
                    " it belongs to another partition field"
                )

    def remove(self, ids: Set[int]) -> list[PartitionSpec]:
        """Removes specs and returns them; unknown ids are ignored.

        Raises:
            IllegalArgumentError: the default one is among them.
        """
        removed = super().remove(ids)
        if self._known is not None:
            for spec in removed:
                self._known.remove(spec)
        return removed

    def write(self, fields: dict[str, Fragment], format_version: int) -> None:
        """Writes what has changed into the fields of the next document."""
        if format_version == 1 and (self.selection_changed or "partition-spec" not in fields):
            # for readers of version 1 that do not know the list of specs
            fields["partition-spec"] = (encode_json(self.selected.fields),)
        fields["last-partition-id"] = (encode_json(self.last_field_id),)
        super().write(fields, format_version)


_Meaning: TypeAlias = tuple[tuple[int, ...], str]
"""Sources and transform of a field, which may have any name."""


class _FieldIndex:
    """Partition fields of all specs, by source and transform and by id."""

    def __init__(self, specs: Iterable[PartitionSpec]) -> None:
        # by meaning, then by spec, so that a removed spec takes its ids with it
        self._ids: dict[_Meaning, dict[int, int | None]] = {}
        self._meanings: dict[int | None, Counter[_Meaning]] = {}
        for spec in specs:
            self.add(spec)

    def add(self, spec: PartitionSpec) -> None:
        """Adds the fields of a spec, now the newest."""
        for field in spec.fields:
            self._ids.setdefault(_meaning(field), {})[spec.spec_id] = field.field_id
            if field.transform != VOID:
                self._meanings.setdefault(field.field_id, Counter())[_meaning(field)] += 1

    def remove(self, spec: PartitionSpec) -> None:
        """Removes the fields of a spec."""
        for field in spec.fields:
            self._ids[_meaning(field)].pop(spec.spec_id, None)
            if field.transform != VOID:
                meanings = self._meanings[field.field_id]
                meanings[_meaning(field)] -= 1
                if not meanings[_meaning(field)]:
                    del meanings[_meaning(field)]

    def id_of(self, field: PartitionField) -> int | None:
        """The id of an equal field in the newest spec that has one, None if the field is new."""
        ids = self._ids.get(_meaning(field))
        return next(reversed(ids.values())) if ids else None

    def belongs_to_another(self, field: PartitionField) -> bool:
        """Whether another field has the id of this one.

        Files of all specs share one partition struct, in which an id has one meaning.
        """
        known = self._meanings.get(field.field_id, ())
        return bool(known) and field.transform != VOID and _meaning(field) not in known


def _meaning(field: PartitionField) -> _Meaning:
    return (field.sources, field.transform)


_ORDERS = DefinitionKind[SortOrder](
    array="sort-orders",
    selector="default-sort-order-id",
    noun="sort order",
    role="default sort order",
    read=lambda metadata: metadata.sort_orders,
    id_of=lambda order: order.order_id,
    content_of=lambda order: order.fields,
)


class SortOrderChanges(DefinitionList[SortOrder]):
    """Sort orders and the default one."""

    def __init__(self, base: TableMetadata | None) -> None:
        super().__init__(base, _ORDERS, UNSORTED.order_id if base is None else base.default_sort_order_id)

    def add(self, sent: SortOrder, schema: Schema) -> None:
        """Adds an order under the next id, or finds the equal one. The unsorted order is always 0.

        Args:
            sent: the order; its id does not matter.
            schema: the current schema, which the order is bound to.

        Raises:
            IllegalArgumentError: it does not fit the schema.
        """
        order = sent.with_single_sources()
        existing = self.find(order)
        if existing is not None:
            self.last_added_id = existing.order_id
            return
        check_sort_order(order, schema)
        order_id = UNSORTED.order_id if order.is_unsorted else self.next_id(FIRST_SORT_ORDER_ID)
        added = SortOrder(order_id, order.fields)
        self.insert(added, encode_json(added))
