"""Documents that are registered: what no client can load is refused, what old writers left is taken."""

from __future__ import annotations

from typing import Any

import pytest

from floecat.errors import InvalidMetadataError
from floecat.iceberg.metadata.integrity import check_integrity
from floecat.iceberg.metadata.properties import NAME_MAPPING
from floecat.iceberg.normalization import read_foreign_table
from floecat.iceberg.views.view_integrity import check_view_integrity
from floecat.iceberg.views.view_metadata import ViewMetadata
from tests.unit.iceberg.table_documents import (
    BASE_MS,
    ID,
    TEXT,
    TS,
    column,
    document,
    empty,
    encode,
    order,
    partition_field,
    schema,
    snapshot,
    sort_field,
    spec,
)
from tests.view_documents import view_document, view_version

UPDATED = BASE_MS + 5000


def _snapshots(**last: object) -> list[dict]:
    """Three snapshots, the last one changed; `...` takes a field away."""
    made = [snapshot(11, 1), snapshot(12, 2, 11), snapshot(13, 3, 12)]
    changed = made[-1] | {name.replace("_", "-"): value for name, value in last.items()}
    return [*made[:-1], {name: value for name, value in changed.items() if value is not ...}]


def _log(*times: int) -> list[dict]:
    return [{"timestamp-ms": time, "snapshot-id": 13} for time in times]


def _files(*times: int) -> list[dict]:
    return [{"timestamp-ms": time, "metadata-file": f"s3://lake/{time}"} for time in times]


def _ref(**more: object) -> dict:
    ref = {"snapshot-id": 11, "type": "tag"} | {name.replace("_", "-"): x for name, x in more.items()}
    return {"main": {"snapshot-id": 13, "type": "branch"}, "other": ref}


def _statistics(**blob: object) -> list[dict]:
    sent = {
        "type": "apache-datasketches-theta-v1",
        "snapshot-id": 11,
        "sequence-number": 1,
        "fields": [1],
        **blob,
    }
    return [
        {
            "snapshot-id": 11,
            "statistics-path": "s3://lake/s",
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [sent],
        }
    ]


def _without(field: dict, name: str, **more: object) -> dict:
    return {key: value for key, value in field.items() if key != name} | {
        key.replace("_", "-"): value for key, value in more.items()
    }


