"""Ids that a registered document refers to, and that there are not, or are twice; the same in Java."""

from __future__ import annotations

import json
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from floecat.errors import InvalidMetadataError
from floecat.iceberg.metadata.integrity import check_integrity
from floecat.iceberg.metadata.properties import NAME_MAPPING
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.normalization import read_foreign_table
from tests.services.spark import iceberg_java
from tests.unit.iceberg.table_documents import (
    BASE_MS,
    ID,
    TEXT,
    TS,
    column,
    document,
    encode,
    order,
    partition_field,
    schema,
    snapshot,
    sort_field,
    spec,
)

__all__ = ["iceberg_java"]

P = partition_field(1000, 2, "p")
UNKNOWN = partition_field(1000, 99, "g")
LIST = column(9, "l", {"type": "list", "element-id": 10, "element": "int", "element-required": False})
KEY = {"key-id": "k", "encrypted-key-metadata": "AAEC"}
BLOB = {"type": "apache-datasketches-theta-v1", "snapshot-id": 11, "sequence-number": 1, "fields": [1]}
STATISTICS = {
    "snapshot-id": 11,
    "statistics-path": "s3://lake/s",
    "file-size-in-bytes": 1,
    "file-footer-size-in-bytes": 1,
    "blob-metadata": [BLOB],
}
PARTITION_STATISTICS = {"snapshot-id": 11, "statistics-path": "s3://lake/p", "file-size-in-bytes": 1}


def _schemas(*more: dict[str, Any], **fields: Any) -> dict[str, Any]:
    made = schema(ID, TEXT, TS, *more) | {name.replace("_", "-"): each for name, each in fields.items()}
    return {"schemas": [made]}


def _last(**fields: Any) -> dict[str, Any]:
    """The last of three snapshots with other values."""
    more = {name.replace("_", "-"): each for name, each in fields.items()}
    return {"snapshots": [snapshot(11, 1), snapshot(12, 2, 11), snapshot(13, 3, 12) | more]}


def _specs(*specs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"partition-specs": list(specs), **more}


def _orders(*orders: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"sort-orders": list(orders), **{name.replace("_", "-"): each for name, each in more.items()}}


_ROWS = [
    snapshot(11, 1) | {"first-row-id": 0, "added-rows": 10},
    snapshot(13, 3, 11) | {"first-row-id": 10, "added-rows": 15},
]

REFUSED_BY_JAVA: dict[str, tuple[dict[str, Any], str]] = {
    "schema that is current": ({"current-schema-id": 99}, "current-schema-id=99"),
    "schema twice": ({"schemas": [schema(ID, TEXT, TS)] * 2}, "more than once in schemas"),
    "column twice": (_schemas(column(1, "x")), "field id 1 is used more than once"),
    "nested column twice": (
        _schemas(column(9, "s", {"type": "struct", "fields": [column(1, "x")]})),
        "field id 1 is used more than once",
    ),
    "name twice": (_schemas(column(8, "id")), "multiple fields for name id"),
    "identifier": (_schemas(identifier_field_ids=[99]), "field does not exist"),
    "optional identifier": (_schemas(identifier_field_ids=[2]), "not a required field"),
    "spec twice": (_specs(spec(), spec(P)), "more than once in partition-specs"),
    "no spec": (_specs(), "Cannot find default-spec-id=0"),
    "source of the default spec": (_specs(spec(UNKNOWN)), "Cannot find source column"),
    "source in a list": (
        _schemas(LIST) | _specs(spec(partition_field(1000, 10, "g"))),
        "Invalid partition field parent: list",
    ),
    "order twice": (
        _orders(order(order_id=0), order(sort_field(1)), order(sort_field(2))),
        "more than once in sort-orders",
    ),
    "source of the default order": (
        _orders(order(order_id=0), order(sort_field(99)), default_sort_order_id=1),
        "Cannot find source column for sort field",
    ),
    "row count": ({"next-row-id": ...}, "next-row-id must exist"),
    "snapshot twice": ({"snapshots": [snapshot(13, 2), snapshot(13, 3)]}, "more than once"),
    "snapshot that is current": ({"current-snapshot-id": 99, "refs": {}}, "Cannot find current version"),
    "other snapshot than main": ({"current-snapshot-id": 12}, "does not match main branch"),
    "snapshot of a ref": ({"refs": {"main": {"snapshot-id": 99, "type": "branch"}}}, "does not exist"),
}
"""Java refuses these documents, and so do we."""

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    # Java fails when it writes the table, PyIceberg when it loads it
    "default spec": ({"default-spec-id": 99}, "default-spec-id=99"),
    "default order": ({"default-sort-order-id": 99}, "default-sort-order-id=99"),
    "partition field twice": (_specs(spec(P, P | {"name": "q"})), "partition field id more than once"),
    # Java and PyIceberg follow parents for ever
    "own parent": (_last(parent_snapshot_id=13), "Invalid snapshot 13: it is its own ancestor"),
    "circle of parents": (
        {"snapshots": [snapshot(11, 1, 12), snapshot(12, 2, 11), snapshot(13, 3, 12)]},
        "Invalid snapshot 1[12]: it is its own ancestor",
    ),
    "key twice": ({"encryption-keys": [KEY, KEY]}, "more than once in encryption-keys"),
}
"""Java reads these documents at first; nobody can use them, or it is open what they mean."""

TAKEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "source of another spec": (
        _specs(spec(), spec(UNKNOWN, spec_id=1)),
        {"last-column-id": 99, "last-partition-id": 1000},
    ),
    "source of another order": (_orders(order(order_id=0), order(sort_field(99))), {"last-column-id": 99}),
    "field of two meanings": (
        _specs(spec(P), spec(P | {"source-id": 1, "name": "r"}, spec_id=1)),
        {"last-partition-id": 1000},
    ),
    "low partition field": (_specs(spec(P | {"field-id": 5})), {}),
    "column 0": (_schemas(column(0, "n")), {}),
    "last column": ({"last-column-id": 1}, {"last-column-id": 3}),
    "negative last column": ({"last-column-id": -1}, {"last-column-id": 3}),
    "last partition field": ({"last-partition-id": 0} | _specs(spec(P)), {"last-partition-id": 1000}),
    "negative next row": ({"next-row-id": -1}, {"next-row-id": 0}),
    "next row": ({"next-row-id": 1, "snapshots": _ROWS}, {"next-row-id": 25}),
    "rows twice": (
        {"snapshots": [_ROWS[0], _ROWS[1] | {"first-row-id": 5}]},
        {"next-row-id": 100},
    ),
    "schema of a snapshot": (_last(schema_id=99), _last()),
    "parent": (_last(parent_snapshot_id=99), _last(parent_snapshot_id=99)),
    "sequence number twice": (_last(sequence_number=2), _last(sequence_number=2)),
    "negative sequence number": (_last(sequence_number=-1), _last(sequence_number=-1)),
    "key of a snapshot": (_last(key_id="k"), _last(key_id="k")),
    "key of a key": ({"encryption-keys": [KEY | {"encrypted-by-id": "z"}]}, {}),
    "snapshot of the log": ({"snapshot-log": [{"timestamp-ms": BASE_MS, "snapshot-id": 99}]}, {}),
    "snapshot of statistics": ({"statistics": [STATISTICS | {"snapshot-id": 99}]}, {}),
    "two files of statistics": ({"statistics": [STATISTICS, STATISTICS]}, {}),
    "snapshot of a blob": ({"statistics": [STATISTICS | {"blob-metadata": [BLOB | {"snapshot-id": 9}]}]}, {}),
    "column of a blob": (
        {"statistics": [STATISTICS | {"blob-metadata": [BLOB | {"fields": [99]}]}]},
        {"last-column-id": 99},
    ),
    "partition statistics": ({"partition-statistics": [PARTITION_STATISTICS | {"snapshot-id": 99}]}, {}),
    "column of a name mapping": (
        {"properties": {NAME_MAPPING: json.dumps([{"field-id": 99, "names": ["a"]}])}},
        {"last-column-id": 99},
    ),
}
"""What Java reads is taken; what is changed so that no id is given twice."""

MENDED_FOR_JAVA: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no order": (_orders(), {"sort-orders": [order(order_id=0)]}),
    "last sequence number": ({"last-sequence-number": 1}, {"last-sequence-number": 3}),
    "negative last sequence number": ({"last-sequence-number": -1}, {"last-sequence-number": 3}),
}
"""Java refuses these documents, and reads what is made of them."""


def _registered(changes: dict[str, Any]) -> TableMetadata:
    made = read_foreign_table(_encoded(changes))
    check_integrity(made)
    return made


def _encoded(changes: dict[str, Any]) -> bytes:
    return encode(document(3, **changes))


@pytest.mark.parametrize("name", [*REFUSED_BY_JAVA, *REFUSED])
def test_refused(name: str) -> None:
    changes, words = (REFUSED_BY_JAVA | REFUSED)[name]
    with pytest.raises(InvalidMetadataError, match=words):
        _registered(changes)


@pytest.mark.parametrize("name", [*TAKEN, *MENDED_FOR_JAVA])
def test_taken(name: str) -> None:
    changes, made = (TAKEN | MENDED_FOR_JAVA)[name]
    expected = document(3, **changes) | made
    assert json.loads(_registered(changes).to_bytes()) == expected


def test_java_reads_what_is_taken_and_refuses_what_it_is_said_to(iceberg_java: JavaGateway) -> None:
    parse = iceberg_java.jvm.org.apache.iceberg.TableMetadataParser.fromJson
    for changes, _ in (REFUSED_BY_JAVA | MENDED_FOR_JAVA).values():
        with pytest.raises(Py4JJavaError):
            parse(_encoded(changes).decode())
    for changes, _ in (REFUSED | TAKEN).values():
        parse(_encoded(changes).decode())
    for changes, _ in (TAKEN | MENDED_FOR_JAVA).values():
        parse(_registered(changes).to_bytes().decode())
