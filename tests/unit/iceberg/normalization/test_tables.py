"""Documents of other writers become what every reader reads; those of the usual writers stay as they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from floecat.errors import InvalidMetadataError
from floecat.iceberg.metadata.integrity import check_integrity
from floecat.iceberg.normalization import normalize_table, read_foreign_table
from tests.unit.iceberg.table_documents import (
    ID,
    TEXT,
    TS,
    UUID,
    column,
    document,
    empty,
    encode,
    order,
    partition_field,
    schema,
    sort_field,
    spec,
)

KEY = {"key-id": "k", "encrypted-key-metadata": "AAEC"}
P = partition_field(1000, 2, "p", "bucket[4]")
FILE = {
    "snapshot-id": 11,
    "statistics-path": "s3://lake/s",
    "file-size-in-bytes": 1,
    "file-footer-size-in-bytes": 1,
    "blob-metadata": [],
}
BLOB = {"type": "apache-datasketches-theta-v1", "snapshot-id": 11, "sequence-number": 1, "fields": [1]}


def _list(element_id: object) -> dict[str, object]:
    return {"type": "list", "element-id": element_id, "element": "int", "element-required": False}


def _normalized(body: dict) -> dict[str, Any]:
    made = normalize_table(encode(body))
    check_integrity(read_foreign_table(made))
    assert normalize_table(made) is made
    return json.loads(made)


def _changed(sent: dict, made: dict) -> dict[str, Any]:
    """What is different, `...` for what is gone."""
    names = sent.keys() | made.keys()
    return {name: made.get(name, ...) for name in names if sent.get(name, ...) != made.get(name, ...)}


@pytest.mark.parametrize(
    "body",
    [
        document(1),
        document(2),
        document(3),
        empty(1),
        empty(2),
        empty(2, **{"current-snapshot-id": None}),
        empty(3),
        document(2, later={"deep": [None, 2.50, {"x": 1e3}]}),
        document(3, **{"encryption-keys": [KEY], "statistics": [FILE | {"blob-metadata": [BLOB]}]}),
        document(2, **{"partition-specs": [spec(P)], "last-partition-id": 1000}),
    ],
)
def test_usual_documents_stay_the_same_bytes(body: dict) -> None:
    for data in (encode(body), json.dumps(body, indent=2).encode(), json.dumps(body).encode()):
        assert normalize_table(data) is data


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"properties": None}, {"properties": ...}),
        ({"snapshot-log": None, "metadata-log": None}, {"snapshot-log": ..., "metadata-log": ...}),
        ({"statistics": None, "encryption-keys": None}, {"statistics": ..., "encryption-keys": ...}),
        (
            {"properties": {"a": 1, "b": True, "c": 1.50, "d": None, "e": "f"}},
            {"properties": {"a": "1", "b": "true", "c": "1.5", "e": "f"}},
        ),
        (
            {
                "properties": {
                    "schema.name-mapping.default": (
                        '[{"field-id":"1","fields":null},{"field-id":null,"names":["z"]}]'
                    )
                }
            },
            {"properties": {"schema.name-mapping.default": '[{"field-id":1,"names":[]},{"names":["z"]}]'}},
        ),
        ({"last-column-id": "3", "last-updated-ms": 1_700_000_005_000.0}, {"last-column-id": 3}),
        ({"location": "s3://lake/db/t//"}, {"location": "s3://lake/db/t"}),
        ({"table-uuid": UUID.replace("-", "")}, {"table-uuid": UUID}),
        ({"table-uuid": UUID.upper()}, {}),
        ({"schema": {"x": 1}, "partition-spec": None}, {"schema": ..., "partition-spec": ...}),
        ({"sort-orders": []}, {"sort-orders": [order(order_id=0)]}),
        ({"refs": ...}, {"refs": {"main": {"snapshot-id": 13, "type": "branch"}}}),
        ({"refs": None}, {"refs": {"main": {"snapshot-id": 13, "type": "branch"}}}),
        (
            {"refs": {"v1": {"snapshot-id": 11, "type": "TAG", "max-ref-age-ms": None}}},
            {
                "refs": {
                    "v1": {"snapshot-id": 11, "type": "tag"},
                    "main": {"snapshot-id": 13, "type": "branch"},
                }
            },
        ),
        (
            {"encryption-keys": [KEY | {"properties": None, "encrypted-by-id": None}]},
            {"encryption-keys": [KEY]},
        ),
        (
            {"statistics": [FILE | {"key-metadata": None, "blob-metadata": [BLOB | {"properties": None}]}]},
            {"statistics": [FILE | {"blob-metadata": [BLOB]}]},
        ),
        (
            {"statistics": [FILE | {"blob-metadata": [BLOB | {"type": "presto-sum-v1"}, BLOB]}]},
            {"statistics": [FILE | {"blob-metadata": [BLOB]}]},
        ),
        (
            {"schemas": [schema(ID | {"doc": None}, TEXT, TS, **{"identifier-field-ids": None})]},
            {"schemas": [schema(ID, TEXT, TS)]},
        ),
        (
            {"schemas": [{"type": "struct", "fields": [ID, column(2, "d", "DECIMAL( 9 ,2)"), TS]}]},
            {"schemas": [schema(ID, column(2, "d", "decimal(9, 2)"), TS)]},
        ),
        (
            {"schemas": [schema(ID, column(2, "f", "float", **{"write-default": 1}), TS)]},
            {"schemas": [schema(ID, column(2, "f", "float", **{"write-default": 1.0}), TS)]},
        ),
        (
            {"schemas": [schema(ID | {"id": "1"}, column(2, "l", _list("3")))]},
            {"schemas": [schema(ID, column(2, "l", _list(3)))]},
        ),
        (
            {"partition-specs": [{"fields": [P | {"transform": "BUCKET[ 4 ]", "field-id": None}]}]},
            {"partition-specs": [spec(P)], "last-partition-id": 1000},
        ),
        (
            {
                "sort-orders": [
                    {"fields": []},
                    order(
                        {
                            "source-ids": [1],
                            "transform": "Identity",
                            "direction": "ASC",
                            "null-order": "NULLS_FIRST",
                        }
                    ),
                ]
            },
            {"sort-orders": [order(order_id=0), order(sort_field(1))]},
        ),
    ],
)
def test_what_is_answered(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    sent = document(**changes)
    made = _normalized(sent)
    assert {name: made.get(name, ...) for name in expected} == expected
    assert _changed(document(), made).keys() <= expected.keys() | {"properties", "location", "table-uuid"}


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({"last-column-id": 2}, "last-column-id", 3),
        ({"schemas": [schema(ID, TEXT, TS), schema(ID, column(7, "x"), schema_id=1)]}, "last-column-id", 7),
        (
            {"schemas": [schema(ID, column(2, "m", {"type": "struct", "fields": [column(9, "n")]}))]},
            "last-column-id",
            9,
        ),
        ({"partition-specs": [spec(), spec(P | {"source-id": 5}, spec_id=1)]}, "last-column-id", 5),
        ({"sort-orders": [order(order_id=0), order(sort_field(6))]}, "last-column-id", 6),
        (
            {"statistics": [FILE | {"blob-metadata": [BLOB | {"fields": [4, 2_147_483_645]}]}]},
            "last-column-id",
            4,
        ),
        (
            {"statistics": [FILE | {"blob-metadata": [BLOB | {"type": "presto-sum-v1", "fields": [5]}]}]},
            "last-column-id",
            5,
        ),
        (
            {
                "properties": {
                    "schema.name-mapping.default": json.dumps(
                        [{"field-id": 2, "names": ["a"], "fields": [{"field-id": 8, "names": ["b"]}]}]
                    )
                }
            },
            "last-column-id",
            8,
        ),
        (
            {
                "properties": {
                    "schema.name-mapping.default": '[{"field-id":null,"names":["z"]},{"field-id":"8"}]'
                }
            },
            "last-column-id",
            8,
        ),
        ({"partition-specs": [spec(P)], "last-partition-id": 0}, "last-partition-id", 1000),
        (
            {"partition-specs": [spec(), spec(P | {"field-id": 1007}, spec_id=1)]},
            "last-partition-id",
            1007,
        ),
        ({"last-sequence-number": 1}, "last-sequence-number", 3),
        ({"last-sequence-number": -1}, "last-sequence-number", 3),
        ({"last-column-id": 40, "last-sequence-number": 41}, "last-column-id", 40),
    ],
)
def test_numbers_are_above_every_id(changes: dict[str, Any], name: str, value: int) -> None:
    assert _normalized(document(**changes))[name] == value


def test_rows_are_numbered_once() -> None:
    body = document(3, **{"next-row-id": 0})
    body["snapshots"][1] |= {"first-row-id": 40, "added-rows": 60}
    assert _normalized(body)["next-row-id"] == 100


def test_version_1_of_an_early_writer() -> None:
    lists = ("schemas", "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id")
    rest = ("sort-orders", "default-sort-order-id", "table-uuid", "refs", "properties", "snapshot-log")
    early = document(1, **dict.fromkeys((*lists, *rest), ...))
    early["schema"] = {"type": "struct", "fields": [ID, TEXT, TS]}
    early["partition-spec"] = [{"name": "p", "transform": "BUCKET[4]", "source-id": 2}]
    for body in (
        early,
        early | dict.fromkeys((*lists, "table-uuid")),
        early | {"sort-orders": [], "schemas": []},
    ):
        made = _normalized(body)
        assert made["schema"] == schema(ID, TEXT, TS)
        assert made["schemas"] == [made["schema"]]
        assert made["partition-spec"] == [P]
        assert made["partition-specs"] == [spec(P)]
        assert made["sort-orders"] == [order(order_id=0)]
        assert made["refs"] == {"main": {"snapshot-id": 13, "type": "branch"}}
        ids = ("current-schema-id", "default-spec-id", "last-partition-id", "default-sort-order-id")
        assert [made[name] for name in ids] == [0, 0, 1000, 0]
        assert made["table-uuid"] == _normalized(early)["table-uuid"]


def test_version_1_says_the_current_schema_and_spec_twice() -> None:
    body = document(1, **{"schemas": [schema(ID), schema(ID, TEXT, TS, schema_id=1)], "current-schema-id": 1})
    body |= {"partition-specs": [spec(), spec(P, spec_id=1)], "default-spec-id": 1}
    for legacy in ({}, {"schema": ..., "partition-spec": ...}):
        sent = {name: value for name, value in (body | legacy).items() if value is not ...}
        made = _normalized(sent)
        assert made["schema"] == schema(ID, TEXT, TS, schema_id=1)
        assert made["partition-spec"] == [P]


@pytest.mark.parametrize(
    "text",
    [
        '"owner":"ops","owner":"dev"',
        '"owner":{"a":1,"a":2}',
        '"owner":"ops"},"properties":{"owner":"dev"',
    ],
)
def test_key_that_comes_twice_is_refused(text: str) -> None:
    data = encode(document()).replace(b'"owner":"ops"', text.encode())
    with pytest.raises(InvalidMetadataError, match="a key more than once"):
        read_foreign_table(data)


def test_byte_order_mark_is_taken_off() -> None:
    data = encode(document())
    assert normalize_table(b"\xef\xbb\xbf" + data) == data
