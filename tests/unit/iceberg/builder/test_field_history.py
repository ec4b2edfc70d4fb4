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
    parse,
    read,
    schema,
    update,
)

CURRENT = update("set-current-schema", schema_id=-1)
WITHOUT_MAIN = update("remove-snapshot-ref", ref_name="main")


def add(*columns: dict) -> dict:
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
    return commit(made, add(ID, column(4, "old", type)), CURRENT, add(ID, TEXT, TS), CURRENT).metadata


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
        commit(table, add(ID, column(4, "fresh", new)))
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
    changed = commit(with_dropped(old, version), add(ID, column(4, "fresh", new)), CURRENT).metadata
    assert changed.current_schema.fields_by_id[4].name == "fresh"


@pytest.mark.parametrize("new", ["timestamptz", "timestamptz_ns", "long"])
def test_dates_become_timestamps_without_a_zone_only(new: str) -> None:
    with pytest.raises(IllegalArgumentError, match=f"of type date, which may not become {new} in v3"):
        commit(with_dropped("date", 3), add(ID, column(4, "fresh", new)))


def test_a_column_that_is_there_keeps_its_type_too() -> None:
    with pytest.raises(IllegalArgumentError, match="of type string, which may not become int"):
        commit(parse(document()), add(ID, column(2, "text", "int"), TS))


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
    table = commit(parse(document()), add(ID, *before), CURRENT).metadata
    with pytest.raises(IllegalArgumentError, match=r"\(field id 5\) of type long .* at another place"):
        commit(table, add(ID, *after))


def test_every_schema_counts_those_of_the_same_request_included() -> None:
    narrow, wide = column(4, "n", "int"), column(4, "n", "long")
    table = commit(parse(document()), add(ID, narrow), CURRENT, add(ID, wide), CURRENT).metadata
    assert commit(table, add(ID, TEXT, narrow), CURRENT).changed
    with pytest.raises(IllegalArgumentError, match="a column of type int and long, which"):
        commit(table, add(ID, column(4, "n", "string")))
    with pytest.raises(IllegalArgumentError, match="a column of type int, which"):
        commit(parse(document()), add(ID, narrow), add(ID, column(4, "n", "string")))


def test_a_schema_that_the_same_request_removes_counts() -> None:
    table = with_dropped("int")
    with pytest.raises(IllegalArgumentError, match="of type int, which may not become string"):
        commit(table, update("remove-schemas", schema_ids=[1]), add(ID, column(4, "fresh", "string")))


def test_an_older_schema_comes_back_whatever_was_between() -> None:
    changed = commit(parse(document()), WITHOUT_MAIN, add(ID, TEXT | {"type": "int"}, TS), CURRENT).metadata
    filled = commit(changed, *append(14, 4, None)).metadata
    back = commit(filled, add(ID, TEXT, TS), CURRENT).metadata
    assert (back.current_schema_id, len(read(back)["schemas"])) == (0, 2)


class TestReplacement:
    """The reference client keeps ids by name when a table is replaced, whatever the types."""

    REPLACED = (add(ID, TEXT | {"type": "int"}, TS | {"type": struct(column(4, "a"))}), CURRENT)

    def test_without_its_rows_a_table_changes_types(self) -> None:
        replaced = commit(parse(document()), WITHOUT_MAIN, *self.REPLACED, *append(14, 4, None)).metadata
        assert str(replaced.current_schema.find_type(2)) == "int"
        # and goes on from there
        wider = add(ID, TEXT | {"type": "long"}, column(5, "more"))
        assert commit(replaced, wider, CURRENT).changed

    def test_an_empty_table_changes_types(self) -> None:
        assert commit(parse(empty()), *self.REPLACED).changed

    @pytest.mark.parametrize("first", [[], [WITHOUT_MAIN]])
    def test_ids_of_dropped_columns_stay_refused(self, first: list[dict]) -> None:
        base = with_dropped("int") if first else parse(empty(schemas=[schema(ID, TEXT, TS)]))
        if not first:
            base = commit(base, add(ID, column(4, "old", "int")), CURRENT, add(ID), CURRENT).metadata
        with pytest.raises(IllegalArgumentError, match="of type int, which may not become string"):
            commit(base, *first, add(ID, column(4, "fresh", "string")))
