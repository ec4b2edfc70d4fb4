"""Views as the Java client sees them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.kit.java import Iceberg, raises
from tests.clients.warehouses import Warehouse

MISSING = "no_such_namespace"
SQL = "select * from tbl"


class Views:
    """Builders of views in one namespace."""

    def __init__(self, iceberg: Iceberg, catalog: Any, ns: str) -> None:
        self.iceberg = iceberg
        self.catalog = catalog
        self.ns = ns

    def id(self, name: str) -> Any:
        """An identifier."""
        return self.iceberg.identifier(self.ns, name)

    def builder(self, name: str, *, dialect: str = "spark", sql: str = SQL, namespace: str = "") -> Any:
        """A builder with a schema and one query."""
        identifier = self.iceberg.identifier(namespace or self.ns, name)
        return (
            self.catalog.buildView(identifier)
            .withSchema(self.iceberg.schema())
            .withDefaultNamespace(self.iceberg.namespace(self.ns))
            .withQuery(dialect, sql)
            # Without any property the client sends none, and no `properties` either.
            .withProperty("prop", "value")
        )

    def load(self, name: str) -> Any:
        """Loads a view."""
        return self.catalog.loadView(self.id(name))

    def listed(self) -> list[str]:
        """The names of the views."""
        return sorted(each.name() for each in self.catalog.listViews(self.iceberg.namespace(self.ns)))

    def create_table(self, name: str) -> Any:
        """A table beside the views."""
        return self.catalog.createTable(self.id(name), self.iceberg.schema())


@pytest.fixture
def views(iceberg: Iceberg, catalog: Any, ns: str) -> Views:
    """No view yet."""
    return Views(iceberg, catalog, ns)


def metadata(view: Any) -> Any:
    return view.operations().current()


def sql_of(view: Any) -> dict[str, str]:
    return {each.dialect(): each.sql() for each in view.currentVersion().representations()}


def test_create(views: Views) -> None:
    assert not views.catalog.viewExists(views.id("view"))
    views.builder("view").create()
    assert views.catalog.viewExists(views.id("view"))
    view = views.load("view")
    assert view.name().endswith(f"{views.ns}.view")
    assert view.uuid().equals(views.load("view").uuid())
    assert view.currentVersion().versionId() == 1
    assert view.currentVersion().schemaId() == 0
    assert view.currentVersion().operation() == "create"
    assert view.history().size() == 1
    assert view.history()[0].versionId() == 1
    assert view.schemas().size() == 1
    assert {field.name(): field.fieldId() for field in view.schema().columns()} == {"id": 3, "data": 4}
    assert sql_of(view) == {"spark": SQL}
    assert views.catalog.dropView(views.id("view"))
    assert not views.catalog.viewExists(views.id("view"))
    assert views.catalog.dropView(views.id("view")) is False


def test_create_without_properties(iceberg: Iceberg, views: Views) -> None:
    view = (
        views.catalog.buildView(views.id("view"))
        .withSchema(iceberg.schema())
        .withDefaultNamespace(iceberg.namespace(views.ns))
        .withQuery("spark", SQL)
        .create()
    )
    assert sql_of(view) == {"spark": SQL}


def test_complete_create(iceberg: Iceberg, catalog: Any, warehouse: Warehouse, ns: str, views: Views) -> None:
    location = f"{warehouse.root}/{ns}/asked-for"
    columns = iceberg.jvm.java.util.ArrayList([iceberg.required(5, "id", "Long")])
    view = (
        catalog.buildView(views.id("view"))
        .withSchema(iceberg.api.Schema(5, columns))
        .withDefaultNamespace(iceberg.namespace(ns))
        .withDefaultCatalog("default")
        .withQuery("spark", SQL)
        .withQuery("trino", "select id from tbl")
        .withProperty("prop1", "val1")
        .withLocation(location)
        .create()
    )
    for each in (view, views.load("view")):
        assert each.location() == location
        assert each.schema().schemaId() == 0
        assert each.currentVersion().schemaId() == 0
        assert each.currentVersion().defaultCatalog() == "default"
        assert each.currentVersion().defaultNamespace().toString() == ns
        assert each.properties()["prop1"] == "val1"
        assert sql_of(each) == {"spark": SQL, "trino": "select id from tbl"}


def test_default_and_override_properties(
    iceberg: Iceberg, catalog: Any, warehouse: Warehouse, ns: str
) -> None:
    client = iceberg.catalog(
        warehouse, **{"view-default__key1": "default1", "view-override__key2": "override2"}
    )
    view = Views(iceberg, client, ns).builder("view").withProperty("key2", "asked2").create()
    assert dict(view.properties()).items() >= {"key1": "default1", "key2": "override2"}.items()
    client.close()


def test_metadata_path(warehouse: Warehouse, views: Views) -> None:
    path = f"{warehouse.root}/{views.ns}/elsewhere"
    view = views.builder("view").withProperty("write.metadata.path", path).create()
    assert metadata(view).metadataFileLocation().startswith(path)
    assert views.load("view").properties()["write.metadata.path"] == path


def test_two_queries_of_one_dialect(views: Views) -> None:
    builder = views.builder("view", dialect="trino").withQuery("trino", "select 2")
    with raises("IllegalArgumentException", contains="Cannot add multiple queries for dialect trino"):
        builder.create()
    assert not views.catalog.viewExists(views.id("view"))


def test_load_missing(iceberg: Iceberg, catalog: Any, views: Views) -> None:
    with raises("NoSuchViewException", starts=f"View does not exist: {views.ns}.view"):
        views.load("view")
    with raises("NoSuchViewException", starts=f"View does not exist: {MISSING}.view"):
        catalog.loadView(iceberg.identifier(MISSING, "view"))


def test_tables_and_views_are_not_each_other(catalog: Any, views: Views) -> None:
    views.create_table("table")
    views.builder("view").create()
    with raises("NoSuchViewException", starts=f"View does not exist: {views.ns}.table"):
        views.load("table")
    with raises("NoSuchTableException", starts=f"Table does not exist: {views.ns}.view"):
        catalog.loadTable(views.id("view"))
    assert not catalog.viewExists(views.id("table"))
    assert not catalog.tableExists(views.id("view"))
    assert views.listed() == ["view"]
    tables = catalog.listTables(views.iceberg.namespace(views.ns))
    assert [each.name() for each in tables] == ["table"]


def test_create_existing(views: Views) -> None:
    views.builder("view").create()
    with raises("AlreadyExistsException", starts=f"View already exists: {views.ns}.view"):
        views.builder("view").create()


def test_create_over_a_table(views: Views) -> None:
    views.create_table("table")
    for how in ("create", "createOrReplace"):
        with raises(
            "AlreadyExistsException", starts=f"Table with same name already exists: {views.ns}.table"
        ):
            getattr(views.builder("table"), how)()


def test_replace_of_a_table(views: Views) -> None:
    views.create_table("table")
    with raises("AlreadyExistsException", starts=f"Table with same name already exists: {views.ns}.table"):
        views.builder("table").replace()


def test_table_over_a_view(catalog: Any, views: Views) -> None:
    views.builder("view").create()
    message = f"View with same name already exists: {views.ns}.view"
    schema = views.iceberg.schema()
    with raises("AlreadyExistsException", starts=message):
        catalog.createTable(views.id("view"), schema)
    for how in ("createTransaction", "createOrReplaceTransaction", "replaceTransaction"):
        with raises("AlreadyExistsException", starts=message):
            getattr(catalog.buildTable(views.id("view"), schema), how)().commitTransaction()


def test_staged_table_over_a_view(catalog: Any, views: Views) -> None:
    transaction = catalog.buildTable(views.id("view"), views.iceberg.schema()).createTransaction()
    views.builder("view").create()
    with raises("AlreadyExistsException", starts=f"View with same name already exists: {views.ns}.view"):
        transaction.commitTransaction()


def test_rename(catalog: Any, views: Views) -> None:
    created = views.builder("one").create()
    catalog.renameView(views.id("one"), views.id("two"))
    assert views.listed() == ["two"]
    assert views.load("two").uuid().equals(created.uuid())


def test_rename_to_another_namespace(iceberg: Iceberg, catalog: Any, views: Views) -> None:
    views.builder("view").create()
    other = f"{views.ns}_other"
    catalog.createNamespace(iceberg.namespace(other))
    catalog.renameView(views.id("view"), iceberg.identifier(other, "view"))
    assert views.listed() == []
    assert catalog.viewExists(iceberg.identifier(other, "view"))


def test_rename_missing(iceberg: Iceberg, catalog: Any, views: Views) -> None:
    with raises("NoSuchViewException", contains="View does not exist"):
        catalog.renameView(views.id("view"), views.id("new"))
    views.builder("view").create()
    with raises("NoSuchNamespaceException", contains=f"Namespace does not exist: {MISSING}"):
        catalog.renameView(views.id("view"), iceberg.identifier(MISSING, "view"))


def test_rename_to_existing(catalog: Any, views: Views) -> None:
    for name in ("one", "two"):
        views.builder(name).create()
    views.create_table("table")
    ns = views.ns
    with raises(
        "AlreadyExistsException", contains=f"Cannot rename {ns}.one to {ns}.two. View already exists"
    ):
        catalog.renameView(views.id("one"), views.id("two"))
    with raises(
        "AlreadyExistsException", contains=f"Cannot rename {ns}.one to {ns}.table. Table already exists"
    ):
        catalog.renameView(views.id("one"), views.id("table"))
    with raises(
        "AlreadyExistsException", contains=f"Cannot rename {ns}.table to {ns}.one. View already exists"
    ):
        catalog.renameTable(views.id("table"), views.id("one"))


def test_list(views: Views) -> None:
    assert views.listed() == []
    for name in ("b", "a"):
        views.builder(name).create()
    assert views.listed() == ["a", "b"]
    views.catalog.dropView(views.id("a"))
    assert views.listed() == ["b"]


@pytest.mark.parametrize("how", ["createOrReplace", "replace"])
def test_replace(iceberg: Iceberg, views: Views, how: str) -> None:
    original = views.builder("view").withQuery("trino", "select 2").withProperty("kept", "yes").create()
    new_schema = iceberg.schema(iceberg.required(1, "new_id", "Integer"))
    builder = (
        views.builder("view", dialect="trino", sql="select 3")
        .withSchema(new_schema)
        .withProperty("replace.drop-dialect.allowed", "true")
        .withProperty("added", "yes")
    )
    getattr(builder, how)()
    view = views.load("view")
    assert view.uuid().equals(original.uuid())
    assert view.currentVersion().versionId() == 2
    assert view.currentVersion().operation() == "replace"
    assert view.currentVersion().schemaId() == 1
    assert view.schema().findField("new_id") is not None
    assert dict(view.properties()).items() >= {"kept": "yes", "added": "yes"}.items()
    assert view.history().size() == 2
    assert sql_of(view)["trino"] == "select 3"
    assert {version.versionId() for version in view.versions()} == {1, 2}


def test_replace_missing(views: Views) -> None:
    with raises("NoSuchViewException", starts=f"View does not exist: {views.ns}.view"):
        views.builder("view").replace()


def test_dialects_are_not_dropped_unasked(views: Views) -> None:
    views.builder("view").withQuery("trino", "select 2").create()
    builder = views.builder("view")
    with raises("IllegalStateException", contains="Cannot replace view due to loss of view dialects"):
        builder.replace()
    assert set(sql_of(views.load("view"))) == {"spark", "trino"}


def test_properties(views: Views) -> None:
    view = views.builder("view").withProperty("key1", "1").withProperty("key2", "2").create()
    view.updateProperties().set("key1", "new").remove("key2").commit()
    updated = views.load("view")
    assert updated.properties()["key1"] == "new"
    assert "key2" not in updated.properties()
    assert updated.history().size() == 1
    assert updated.currentVersion().versionId() == 1


def new_version(views: Views, view: Any, sql: str, schema: Any = None) -> Any:
    return (
        view.replaceVersion()
        .withQuery("spark", sql)
        .withSchema(schema or views.iceberg.schema())
        .withDefaultNamespace(views.iceberg.namespace(views.ns))
    )


def test_replace_version(views: Views) -> None:
    view = views.builder("view").create()
    new_version(views, view, "select 3").commit()
    updated = views.load("view")
    assert sql_of(updated) == {"spark": "select 3"}
    assert updated.currentVersion().versionId() == 2
    assert updated.currentVersion().schemaId() == 0
    assert [entry.versionId() for entry in updated.history()] == [1, 2]


def test_changes_of_a_dropped_view(catalog: Any, views: Views) -> None:
    view = views.builder("view").create()
    changes = [
        view.updateProperties().set("key", "value"),
        new_version(views, view, "select 3"),
        view.updateLocation().setLocation(metadata(view).location() + "-new"),
    ]
    replacement = views.builder("view", sql="select 4")
    catalog.dropView(views.id("view"))
    for change in changes:
        with raises("NoSuchViewException", starts=f"View does not exist: {views.ns}.view"):
            change.commit()
    with raises("NoSuchViewException", starts=f"View does not exist: {views.ns}.view"):
        replacement.replace()


def test_location(views: Views) -> None:
    view = views.builder("view").create()
    location = view.location() + "-moved"
    view.updateLocation().setLocation(location).commit()
    updated = views.load("view")
    assert updated.location() == location
    assert updated.history().size() == 1
    replaced = location + "-again"
    views.builder("view").withLocation(replaced).replace()
    assert views.load("view").location() == replaced


def test_concurrent_versions(iceberg: Iceberg, views: Views) -> None:
    view = views.builder("view").create()
    other_schema = iceberg.schema(iceberg.required(1, "new_id", "Integer"))
    trino = new_version(views, views.load("view"), "select new_id", other_schema)
    spark = new_version(views, views.load("view"), "select id")
    trino.apply()
    spark.apply()
    trino.commit()
    spark.commit()
    updated = views.load("view")
    assert updated.uuid().equals(view.uuid())
    assert [entry.versionId() for entry in updated.history()] == [1, 2, 3]
    assert [version.schemaId() for version in updated.versions()] == [0, 1, 0]
    assert sql_of(updated) == {"spark": "select id"}


def test_drop_keeps_the_file_of_a_view_that_must_not_be_collected(
    catalog: Any, warehouse: Warehouse, views: Views
) -> None:
    view = views.builder("view").withProperty("gc.enabled", "false").create()
    location = metadata(view).metadataFileLocation()
    assert catalog.dropView(views.id("view"))
    folder, _, name = location.rpartition("/")
    assert name in warehouse.files_below(folder)


def test_register_table_over_a_view(catalog: Any, views: Views) -> None:
    location = metadata(views.create_table("table")).metadataFileLocation()
    views.builder("view").create()
    with raises("AlreadyExistsException", starts=f"View with same name already exists: {views.ns}.view"):
        catalog.registerTable(views.id("view"), location)
