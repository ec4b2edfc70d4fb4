from __future__ import annotations

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from tests.unit.iceberg.table_documents import (
    ID,
    TEXT,
    TS,
    append,
    column,
    commit,
    document,
    order,
    parse,
    partition_field,
    read,
    schema,
    snapshot,
    sort_field,
    spec,
    update,
)

WIDER = schema(ID, TEXT, TS, column(4, "more", "int"))
CURRENT = update("set-current-schema", schema_id=-1)


def add(body: dict, **more: object) -> dict:
    return update("add-schema", schema=body, **more)


@pytest.fixture
def table() -> TableMetadata:
    return parse(document())


def test_a_new_schema_gets_the_next_id(table: TableMetadata) -> None:
    written = read(commit(table, add(WIDER | {"schema-id": 40, "x-later": 1}), CURRENT).metadata)

    assert written["schemas"] == [schema(ID, TEXT, TS), WIDER | {"schema-id": 1, "x-later": 1}]
    assert written["current-schema-id"] == 1
    assert written["last-column-id"] == 4


def test_the_same_schema_keeps_its_id(table: TableMetadata) -> None:
    wider = commit(table, add(WIDER), CURRENT).metadata
    back = commit(wider, add(schema(ID, TEXT, TS, schema_id=1)), CURRENT).metadata

    assert len(read(back)["schemas"]) == 2
    assert back.current_schema_id == 0
    assert back.last_column_id == 4


@pytest.mark.parametrize(
    "other",
    [
        schema(ID, TEXT | {"doc": "words"}, TS),
        schema(ID, TEXT | {"required": True}, TS),
        schema(ID, TS, TEXT),
        schema(ID, TEXT, TS, **{"identifier-field-ids": [1]}),
    ],
)
def test_small_differences_make_another_schema(table: TableMetadata, other: dict) -> None:
    assert commit(table, add(other), CURRENT).metadata.current_schema_id == 1


def test_dropping_the_highest_column_never_frees_its_id(table: TableMetadata) -> None:
    dropped = commit(table, add(schema(ID, TEXT), **{"last-column-id": 2}), CURRENT).metadata
    assert (dropped.last_column_id, dropped.current_schema.highest_field_id) == (3, 2)
    assert read(dropped)["last-column-id"] == 3

    again = commit(dropped, add(schema(ID, TEXT, column(4, "ts", "timestamp"))), CURRENT).metadata
    assert again.last_column_id == 4


def test_nested_columns_count(table: TableMetadata) -> None:
    items = column(4, "items", {"type": "list", "element-id": 9, "element": "int", "element-required": True})
    assert commit(table, add(schema(ID, TEXT, TS, items))).metadata.last_column_id == 9


def test_the_last_added_one_is_that_of_the_request(table: TableMetadata) -> None:
    widest = schema(ID, TEXT, TS, column(5, "most", "int"))
    metadata = commit(table, add(WIDER), add(widest), add(WIDER), CURRENT).metadata
    assert metadata.current_schema_id == 1
    assert [item.schema_id for item in metadata.schemas] == [0, 1, 2]


def test_removed_schemas_are_gone_and_others_keep_their_bytes(table: TableMetadata) -> None:
    wider = commit(table, add(WIDER), CURRENT, add(schema(ID))).metadata
    metadata = commit(wider, update("remove-schemas", schema_ids=[2, 77])).metadata
    assert read(metadata)["schemas"] == read(wider)["schemas"][:2]


def test_a_schema_that_a_snapshot_was_written_with_stays(table: TableMetadata) -> None:
    wider = commit(table, add(WIDER), CURRENT).metadata
    with pytest.raises(IllegalArgumentError, match="Cannot remove schema 0: a snapshot was written with it"):
        commit(wider, update("remove-schemas", schema_ids=[0]))

    expired = commit(
        wider,
        update("remove-schemas", schema_ids=[0]),
        *append(14, 4, 13, **{"schema-id": 1}),
        update("remove-snapshots", snapshot_ids=[11, 12, 13]),
    ).metadata
    assert [item.schema_id for item in expired.schemas] == [1]


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ([CURRENT], "Cannot set last added schema: no schema has been added"),
        ([update("set-current-schema", schema_id=9)], "Cannot set current schema to unknown schema: 9"),
        ([update("remove-schemas", schema_ids=[0])], "Cannot remove the current schema"),
        (
            [add(schema(ID, TEXT, TS, column(4, "data", "variant")))],
            "Invalid type for data: variant is not supported until v3",
        ),
        (
            [add(schema(ID | {"initial-default": 5}, TEXT, TS))],
            "Invalid initial default for id: non-null default is not supported until v3",
        ),
        ([add({"type": "struct"})], "struct fields"),
    ],
)
def test_refuses(table: TableMetadata, updates: list[dict], message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        commit(table, *updates)


def test_new_types_come_with_version_3(table: TableMetadata) -> None:
    data = add(schema(ID, TEXT, TS, column(4, "data", "variant")))
    metadata = commit(table, update("upgrade-format-version", format_version=3), data, CURRENT).metadata
    assert metadata.current_schema.names_by_id[4] == "data"


def test_the_default_spec_and_order_need_their_columns() -> None:
    partitioned = parse(
        document(
            **{"partition-specs": [spec(partition_field(1000, 2, "text"))], "snapshots": [snapshot(13, 3)]}
        )
    )
    with pytest.raises(IllegalArgumentError, match="Cannot find source column for partition field: text"):
        commit(partitioned, add(schema(ID, TS)), CURRENT)

    ordered = parse(document(**{"sort-orders": [order(sort_field(2), order_id=0)]}))
    with pytest.raises(IllegalArgumentError, match="Cannot find source column for sort field"):
        commit(ordered, add(schema(ID, TS)), CURRENT)


def test_a_column_named_like_a_partition_field_would_lock_readers_out() -> None:
    table = parse(document(**{"partition-specs": [spec(partition_field(1000, 3, "ts_day", "day"))]}))
    with pytest.raises(IllegalArgumentError, match="sourced from different field in schema: ts_day"):
        commit(table, add(schema(ID, TEXT, TS, column(4, "ts_day", "date"))), CURRENT)
