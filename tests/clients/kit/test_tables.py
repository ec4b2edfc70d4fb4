"""Creating, loading, renaming, dropping and registering tables through the Java client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.clients.kit.java import Iceberg, raises
from tests.clients.warehouses import Warehouse, unique
from tests.services.catalog import CatalogServer

MISSING = "no_such_namespace"


def complete_schema(iceberg: Iceberg) -> Any:
    """Field ids that the server must assign anew, and a doc beyond the basic plane of Unicode."""
    nested = iceberg.types.NestedField
    return iceberg.schema(
        nested.required(3, "id", iceberg.primitive("Integer"), "unique ID 🤪"),
        nested.required(4, "data", iceberg.primitive("String")),
    )


def local_path(location: str) -> Path:
    return Path(location.removeprefix("file://").removeprefix("file:"))


def test_basic_create(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    identifier = iceberg.identifier(ns, "tbl")
    assert not catalog.tableExists(identifier)
    table = catalog.createTable(identifier, iceberg.schema())
    assert catalog.tableExists(identifier)
    assert table.name().endswith(f"{ns}.tbl")
    assert table.schema().findField("id").fieldId() == 1
    assert table.schema().findField("data").fieldId() == 2
    assert table.spec().isUnpartitioned()
    assert table.sortOrder().isUnsorted()
    assert table.location()
    assert table.currentSnapshot() is None
    loaded = catalog.loadTable(identifier)
    assert loaded.schema().sameSchema(table.schema())
    assert loaded.location() == table.location()


def test_create_existing(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    identifier = iceberg.identifier(ns, "tbl")
    created = catalog.createTable(identifier, iceberg.schema())
    with raises("AlreadyExistsException", starts=f"Table already exists: {ns}.tbl"):
        catalog.createTable(identifier, iceberg.schema(iceberg.required(1, "other", "Date")))
    assert catalog.loadTable(identifier).schema().sameSchema(created.schema())


def test_create_without_namespace(iceberg: Iceberg, catalog: Any) -> None:
    with raises("NoSuchNamespaceException", contains=f"Namespace does not exist: {MISSING}"):
        catalog.createTable(iceberg.identifier(MISSING, "tbl"), iceberg.schema())


def test_complete_create(iceberg: Iceberg, catalog: Any, warehouse: Warehouse, ns: str) -> None:
    schema = complete_schema(iceberg)
    location = f"{warehouse.root}/{ns}/asked-for"
    builder = (
        catalog.buildTable(iceberg.identifier(ns, "tbl"), schema)
        .withLocation(location)
        .withPartitionSpec(iceberg.api.PartitionSpec.builderFor(schema).bucket("id", 16).build())
        .withSortOrder(iceberg.api.SortOrder.builderFor(schema).asc("id").build())
        .withProperty("user", "someone")
        .withProperty("created-at", "2022-02-25T00:38:19")
    )
    created = builder.create()
    for table in (created, catalog.loadTable(iceberg.identifier(ns, "tbl"))):
        assert table.location() == location
        assert table.schema().findField("id").fieldId() == 1
        assert table.schema().findField("id").doc() == "unique ID 🤪"
        assert table.schema().schemaId() == 0
        assert table.spec().specId() == 0
        assert table.spec().toString() == "[\n  1000: id_bucket: bucket[16](1)\n]"
        assert table.sortOrder().orderId() == 1
        assert table.sortOrder().fields()[0].sourceId() == 1
        assert (
            dict(table.properties()).items()
            >= {"user": "someone", "created-at": "2022-02-25T00:38:19"}.items()
        )
        assert table.operations().current().previousFiles().isEmpty()


def test_default_and_override_properties(iceberg: Iceberg, warehouse: Warehouse, ns: str) -> None:
    catalog = iceberg.catalog(
        warehouse,
        **{
            "table-default__key1": "default1",
            "table-default__key2": "default2",
            "table-override__key3": "override3",
        },
    )
    expected = {"key1": "default1", "key2": "asked2", "key3": "override3"}
    schema = iceberg.schema()
    for name, how in (("made", "create"), ("staged", "createTransaction"), ("made", "replaceTransaction")):
        builder = catalog.buildTable(iceberg.identifier(ns, name), schema)
        made = getattr(builder.withProperty("key2", "asked2").withProperty("key3", "asked3"), how)()
        if how != "create":
            made.commitTransaction()
        loaded = catalog.loadTable(iceberg.identifier(ns, name))
        assert dict(loaded.properties()).items() >= expected.items(), how
    catalog.close()


def test_default_column_values(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    literal = iceberg.api.expressions.Expressions.lit
    nested = iceberg.types.NestedField
    column = (
        nested.required("amount")
        .withId(2)
        .ofType(iceberg.primitive("Long"))
        .withInitialDefault(literal(34))
        .withWriteDefault(literal(35))
        .build()
    )
    identifier = iceberg.identifier(ns, "tbl")
    schema = iceberg.schema(iceberg.required(1, "id", "Long"), column)
    catalog.buildTable(identifier, schema).withProperty("format-version", "3").create()
    field = catalog.loadTable(identifier).schema().findField("amount")
    assert (field.initialDefault(), field.writeDefault()) == (34, 35)


def test_variant_column(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    variant = iceberg.types.NestedField.optional(2, "v", iceberg.types.VariantType.get())
    schema = iceberg.schema(iceberg.required(1, "id", "Long"), variant)
    version_3 = catalog.buildTable(iceberg.identifier(ns, "three"), schema).withProperty(
        "format-version", "3"
    )
    assert version_3.create().schema().findField("v").type().toString() == "variant"


def test_load_missing(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    with raises("NoSuchTableException", starts=f"Table does not exist: {ns}.tbl"):
        catalog.loadTable(iceberg.identifier(ns, "tbl"))
    with raises("NoSuchTableException", starts=f"Table does not exist: {MISSING}.tbl"):
        catalog.loadTable(iceberg.identifier(MISSING, "tbl"))


@pytest.mark.parametrize("name", ["files", "snapshots", "all_manifests"])
def test_load_metadata_table(iceberg: Iceberg, catalog: Any, ns: str, name: str) -> None:
    catalog.createTable(iceberg.identifier(ns, "tbl"), iceberg.schema())
    identifier = iceberg.api.catalog.TableIdentifier.of(iceberg.namespace(ns, "tbl"), name)
    table = catalog.loadTable(identifier)
    assert table.name().endswith(f"{ns}.tbl.{name}")
    assert table.schema().columns().size() > 0


def test_lost_metadata_file(iceberg: Iceberg, tmp_path: Path) -> None:
    server = CatalogServer(tmp_path / "catalog", {"FLOECAT_GATEWAY_VERIFY_METADATA_FILE": "true"}).start()
    try:
        catalog = iceberg.catalog(Warehouse(server))
        catalog.createNamespace(iceberg.namespace("ns"))
        identifier = iceberg.identifier("ns", "tbl")
        table = catalog.createTable(identifier, iceberg.schema())
        location = table.operations().current().metadataFileLocation()
        file = local_path(location)
        away = file.rename(file.with_name("moved-away"))
        # Clients newer than 1.10 throw NotFoundException; that the answer says so is in the contract tests.
        with raises("NoSuchTableException", contains=f"Failed to open input stream for file: {location}"):
            catalog.loadTable(identifier)
        away.rename(file)
        assert catalog.loadTable(identifier).uuid().equals(table.uuid())
        catalog.close()
    finally:
        server.stop()


def test_rename(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    source, destination = iceberg.identifier(ns, "tbl"), iceberg.identifier(ns, "renamed")
    created = catalog.createTable(source, iceberg.schema())
    catalog.renameTable(source, destination)
    assert not catalog.tableExists(source)
    assert catalog.loadTable(destination).uuid().equals(created.uuid())


def test_rename_to_another_namespace(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    other = unique("kit")
    catalog.createNamespace(iceberg.namespace(other))
    created = catalog.createTable(iceberg.identifier(ns, "tbl"), iceberg.schema())
    catalog.renameTable(iceberg.identifier(ns, "tbl"), iceberg.identifier(other, "tbl"))
    assert catalog.loadTable(iceberg.identifier(other, "tbl")).uuid().equals(created.uuid())
    assert not catalog.tableExists(iceberg.identifier(ns, "tbl"))


def test_rename_missing_source(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    with raises("NoSuchTableException", contains="Table does not exist"):
        catalog.renameTable(iceberg.identifier(ns, "no_such_table"), iceberg.identifier(ns, "new"))
    assert not catalog.tableExists(iceberg.identifier(ns, "new"))


def test_rename_to_missing_namespace(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    catalog.createTable(iceberg.identifier(ns, "tbl"), iceberg.schema())
    with raises("NoSuchNamespaceException", contains=f"Namespace does not exist: {MISSING}"):
        catalog.renameTable(iceberg.identifier(ns, "tbl"), iceberg.identifier(MISSING, "tbl"))
    assert catalog.tableExists(iceberg.identifier(ns, "tbl"))


def test_rename_to_existing(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    identifiers = [iceberg.identifier(ns, name) for name in ("one", "two")]
    tables = [catalog.createTable(identifier, iceberg.schema()) for identifier in identifiers]
    with raises("AlreadyExistsException", contains="Table already exists"):
        catalog.renameTable(*identifiers)
    for identifier, table in zip(identifiers, tables, strict=True):
        assert catalog.loadTable(identifier).uuid().equals(table.uuid())


def test_name_of_a_renamed_table_is_safe_to_use_again(
    iceberg: Iceberg, catalog: Any, warehouse: Warehouse, ns: str
) -> None:
    name, renamed = iceberg.identifier(ns, "tbl"), iceberg.identifier(ns, "renamed")
    first = catalog.createTable(name, iceberg.schema())
    first.newFastAppend().appendFile(iceberg.data_file(first.spec())).commit()
    catalog.renameTable(name, renamed)
    second = catalog.createTable(name, iceberg.schema())
    second.newFastAppend().appendFile(iceberg.data_file(second.spec())).commit()
    kept = warehouse.files_below(second.location())
    assert kept
    gone = catalog.loadTable(renamed).location()
    assert catalog.dropTable(renamed, True)
    assert not warehouse.wait_until_empty(gone)
    assert warehouse.files_below(second.location()) == kept
    assert len(iceberg.paths(catalog.loadTable(name))) == 1


def test_drop_without_purge_keeps_the_files(
    iceberg: Iceberg, catalog: Any, warehouse: Warehouse, ns: str
) -> None:
    identifier = iceberg.identifier(ns, "tbl")
    table = catalog.createTable(identifier, iceberg.schema())
    files = warehouse.files_below(table.location())
    assert files
    assert catalog.dropTable(identifier, False)
    assert not catalog.tableExists(identifier)
    assert warehouse.files_below(table.location()) == files


def test_drop_with_purge(iceberg: Iceberg, catalog: Any, warehouse: Warehouse, ns: str) -> None:
    identifier = iceberg.identifier(ns, "tbl")
    table = catalog.createTable(identifier, iceberg.schema())
    assert catalog.dropTable(identifier, True)
    assert not catalog.tableExists(identifier)
    assert not warehouse.wait_until_empty(table.location())


def test_drop_missing_is_no_error(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    assert catalog.dropTable(iceberg.identifier(ns, "no_such_table"), False) is False


def test_list(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    def listed() -> list[str]:
        return sorted(each.name() for each in catalog.listTables(iceberg.namespace(ns)))

    assert listed() == []
    for name in ("tbl_1", "tbl_2"):
        catalog.createTable(iceberg.identifier(ns, name), iceberg.schema())
    assert listed() == ["tbl_1", "tbl_2"]
    catalog.renameTable(iceberg.identifier(ns, "tbl_1"), iceberg.identifier(ns, "tbl_3"))
    assert listed() == ["tbl_2", "tbl_3"]
    catalog.dropTable(iceberg.identifier(ns, "tbl_2"), False)
    assert listed() == ["tbl_3"]


def test_register(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    identifier = iceberg.identifier(ns, "tbl")
    schema = complete_schema(iceberg)
    original = (
        catalog.buildTable(identifier, schema)
        .withPartitionSpec(iceberg.api.PartitionSpec.builderFor(schema).bucket("id", 16).build())
        .withSortOrder(iceberg.api.SortOrder.builderFor(schema).asc("id").build())
        .create()
    )
    for bucket in (0, 1, 2):
        file = iceberg.data_file(original.spec(), partition=f"id_bucket={bucket}")
        original.newFastAppend().appendFile(file).commit()
    original.updateSchema().addColumn("extra", iceberg.primitive("Date")).commit()
    current = original.operations().current()
    assert catalog.dropTable(identifier, False)
    registered = catalog.registerTable(identifier, current.metadataFileLocation())
    again = registered.operations().current()
    for part in ("specs", "sortOrders", "snapshots", "snapshotLog", "schemas", "properties"):
        assert iceberg.text(getattr(again, part)()) == iceberg.text(getattr(current, part)())
    assert again.uuid() == current.uuid()
    registered.newFastAppend().appendFile(
        iceberg.data_file(registered.spec(), partition="id_bucket=3")
    ).commit()
    assert len(iceberg.paths(catalog.loadTable(identifier))) == 4


def test_register_existing(iceberg: Iceberg, catalog: Any, ns: str) -> None:
    identifier = iceberg.identifier(ns, "t1")
    location = catalog.createTable(identifier, iceberg.schema()).operations().current().metadataFileLocation()
    with raises("AlreadyExistsException", starts=f"Table already exists: {ns}.t1"):
        catalog.registerTable(identifier, location)
