"""Fields that released clients leave out or send as null, though the specification requires some of them.

Java's parsers take a commit without requirements or updates, ClickHouse sends its first snapshot so, Go
writes an empty list or map as null, and PyIceberg leaves every null out. What no parser does without stays
required.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table, as_sent, unique
from tests.contract.documents import ID_AND_DATA, sql_version

Json = dict[str, Any]


@pytest.fixture
def table(catalog: Catalog, namespace: Namespace) -> Table:
    return catalog.create_table(namespace, "t", properties={"kept": "1"})


def snapshot(**changes: Any) -> Json:
    given = {
        "snapshot-id": 7,
        "sequence-number": 1,
        "timestamp-ms": time.time_ns() // 1_000_000,
        "manifest-list": "file:///tmp/none.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    return given | {name.replace("_", "-"): value for name, value in changes.items()}


@pytest.mark.parametrize(
    "absent",
    [
        {},
        {"requirements": None},
        {"requirements": []},
        {"requirements": None, "identifier": None},
        {"identifier": {"namespace": ["elsewhere"], "name": "other"}, "x-unknown": {"a": [1]}},
    ],
)
def test_a_commit_without_requirements(catalog: Catalog, table: Table, absent: Json):
    updates = [{"action": "set-properties", "updates": {"a": "1"}}]
    answer = catalog.post(table.path, {"updates": updates} | absent)
    assert answer.status_code == 200, answer.text
    assert table.metadata()["properties"] == table.created.json()["metadata"]["properties"] | {"a": "1"}


def test_the_first_snapshot_of_clickhouse(catalog: Catalog, table: Table):
    updates = [
        {"action": "add-snapshot", "snapshot": snapshot(parent_snapshot_id=-1)},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7},
    ]
    answer = catalog.post(table.path, {"identifier": table.identifier, "updates": updates})
    assert answer.status_code == 200, answer.text
    [added] = table.metadata()["snapshots"]
    assert added["snapshot-id"] == table.metadata()["current-snapshot-id"] == 7
    assert "parent-snapshot-id" not in added


@pytest.mark.parametrize("body", [{}, {"requirements": []}, {"updates": None, "requirements": None}])
def test_a_commit_without_updates_changes_nothing(catalog: Catalog, table: Table, body: Json):
    answer = catalog.post(table.path, body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"] == table.metadata() == table.created.json()["metadata"]


def test_what_is_required_without_updates_is_checked(catalog: Catalog, table: Table):
    body = {"requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}]}
    assert_error(catalog.post(table.path, body), 409, "CommitFailedException")
    assert_error(catalog.post(f"{table.path}x", {}), 404, "NoSuchTableException")


def test_changes_of_a_transaction(catalog: Catalog, namespace: Namespace, table: Table):
    other = catalog.create_table(namespace, "u")
    changes = [
        {"identifier": table.identifier, "updates": [{"action": "set-properties", "updates": {"a": "1"}}]},
        {"identifier": other.identifier, "requirements": None, "updates": None},
    ]
    assert catalog.post("/transactions/commit", {"table-changes": changes}).status_code == 204
    assert table.metadata()["properties"]["a"] == "1"
    assert other.metadata() == other.created.json()["metadata"]


@pytest.mark.parametrize(
    "update",
    [
        {"action": "set-properties", "updates": None},
        {"action": "remove-properties", "removals": None},
        {"action": "remove-snapshots", "snapshot-ids": None},
        {"action": "remove-schemas", "schema-ids": None},
        {"action": "remove-partition-specs", "spec-ids": None},
    ],
    ids=lambda update: update["action"],
)
def test_a_null_list_is_an_empty_one(catalog: Catalog, table: Table, update: Json):
    answer = catalog.post(table.path, {"requirements": None, "updates": [update]})
    assert answer.status_code == 200, answer.text
    assert table.metadata()["properties"] == table.created.json()["metadata"]["properties"]
    missing = {key: value for key, value in update.items() if key == "action"}
    message = assert_error(catalog.post(table.path, {"updates": [missing]}), 400, "BadRequestException")
    [field] = set(update) - {"action"}
    assert f"`{field}`" in message


@pytest.mark.parametrize("sent", [{}, {"last-assigned-partition-id": None}])
def test_no_partition_id_is_a_table_that_never_had_one(
    catalog: Catalog, namespace: Namespace, table: Table, sent: Json
):
    body = {"requirements": [{"type": "assert-last-assigned-partition-id"} | sent], "updates": []}
    assert catalog.post(table.path, body).status_code == 200
    fields = [{"name": "p", "transform": "identity", "source-id": 1}]
    partitioned = catalog.create_table(namespace, "p", **{"partition-spec": {"fields": fields}})
    assert_error(catalog.post(partitioned.path, body), 409, "CommitFailedException")


@pytest.mark.parametrize(
    "field", ["location", "partition-spec", "write-order", "stage-create", "properties", "x-unknown"]
)
def test_nulls_of_a_create(catalog: Catalog, namespace: Namespace, field: str):
    body = {"name": unique("t"), "schema": ID_AND_DATA, field: None}
    metadata = catalog.post(catalog.tables_path(namespace), body).json()["metadata"]
    assert metadata["partition-specs"] == [{"spec-id": 0, "fields": []}]
    assert metadata["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert catalog.names(catalog.tables_path(namespace)) == [body["name"]]


def test_parts_of_a_create_without_ids(catalog: Catalog, namespace: Namespace):
    field = {"id": 1, "name": "id", "type": "long", "required": False, "doc": None, "write-default": None}
    body = {
        "name": "t",
        "schema": {"type": "struct", "schema-id": None, "identifier-field-ids": None, "fields": [field]},
        "partition-spec": {
            "fields": [{"name": "p", "transform": "bucket[4]", "source-id": 1, "field-id": None}]
        },
        "write-order": {
            "fields": [
                {"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-first"}
            ]
        },
    }
    metadata = catalog.post(catalog.tables_path(namespace), body).json()["metadata"]
    assert [spec["fields"][0]["field-id"] for spec in metadata["partition-specs"]] == [1000]
    assert metadata["schemas"][0]["fields"] == [{"id": 1, "name": "id", "type": "long", "required": False}]


def test_nulls_of_namespaces(catalog: Catalog):
    name = unique("ns")
    answer = catalog.post("/namespaces", {"namespace": [name], "properties": None, "x-unknown": 1})
    assert as_sent(answer) == {"namespace": [name], "properties": {}}
    for body in ({}, {"removals": None, "updates": None}, {"removals": []}, {"updates": {}}):
        answer = catalog.post(f"/namespaces/{name}/properties", body)
        assert answer.json() == {"updated": [], "removed": [], "missing": []}
    catalog.delete(f"/namespaces/{name}")


def test_nulls_of_a_registration(catalog: Catalog, namespace: Namespace, table: Table):
    body = {"name": "r", "metadata-location": table.get()["metadata-location"], "overwrite": None}
    assert catalog.post(f"{catalog.namespace_path(namespace)}/register", body).status_code == 200
    assert_error(
        catalog.post(f"{catalog.namespace_path(namespace)}/register", body), 409, "AlreadyExistsException"
    )


def test_views(catalog: Catalog, namespace: Namespace):
    version = sql_version() | {"default-catalog": None}
    body = {"name": "v", "schema": ID_AND_DATA, "view-version": version, "location": None, "properties": None}
    assert catalog.post(catalog.views_path(namespace), body).status_code == 200
    path = f"{catalog.views_path(namespace)}/v"
    before = catalog.get(path).json()["metadata"]
    for change in (
        {},
        {"requirements": None, "updates": None, "identifier": None},
        {"updates": [{"action": "set-properties", "updates": None}]},
        {"updates": [{"action": "remove-properties", "removals": None}]},
    ):
        answer = catalog.post(path, change)
        assert answer.status_code == 200, answer.text
        assert answer.json()["metadata"] == before


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("{tables}", {"schema": ID_AND_DATA}, "name"),
        ("{tables}", {"name": "x"}, "schema"),
        ("{table}", {"requirements": [{"type": "assert-table-uuid"}]}, "uuid"),
        ("{table}", {"updates": [{"action": "add-schema"}]}, "schema"),
        ("{table}", {"updates": [{"action": "add-snapshot"}]}, "snapshot"),
        ("/transactions/commit", {}, "table-changes"),
        ("/transactions/commit", {"table-changes": [{"updates": []}]}, "identifier"),
        ("/namespaces", {"properties": {}}, "namespace"),
        ("/tables/rename", {"source": {"namespace": ["a"], "name": "b"}}, "destination"),
        ("{ns}/register", {"name": "x"}, "metadata-location"),
        ("{ns}/register", {"metadata-location": "file:///x"}, "name"),
        ("{ns}/views", {"name": "x", "schema": ID_AND_DATA}, "view-version"),
        ("{table}/metrics", {"report-type": "commit-report", "table-name": "t"}, "snapshot-id"),
    ],
)
def test_what_every_parser_requires_is_named(
    catalog: Catalog, namespace: Namespace, table: Table, path: str, body: Json, field: str
):
    path = path.format(
        ns=catalog.namespace_path(namespace), tables=catalog.tables_path(namespace), table=table.path
    )
    assert f"`{field}`" in assert_error(catalog.post(path, body), 400, "BadRequestException")


@pytest.mark.parametrize("written", ["true", "True", "TRUE", "false", "False"])
def test_spellings_of_purge_requested(catalog: Catalog, table: Table, written: str):
    assert catalog.delete(f"{table.path}?purgeRequested={written}").status_code == 204
    assert not table.exists()
