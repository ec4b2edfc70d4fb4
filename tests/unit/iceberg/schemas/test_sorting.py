from __future__ import annotations

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.schema import Schema, parse_schema
from floecat.iceberg.schemas.sorting import check_sort_order, parse_sort_order
from tests.unit.iceberg.table_documents import ID, TEXT, column, encode, order, schema, sort_field


@pytest.fixture
def columns() -> Schema:
    return parse_schema(encode(schema(ID, TEXT, column(3, "inner", {"type": "struct", "fields": []}))))


def test_reads_directions_in_any_case() -> None:
    field = sort_field(1) | {"direction": "DESC", "null-order": "Nulls-Last", "transform": "Bucket[8]"}

    found = parse_sort_order(encode(order(field))).fields[0]

    assert (found.direction, found.null_order, found.transform) == ("desc", "nulls-last", "bucket[8]")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"direction": "up"}, "Invalid sort direction: up"),
        ({"null-order": "nulls"}, "Unexpected null order: nulls"),
        ({"source-id": None}, "Cannot parse missing int: source-id"),
        ({"transform": 3}, "Invalid sort order"),
    ],
)
def test_refuses_broken_fields(change: dict, message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        parse_sort_order(encode(order(sort_field(1) | change)))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (sort_field(9), "Cannot find source column for sort field: source id 9"),
        (sort_field(3), "Cannot sort by non-primitive source field: struct"),
        (sort_field(2, "day"), "Invalid source type string for transform: day"),
    ],
)
def test_fields_must_fit_the_schema(columns: Schema, field: dict, message: str) -> None:
    with pytest.raises(IllegalArgumentError) as caught:
        check_sort_order(parse_sort_order(encode(order(field))), columns)
    assert caught.value.message == message


def test_several_sources(columns: Schema) -> None:
    field = {key: value for key, value in sort_field(1, "zorder").items() if key != "source-id"}
    found = parse_sort_order(encode(order(field | {"source-ids": [1, 2]})))

    assert found.fields[0].sources == (1, 2)
    check_sort_order(found, columns)
