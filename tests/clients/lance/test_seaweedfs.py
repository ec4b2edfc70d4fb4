"""A catalog that is not ours: SeaweedFS' Iceberg REST catalog, with OAuth2 and vended credentials.

It differs in four ways that its clients see: a declaration of a table that exists is answered as if it was
new, a missing namespace has no tables, names are of a-z, 0-9, _ and -, and a table that is dropped loses its
files, whether a purge is requested or not.
"""

from __future__ import annotations

import time

import lance
import pyarrow as pa
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DescribeTableResponse,
    DropNamespaceRequest,
    ListNamespacesRequest,
    ListTablesRequest,
)
from lance_namespace.errors import ErrorCode, LanceNamespaceError, TableNotFoundError, UnauthenticatedError

from floecat.clients.lance import IcebergRestNamespace
from tests.services.s3 import S3Server

pytestmark = pytest.mark.s3

ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(scope="module")
def warehouse(s3_server: S3Server) -> str:
    """A table bucket."""
    return s3_server.create_table_bucket()


@pytest.fixture(scope="module")
def namespace(s3_server: S3Server) -> IcebergRestNamespace:
    """A connection. Only in the places that the catalog chooses does it let files of Lance be written."""
    return IcebergRestNamespace(
        endpoint=s3_server.catalog_url,
        credential=f"{s3_server.access_key_id}:{s3_server.secret_access_key}",
        root="",
    )


def test_a_dataset_is_written_and_read_with_vended_credentials(
    namespace: IcebergRestNamespace, warehouse: str
):
    namespace.create_namespace(CreateNamespaceRequest(id=[warehouse, "data"]))
    table = [warehouse, "data", "items"]
    options = {"namespace_client": namespace, "table_id": table}
    lance.write_dataset(ROWS, **options)
    lance.write_dataset(ROWS, **options, mode="append")
    assert lance.dataset(**options).count_rows() == 6
    lance.write_dataset(ROWS, **options, mode="overwrite")
    assert lance.dataset(**options).to_table() == ROWS

    found = namespace.describe_table(DescribeTableRequest(id=table, check_declared=True))
    assert found.is_only_declared is False
    told = found.storage_options or {}
    assert {"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "expires_at_millis"} <= set(
        told
    )
    without = namespace.describe_table(DescribeTableRequest(id=table, vend_credentials=False))
    assert "aws_secret_access_key" not in (without.storage_options or {})
    assert lance.dataset(found.location, storage_options=told).to_table() == ROWS
    namespace.deregister_table(DeregisterTableRequest(id=table))
    with pytest.raises(TableNotFoundError):
        namespace.describe_table(DescribeTableRequest(id=table))


def test_credentials_that_end_are_renewed(s3_server: S3Server, warehouse: str):
    asked: list[object] = []

    class ShortLived(IcebergRestNamespace):
        """The credentials that it tells of end at once; no server vends such."""

        def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
            asked.append(request)
            told = super().describe_table(request)
            options = {**(told.storage_options or {}), "expires_at_millis": str(time.time_ns() // 1_000_000)}
            return told.model_copy(update={"storage_options": options})

    namespace = ShortLived(
        endpoint=s3_server.catalog_url,
        credential=f"{s3_server.access_key_id}:{s3_server.secret_access_key}",
        root="",
    )
    namespace.create_namespace(CreateNamespaceRequest(id=[warehouse, "renewed"]))
    options = {"namespace_client": namespace, "table_id": [warehouse, "renewed", "items"]}
    lance.write_dataset(ROWS, **options)
    dataset = lance.dataset(**options)
    asked.clear()
    assert dataset.to_table() == ROWS
    # the engine hands over a mapping
    assert asked
    assert not any(isinstance(each, DescribeTableRequest) for each in asked)


def test_lists(namespace: IcebergRestNamespace, warehouse: str):
    for levels in (["lists"], ["lists", "deep"], ["lists2"]):
        namespace.create_namespace(CreateNamespaceRequest(id=[warehouse, *levels]))
    names = [f"t{number}" for number in range(5)]
    for name in names:
        namespace.declare_table(DeclareTableRequest(id=[warehouse, "lists", name]))

    top = namespace.list_namespaces(ListNamespacesRequest(id=[warehouse])).namespaces
    assert {"lists", "lists2"} <= set(top)
    assert "deep" not in top
    assert namespace.list_namespaces(ListNamespacesRequest(id=[warehouse, "lists"])).namespaces == ["deep"]
    request = ListTablesRequest(id=[warehouse, "lists"])
    assert sorted(namespace.list_tables(request).tables) == names
    request.limit, found = 2, []
    while True:
        answer = namespace.list_tables(request)
        found += answer.tables
        if not answer.page_token:
            break
        request.page_token = answer.page_token
    assert sorted(found) == names


def test_errors(namespace: IcebergRestNamespace, warehouse: str):
    namespace.create_namespace(CreateNamespaceRequest(id=[warehouse, "errors"]))
    namespace.declare_table(DeclareTableRequest(id=[warehouse, "errors", "t"]))
    missing = [warehouse, "missing"]
    attempts = [
        (2, namespace.create_namespace, CreateNamespaceRequest(id=[warehouse, "errors"])),
        (3, namespace.drop_namespace, DropNamespaceRequest(id=[warehouse, "errors"])),
        (1, namespace.describe_namespace, DescribeNamespaceRequest(id=missing)),
        (1, namespace.declare_table, DeclareTableRequest(id=[*missing, "t"])),
        (4, namespace.describe_table, DescribeTableRequest(id=[warehouse, "errors", "missing"])),
        (4, namespace.deregister_table, DeregisterTableRequest(id=[*missing, "t"])),
        (13, namespace.create_namespace, CreateNamespaceRequest(id=[warehouse, "no spaces"])),
    ]
    for code, operation, request in attempts:
        with pytest.raises(LanceNamespaceError) as caught:
            operation(request)
        assert caught.value.code == ErrorCode(code)
    namespace.drop_namespace(DropNamespaceRequest(id=missing))


def test_wrong_credential(s3_server: S3Server, warehouse: str):
    wrong = IcebergRestNamespace(endpoint=s3_server.catalog_url, credential="me:hush")
    with pytest.raises(UnauthenticatedError):
        wrong.list_namespaces(ListNamespacesRequest(id=[warehouse]))
