"""What `ViewCatalogTests` of Iceberg's compatibility kit asserts beyond the other files of this suite."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, View
from tests.contract.documents import ID_AND_DATA, column, order, schema, spec, sql, sql_version
from tests.contract.files import path_of
from tests.contract.updates import (
    add_schema,
    add_view_version,
    assert_create,
    assert_view_uuid,
    creation,
    set_current_view_version,
    set_location,
    set_properties,
)

OTHER = schema(column(1, "other_id", "long", required=True))


def replaced(*representations: Any, with_schema: Any = None, **more: Any) -> list[Any]:
    """What a client sends for a replace: its schema, if it is new, and the next version."""
    version = sql_version(*representations, version_id=2, schema_id=-1 if with_schema else 0, **more)
    schemas = [add_schema(with_schema)] if with_schema else []
    return [*schemas, add_view_version(version), set_current_view_version()]


def test_replace_is_the_second_version_with_its_own_schema(catalog: Catalog, namespace: Namespace):
    version = sql_version(sql("select * from t", "spark"), sql("select * from t", "trino"))
    view = catalog.create_view(namespace, view_version=version, properties={"kept": "1", "changed": "1"})
    before = view.get()
    updates = [
        set_properties(changed="2", added="2"),
        *replaced(sql("select 1", "trino"), sql("select 1", "spark"), with_schema=OTHER),
    ]
    made = view.committed(updates, [assert_view_uuid(before["metadata"]["view-uuid"])])
    assert made["view-uuid"] == before["metadata"]["view-uuid"]
    assert made["location"] == before["metadata"]["location"]
    assert (made["current-version-id"], len(made["versions"]), len(made["schemas"])) == (2, 2, 2)
    assert [each["schema-id"] for each in made["versions"]] == [0, 1]
    assert made["schemas"] == [ID_AND_DATA, OTHER | {"schema-id": 1}]
    assert made["versions"][0] == before["metadata"]["versions"][0]
    assert [entry["version-id"] for entry in made["version-log"]] == [1, 2]
    assert made["properties"] == {"kept": "1", "changed": "2", "added": "2"}


def test_replace_of_the_sql_of_a_dialect_keeps_the_schema(view: View):
    made = view.committed(replaced(sql("select 2")))
    assert (made["current-version-id"], len(made["schemas"])) == (2, 1)
    assert made["versions"][1]["schema-id"] == 0
    assert made["versions"][1]["representations"] == [sql("select 2")]


def test_two_replacements_of_one_base_are_versions_2_and_3(view: View):
    own = [assert_view_uuid(view.metadata()["view-uuid"])]
    late = replaced(sql("select late"), with_schema=ID_AND_DATA)
    early = view.committed(replaced(sql("select early"), with_schema=OTHER), own)
    assert (early["current-version-id"], early["versions"][1]["schema-id"]) == (2, 1)
    made = view.committed(late, own)
    assert made["current-version-id"] == 3
    assert [each["version-id"] for each in made["versions"]] == [1, 2, 3]
    # Its schema is that of version 1, so the view has two.
    assert [each["schema-id"] for each in made["versions"]] == [0, 1, 0]
    assert len(made["schemas"]) == 2


def test_view_dropped_and_made_anew_is_not_replaced(catalog: Catalog, namespace: Namespace, view: View):
    own = [assert_view_uuid(view.metadata()["view-uuid"])]
    view.drop()
    again = catalog.create_view(namespace, view.name)
    assert_error(view.commit(replaced(sql("late")), own), 409, "CommitFailedException")
    assert again.get() == again.created.json()


def test_location_is_replaced_with_the_version(
    local_catalog: Catalog, local_namespace: Namespace, warehouse_folder
):
    first, second = (f"{warehouse_folder.as_uri()}/{local_namespace[0]}/{name}" for name in ("v1", "v2"))
    view = local_catalog.create_view(local_namespace, location=first)
    assert view.metadata()["location"] == first
    made = view.committed([set_location(second), *replaced(sql("select 2"))])
    assert (made["location"], made["current-version-id"]) == (second, 2)
    assert view.get()["metadata-location"].startswith(f"{second}/metadata/")


@pytest.mark.parametrize("kept", ["table", "view"])
def test_namespace_with_one_kind_left_is_not_empty(catalog: Catalog, namespace: Namespace, kept: str):
    name = catalog.create_namespace((*namespace, "inner"))
    made = {"table": catalog.create_table(name, "t"), "view": catalog.create_view(name, "v")}
    made.pop("view" if kept == "table" else "table").drop()
    message = assert_error(catalog.delete(catalog.namespace_path(name)), 409, "NamespaceNotEmptyException")
    assert "is not empty" in message
    made[kept].drop()
    assert catalog.delete(catalog.namespace_path(name)).status_code == 204


def test_dropped_view_is_registered_again_from_its_file(local_catalog: Catalog, local_namespace: Namespace):
    view = local_catalog.create_view(local_namespace, properties={"gc.enabled": "false"})
    view.committed(replaced(sql("select 1"), with_schema=OTHER))
    before = view.get()
    view.drop()
    assert path_of(before["metadata-location"]).is_file()
    request = {"name": view.name, "metadata-location": before["metadata-location"]}
    path = f"{local_catalog.namespace_path(local_namespace)}/register-view"
    assert local_catalog.post(path, request).json() == before
    assert view.get() == before
    view.committed([set_properties(again="1")])


def test_view_is_not_replaced_by_a_table(catalog: Catalog, namespace: Namespace, view: View):
    updates = creation(ID_AND_DATA, spec(), order(order_id=0))
    path = f"{catalog.tables_path(namespace)}/{view.name}"
    # A replace finds no table to begin on; a create finds the name taken.
    assert_error(catalog.get(path), 404, "NoSuchTableException", f"Table does not exist: {view.text}")
    answer = catalog.post(path, {"requirements": [assert_create()], "updates": updates})
    message = f"View with same name already exists: {view.text}"
    assert_error(answer, 409, "AlreadyExistsException", message)
    assert view.get() == view.created.json()


def test_table_is_not_replaced_by_a_view(catalog: Catalog, namespace: Namespace):
    table = catalog.create_table(namespace)
    path = f"{catalog.views_path(namespace)}/{table.name}"
    message = f"View does not exist: {table.text}"
    assert_error(catalog.get(path), 404, "NoSuchViewException", message)
    answer = catalog.post(path, {"requirements": [], "updates": replaced(sql("select 1"))})
    assert_error(answer, 404, "NoSuchViewException", message)
    request = {"name": table.name, "schema": ID_AND_DATA, "view-version": sql_version(), "properties": {}}
    answer = catalog.post(catalog.views_path(namespace), request)
    message = f"Table with same name already exists: {table.text}"
    assert_error(answer, 409, "AlreadyExistsException", message)
    assert table.get() == table.created.json()
