"""Views that other writers made: every answer is a document that all readers read."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, View, unique
from tests.contract.documents import ID_AND_DATA, NOW_MS, column, schema, sql, sql_version
from tests.contract.files import write_metadata
from tests.contract.updates import add_view_version, set_current_view_version

ODD_VERSION = {
    "version-id": 1,
    "timestamp-ms": NOW_MS,
    "default-catalog": None,
    "representations": [
        {"sql": "select 1", "dialect": "Spark"},
        {"type": "SQL"} | sql("select 2", "trino") | {"type": "SQL"},
    ],
    "summary": {"operation": "create", "rows": 5, "engine": None},
}
VERSION = {
    "version-id": 1,
    "timestamp-ms": NOW_MS,
    "schema-id": 3,
    "default-namespace": [],
    "representations": [sql("select 1", "Spark"), sql("select 2", "trino")],
    "summary": {"operation": "create", "rows": "5"},
}
SENT = schema(column(1, "n", "DECIMAL(9,2)", doc=None), schema_id=3)


@pytest.fixture
def document(warehouse_folder: Path) -> dict[str, Any]:
    """A view in forms that no reader reads."""
    return {
        "format-version": 1,
        "view-uuid": uuid.uuid4().hex,
        "location": f"{warehouse_folder.as_uri()}/{unique('foreign')}",
        "schemas": [SENT, SENT],
        "versions": [ODD_VERSION],
        "version-log": None,
        "properties": {"a": True, "b": None},
        "x-later": [1.50],
    }


def register(catalog: Catalog, namespace: Namespace, folder: Path, document: Any) -> Any:
    location = write_metadata(folder / unique("foreign"), document)
    body = {"name": "v", "metadata-location": location}
    return location, catalog.post(f"{catalog.namespace_path(namespace)}/register-view", body)


def test_what_is_answered(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder: Path, document: dict[str, Any]
):
    location, answer = register(local_catalog, local_namespace, warehouse_folder, document)
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata-location"] == location
    assert answer.json()["metadata"] == {
        "format-version": 1,
        "view-uuid": str(uuid.UUID(document["view-uuid"])),
        "location": document["location"],
        "schemas": [schema(column(1, "n", "decimal(9, 2)"), schema_id=3)],
        "current-version-id": 1,
        "versions": [VERSION],
        "version-log": [{"timestamp-ms": NOW_MS, "version-id": 1}],
        "properties": {"a": "true"},
        "x-later": [1.50],
    }
    view = View(local_catalog, local_namespace, "v", answer)
    assert view.get() == answer.json()

    second = sql_version(sql("select 3"), sql("select 4", "trino"), version_id=2, schema_id=3)
    made = view.committed([add_view_version(second), set_current_view_version()])
    assert made["versions"] == [VERSION, second]
    assert [entry["version-id"] for entry in made["version-log"]] == [1, 2]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"view-uuid": None}, "view-uuid"),
        ({"versions": [VERSION | {"representations": [{"type": "substrait"}]}]}, "substrait"),
        (
            {"versions": [VERSION | {"representations": [sql("a", "trino"), sql("b", "TRINO")]}]},
            "dialect trino",
        ),
        (
            {"current-version-id": 1, "versions": [VERSION, VERSION | {"timestamp-ms": 1}]},
            "two versions have the same id",
        ),
        ({"schemas": [SENT, ID_AND_DATA]}, "schema-id"),
        ({"current-version-id": 2}, "current version 2"),
        ({"versions": [VERSION | {"schema-id": 4}]}, "schema with id 4"),
        (
            {"current-version-id": 1, "versions": [VERSION, VERSION | {"version-id": 0, "schema-id": 4}]},
            "unknown schema: 4",
        ),
    ],
)
def test_what_is_refused(
    local_catalog: Catalog,
    local_namespace: Namespace,
    warehouse_folder: Path,
    document: dict[str, Any],
    change: dict[str, Any],
    named: str,
):
    _, answer = register(local_catalog, local_namespace, warehouse_folder, document | change)
    assert named in assert_error(answer, 400, "IllegalArgumentException")
    assert local_catalog.names(local_catalog.views_path(local_namespace)) == []


def test_versions_of_clients_get_the_same_form(catalog: Catalog, namespace: Namespace):
    sent = sql_version(sql() | {"type": "SQL"}, default_catalog=None)
    view = catalog.create_view(namespace, view_version=sent)
    assert view.metadata()["versions"] == [sql_version()]

    again = add_view_version(sql_version(sql() | {"type": "Sql"}, version_id=2))
    assert view.committed([again, set_current_view_version()])["versions"] == [sql_version()]


@pytest.mark.parametrize("how", ["create", "replace"])
def test_representation_that_no_reader_reads_is_400(
    catalog: Catalog, namespace: Namespace, view: View, how: str
):
    version = sql_version(sql(), {"type": "substrait", "plan": "x"}, version_id=2)
    if how == "replace":
        answer = view.commit([add_view_version(version), set_current_view_version()])
    else:
        body = {"name": "w", "schema": ID_AND_DATA, "view-version": version, "properties": {}}
        answer = catalog.post(catalog.views_path(namespace), body)
    message = "Found unsupported view representations: substrait"
    assert_error(answer, 400, "IllegalArgumentException", message)