PARTITION_STATISTICS = {"snapshot-id": 11, "statistics-path": "s3://lake/p", "file-size-in-bytes": 0}
KEY = {"key-id": "k", "encrypted-key-metadata": "AAEC"}
P = partition_field(1000, 2, "p")
OTHER_P = partition_field(1001, 3, "p", "day")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"snapshot-log": _log(UPDATED, UPDATED - 60_001)}, "snapshot-log is not sorted"),
        ({"snapshot-log": _log(UPDATED + 60_001)}, "before last snapshot-log entry"),
        ({"metadata-log": _files(UPDATED, UPDATED - 60_001, UPDATED)}, "metadata-log is not sorted"),
        ({"metadata-log": _files(UPDATED + 60_001)}, "before last metadata-log entry"),
        ({"last-updated-ms": -1}, "before last snapshot-log entry"),
        ({"table-uuid": "not-a-uuid"}, "table-uuid is not a UUID"),
        ({"table-uuid": ""}, "table-uuid is not a UUID"),
        ({"refs": _ref(type="foo")}, "Invalid snapshot ref type"),
        ({"refs": _ref(min_snapshots_to_keep=3)}, "Tags do not support"),
        ({"refs": _ref(max_snapshot_age_ms=3)}, "Tags do not support"),
        ({"refs": _ref(max_ref_age_ms=0)}, "greater than 0"),
        ({"refs": {"main": {"snapshot-id": 13, "type": "tag"}}}, "must be a branch"),
        ({"encryption-keys": [KEY | {"encrypted-key-metadata": "!!"}]}, "not base64"),
        ({"encryption-keys": [KEY, KEY]}, "more than once in encryption-keys"),
        ({"snapshots": _snapshots(manifest_list=...)}, "snapshot 13 names no manifests"),
        ({"snapshots": _snapshots(manifest_list=None)}, "manifest-list"),
        ({"snapshots": _snapshots(manifest_list="")}, "snapshot 13 names no manifests"),
        (
            {"snapshots": _snapshots(manifest_list=None, manifests=["s3://m"])},
            "snapshot 13 names its manifests",
        ),
        ({"snapshots": _snapshots(summary={"operation": "append", "partitions": []})}, "summary"),
        ({"snapshots": _snapshots(snapshot_id="x")}, "snapshot_id|snapshot-id"),
        ({"snapshots": _snapshots(first_row_id=-1, added_rows=1)}, "row ids"),
        ({"snapshots": _snapshots(first_row_id=1)}, "row ids"),
        ({"snapshots": _snapshots(later=10**1500)}, "more than 1000 characters"),
        ({"later": [-(10**1500)]}, "more than 1000 characters"),
        ({"statistics": _statistics(fields=[2**31])}, "fields"),
        ({"statistics": [_statistics()[0] | {"file-size-in-bytes": -1}]}, "file-size-in-bytes"),
        ({"statistics": [_statistics()[0] | {"file-footer-size-in-bytes": -1}]}, "file-footer-size-in-bytes"),
        ({"partition-statistics": [PARTITION_STATISTICS | {"file-size-in-bytes": -1}]}, "file-size-in-bytes"),
        ({"partition-specs": [spec(partition_field(1000, 99, "p"))]}, "Cannot find source column"),
        ({"partition-specs": [spec(partition_field(1000, 2, "p", "day"))]}, "Invalid source type string"),
        (
            {"partition-specs": [spec(), spec(partition_field(1000, 2, "p", "day"), spec_id=1)]},
            "Invalid source type string",
        ),
        (
            {"partition-specs": [spec(), spec(P | {"name": "id"}, spec_id=1)]},
            "from different field in schema",
        ),
        ({"partition-specs": [spec(), spec(P, OTHER_P, spec_id=1)]}, "name more than once"),
        ({"partition-specs": [spec(), spec(P | {"name": ""}, spec_id=1)]}, "empty partition name"),
        (
            {"partition-specs": [spec(), spec(P, P | {"name": "q"}, spec_id=1)]},
            "partition field id more than once",
        ),
        ({"partition-specs": [spec(P | {"transform": "bucket[99999999999]"})]}, "width of transform bucket"),
        ({"partition-specs": [spec(_without(P, "source-id", source_ids=[1, 2]))]}, "source-id"),
        ({"partition-specs": [spec(P | {"source-ids": [3]})]}, "source-id"),
        ({"partition-specs": [spec(P, _without(OTHER_P | {"name": "q"}, "field-id"))]}, "missing field IDs"),
        ({"partition-specs": [spec(), spec(P | {"transform": "zorder"}, spec_id=1)]}, "transform zorder"),
        ({"partition-specs": [spec(P | {"transform": "bucket"})]}, "transform bucket"),
        ({"partition-specs": [spec(P | {"transform": "bucket(4)"})]}, "transform bucket"),
        ({"sort-orders": [order(order_id=0), order(sort_field(1) | {"direction": "up"})]}, "sort direction"),
        ({"sort-orders": [order(sort_field(1), order_id=0)]}, "reserved for unsorted order"),
        ({"sort-orders": [order(order_id=0), order(order_id=7)]}, "reserved for unsorted order"),
        (
            {"sort-orders": [order(order_id=0), order(sort_field(99))], "default-sort-order-id": 1},
            "Cannot find source column for sort field",
        ),
        ({"schemas": [schema(ID, column(2, "v", "variant"))]}, "not supported until v3"),
        ({"schemas": [schema(ID, column(2, "d", "bigint"))]}, "Cannot parse type string"),
        ({"schemas": [schema(ID, column(2, "d", "decimal(0, 0)"))]}, "precision must be 1 to 38"),
        ({"schemas": [schema(ID, column(2, "d", "decimal(5, 9)"))]}, "precision must be 1 to 38"),
        ({"schemas": [schema(ID, column(2_147_483_540, "_row_id"))]}, "2147483540 of schema 0 is reserved"),
        ({"schemas": [schema(ID, column(2_147_483_448, "c"))]}, "2147483448 of schema 0 is reserved"),
        ({"properties": {"a": {}}}, "properties"),
        ({"properties": {NAME_MAPPING: "no JSON"}}, f"{NAME_MAPPING}: not a name mapping"),
        ({"properties": {NAME_MAPPING: '{"field-id": 1, "names": []}'}}, "not a name mapping"),
        ({"properties": {NAME_MAPPING: '[{"field-id": 1, "names": "a"}]'}}, "not a name mapping"),
        ({"properties": {NAME_MAPPING: '[{"fields":' * 5000}}, "not a name mapping"),
        ({"last-partition-id": None}, "last-partition-id must exist"),
        ({"format-version": 1, "last-sequence-number": 0, "partition-specs": [{"spec-id": 0}]}, "`fields`"),
        ({"format-version": 1, "last-sequence-number": ...}, "must be 0 in v1"),
        (
            {
                "schemas": [
                    schema(ID, column(2, "z", "timestamptz", **{"write-default": "2020-01-01T00:00:00Z"}))
                ]
            },
            "Invalid default of z",
        ),
    ],
)
def test_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidMetadataError, match=words):
        check_integrity(read_foreign_table(encode(document(**changes))))


