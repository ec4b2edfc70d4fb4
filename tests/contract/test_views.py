"""Views: creation, loading, existence, removal (case O14)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, View, unique
from tests.contract.documents import ID_AND_DATA, column, schema, sql, sql_version


def _create(catalog: Catalog, namespace: Namespace, **body: Any):
    request = {"name": unique("view"), "schema": ID_AND_DATA, "view-version": sql_version(), "properties": {}}
    return catalog.post(catalog.views_path(namespace), request | body)


def test_answer_of_the_least_request(catalog: Catalog, namespace: Namespace):
    version = sql_version()
    answer = _create(catalog, namespace, **{"view-version": version})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert set(body) == {"metadata-location", "metadata", "config"}
    metadata = body["metadata"]
    assert uuid.UUID(metadata.pop("view-uuid"))
    location = metadata.pop("location")
    assert body["metadata-location"].startswith(f"{location}/metadata/00000-")
    assert metadata == {
        "format-version": 1,
        "current-version-id": 1,
        "versions": [version],
        "version-log": [{"timestamp-ms": version["timestamp-ms"], "version-id": 1}],
        "schemas": [ID_AND_DATA | {"schema-id": 0}],
        "properties": {},
    }


def test_schema_id_of_the_client_is_replaced(catalog: Catalog, namespace: Namespace):
    sent = sql_version(schema_id=99, namespace=())
    body = _create(catalog, namespace, schema=ID_AND_DATA | {"schema-id": 7}, **{"view-version": sent}).json()
    metadata = body["metadata"]
    assert metadata["schemas"] == [ID_AND_DATA | {"schema-id": 0}]
    assert metadata["versions"] == [sent | {"schema-id": 0}]
    assert metadata["versions"][0]["default-namespace"] == []
    assert "default-catalog" not in metadata["versions"][0]


def test_everything_that_a_view_may_have(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
):
    location = f"{warehouse_folder.as_uri()}/{unique('placed')}"
    version = sql_version(
        sql("select 1"), sql("select 2", "trino"), schema_id=5, namespace=("a", "b"), default_catalog="c"
    )
    body = _create(
        local_catalog,
        local_namespace,
        schema=schema(column(3, "id", "int", doc="ü 🧊"), schema_id=5),
        location=location,
        properties={"k": "v"},
        **{"view-version": version},
    ).json()
    metadata = body["metadata"]
    assert metadata["location"] == location
    assert metadata["properties"] == {"k": "v"}
    assert metadata["versions"] == [version | {"schema-id": 0}]
    assert metadata["schemas"] == [schema(column(3, "id", "int", doc="ü 🧊"))]
    assert body["metadata-location"].startswith(f"{location}/metadata/")


def test_write_metadata_path_is_where_metadata_goes(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
):
    path = f"{warehouse_folder.as_uri()}/{unique('elsewhere')}"
    body = _create(local_catalog, local_namespace, properties={"write.metadata.path": path}).json()
    assert body["metadata-location"].startswith(f"{path}/00000-")
    assert not body["metadata"]["location"].startswith(path)


def test_load_gives_what_create_answered(catalog: Catalog, view: View):
    assert catalog.get(view.path).json() == view.created.json()


def test_existing_view_is_409(catalog: Catalog, namespace: Namespace, view: View):
    before = view.get()
    answer = _create(catalog, namespace, name=view.name)
    assert_error(answer, 409, "AlreadyExistsException", f"View already exists: {view.text}")
    assert view.get() == before


def test_over_a_table_is_409(catalog: Catalog, namespace: Namespace):
    table = catalog.create_table(namespace)
    answer = _create(catalog, namespace, name=table.name)
    assert_error(answer, 409, "AlreadyExistsException", f"Table with same name already exists: {table.text}")


def test_in_a_missing_namespace_is_404(catalog: Catalog, namespace: Namespace):
    answer = _create(catalog, (*namespace, "none"))
    assert_error(answer, 404, "NoSuchNamespaceException", f"Namespace does not exist: {namespace[0]}.none")


@pytest.mark.parametrize("second", ["trino", "TRINO", "Trino"])
def test_two_queries_of_one_dialect_are_400(catalog: Catalog, namespace: Namespace, second: str):
    version = sql_version(sql("select 1", "trino"), sql("select 2", second))
    answer = _create(catalog, namespace, **{"view-version": version})
    message = assert_error(answer, 400, "IllegalArgumentException")
    assert message.lower() == "invalid view version: cannot add multiple queries for dialect trino"


BAD_VERSIONS: dict[str, Any] = {
    "no representations": {"representations": None},
    "representations of another kind": {"representations": [{"type": "python", "code": "pass"}]},
    "representation without SQL": {"representations": [{"type": "sql", "dialect": "spark"}]},
    "representation without a dialect": {"representations": [{"type": "sql", "sql": "select 1"}]},
    "no namespace": {"default-namespace": None},
    "namespace as text": {"default-namespace": "ns"},
    "id as text": {"version-id": "1"},
    "time as text": {"timestamp-ms": "now"},
    "summary of numbers": {"summary": {"a": 1}},
}


@pytest.mark.parametrize("bad", BAD_VERSIONS.values(), ids=BAD_VERSIONS.keys())
def test_bad_version_is_400(catalog: Catalog, namespace: Namespace, bad: dict[str, Any]):
    version = {key: value for key, value in (sql_version() | bad).items() if value is not None}
    answer = _create(catalog, namespace, **{"view-version": version})
    assert answer.status_code == 400, answer.text
    assert assert_error(answer, 400, answer.json()["error"]["type"])
    assert catalog.names(catalog.views_path(namespace)) == []


@pytest.mark.parametrize("missing", ["name", "schema", "view-version"])
def test_body_without_a_required_field_is_400(catalog: Catalog, namespace: Namespace, missing: str):
    body = {"name": "v", "schema": ID_AND_DATA, "view-version": sql_version(), "properties": {}}
    del body[missing]
    assert_error(catalog.post(catalog.views_path(namespace), body), 400, "BadRequestException")


def test_bad_schema_is_400(catalog: Catalog, namespace: Namespace):
    for bad in (schema(column(1, "a", "nonsense")), {"type": "struct"}, "text", None, []):
        answer = _create(catalog, namespace, schema=bad)
        assert answer.status_code == 400, answer.text
        assert assert_error(answer, 400, answer.json()["error"]["type"])


def test_head_is_204_or_404_without_a_body(catalog: Catalog, namespace: Namespace, view: View):
    there = catalog.head(view.path)
    assert (there.status_code, there.content) == (204, b"")
    for path in (catalog.views_path(namespace), catalog.views_path((*namespace, "none"))):
        gone = catalog.head(f"{path}/none")
        assert (gone.status_code, gone.content) == (404, b"")


def test_missing_view_is_404_also_without_its_namespace(catalog: Catalog, namespace: Namespace):
    for levels in (namespace, (*namespace, "none")):
        answer = catalog.get(f"{catalog.views_path(levels)}/missing")
        message = f"View does not exist: {'.'.join(levels)}.missing"
        assert_error(answer, 404, "NoSuchViewException", message)


def test_table_is_no_view(catalog: Catalog, namespace: Namespace):
    table = catalog.create_table(namespace)
    path = f"{catalog.views_path(namespace)}/{table.name}"
    message = f"View does not exist: {table.text}"
    assert_error(catalog.get(path), 404, "NoSuchViewException", message)
    assert catalog.head(path).status_code == 404
    assert_error(catalog.delete(path), 404, "NoSuchViewException", message)
    answer = catalog.post(path, {"requirements": [], "updates": []})
    assert_error(answer, 404, "NoSuchViewException", message)
    assert table.exists()


def test_drop(catalog: Catalog, namespace: Namespace, view: View):
    answer = catalog.delete(view.path)
    assert (answer.status_code, answer.content) == (204, b"")
    assert not view.exists()
    assert catalog.names(catalog.views_path(namespace)) == []
    assert_error(catalog.delete(view.path), 404, "NoSuchViewException", f"View does not exist: {view.text}")
    again = catalog.create_view(namespace, view.name)
    assert again.metadata()["view-uuid"] != view.created.json()["metadata"]["view-uuid"]


def test_summary_and_unknown_fields_of_a_version_are_kept(catalog: Catalog, namespace: Namespace):
    version = sql_version(summary={"operation": "create", "engine": "x"}, x_future={"a": [1.50]})
    metadata = _create(catalog, namespace, **{"view-version": version}).json()["metadata"]
    assert metadata["versions"] == [version]


def test_sql_survives_as_it_is(catalog: Catalog, namespace: Namespace):
    text = "select '🧊' as \"ü\",\n\t1 -- \u0000 is \\u0000, \u2028 is a line separator".replace("\u0000", "")
    metadata = _create(catalog, namespace, **{"view-version": sql_version(sql(text * 500))}).json()[
        "metadata"
    ]
    assert metadata["versions"][0]["representations"] == [sql(text * 500)]


def test_properties_may_be_left_out(catalog: Catalog, namespace: Namespace):
    """The reference client leaves an empty map out."""
    body = {"name": unique("view"), "schema": ID_AND_DATA, "view-version": sql_version()}
    answer = catalog.post(catalog.views_path(namespace), body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["properties"] == {}
