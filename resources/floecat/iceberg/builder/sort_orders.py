"""Changes of the sort orders of a table."""

from __future__ import annotations

from floecat.errors import IllegalArgumentError
from floecat.iceberg.builder.definition_list import DefinitionList
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.sorting import (
    FIRST_SORT_ORDER_ID,
    UNSORTED,
    SortOrder,
    check_sort_order,
    parse_sort_order,
)
from floecat.iceberg.updates import LAST_ADDED
from floecat.iceberg.values.encoded_json import Fragment, RawJson, encode_json

__all__ = [
    "SortOrderChanges",
]


class SortOrderChanges:
    """Sort orders and the default one."""

    def __init__(self, base: TableMetadata | None) -> None:
        self._base = base
        self.definitions = DefinitionList[SortOrder](
            base,
            "sort-orders",
            lambda metadata: metadata.sort_orders,
            lambda order: order.order_id,
            lambda order: order.fields,
        )
        self.default_id = UNSORTED.order_id if base is None else base.default_sort_order_id
        self._last_added: int | None = None

    @property
    def default(self) -> SortOrder:
        """The default order.

        Raises:
            IllegalArgumentError: there is none yet.
        """
        order = self.definitions.items.get(self.default_id)
        if order is None:
            raise IllegalArgumentError(f"Cannot find default sort order: {self.default_id}")
        return order

    @property
    def default_changed(self) -> bool:
        """Whether another order is the default than in the base."""
        return self._base is None or self.default_id != self._base.default_sort_order_id

    @property
    def changed(self) -> bool:
        """Whether anything is different from the base."""
        return self._base is None or self.definitions.changed or self.default_changed

    def add(self, raw: RawJson, schema: Schema) -> None:
        """Adds an order under the next id, or finds the one that sorts alike. The unsorted order is always 0.

        Args:
            raw: the order.
            schema: the current schema, which the order is bound to.

        Raises:
            IllegalArgumentError: not an order, or it does not fit the schema.
        """
        order = parse_sort_order(raw).with_single_sources()
        existing = self.definitions.find(order)
        if existing is not None:
            self._last_added = existing.order_id
            return
        check_sort_order(order, schema)
        order_id = UNSORTED.order_id if order.is_unsorted else self.definitions.next_id(FIRST_SORT_ORDER_ID)
        added = SortOrder(order_id, order.fields)
        self.definitions.add(added, encode_json(added))
        self._last_added = order_id

    def set_default(self, order_id: int) -> None:
        """Makes an order the default one.

        Raises:
            IllegalArgumentError: no such order, or none was added by this request.
        """
        if order_id == LAST_ADDED:
            if self._last_added is None:
                raise IllegalArgumentError("Cannot set last added sort order: no sort order has been added")
            order_id = self._last_added
        if order_id != self.default_id and order_id not in self.definitions.items:
            raise IllegalArgumentError(f"Cannot set default sort order to unknown order: {order_id}")
        self.default_id = order_id

    def write(self, fields: dict[str, Fragment]) -> None:
        """Puts what has changed into the fields of the next document."""
        fields["default-sort-order-id"] = (encode_json(self.default_id),)
        if self.definitions.changed or "sort-orders" not in fields:
            fields["sort-orders"] = self.definitions.array()
