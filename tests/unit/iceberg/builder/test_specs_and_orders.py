"""Changes of partition specs and sort orders."""

from __future__ import annotations

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from tests.unit.iceberg.table_documents import (
    ID,
    TEXT,
    TS,
    column,
    commit,
    document,
    order,
    parse,
    partition_field,
    read,
    schema,
    sort_field,
    spec,
    update,
)

DAY = partition_field(1000, 3, "ts_day", "day")
BUCKET = partition_field(1001, 1, "id_bucket", "bucket[16]")
DEFAULT = update("set-default-spec", spec_id=-1)
SET_SCHEMA = update("set-current-schema", schema_id=-1)


def add(*fields: dict, spec_id: int = 0) -> dict:
    return update("add-spec", spec=spec(*fields, spec_id=spec_id))


def add_schema(*columns: dict) -> dict:
    return update("add-schema", schema=schema(*columns))


def without_id(field: dict) -> dict:
    return {key: value for key, value in field.items() if key != "field-id"}


@pytest.fixture
def table() -> TableMetadata:
    return parse(document())


def test_a_new_spec_gets_the_next_id(table: TableMetadata) -> None:
    written = read(commit(table, add(DAY | {"transform": "DAY"}, spec_id=9), DEFAULT).metadata)

    assert written["partition-specs"] == [spec(), spec(DAY, spec_id=1)]
    assert written["default-spec-id"] == 1
    assert written["last-partition-id"] == 1000


def test_a_spec_that_partitions_alike_keeps_its_id(table: TableMetadata) -> None:
    daily = commit(table, add(DAY), DEFAULT).metadata
    back = commit(daily, add(), DEFAULT).metadata
    assert (back.default_spec_id, len(back.partition_specs)) == (0, 2)

    again = commit(back, add(DAY | {"field-id": 1055}), DEFAULT).metadata
    assert (again.default_spec_id, again.last_partition_id) == (1, 1000)


def test_fields_without_ids_get_known_or_fresh_ones(table: TableMetadata) -> None:
    daily = commit(table, add(DAY), DEFAULT).metadata
    renamed = without_id(DAY | {"name": "day"})

    written = read(commit(daily, add(without_id(BUCKET), renamed), DEFAULT).metadata)

    assert written["partition-specs"][2]["fields"] == [BUCKET, DAY | {"name": "day"}]
    assert written["last-partition-id"] == 1001


