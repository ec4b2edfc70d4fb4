"""Create, replace and create-or-replace transactions of the Java client, alone and against each other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.kit.java import Iceberg, raises
from tests.clients.warehouses import Warehouse

CREATED_MEANWHILE = "Requirement failed: table already exists"


@pytest.fixture
def identifier(iceberg: Iceberg, ns: str) -> Any:
    """A table that is still to be made."""
    return iceberg.identifier(ns, "tbl")


@pytest.fixture
def other_schema(iceberg: Iceberg) -> Any:
    """Columns `new_id` and `data`."""
    return iceberg.schema(iceberg.required(1, "new_id", "Integer"), iceberg.required(2, "data", "String"))


def columns(table: Any) -> dict[str, int]:
    return {field.name(): field.fieldId() for field in table.schema().columns()}


def bucketed(iceberg: Iceberg, schema: Any, column: str = "id") -> Any:
    return iceberg.api.PartitionSpec.builderFor(schema).bucket(column, 16).build()


def ascending(iceberg: Iceberg, schema: Any, column: str = "id") -> Any:
    return iceberg.api.SortOrder.builderFor(schema).asc(column).build()


def append(iceberg: Iceberg, transaction: Any, partition: str = "") -> str:
    file = iceberg.data_file(transaction.table().spec(), partition=partition)
    transaction.newFastAppend().appendFile(file).commit()
    return str(file.path())


def log_size(table: Any) -> int:
    return int(table.operations().current().previousFiles().size())


def test_create(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    transaction = catalog.buildTable(identifier, iceberg.schema()).createTransaction()
    assert not catalog.tableExists(identifier)
    path = append(iceberg, transaction)
    assert not catalog.tableExists(identifier)
    transaction.commitTransaction()
    table = catalog.loadTable(identifier)
    assert columns(table) == {"id": 1, "data": 2}
    assert iceberg.paths(table) == {path}
    assert log_size(table) == 0


def test_complete_create(
    iceberg: Iceberg, catalog: Any, warehouse: Warehouse, ns: str, identifier: Any
) -> None:
    schema = iceberg.schema()
    location = f"{warehouse.root}/{ns}/asked-for"
    transaction = (
        catalog.buildTable(identifier, schema)
        .withLocation(location)
        .withPartitionSpec(bucketed(iceberg, schema))
        .withSortOrder(ascending(iceberg, schema))
        .withProperties(iceberg.map({"user": "someone", "format-version": "2"}))
        .createTransaction()
    )
    path = append(iceberg, transaction, "id_bucket=3")
    transaction.commitTransaction()
    table = catalog.loadTable(identifier)
    assert table.location() == location
    assert (table.schema().schemaId(), table.spec().specId(), table.sortOrder().orderId()) == (0, 0, 1)
    assert table.properties()["user"] == "someone"
    assert "format-version" not in table.properties()
    assert table.operations().current().formatVersion() == 2
    assert table.currentSnapshot().sequenceNumber() == 1
    assert iceberg.paths(table) == {path}


def test_create_that_evolves(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    schema = iceberg.schema()
    transaction = (
        catalog.buildTable(identifier, schema)
        .withPartitionSpec(bucketed(iceberg, schema))
        .withSortOrder(ascending(iceberg, schema))
        .createTransaction()
    )
    first = append(iceberg, transaction, "id_bucket=0")
    transaction.updateSchema().allowIncompatibleChanges().addRequiredColumn(
        "new_col", iceberg.primitive("Long")
    ).commit()
    transaction.updateSpec().addField("data").commit()
    reference = iceberg.api.expressions.Expressions.ref("new_col")
    transaction.replaceSortOrder().asc(reference, iceberg.api.NullOrder.NULLS_FIRST).commit()
    second = append(iceberg, transaction, "id_bucket=1/data=a")
    transaction.commitTransaction()
    table = catalog.loadTable(identifier)
    assert columns(table) == {"id": 1, "data": 2, "new_col": 3}
    assert (table.schema().schemaId(), table.spec().specId(), table.sortOrder().orderId()) == (1, 1, 2)
    assert {snapshot.schemaId() for snapshot in table.snapshots()} == {0, 1}
    assert iceberg.paths(table) == {first, second}
    assert log_size(table) == 0


def test_created_meanwhile(iceberg: Iceberg, catalog: Any, identifier: Any, other_schema: Any) -> None:
    transaction = catalog.buildTable(identifier, iceberg.schema()).createTransaction()
    append(iceberg, transaction)
    catalog.createTable(identifier, other_schema)
    with raises("AlreadyExistsException", starts=CREATED_MEANWHILE):
        transaction.commitTransaction()
    assert columns(catalog.loadTable(identifier)) == {"new_id": 1, "data": 2}


def test_create_or_replace_creates(iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
    schema = iceberg.schema()
    transaction = (
        catalog.buildTable(identifier, schema)
        .withPartitionSpec(bucketed(iceberg, schema))
        .withProperty("user", "someone")
        .createOrReplaceTransaction()
    )
    assert not catalog.tableExists(identifier)
    path = append(iceberg, transaction, "id_bucket=0")
    transaction.commitTransaction()
    table = catalog.loadTable(identifier)
    assert iceberg.paths(table) == {path}
    assert log_size(table) == 0


def test_create_or_replace_created_meanwhile(
    iceberg: Iceberg, catalog: Any, identifier: Any, other_schema: Any
) -> None:
    transaction = catalog.buildTable(identifier, iceberg.schema()).createOrReplaceTransaction()
    catalog.createTable(identifier, other_schema)
    with raises("AlreadyExistsException", starts=CREATED_MEANWHILE):
        transaction.commitTransaction()
    assert columns(catalog.loadTable(identifier)) == {"new_id": 1, "data": 2}


@pytest.mark.parametrize("how", ["createOrReplaceTransaction", "replaceTransaction"])
def test_replace(
    iceberg: Iceberg, catalog: Any, warehouse: Warehouse, ns: str, identifier: Any, how: str
) -> None:
    schema = iceberg.schema()
    original = catalog.buildTable(identifier, schema).withProperty("kept", "yes").create()
    original.newFastAppend().appendFile(iceberg.data_file(original.spec())).commit()
    original = catalog.loadTable(identifier)
    first_snapshot = catalog.loadTable(identifier).currentSnapshot().snapshotId()
    new_schema = iceberg.schema(
        iceberg.required(7, "new_id", "Integer"), iceberg.optional(8, "data", "String")
    )
    location = f"{warehouse.root}/{ns}/moved"
    builder = (
        catalog.buildTable(identifier, new_schema)
        .withLocation(location)
        .withPartitionSpec(bucketed(iceberg, new_schema, "new_id"))
        .withSortOrder(ascending(iceberg, new_schema, "new_id"))
        .withProperty("added", "yes")
    )
    transaction = getattr(builder, how)()
    path = append(iceberg, transaction, "new_id_bucket=5")
    transaction.commitTransaction()
    table = catalog.loadTable(identifier)
    # A column of the same name keeps its id; a new one gets the next.
    assert columns(table) == {"new_id": 3, "data": 2}
    assert table.uuid().equals(original.uuid())
    assert table.location() == location
    assert table.spec().specId() == 1
    assert table.sortOrder().isSorted()
    assert dict(table.properties()).items() >= {"kept": "yes", "added": "yes"}.items()
    assert iceberg.paths(table) == {path}
    assert table.snapshot(first_snapshot) is not None
    assert table.history().size() == 2
    assert log_size(table) == log_size(original) + 1


@pytest.mark.parametrize("how", ["createTransaction", "replaceTransaction", "createOrReplaceTransaction"])
@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_format_versions(iceberg: Iceberg, catalog: Any, identifier: Any, version: str, how: str) -> None:
    if how == "replaceTransaction":
        catalog.buildTable(identifier, iceberg.schema()).withProperty("format-version", "1").create()
    builder = catalog.buildTable(identifier, iceberg.schema()).withProperty("format-version", version)
    getattr(builder, how)().commitTransaction()
    table = catalog.loadTable(identifier)
    assert table.operations().current().formatVersion() == int(version)
    assert "format-version" not in table.properties()


def test_replace_missing(iceberg: Iceberg, catalog: Any, ns: str, identifier: Any) -> None:
    with raises("NoSuchTableException", starts=f"Table does not exist: {ns}.tbl"):
        catalog.buildTable(identifier, iceberg.schema()).replaceTransaction()


class Race:
    """Two replace transactions that start from the same table."""

    def __init__(self, iceberg: Iceberg, catalog: Any, identifier: Any) -> None:
        self.catalog = catalog
        self.identifier = identifier
        self.iceberg = iceberg
        schema = iceberg.schema()
        transaction = catalog.buildTable(identifier, schema).createTransaction()
        append(iceberg, transaction)
        transaction.commitTransaction()
        self.original = catalog.loadTable(identifier)

    def replacement(self, schema: Any, *, spec: Any = None, order: Any = None) -> Any:
        """A replace transaction with one appended file."""
        builder = self.catalog.buildTable(self.identifier, schema)
        builder = builder.withPartitionSpec(spec) if spec else builder
        builder = builder.withSortOrder(order) if order else builder
        transaction = builder.replaceTransaction()
        append(self.iceberg, transaction, f"{spec.fields()[0].name()}=1" if spec else "")
        return transaction

    def both_succeed(self, first: Any, second: Any) -> Any:
        """Commits both; the table is the one of the second."""
        first.commitTransaction()
        second.commitTransaction()
        table = self.catalog.loadTable(self.identifier)
        assert table.uuid().equals(self.original.uuid())
        assert table.history().size() == 3
        assert len(self.iceberg.paths(table)) == 1
        return table


@pytest.fixture
def race(iceberg: Iceberg, catalog: Any, identifier: Any) -> Race:
    """Two replace transactions are to meet."""
    return Race(iceberg, catalog, identifier)


def test_race_of_equal_replacements(iceberg: Iceberg, race: Race) -> None:
    table = race.both_succeed(race.replacement(iceberg.schema()), race.replacement(iceberg.schema()))
    assert columns(table) == {"id": 1, "data": 2}


def test_race_back_to_the_original_schema(iceberg: Iceberg, race: Race, other_schema: Any) -> None:
    table = race.both_succeed(race.replacement(other_schema), race.replacement(iceberg.schema()))
    assert columns(table) == {"id": 1, "data": 2}


def test_race_to_another_schema(iceberg: Iceberg, race: Race, other_schema: Any) -> None:
    table = race.both_succeed(race.replacement(iceberg.schema()), race.replacement(other_schema))
    assert columns(table) == {"new_id": 3, "data": 2}


def test_race_of_schemas_that_conflict(iceberg: Iceberg, race: Race, other_schema: Any) -> None:
    another = iceberg.schema(iceberg.required(1, "third_id", "Long"))
    first, second = race.replacement(other_schema), race.replacement(another)
    first.commitTransaction()
    with raises("CommitFailedException", contains="Requirement failed: last assigned field id changed"):
        second.commitTransaction()
    assert columns(race.catalog.loadTable(race.identifier)) == {"new_id": 3, "data": 2}


def test_race_of_specs(iceberg: Iceberg, race: Race) -> None:
    schema = iceberg.schema()
    first = race.replacement(schema, spec=bucketed(iceberg, schema))
    table = race.both_succeed(first, race.replacement(schema))
    assert table.spec().isUnpartitioned()


def test_race_of_specs_the_other_way(iceberg: Iceberg, race: Race) -> None:
    schema = iceberg.schema()
    second = race.replacement(schema, spec=bucketed(iceberg, schema))
    table = race.both_succeed(race.replacement(schema), second)
    assert [field.name() for field in table.spec().fields()] == ["id_bucket"]


def test_race_of_specs_that_conflict(iceberg: Iceberg, race: Race) -> None:
    schema = iceberg.schema()
    truncated = iceberg.api.PartitionSpec.builderFor(schema).truncate("id", 10).build()
    first = race.replacement(schema, spec=bucketed(iceberg, schema))
    second = race.replacement(schema, spec=truncated)
    first.commitTransaction()
    with raises("CommitFailedException", contains="Requirement failed: last assigned partition id changed"):
        second.commitTransaction()


def test_race_of_sort_orders(iceberg: Iceberg, race: Race) -> None:
    schema = iceberg.schema()
    first = race.replacement(schema, order=ascending(iceberg, schema))
    second = race.replacement(schema, order=ascending(iceberg, schema, "data"))
    table = race.both_succeed(first, second)
    assert [field.sourceId() for field in table.sortOrder().fields()] == [2]
