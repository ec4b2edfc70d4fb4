"""PyIceberg's library, on the local disk and on S3."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.expressions import EqualTo, GreaterThan
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, YearTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestampType
from pyiceberg.view.metadata import ViewRepresentation, ViewVersion

from tests.clients.connections import Connections
from tests.clients.warehouses import Warehouse, unique

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


@pytest.fixture
def catalog(connections: Connections, warehouse: Warehouse) -> RestCatalog:
    """The client."""
    return connections.pyiceberg(warehouse)


@pytest.fixture
def namespace(catalog: RestCatalog) -> str:
    """An empty namespace."""
    name = unique("py")
    catalog.create_namespace(name)
    return name


@pytest.fixture
def table(catalog: RestCatalog, namespace: str) -> Table:
    """A table with three rows."""
    made = catalog.create_table(f"{namespace}.t", ROWS.schema)
    made.append(ROWS)
    return made


def rows(table: Table, **scan: Any) -> list[tuple[Any, ...]]:
    arrow = table.scan(**scan).to_arrow()
    return sorted(tuple(row.values()) for row in arrow.to_pylist())


def more(*values: tuple[int, str]) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "name": name} for key, name in values], schema=ROWS.schema)


def test_nested_namespaces(catalog: RestCatalog, namespace: str) -> None:
    child = (namespace, "eu.west", "übersee")
    catalog.create_namespace(child[:2])
    catalog.create_namespace(child, {"owner": "me"})
    assert catalog.list_namespaces(namespace) == [child[:2]]
    assert catalog.list_namespaces(child[:2]) == [child]
    assert catalog.load_namespace_properties(child)["owner"] == "me"
    summary = catalog.update_namespace_properties(child, {"absent"}, {"team": "x"})
    assert (summary.updated, summary.missing) == (["team"], ["absent"])
    catalog.create_table((*child, "t"), ROWS.schema)
    assert catalog.list_tables(child) == [(*child, "t")]
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(child)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(child[:2])
    catalog.drop_table((*child, "t"))
    for each in (child, child[:2], child[:1]):
        catalog.drop_namespace(each)
        assert not catalog.namespace_exists(each)


def test_errors(catalog: RestCatalog, namespace: str, table: Table) -> None:
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(namespace)
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(table.name(), ROWS.schema)
    with pytest.raises(NoSuchTableError):
        catalog.load_table(f"{namespace}.missing")
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table("missing_namespace.t", ROWS.schema)
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables("missing_namespace")


def test_rows_change(table: Table) -> None:
    table.append(more((4, "d")))
    table.delete(EqualTo("id", 1))
    table.overwrite(more((2, "changed")), overwrite_filter=EqualTo("id", 2))
    result = table.upsert(more((3, "upserted"), (9, "new")), join_cols=["id"])
    assert (result.rows_updated, result.rows_inserted) == (1, 1)
    expected = [(2, "changed"), (3, "upserted"), (4, "d"), (9, "new")]
    assert rows(table) == expected
    assert rows(table, row_filter=GreaterThan("id", 3), selected_fields=("id",)) == [(4,), (9,)]
    table.overwrite(more((1, "all that is left")))
    assert rows(table.refresh()) == [(1, "all that is left")]


def test_partitions_and_sort_order(catalog: RestCatalog, namespace: str) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "region", StringType()),
        NestedField(3, "at", TimestampType()),
        identifier_field_ids=[1],
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    order = SortOrder(SortField(source_id=1, transform=IdentityTransform()))
    table = catalog.create_table(
        f"{namespace}.t", schema, partition_spec=spec, sort_order=order, properties={"owner": "me"}
    )
    arrow = schema.as_arrow()
    table.append(pa.Table.from_pylist([{"id": 1, "region": "eu", "at": None}], schema=arrow))
    with table.update_spec() as update:
        update.remove_field("region")
        update.add_field("id", BucketTransform(4), "id_bucket")
        update.add_field("at", YearTransform(), "at_year")
    table.append(pa.Table.from_pylist([{"id": 2, "region": "us", "at": None}], schema=arrow))
    with table.update_sort_order() as update_order:
        update_order.desc("id", IdentityTransform())
    table = catalog.load_table(table.name())
    assert [field.name for field in table.spec().fields] == ["id_bucket", "at_year"]
    assert sorted(table.specs()) == [0, 1]
    assert len(table.sort_orders()) == 2
    assert table.schema().identifier_field_ids == [1]
    assert table.properties["owner"] == "me"
    assert rows(table, row_filter=EqualTo("region", "eu")) == [(1, "eu", None)]
    assert [row[0] for row in rows(table)] == [1, 2]


def test_columns_change(catalog: RestCatalog, table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("count", IntegerType(), doc="how many")
        update.add_column("label", StringType(), default_value=None)
        update.rename_column("name", "title")
    with table.update_schema() as update:
        update.update_column("count", LongType())
        update.move_first("count")
        update.delete_column("label")
    table = catalog.load_table(table.name())
    assert table.schema().column_names == ["count", "id", "title"]
    assert table.schema().find_field("count").doc == "how many"
    table.append(pa.table({"count": [7], "id": [4], "title": ["d"]}))
    by_id = table.scan().to_arrow().sort_by("id").to_pydict()
    assert by_id == {"count": [None, None, None, 7], "id": [1, 2, 3, 4], "title": ["a", "b", "c", "d"]}


def test_branches_tags_and_time_travel(catalog: RestCatalog, table: Table) -> None:
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "release").create_branch(
        first.snapshot_id, "audit"
    ).commit()
    table.append(more((4, "d")), branch="audit")
    table.append(more((5, "e")))
    table = catalog.load_table(table.name())
    audit = table.snapshot_by_name("audit")
    assert audit is not None
    assert [row[0] for row in rows(table)] == [1, 2, 3, 5]
    assert [row[0] for row in rows(table, snapshot_id=audit.snapshot_id)] == [1, 2, 3, 4]
    assert [row[0] for row in rows(table, snapshot_id=first.snapshot_id)] == [1, 2, 3]
    table.manage_snapshots().remove_tag("release").remove_branch("audit").commit()
    assert set(catalog.load_table(table.name()).refs()) == {"main"}


def test_transaction_is_one_commit(catalog: RestCatalog, table: Table) -> None:
    before = len(table.metadata.metadata_log)
    with table.transaction() as transaction:
        transaction.set_properties(owner="me")
        with transaction.update_schema() as update:
            update.add_column("extra", StringType())
        transaction.append(pa.table({"id": pa.array([4], pa.int64()), "name": ["d"], "extra": ["x"]}))
    loaded = catalog.load_table(table.name())
    assert len(loaded.metadata.metadata_log) == before + 1
    assert loaded.properties["owner"] == "me"
    assert rows(loaded)[-1] == (4, "d", "x")


def test_create_transaction(catalog: RestCatalog, namespace: str) -> None:
    name = f"{namespace}.staged"
    with catalog.create_table_transaction(name, ROWS.schema) as transaction:
        transaction.append(ROWS)
        assert not catalog.table_exists(name)
    assert rows(catalog.load_table(name)) == [(1, "a"), (2, "b"), (3, "c")]


def test_abandoned_create_transaction(catalog: RestCatalog, namespace: str) -> None:
    name = f"{namespace}.staged"
    catalog.create_table_transaction(name, ROWS.schema).append(ROWS)
    assert not catalog.table_exists(name)
    catalog.create_table(name, ROWS.schema)


def test_stale_table_loses(catalog: RestCatalog, table: Table) -> None:
    stale = catalog.load_table(table.name())
    with table.update_schema() as update:
        update.add_column("first", StringType())
    with pytest.raises(CommitFailedException), stale.update_schema() as update:
        update.add_column("second", StringType())
    assert catalog.load_table(table.name()).schema().column_names == ["id", "name", "first"]


def test_rename(catalog: RestCatalog, namespace: str, table: Table) -> None:
    other = unique("py")
    catalog.create_namespace(other)
    renamed = catalog.rename_table(table.name(), f"{other}.moved")
    assert renamed.metadata.table_uuid == table.metadata.table_uuid
    assert not catalog.table_exists(table.name())
    assert rows(catalog.load_table(f"{other}.moved")) == rows(table)


def test_drop_and_register(catalog: RestCatalog, table: Table, warehouse: Warehouse) -> None:
    catalog.drop_table(table.name())
    assert not catalog.table_exists(table.name())
    assert warehouse.files_below(table.location())
    registered = catalog.register_table(table.name(), table.metadata_location)
    assert registered.metadata.table_uuid == table.metadata.table_uuid
    assert rows(registered) == [(1, "a"), (2, "b"), (3, "c")]
    registered.append(more((4, "d")))
    assert len(rows(registered)) == 4


def test_purge(catalog: RestCatalog, table: Table, warehouse: Warehouse) -> None:
    catalog.purge_table(table.name())
    assert not catalog.table_exists(table.name())
    assert not warehouse.wait_until_empty(table.location())


def test_metadata_tables(table: Table) -> None:
    table.append(more((4, "d")))
    table.delete(EqualTo("id", 1))
    inspect = table.inspect
    operations = inspect.snapshots()["operation"].to_pylist()
    assert operations[0] == "append"
    assert len(operations) == len(inspect.history())
    assert inspect.refs()["name"].to_pylist() == ["main"]
    assert sum(inspect.files()["record_count"].to_pylist()) == 3
    assert inspect.manifests().num_rows >= 1
    assert inspect.entries().num_rows >= 2
    assert inspect.metadata_log_entries().num_rows == len(table.metadata.metadata_log) + 1


def test_expires_snapshots(catalog: RestCatalog, table: Table) -> None:
    old = table.current_snapshot()
    assert old is not None
    table.append(more((4, "d")))
    table.maintenance.expire_snapshots().by_id(old.snapshot_id).commit()
    assert len(catalog.load_table(table.name()).snapshots()) == 1
    assert len(rows(table.refresh())) == 4


def test_properties(catalog: RestCatalog, table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"comment": "one", "gone": "soon"})
    with table.transaction() as transaction:
        transaction.remove_properties("gone")
    properties = catalog.load_table(table.name()).properties
    assert properties["comment"] == "one"
    assert "gone" not in properties


def test_own_views(catalog: RestCatalog, namespace: str) -> None:
    name = f"{namespace}.v"
    query = ViewRepresentation.model_validate({"type": "sql", "sql": "SELECT 1 AS id", "dialect": "spark"})
    version = ViewVersion.model_validate(
        {"schema-id": 0, "representations": [query], "default-namespace": [namespace]}
    )
    created = catalog.create_view(name, pa.schema([("id", pa.int64())]), version, properties={"k": "v"})
    loaded = catalog.load_view(name)
    assert loaded.metadata == created.metadata
    assert loaded.metadata.properties["k"] == "v"
    assert [each.root.sql for each in loaded.metadata.versions[0].representations] == ["SELECT 1 AS id"]
    with pytest.raises(ViewAlreadyExistsError):
        catalog.create_view(name, pa.schema([("id", pa.int64())]), version)
    catalog.drop_view(name)
    assert catalog.list_views(namespace) == []


@pytest.fixture
def spark_view(connections: Connections, warehouse: Warehouse, table: Table) -> str:
    """A view that Spark made."""
    name = table.name()[0] + ".v"
    connections.spark(warehouse).sql(f"CREATE VIEW {name} AS SELECT id FROM {'.'.join(table.name())}")
    return name


@pytest.mark.spark
def test_views(catalog: RestCatalog, spark_view: str) -> None:
    namespace, name = spark_view.split(".")
    assert catalog.list_views(namespace) == [(namespace, name)]
    assert catalog.view_exists(spark_view)
    catalog.drop_view(spark_view)
    assert not catalog.view_exists(spark_view)
