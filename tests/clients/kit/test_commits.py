"""Updates of tables through the Java client: evolution, conflicts, retries by the server, appends."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.kit.java import Iceberg, raises
from tests.clients.warehouses import Warehouse


@pytest.fixture
def identifier(iceberg: Iceberg, ns: str) -> Any:
    """A table that is still to be made."""
    return iceberg.identifier(ns, "tbl")


def add_column(iceberg: Iceberg, table: Any, name: str) -> Any:
    return table.updateSchema().addColumn(name, iceberg.primitive("Long"))


def bucketed(iceberg: Iceberg, schema: Any, count: int = 16) -> Any:
    return iceberg.api.PartitionSpec.builderFor(schema).bucket("id", count).build()


def ascending(iceberg: Iceberg, table: Any) -> Any:
    reference = iceberg.api.expressions.Expressions.ref("id")
    return table.replaceSortOrder().asc(reference, iceberg.api.NullOrder.NULLS_FIRST)


def names(table: Any) -> list[str]:
    return [field.name() for field in table.schema().columns()]


def test_schema(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    add_column(iceberg, table, "new_col").commit()
    loaded = catalog.loadTable(identifier)
    assert names(loaded) == ["id", "data", "new_col"]
    assert loaded.schema().schemaId() == 1
    assert loaded.schema().findField("new_col").fieldId() == 3


def test_another_table_of_the_same_name(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    stale = add_column(iceberg, table, "new_col")
    catalog.dropTable(identifier, False)
    catalog.createTable(identifier, iceberg.schema(iceberg.required(1, "some_id", "Integer")))
    with raises("CommitFailedException", contains="Requirement failed: UUID does not match"):
        stale.commit()
    assert names(catalog.loadTable(identifier)) == ["some_id"]


def test_schema_and_spec_do_not_conflict(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    schema_change = add_column(iceberg, table, "new_col")
    catalog.loadTable(identifier).updateSpec().addField("id").commit()
    schema_change.commit()
    loaded = catalog.loadTable(identifier)
    assert names(loaded) == ["id", "data", "new_col"]
    assert loaded.spec().isPartitioned()


def test_spec_and_schema_do_not_conflict(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    spec_change = table.updateSpec().addField("id")
    add_column(iceberg, catalog.loadTable(identifier), "another_col").commit()
    spec_change.commit()
    loaded = catalog.loadTable(identifier)
    assert names(loaded) == ["id", "data", "another_col"]
    assert loaded.spec().isPartitioned()


def test_sort_order_and_schema_do_not_conflict(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    order_change = ascending(iceberg, table)
    add_column(iceberg, catalog.loadTable(identifier), "another_col").commit()
    order_change.commit()
    loaded = catalog.loadTable(identifier)
    assert loaded.sortOrder().isSorted()
    assert names(loaded) == ["id", "data", "another_col"]


def test_schema_conflict(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    change = add_column(iceberg, table, "new_col")
    catalog.loadTable(identifier).updateSchema().deleteColumn("data").commit()
    with raises("CommitFailedException", contains="Requirement failed: current schema changed"):
        change.commit()
    assert names(catalog.loadTable(identifier)) == ["id"]


def test_assigned_field_conflict(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    change = add_column(iceberg, table, "new_col")
    add_column(iceberg, catalog.loadTable(identifier), "another_col").commit()
    with raises("CommitFailedException", contains="Requirement failed: last assigned field id changed"):
        change.commit()
    assert names(catalog.loadTable(identifier)) == ["id", "data", "another_col"]


def test_schema_reverted(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    add_column(iceberg, table, "col1").commit()
    table.updateSchema().deleteColumn("col1").commit()
    loaded = catalog.loadTable(identifier)
    assert names(loaded) == ["id", "data"]
    assert loaded.schema().schemaId() == 0
    assert loaded.schemas().size() == 2


def test_spec_conflict(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    schema = iceberg.schema()
    table = catalog.buildTable(identifier, schema).withPartitionSpec(bucketed(iceberg, schema)).create()
    change = table.updateSpec().addField("data")
    catalog.loadTable(identifier).updateSpec().removeField("id_bucket").commit()
    with raises("CommitFailedException", contains="Requirement failed: default partition spec changed"):
        change.commit()
    assert not catalog.loadTable(identifier).spec().isPartitioned()


def test_assigned_partition_conflict(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    change = table.updateSpec().addField("data")
    catalog.loadTable(identifier).updateSpec().addField("id").commit()
    with raises("CommitFailedException", contains="Requirement failed: last assigned partition id changed"):
        change.commit()
    assert [field.name() for field in catalog.loadTable(identifier).spec().fields()] == ["id"]


def test_spec_reverted(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    schema = iceberg.schema()
    table = (
        catalog.buildTable(identifier, schema)
        .withPartitionSpec(bucketed(iceberg, schema))
        .withProperty("format-version", "2")
        .create()
    )
    table.updateSpec().addField("id").commit()
    table.updateSpec().removeField("id").commit()
    loaded = catalog.loadTable(identifier)
    assert loaded.spec().specId() == 0
    assert [field.name() for field in loaded.spec().fields()] == ["id_bucket"]


def test_sort_order_reverted(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    ascending(iceberg, table).commit()
    assert catalog.loadTable(identifier).sortOrder().orderId() == 1
    table.replaceSortOrder().commit()
    assert catalog.loadTable(identifier).sortOrder().orderId() == 0


@pytest.mark.parametrize("with_branch", [False, True])
def test_unused_specs_and_schemas_are_removed(
    iceberg: Iceberg, catalog: Any, identifier: Any, with_branch: bool
) -> None:
    schema = iceberg.schema()
    table = catalog.buildTable(identifier, schema).withPartitionSpec(bucketed(iceberg, schema)).create()
    first = table.spec()
    table.newFastAppend().appendFile(iceberg.data_file(first, partition="id_bucket=0")).commit()
    if with_branch:
        table.manageSnapshots().createBranch("kept").commit()
    table.newDelete().deleteFromRowFilter(iceberg.api.expressions.Expressions.alwaysTrue()).commit()
    table.updateSpec().removeField("id_bucket").addField("data").commit()
    table.updateSchema().addColumn("extra", iceberg.primitive("Long")).commit()
    # Unlike a fast append it leaves manifests behind that have no live file.
    table.newAppend().appendFile(iceberg.data_file(table.spec(), partition="data=a")).commit()
    table = catalog.loadTable(identifier)
    newest = table.currentSnapshot().timestampMillis() + 1
    # The files are none of this test's, and there are none.
    expiry = table.expireSnapshots().expireOlderThan(newest).cleanExpiredFiles(False)
    expiry.cleanExpiredMetadata(True).commit()
    loaded = catalog.loadTable(identifier)
    specs = {int(key) for key in loaded.specs()}
    schemas = {int(key) for key in loaded.schemas()}
    assert specs == ({0, 1} if with_branch else {1})
    assert schemas == ({0, 1} if with_branch else {1})


def test_append(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    file = iceberg.data_file(table.spec())
    table.newAppend().appendFile(file).commit()
    loaded = catalog.loadTable(identifier)
    assert iceberg.paths(loaded) == {str(file.path())}
    assert loaded.currentSnapshot().sequenceNumber() == 1


@pytest.mark.parametrize("with_rows", [False, True])
def test_concurrent_appends(iceberg: Iceberg, catalog: Any, identifier: Any, with_rows: bool) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    files = [iceberg.data_file(table.spec()) for _ in range(3 if with_rows else 2)]
    if with_rows:
        table.newFastAppend().appendFile(files[2]).commit()
    first, second = (catalog.loadTable(identifier) for _ in range(2))
    appends = [
        each.newFastAppend().appendFile(file) for each, file in zip((first, second), files, strict=False)
    ]
    for append in appends:
        append.apply()
    for append in appends:
        append.commit()
    loaded = catalog.loadTable(identifier)
    assert iceberg.paths(loaded) == {str(file.path()) for file in files}
    assert loaded.history().size() == len(files)


def test_transaction_is_one_commit(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    before = table.operations().current()
    transaction = table.newTransaction()
    add_column(iceberg, transaction, "new_col").commit()
    transaction.updateSpec().addField("data").commit()
    transaction.updateProperties().set("key", "value").commit()
    transaction.commitTransaction()
    after = catalog.loadTable(identifier).operations().current()
    assert names(catalog.loadTable(identifier)) == ["id", "data", "new_col"]
    assert after.previousFiles().size() == before.previousFiles().size() + 1
    assert after.previousFiles()[0].file() == before.metadataFileLocation()


def test_branches_and_tags(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    table.newFastAppend().appendFile(iceberg.data_file(table.spec())).commit()
    first = table.currentSnapshot().snapshotId()
    table.manageSnapshots().createTag("release", first).createBranch("audit", first).commit()
    table.newFastAppend().appendFile(iceberg.data_file(table.spec())).toBranch("audit").commit()
    loaded = catalog.loadTable(identifier)
    assert {name: ref.isTag() for name, ref in dict(loaded.refs()).items()} == {
        "main": False,
        "audit": False,
        "release": True,
    }
    assert loaded.currentSnapshot().snapshotId() == first
    loaded.manageSnapshots().fastForwardBranch("main", "audit").commit()
    loaded.manageSnapshots().removeTag("release").commit()
    again = catalog.loadTable(identifier)
    assert len(iceberg.paths(again)) == 2
    assert set(again.refs()) == {"main", "audit"}


def test_old_metadata_files_are_removed(
    iceberg: Iceberg, catalog: Any, warehouse: Warehouse, identifier: Any
) -> None:
    table = catalog.createTable(identifier, iceberg.schema())
    table.updateProperties().set("write.metadata.delete-after-commit.enabled", "true").set(
        "write.metadata.previous-versions-max", "2"
    ).commit()
    for number in range(4):
        table.updateProperties().set("number", str(number)).commit()
    current = catalog.loadTable(identifier).operations().current()
    kept = {entry.file() for entry in current.previousFiles()} | {current.metadataFileLocation()}
    assert len(kept) == 3
    folder = current.metadataFileLocation().rpartition("/")[0]
    left = {name for name in warehouse.files_below(folder) if name.endswith(".metadata.json")}
    assert left == {name.rpartition("/")[2] for name in kept}
