"""Ids at the end of what a Java `int` holds: refused before a document is written that nobody can read."""

from __future__ import annotations

import json

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.schemas.schema import HIGHEST_COLUMN_ID
from floecat.iceberg.views.view_builder import apply_view_updates
from floecat.iceberg.views.view_metadata import ViewMetadata
from tests.unit.iceberg.table_documents import (
    ID,
    TEXT,
    TS,
    column,
    commit,
    document,
    encode,
    order,
    parse,
    partition_field,
    schema,
    sort_field,
    spec,
    update,
)
from tests.updates import decode_view_updates
from tests.view_documents import view_document, view_version

LAST = 2**31 - 1
DAY = {"name": "d", "transform": "day", "source-id": 3}


def test_no_partition_field_id_is_left() -> None:
    table = parse(document())
    taken = partition_field(LAST, 1, "id_bucket", "bucket[4]")
    full = commit(table, update("add-spec", spec=spec(taken))).metadata
    assert parse(json.loads(full.to_bytes())).last_partition_id == LAST

    with pytest.raises(IllegalArgumentError, match=f"the highest partition field id {LAST} is taken"):
        commit(full, update("add-spec", spec=spec(DAY)))

    known = commit(full, update("add-spec", spec=spec({**taken, "name": "other"} | {"field-id": LAST})))
    assert known.metadata.last_partition_id == LAST


def test_no_spec_id_is_left() -> None:
    table = parse(document(**{"partition-specs": [spec(spec_id=LAST)], "default-spec-id": LAST}))
    with pytest.raises(IllegalArgumentError, match=f"partition-specs: the highest id {LAST} is taken"):
        commit(table, update("add-spec", spec=spec(DAY)))


def test_no_schema_id_is_left() -> None:
    last = schema(ID, TEXT, TS, schema_id=LAST)
    table = parse(document(**{"schemas": [last], "current-schema-id": LAST}))
    with pytest.raises(IllegalArgumentError, match=f"schemas: the highest id {LAST} is taken"):
        commit(table, update("add-schema", schema=schema(ID, TEXT)))
    same = commit(table, update("add-schema", schema=last), update("set-properties", updates={"a": "b"}))
    assert same.metadata.current_schema_id == LAST


def test_no_sort_order_id_is_left() -> None:
    orders = [order(order_id=0), order(sort_field(1), order_id=LAST)]
    table = parse(document(**{"sort-orders": orders}))
    with pytest.raises(IllegalArgumentError, match=f"sort-orders: the highest id {LAST} is taken"):
        commit(table, update("add-sort-order", sort_order=order(sort_field(2))))


def test_the_last_column_id_can_be_used() -> None:
    last = column(HIGHEST_COLUMN_ID, "z")
    grown = commit(parse(document()), update("add-schema", schema=schema(ID, last))).metadata
    assert parse(json.loads(grown.to_bytes())).last_column_id == HIGHEST_COLUMN_ID

    with pytest.raises(IllegalArgumentError, match="integer value: id of field z"):
        commit(grown, update("add-schema", schema=schema(ID, column(LAST + 1, "z"))))


@pytest.mark.parametrize("field_id", [HIGHEST_COLUMN_ID + 1, 2147483646, LAST])
def test_ids_of_metadata_columns_are_refused(field_id: int) -> None:
    reserved = schema(ID, column(field_id, "z"))
    problem = rf"column z \(field id {field_id}\) has a reserved id; the highest is 2147483447"
    with pytest.raises(IllegalArgumentError, match=problem):
        commit(parse(document()), update("add-schema", schema=reserved))

    # a table that has it already can be changed
    old = parse(document(schemas=[reserved]))
    wider = schema(ID, column(field_id, "z"), column(4, "more"))
    assert commit(old, update("add-schema", schema=wider)).changed


def test_ids_of_metadata_columns_are_refused_in_a_table_that_a_commit_creates() -> None:
    created = [
        update("set-location", location="s3://b/t"),
        update("add-schema", schema=schema(column(LAST, "z"))),
    ]
    with pytest.raises(IllegalArgumentError, match="has a reserved id"):
        commit(None, *created)


def _view(schema_id: int, version_id: int) -> ViewMetadata:
    version = view_version((), version_id=version_id, schema_id=schema_id)
    body = view_document(schema(ID, schema_id=schema_id), version)
    return ViewMetadata.parse(encode(body))


@pytest.mark.parametrize(
    ("view", "change", "words"),
    [
        (_view(LAST, 1), update("add-schema", schema=schema(TEXT)), f"highest schema id {LAST} is taken"),
        (
            _view(0, LAST),
            update(
                "add-view-version",
                view_version=json.loads(_view(0, 1).current_version.encoded)
                | {"default-namespace": ["elsewhere"]},
            ),
            f"version id {LAST + 1} is out of range",
        ),
    ],
)
def test_no_id_of_a_view_is_left(view: ViewMetadata, change: dict, words: str) -> None:
    with pytest.raises(IllegalArgumentError, match=words):
        apply_view_updates(view, decode_view_updates(encode([change])), now_ms=2)


def test_no_new_column_takes_an_id_that_a_spec_names() -> None:
    gone = spec({"name": "gone", "transform": "void", "source-id": 7})
    made = commit(parse(document()), update("add-spec", spec=gone)).metadata
    assert made.last_column_id == 7


def test_rows_that_were_numbered_before_version_3_are_counted() -> None:
    body = document()
    body["snapshots"][2] |= {"first-row-id": 5, "added-rows": 20}
    made = commit(parse(body), update("upgrade-format-version", format_version=3)).metadata
    assert made.next_row_id == 25
