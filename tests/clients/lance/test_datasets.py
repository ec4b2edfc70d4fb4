"""Lance writes and reads datasets that it finds through the namespace."""

from __future__ import annotations

import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import (
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeTableRequest,
    ListTablesRequest,
)
from lance_namespace.errors import TableAlreadyExistsError, TableNotFoundError, UnauthenticatedError

from tests.clients.lance.conftest import Lake
from tests.services.identity_provider import IdentityProvider

ROWS = pa.table({"id": [1, 2, 3], "vector": [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]})


def test_a_dataset_is_written_appended_to_overwritten_and_read(lake: Lake):
    namespace, parent = lake.connect(), lake.new_namespace()
    table = [*parent, "items"]
    options = {"namespace_client": namespace, "table_id": table, "storage_options": lake.keys}

    lance.write_dataset(ROWS, **options, mode="create")
    assert lance.dataset(**options).to_table() == ROWS

    lance.write_dataset(ROWS, **options, mode="append")
    appended = lance.dataset(**options)
    assert appended.count_rows() == 6
    assert appended.version == 2

    lance.write_dataset(ROWS.slice(0, 1), **options, mode="overwrite")
    assert lance.dataset(**options).to_table() == ROWS.slice(0, 1)
    assert lance.dataset(**options, version=2).count_rows() == 6

    with pytest.raises(TableAlreadyExistsError):
        lance.write_dataset(ROWS, **options, mode="create")
    assert namespace.list_tables(ListTablesRequest(id=parent)).tables == ["items"]


def test_a_table_that_is_no_longer_registered_keeps_its_data(lake: Lake):
    namespace, table = lake.connect(), [*lake.new_namespace(), "items"]
    options = {"namespace_client": namespace, "table_id": table, "storage_options": lake.keys}
    lance.write_dataset(ROWS, **options)
    found = namespace.describe_table(DescribeTableRequest(id=table))

    namespace.deregister_table(DeregisterTableRequest(id=table))
    with pytest.raises(TableNotFoundError):
        namespace.describe_table(DescribeTableRequest(id=table))
    storage_options = {**lake.keys, **(found.storage_options or {})}
    assert lance.dataset(found.location, storage_options=storage_options).to_table() == ROWS

    # it is found again by its location
    namespace.declare_table(DeclareTableRequest(id=table, location=found.location))
    assert lance.dataset(**options).to_table() == ROWS


def test_the_catalog_may_choose_the_location(disk_lake: Lake):
    table = [*disk_lake.new_namespace(), "items"]
    options = {"namespace_client": disk_lake.connect(root=""), "table_id": table}
    lance.write_dataset(ROWS, **options)
    dataset = lance.dataset(**options)
    assert dataset.to_table() == ROWS
    assert dataset.uri.startswith(disk_lake.warehouse.root)


def test_declared_tables_are_told_from_written_ones(disk_lake: Lake):
    namespace, parent = disk_lake.connect(), disk_lake.new_namespace()
    for name in ("declared", "written"):
        namespace.declare_table(DeclareTableRequest(id=[*parent, name]))
    options = {"namespace_client": namespace, "table_id": [*parent, "written"]}
    lance.write_dataset(ROWS, **options, mode="overwrite")

    assert namespace.list_tables(ListTablesRequest(id=parent)).tables == ["declared", "written"]
    written = namespace.list_tables(ListTablesRequest(id=parent, include_declared=False))
    assert written.tables == ["written"]
    for name, is_declared in (("declared", True), ("written", False)):
        request = DescribeTableRequest(id=[*parent, name], check_declared=True)
        assert namespace.describe_table(request).is_only_declared is is_declared


def test_a_token_that_ended_is_replaced(secured_disk_lake: Lake, provider: IdentityProvider):
    parent = secured_disk_lake.new_namespace()
    ended, request = provider.token(-60), ListTablesRequest(id=parent)
    before = len(provider.issued)
    assert secured_disk_lake.connect(auth_token=ended).list_tables(request).tables == []
    assert len(provider.issued) == before + 1
    with pytest.raises(UnauthenticatedError):
        secured_disk_lake.connect(auth_token=ended, credential="").list_tables(request)


def test_connects_as_lance_does(disk_lake: Lake):
    namespace = lance_namespace.connect(
        "floecat.clients.lance.IcebergRestNamespace", {**disk_lake.properties, "warehouse": disk_lake.name}
    )
    assert namespace.list_tables(ListTablesRequest(id=disk_lake.new_namespace())).tables == []