@pytest.mark.parametrize(
    "body",
    [
        document(1),
        document(2),
        document(3),
        document(1, **{"table-uuid": ..., "refs": ...}),
        document(
            1,
            **{
                "schemas": ...,
                "current-schema-id": ...,
                "partition-specs": ...,
                "default-spec-id": ...,
                "last-partition-id": ...,
                "sort-orders": ...,
                "default-sort-order-id": ...,
                "properties": ...,
                "statistics": ...,
                "partition-statistics": ...,
                "snapshot-log": ...,
                "metadata-log": ...,
                "schema": {"type": "struct", "fields": [ID, TEXT, TS | {"doc": None}]},
                "partition-spec": [_without(P, "field-id")],
            },
        ),
        document(**{"snapshot-log": _log(UPDATED, UPDATED - 60_000, UPDATED + 60_000)}),
        document(**{"metadata-log": _files(UPDATED, UPDATED - 60_000, UPDATED + 60_000)}),
        document(snapshots=_snapshots(summary=..., schema_id=..., parent_snapshot_id=...)),
        document(snapshots=_snapshots(summary={}, schema_id=None, key_id=None)),
        document(snapshots=_snapshots(summary={"operation": "merge"}, first_row_id=None)),
        document(refs=_ref(max_ref_age_ms=1, min_snapshots_to_keep=None)),
        document(refs=_ref(type="branch", max_snapshot_age_ms=1, min_snapshots_to_keep=1)),
        document(**{"encryption-keys": [KEY, KEY | {"key-id": "l", "encrypted-by-id": None}]}),
        document(statistics=_statistics(type="blob-of-another-engine", properties={"a": "b"})),
        document(**{"partition-specs": [spec(), spec(partition_field(1000, 99, "text"), spec_id=1)]}),
        document(**{"partition-specs": [spec(_without(P, "field-id"))]}),
        document(**{"partition-specs": [spec(P | {"source-ids": [2]})]}),
        document(**{"partition-specs": [spec(partition_field(1000, 99, "gone", "void"))]}),
        document(**{"last-partition-id": 0, "partition-specs": [spec(P)]}),
        document(**{"last-column-id": 0}),
        document(**{"sort-orders": [order(order_id=0), order(sort_field(99))]}),
        document(schemas=[schema(ID, column(2, "d", "decimal(9,2)"), TS)]),
        document(schemas=[schema(ID, column(2, "d", "decimal(9, 9)"), column(4, "f", "fixed[7]"))]),
        document(schemas=[schema(ID, column(2_147_483_447, "c"))]),
        empty(1),
        empty(2, **{"current-snapshot-id": None}),
        empty(3),
        empty(3, **{"current-snapshot-id": -1}),
    ],
)
def test_taken(body: dict) -> None:
    check_integrity(read_foreign_table(encode(body)))


def _view(**changes: Any) -> ViewMetadata:
    body = view_document(schema(ID), view_version(()))
    return ViewMetadata.parse(encode(body | changes))


VERSION = {"version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": []}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schemas": [{"schema-id": 0}]}, "not a struct type"),
        ({"schemas": [schema(ID), {"schema-id": 4}]}, "not a struct type"),
        ({"schemas": [{"schema-id": 0, "type": "struct", "fields": [{"id": 1}]}]}, "struct field"),
        ({"schemas": [schema(ID, **{"identifier-field-ids": None})]}, "identifier-field-ids is null"),
        ({"properties": None}, "properties is null"),
        ({"later": 10**1500}, "more than 1000 characters"),
    ],
)
def test_refused_views(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidMetadataError, match=words):
        check_view_integrity(_view(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"version-log": []},
        {"version-log": [{"timestamp-ms": 1, "version-id": 99}]},
        {"properties": {"comment": "c"}},
        {"versions": [VERSION | {"representations": [], "default-catalog": None}]},
        {"schemas": [{"type": "struct", "fields": [ID | {"doc": None}]}]},
    ],
)
def test_views_that_are_taken(changes: dict[str, Any]) -> None:
    check_view_integrity(_view(**changes))
