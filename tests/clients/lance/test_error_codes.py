"""Every error that our service gives reason for, by its code. What it never does is in the unit tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from lance_namespace import (
    CountTableRowsRequest,
    CreateNamespaceRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DropNamespaceRequest,
    ListNamespacesRequest,
    ListTablesRequest,
)
from lance_namespace.errors import ErrorCode, LanceNamespaceError

from floecat.clients.lance import IcebergRestNamespace
from tests.clients.connections import connect_pyiceberg
from tests.clients.lance.conftest import Lake

Attempt = Callable[[IcebergRestNamespace, str, str], Any]

ATTEMPTS: dict[str, tuple[ErrorCode, Attempt]] = {
    "an operation that is not offered": (
        ErrorCode.UNSUPPORTED,
        lambda ns, w, a: ns.count_table_rows(CountTableRowsRequest(id=[w, a, "lance"])),
    ),
    "describing a missing namespace": (
        ErrorCode.NAMESPACE_NOT_FOUND,
        lambda ns, w, a: ns.describe_namespace(DescribeNamespaceRequest(id=[w, "missing"])),
    ),
    "dropping a missing namespace in mode Fail": (
        ErrorCode.NAMESPACE_NOT_FOUND,
        lambda ns, w, a: ns.drop_namespace(DropNamespaceRequest(id=[w, "missing"], mode="Fail")),
    ),
    "listing below a missing namespace": (
        ErrorCode.NAMESPACE_NOT_FOUND,
        lambda ns, w, a: ns.list_namespaces(ListNamespacesRequest(id=[w, "missing"])),
    ),
    "listing tables of a missing namespace": (
        ErrorCode.NAMESPACE_NOT_FOUND,
        lambda ns, w, a: ns.list_tables(ListTablesRequest(id=[w, "missing"])),
    ),
    "declaring in a missing namespace": (
        ErrorCode.NAMESPACE_NOT_FOUND,
        lambda ns, w, a: ns.declare_table(DeclareTableRequest(id=[w, "missing", "t"])),
    ),
    "a missing warehouse": (
        ErrorCode.NAMESPACE_NOT_FOUND,
        lambda ns, w, a: ns.list_namespaces(ListNamespacesRequest(id=["missing"])),
    ),
    "creating a namespace that exists": (
        ErrorCode.NAMESPACE_ALREADY_EXISTS,
        lambda ns, w, a: ns.create_namespace(CreateNamespaceRequest(id=[w, a])),
    ),
    "dropping a namespace with tables": (
        ErrorCode.NAMESPACE_NOT_EMPTY,
        lambda ns, w, a: ns.drop_namespace(DropNamespaceRequest(id=[w, a])),
    ),
    "overwriting a namespace with tables": (
        ErrorCode.NAMESPACE_NOT_EMPTY,
        lambda ns, w, a: ns.create_namespace(CreateNamespaceRequest(id=[w, a], mode="overwrite")),
    ),
    "describing a missing table": (
        ErrorCode.TABLE_NOT_FOUND,
        lambda ns, w, a: ns.describe_table(DescribeTableRequest(id=[w, a, "missing"])),
    ),
    "describing a table of a missing namespace": (
        ErrorCode.TABLE_NOT_FOUND,
        lambda ns, w, a: ns.describe_table(DescribeTableRequest(id=[w, "missing", "t"])),
    ),
    "deregistering a missing table": (
        ErrorCode.TABLE_NOT_FOUND,
        lambda ns, w, a: ns.deregister_table(DeregisterTableRequest(id=[w, a, "missing"])),
    ),
    "declaring a table that exists": (
        ErrorCode.TABLE_ALREADY_EXISTS,
        lambda ns, w, a: ns.declare_table(DeclareTableRequest(id=[w, a, "lance"])),
    ),
    "declaring over an Iceberg table": (
        ErrorCode.TABLE_ALREADY_EXISTS,
        lambda ns, w, a: ns.declare_table(DeclareTableRequest(id=[w, a, "iceberg"])),
    ),
    "describing an Iceberg table": (
        ErrorCode.INVALID_INPUT,
        lambda ns, w, a: ns.describe_table(DescribeTableRequest(id=[w, a, "iceberg"])),
    ),
    "describing another version than the current one": (
        ErrorCode.INVALID_INPUT,
        lambda ns, w, a: ns.describe_table(DescribeTableRequest(id=[w, a, "lance"], version=1)),
    ),
    "deregistering an Iceberg table": (
        ErrorCode.INVALID_INPUT,
        lambda ns, w, a: ns.deregister_table(DeregisterTableRequest(id=[w, a, "iceberg"])),
    ),
    "an identifier that is too short": (
        ErrorCode.INVALID_INPUT,
        lambda ns, w, a: ns.describe_table(DescribeTableRequest(id=[w, "t"])),
    ),
    "a location that the catalog cannot read": (
        ErrorCode.INVALID_INPUT,
        lambda ns, w, a: ns.declare_table(DeclareTableRequest(id=[w, a, "t"], location="relative/t")),
    ),
    "a location that is not allowed": (
        ErrorCode.PERMISSION_DENIED,
        lambda ns, w, a: ns.declare_table(DeclareTableRequest(id=[w, a, "t"], location="file:///etc/t")),
    ),
}


@pytest.fixture(scope="module")
def namespace(disk_lake: Lake) -> str:
    """A namespace with the tables `lance` and `iceberg`."""
    made = disk_lake.new_namespace()
    disk_lake.connect().declare_table(DeclareTableRequest(id=[*made, "lance"]))
    catalog = connect_pyiceberg(disk_lake.warehouse)
    catalog.create_table((made[1], "iceberg"), schema=pa.schema([("id", pa.int64())]))
    catalog.close()
    return made[1]


@pytest.mark.parametrize(("code", "attempt"), ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_code(disk_lake: Lake, namespace: str, code: ErrorCode, attempt: Attempt):
    with pytest.raises(LanceNamespaceError) as caught:
        attempt(disk_lake.connect(), disk_lake.name, namespace)
    assert caught.value.code == code
    assert str(caught.value)


def test_no_login(secured_disk_lake: Lake):
    request = ListNamespacesRequest(id=[secured_disk_lake.name])
    for login in (
        {"credential": "", "auth_token": ""},
        {"credential": "me:wrong"},
        {"auth_token": "x", "credential": ""},
    ):
        with pytest.raises(LanceNamespaceError) as caught:
            secured_disk_lake.connect(**login).list_namespaces(request)
        assert caught.value.code == ErrorCode.UNAUTHENTICATED


def test_no_service(start_catalog: Callable[..., Any]):
    server = start_catalog()
    namespace = IcebergRestNamespace(endpoint=server.base_url, max_retries=0)
    namespace.list_namespaces(ListNamespacesRequest(id=[server.warehouse]))
    server.stop()
    with pytest.raises(LanceNamespaceError) as caught:
        namespace.list_namespaces(ListNamespacesRequest(id=[server.warehouse]))
    assert caught.value.code == ErrorCode.SERVICE_UNAVAILABLE
