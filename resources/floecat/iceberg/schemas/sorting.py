"""Sort orders: read from JSON, compared, and bound to a schema (table specification, "Sorting")."""

from __future__ import annotations

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.transforms import can_transform, normalize_transform, only_source
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.encoded_json import Int32, RawJson, WithFields, decode_json, take_json

__all__ = [
    "FIRST_SORT_ORDER_ID",
    "UNSORTED",
    "SortField",
    "SortOrder",
    "check_sort_order",
    "parse_sort_order",
]

FIRST_SORT_ORDER_ID = 1
"""Id of the first order that sorts; 0 is the unsorted order of every table."""

_DIRECTIONS = frozenset({"asc", "desc"})
_NULL_ORDERS = frozenset({"nulls-first", "nulls-last"})


class SortField(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A field of a sort order. With several sources (format version 3) it has `source_ids` only."""

    transform: str
    direction: str
    null_order: str
    source_id: Int32 | None = None
    source_ids: tuple[Int32, ...] | None = None

    @property
    def sources(self) -> tuple[int, ...]:
        """Ids of all source columns."""
        if self.source_id is not None:
            return (self.source_id,)
        return self.source_ids or ()


class SortOrder(msgspec.Struct, frozen=True, rename="kebab"):
    """The order of rows within files."""

    order_id: Int32 = 0
    fields: tuple[SortField, ...] = ()

    @property
    def is_unsorted(self) -> bool:
        """Whether it has no fields."""
        return not self.fields

    def with_single_sources(self) -> SortOrder:
        """The order in the form that is written: each field names its one column in `source-id`.

        Raises:
            IllegalArgumentError: a field has several.
        """
        return SortOrder(self.order_id, tuple(_with_single_source(field) for field in self.fields))


UNSORTED = SortOrder()
"""The order of a table that is not sorted."""


def parse_sort_order(raw: RawJson) -> SortOrder:
    """Reads a sort order; transforms, directions and null orders are written in lower case.

    Raises:
        IllegalArgumentError: not a sort order.
    """
    sent = take_json(raw, "sort order")
    decode_json(sent, WithFields, "sort order")
    order = decode_json(sent, SortOrder, "sort order")
    return SortOrder(order.order_id, tuple(_normalize(field) for field in order.fields))


def _normalize(field: SortField) -> SortField:
    if field.source_id is None and not field.source_ids:
        raise IllegalArgumentError("Cannot parse missing int: source-id of sort field")
    direction, null_order = field.direction.lower(), field.null_order.lower()
    if direction not in _DIRECTIONS:
        raise IllegalArgumentError(f"Invalid sort direction: {direction[:80]}")
    if null_order not in _NULL_ORDERS:
        raise IllegalArgumentError(f"Unexpected null order: {null_order[:80]}")
    return SortField(
        transform=normalize_transform(field.transform),
        direction=direction,
        null_order=null_order,
        source_id=field.source_id,
        source_ids=field.source_ids,
    )


def _with_single_source(field: SortField) -> SortField:
    if field.source_ids is None:
        return field
    source_id = only_source(field.source_id, field.source_ids, "sort field")
    return msgspec.structs.replace(field, source_id=source_id, source_ids=None)


def check_sort_order(order: SortOrder, schema: Schema) -> None:
    """Refuses an order that cannot sort rows of a schema.

    Raises:
        IllegalArgumentError: a source column is missing or not primitive, or the transform does not accept
            its type.
    """
    for field in order.fields:
        for source_id in field.sources:
            source = schema.find_type(source_id)
            if source is None:
                raise IllegalArgumentError(f"Cannot find source column for sort field: source id {source_id}")
            if not isinstance(source, PrimitiveType) or not source.is_primitive:
                raise IllegalArgumentError(f"Cannot sort by non-primitive source field: {source}")
            if not can_transform(field.transform, source):
                raise IllegalArgumentError(f"Invalid source type {source} for transform: {field.transform}")