def test_the_highest_field_id_stays(table: TableMetadata) -> None:
    both = commit(table, add(DAY, BUCKET), DEFAULT, add()).metadata
    metadata = commit(
        both, update("set-default-spec", spec_id=0), update("remove-partition-specs", spec_ids=[1])
    ).metadata

    assert [item.spec_id for item in metadata.partition_specs] == [0]
    assert metadata.last_partition_id == 1001
    fresh = commit(metadata, add(without_id(BUCKET)), DEFAULT).metadata
    assert fresh.partition_specs[-1].fields[0].field_id == 1002


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ([DEFAULT], "Cannot set last added spec: no spec has been added"),
        ([update("set-default-spec", spec_id=5)], "Cannot set default partition spec to unknown spec: 5"),
        ([update("remove-partition-specs", spec_ids=[0])], "Cannot remove the default partition spec"),
        ([add(partition_field(1000, 8, "x"))], "Cannot find source column for partition field: x"),
        ([add(partition_field(1000, 2, "x", "day"))], "Invalid source type string for transform: day"),
        ([add(partition_field(1000, 3, "ts", "day"))], "name that exists in schema: ts"),
        ([add(DAY, BUCKET | {"field-id": 1000})], "Cannot use partition field id more than once"),
        ([add(DAY), add(BUCKET | {"field-id": 1000})], "Cannot use partition field id 1000 for id_bucket"),
        ([update("add-spec", spec={"spec-id": 0, "fields": [{}]})], "Invalid partition spec"),
    ],
)
def test_refuses(table: TableMetadata, updates: list[dict], message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        commit(table, *updates)


def test_v1_counts_from_1000() -> None:
    table = parse(document(1))

    with pytest.raises(IllegalArgumentError, match="sequential IDs that are required in v1"):
        commit(table, add(BUCKET))
    numbered = commit(table, add(without_id(DAY), without_id(BUCKET)), DEFAULT).metadata
    assert [field.field_id for field in numbered.partition_specs[1].fields] == [1000, 1001]

    kept = commit(numbered, add(DAY | {"transform": "void"}, BUCKET), DEFAULT).metadata
    assert read(kept)["partition-spec"] == [DAY | {"transform": "void"}, BUCKET]


def test_a_void_field_may_stand_for_a_dropped_one(table: TableMetadata) -> None:
    daily = commit(table, add(DAY), DEFAULT).metadata
    metadata = commit(daily, add(DAY | {"transform": "void"}, BUCKET), DEFAULT).metadata
    assert metadata.default_spec_id == 2


def test_unknown_transforms_are_kept(table: TableMetadata) -> None:
    metadata = commit(table, add(partition_field(1000, 1, "z", "zorder")), DEFAULT).metadata
    assert read(metadata)["partition-specs"][1]["fields"][0]["transform"] == "zorder"


WITHOUT_ROWS = update("remove-snapshot-ref", ref_name="main")


class TestSchemasUnderHistoricalSpecs:
    """A spec that is no longer the default one, and a schema that its column has changed or left."""

    @pytest.fixture
    def once_daily(self, table: TableMetadata) -> TableMetadata:
        return commit(table, add(DAY), DEFAULT, add(), DEFAULT).metadata

    @pytest.mark.parametrize("type", ["string", {"type": "struct", "fields": []}])
    def test_a_type_that_the_transform_does_not_take_is_refused(
        self, once_daily: TableMetadata, type: object
    ) -> None:
        # as when a table is replaced: its columns keep their ids by name, whatever their types
        replaced = [WITHOUT_ROWS, add_schema(ID, TEXT, TS | {"type": type}), SET_SCHEMA]
        with pytest.raises(IllegalArgumentError, match=r"for transform: day .* remove the spec first"):
            commit(once_daily, *replaced)

        without = commit(once_daily, update("remove-partition-specs", spec_ids=[1]), *replaced).metadata
        assert without.current_schema_id == 1

    @pytest.mark.parametrize("type", ["date", "timestamptz", "timestamp"])
    def test_other_types_are_taken(self, once_daily: TableMetadata, type: str) -> None:
        other = add_schema(ID, TEXT | {"doc": "d"}, TS | {"type": type})
        assert commit(once_daily, WITHOUT_ROWS, other, SET_SCHEMA).changed

    def test_the_identity_takes_nested_types(self, table: TableMetadata) -> None:
        once = commit(table, add(partition_field(1000, 2, "text")), DEFAULT, add(), DEFAULT).metadata
        nested = TEXT | {"type": {"type": "struct", "fields": []}}
        assert commit(once, WITHOUT_ROWS, add_schema(ID, nested, TS), SET_SCHEMA).changed

    def test_the_name_of_a_field_is_free_once_its_column_is_gone(self, table: TableMetadata) -> None:
        once = commit(table, add(partition_field(1000, 2, "text")), DEFAULT, add(), DEFAULT).metadata
        dropped = commit(once, add_schema(ID, TS), SET_SCHEMA).metadata
        assert commit(dropped, add_schema(ID, TS, column(4, "text")), SET_SCHEMA).changed

        with pytest.raises(IllegalArgumentError, match="sourced from different field in schema: text"):
            commit(once, add_schema(ID, TEXT | {"name": "old"}, TS, column(4, "text")), SET_SCHEMA)


def test_fresh_ids_are_above_all_that_the_specs_have(table: TableMetadata) -> None:
    low = parse(document(**{"partition-specs": [spec(DAY)], "last-partition-id": 0}))
    written = read(commit(low, add(without_id(BUCKET), without_id(DAY))).metadata)
    assert written["partition-specs"][1]["fields"] == [BUCKET, DAY]
    assert written["last-partition-id"] == 1001


DEFAULT_ORDER = update("set-default-sort-order", sort_order_id=-1)


def add_order(*fields: dict, order_id: int = 0) -> dict:
    return update("add-sort-order", sort_order=order(*fields, order_id=order_id))


def test_orders_get_the_next_id_and_the_unsorted_one_is_0(table: TableMetadata) -> None:
    written = read(
        commit(table, add_order(sort_field(1), order_id=7), add_order(sort_field(2)), DEFAULT_ORDER).metadata
    )
    assert written["sort-orders"] == [
        order(order_id=0),
        order(sort_field(1)),
        order(sort_field(2), order_id=2),
    ]
    assert written["default-sort-order-id"] == 2


def test_an_order_that_sorts_alike_keeps_its_id(table: TableMetadata) -> None:
    sorted_table = commit(table, add_order(sort_field(1)), DEFAULT_ORDER).metadata
    back = commit(sorted_table, add_order(), DEFAULT_ORDER).metadata
    assert (back.default_sort_order_id, len(back.sort_orders)) == (0, 2)

    again = commit(back, add_order(sort_field(1), order_id=5), DEFAULT_ORDER).metadata
    assert again.default_sort_order_id == 1
    other = commit(again, add_order(sort_field(1) | {"direction": "desc"}), DEFAULT_ORDER).metadata
    assert other.default_sort_order_id == 2


def test_a_table_that_never_had_the_unsorted_order_gets_it_as_0() -> None:
    table = parse(document(**{"sort-orders": [order(sort_field(1))], "default-sort-order-id": 1}))
    metadata = commit(table, add_order(), DEFAULT_ORDER).metadata
    assert metadata.default_sort_order_id == 0
    assert [item.order_id for item in metadata.sort_orders] == [1, 0]


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ([DEFAULT_ORDER], "Cannot set last added sort order: no sort order has been added"),
        ([update("set-default-sort-order", sort_order_id=4)], "to unknown sort order: 4"),
        ([add_order(sort_field(9))], "Cannot find source column for sort field"),
        ([add_order(sort_field(2, "hour"))], "Invalid source type string for transform: hour"),
    ],
)
def test_refuses_orders(table: TableMetadata, updates: list[dict], message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        commit(table, *updates)
