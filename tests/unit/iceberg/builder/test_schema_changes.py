"""Changes of schemas, and field ids that come back."""

from __future__ import annotations

from typing import Any

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
    empty,
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


WITHOUT_MAIN = update("remove-snapshot-ref", ref_name="main")


def put(*columns: dict) -> dict:
    return update("add-schema", schema=schema(*columns))


def struct(*columns: dict) -> dict:
    return {"type": "struct", "fields": list(columns)}


def listed(element_id: int, element: object = "int") -> dict:
    return {"type": "list", "element-id": element_id, "element": element, "element-required": False}


def mapped(key_id: int, value_id: int) -> dict:
    names = {"key-id": key_id, "value-id": value_id, "value-required": False}
    return {"type": "map", "key": "string", "value": "int", **names}


def with_dropped(type: Any, version: int = 2) -> TableMetadata:
    """A table whose column 4 has been dropped."""
    made = parse(document(version, **{"last-column-id": 9}))
    return commit(made, put(ID, column(4, "old", type)), CURRENT, put(ID, TEXT, TS), CURRENT).metadata


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "string"),
        ("long", "int"),
        ("double", "float"),
        ("int", "double"),
        ("decimal(9, 2)", "decimal(8, 2)"),
        ("decimal(9, 2)", "decimal(9, 3)"),
        ("decimal(9, 2)", "decimal(11, 4)"),
        ("fixed[4]", "fixed[5]"),
        ("fixed[4]", "binary"),
        ("string", "binary"),
        ("timestamp", "timestamptz"),
        ("date", "timestamp"),
        ("int", struct(column(6, "a"))),
        (struct(column(5, "a")), "int"),
        (struct(column(5, "a")), listed(6)),
        (listed(5), mapped(6, 7)),
        (mapped(5, 6), struct(column(7, "a"))),
    ],
)
def test_an_id_with_another_type_is_refused(old: Any, new: Any) -> None:
    table = with_dropped(old)
    old_name, new_name = (each if isinstance(each, str) else each["type"] for each in (old, new))
    with pytest.raises(IllegalArgumentError) as raised:
        commit(table, put(ID, column(4, "fresh", new)))
    assert raised.value.message == (
        f"Invalid schema: column fresh (field id 4) of type {new_name} takes the id of a column of type"
        f" {old_name}, which may not become {new_name} in v2"
    )


@pytest.mark.parametrize(
    ("version", "old", "new"),
    [
        (2, "int", "int"),
        (2, "int", "long"),
        (1, "float", "double"),
        (2, "decimal(9, 2)", "decimal(9, 2)"),
        (2, "decimal(9, 2)", "decimal(38, 2)"),
        (3, "date", "timestamp"),
        (3, "date", "timestamp_ns"),
        (3, "unknown", "string"),
        (3, "unknown", listed(8)),
        (2, struct(column(5, "a")), struct(column(6, "b"))),
        (2, listed(5), listed(5, "long")),
        (2, mapped(5, 6), mapped(5, 6)),
    ],
)
def test_the_same_type_and_promotions_are_taken(version: int, old: Any, new: Any) -> None:
    changed = commit(with_dropped(old, version), put(ID, column(4, "fresh", new)), CURRENT).metadata
    assert changed.current_schema.fields_by_id[4].name == "fresh"


@pytest.mark.parametrize("new", ["timestamptz", "timestamptz_ns", "long"])
def test_dates_become_timestamps_without_a_zone_only(new: str) -> None:
    with pytest.raises(IllegalArgumentError, match=f"of type date, which may not become {new} in v3"):
        commit(with_dropped("date", 3), put(ID, column(4, "fresh", new)))


def test_a_column_that_is_there_keeps_its_type_too() -> None:
    with pytest.raises(IllegalArgumentError, match="of type string, which may not become int"):
        commit(parse(document()), put(ID, column(2, "text", "int"), TS))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([column(4, "s", struct(column(5, "a")))], [column(5, "a")]),
        ([column(5, "a"), column(4, "s", struct())], [column(4, "s", struct(column(5, "a")))]),
        ([column(4, "s", struct(column(5, "a")))], [column(6, "r", struct(column(5, "a")))]),
        ([column(4, "s", listed(5, "long"))], [column(5, "a")]),
    ],
)
def test_an_id_in_another_parent_is_refused(before: list[dict], after: list[dict]) -> None:
    table = commit(parse(document()), put(ID, *before), CURRENT).metadata
    with pytest.raises(IllegalArgumentError, match=r"\(field id 5\) of type long .* at another place"):
        commit(table, put(ID, *after))


def test_every_schema_counts_those_of_the_same_request_included() -> None:
    narrow, wide = column(4, "n", "int"), column(4, "n", "long")
    table = commit(parse(document()), put(ID, narrow), CURRENT, put(ID, wide), CURRENT).metadata
    assert commit(table, put(ID, TEXT, narrow), CURRENT).changed
    with pytest.raises(IllegalArgumentError, match="a column of type int and long, which"):
        commit(table, put(ID, column(4, "n", "string")))
    with pytest.raises(IllegalArgumentError, match="a column of type int, which"):
        commit(parse(document()), put(ID, narrow), put(ID, column(4, "n", "string")))


