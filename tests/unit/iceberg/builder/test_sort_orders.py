from __future__ import annotations

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from tests.unit.iceberg.table_documents import commit, document, order, parse, read, sort_field, update

DEFAULT = update("set-default-sort-order", sort_order_id=-1)


def add(*fields: dict, order_id: int = 0) -> dict:
    return update("add-sort-order", sort_order=order(*fields, order_id=order_id))


@pytest.fixture
def table() -> TableMetadata:
    return parse(document())


def test_orders_get_the_next_id_and_the_unsorted_one_is_0(table: TableMetadata) -> None:
    written = read(commit(table, add(sort_field(1), order_id=7), add(sort_field(2)), DEFAULT).metadata)
    assert written["sort-orders"] == [
        order(order_id=0),
        order(sort_field(1)),
        order(sort_field(2), order_id=2),
    ]
    assert written["default-sort-order-id"] == 2


def test_an_order_that_sorts_alike_keeps_its_id(table: TableMetadata) -> None:
    sorted_table = commit(table, add(sort_field(1)), DEFAULT).metadata
    back = commit(sorted_table, add(), DEFAULT).metadata
    assert (back.default_sort_order_id, len(back.sort_orders)) == (0, 2)

    again = commit(back, add(sort_field(1), order_id=5), DEFAULT).metadata
    assert again.default_sort_order_id == 1
    other = commit(again, add(sort_field(1) | {"direction": "desc"}), DEFAULT).metadata
    assert other.default_sort_order_id == 2


def test_a_table_that_never_had_the_unsorted_order_gets_it_as_0() -> None:
    table = parse(document(**{"sort-orders": [order(sort_field(1))], "default-sort-order-id": 1}))
    metadata = commit(table, add(), DEFAULT).metadata
    assert metadata.default_sort_order_id == 0
    assert [item.order_id for item in metadata.sort_orders] == [1, 0]


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ([DEFAULT], "Cannot set last added sort order: no sort order has been added"),
        ([update("set-default-sort-order", sort_order_id=4)], "to unknown order: 4"),
        ([add(sort_field(9))], "Cannot find source column for sort field"),
        ([add(sort_field(2, "hour"))], "Invalid source type string for transform: hour"),
    ],
)
def test_refuses(table: TableMetadata, updates: list[dict], message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        commit(table, *updates)