def test_a_schema_that_the_same_request_removes_counts() -> None:
    table = with_dropped("int")
    with pytest.raises(IllegalArgumentError, match="of type int, which may not become string"):
        commit(table, update("remove-schemas", schema_ids=[1]), put(ID, column(4, "fresh", "string")))


def with_default(value: Any, type: Any = "int", id: int = 4, **more: Any) -> dict:
    return schema(ID, TEXT, TS, column(id, "more", type, **more) | {"initial-default": value})


@pytest.mark.parametrize(
    ("old", "new", "is_taken"),
    [
        (with_default(5), with_default(6), False),
        (with_default(5), WIDER, False),
        (WIDER, with_default(5), False),
        (schema(ID, TEXT, TS, column(4, "more", "unknown")), with_default(5), False),
        (with_default(5), with_default(5, "long"), True),
        (with_default(1.5, "float"), with_default(1.5, "double"), True),
        (with_default("2020-01-01", "date"), with_default("2020-01-01T00:00:00", "timestamp"), True),
        (with_default("2020-01-01", "date"), with_default("2020-01-02T00:00:00", "timestamp"), False),
        (with_default(5), schema(ID, TEXT, TS, with_default(5)["fields"][3] | {"write-default": 6}), True),
        (
            with_default({}, {"type": "struct", "fields": [column(5, "a", "int")]}),
            with_default({}, {"type": "struct", "fields": [column(5, "a", "int"), column(6, "b", "int")]}),
            True,
        ),
    ],
)
def test_an_initial_default_never_changes(old: dict, new: dict, is_taken: bool) -> None:
    before = commit(parse(document(3)), add(old), CURRENT).metadata
    updates = [add(new), CURRENT]
    # without rows none changes
    assert commit(commit(parse(empty(3)), add(old), CURRENT).metadata, *updates).changed
    if is_taken:
        assert read(commit(before, *updates).metadata)["schemas"][-1]["fields"][3:] == new["fields"][3:]
    else:
        with pytest.raises(IllegalArgumentError, match="has another initial-default than before"):
            commit(before, *updates)


@pytest.mark.parametrize(
    ("transform", "is_taken"), [("bucket[4]", False), ("identity", True), ("day", True), ("void", True)]
)
@pytest.mark.parametrize("new", ["timestamp", "timestamp_ns"])
def test_promotion_of_a_partition_column(transform: str, new: str, is_taken: bool) -> None:
    """Hashes of a day and of its first moment differ; those of an `int` and a `long` do not."""
    columns = [ID, column(2, "d", "date")]
    made = document(
        3, schemas=[schema(*columns)], **{"partition-specs": [spec(partition_field(1000, 2, "p", transform))]}
    )
    table = parse(made)
    updates = [add(schema(ID, column(2, "d", new))), CURRENT]
    if is_taken:
        assert commit(table, *updates).changed
        return
    with pytest.raises(IllegalArgumentError, match=r"may not become .*bucket\[4\] of partition spec 0"):
        commit(table, *updates)
    # in two commits, too
    waiting = commit(table, updates[0]).metadata
    with pytest.raises(IllegalArgumentError, match="may not become"):
        commit(waiting, update("set-current-schema", schema_id=1))


def test_an_older_schema_comes_back_whatever_was_between() -> None:
    changed = commit(parse(document()), WITHOUT_MAIN, put(ID, TEXT | {"type": "int"}, TS), CURRENT).metadata
    filled = commit(changed, *append(14, 4, None)).metadata
    back = commit(filled, put(ID, TEXT, TS), CURRENT).metadata
    assert (back.current_schema_id, len(read(back)["schemas"])) == (0, 2)


class TestReplacement:
    """The reference client keeps ids by name when a table is replaced, whatever the types."""

    REPLACED = (put(ID, TEXT | {"type": "int"}, TS | {"type": struct(column(4, "a"))}), CURRENT)

    def test_without_its_rows_a_table_changes_types(self) -> None:
        replaced = commit(parse(document()), WITHOUT_MAIN, *self.REPLACED, *append(14, 4, None)).metadata
        assert str(replaced.current_schema.find_type(2)) == "int"
        # and goes on from there
        wider = put(ID, TEXT | {"type": "long"}, column(5, "more"))
        assert commit(replaced, wider, CURRENT).changed

    def test_an_empty_table_changes_types(self) -> None:
        assert commit(parse(empty()), *self.REPLACED).changed

    @pytest.mark.parametrize("first", [[], [WITHOUT_MAIN]])
    def test_ids_of_dropped_columns_stay_refused(self, first: list[dict]) -> None:
        base = with_dropped("int") if first else parse(empty(schemas=[schema(ID, TEXT, TS)]))
        if not first:
            base = commit(base, put(ID, column(4, "old", "int")), CURRENT, put(ID), CURRENT).metadata
        with pytest.raises(IllegalArgumentError, match="of type int, which may not become string"):
            commit(base, *first, put(ID, column(4, "fresh", "string")))
