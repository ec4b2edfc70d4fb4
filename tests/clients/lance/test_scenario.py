"""What the public implementation's integration tests go through, in our words, against our service."""

from __future__ import annotations

import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DropNamespaceRequest,
    ListNamespacesRequest,
    ListTablesRequest,
    NamespaceExistsRequest,
    TableExistsRequest,
)
from lance_namespace.errors import NamespaceNotFoundError, TableNotFoundError

from tests.clients.lance.conftest import Lake
from tests.clients.warehouses import unique


def test_life_of_a_namespace(disk_lake: Lake):
    namespace, id = disk_lake.connect(), [disk_lake.name, unique("lance")]
    made = namespace.create_namespace(CreateNamespaceRequest(id=id, properties={"owner": "me"}))
    assert (made.properties or {})["owner"] == "me"
    found = namespace.describe_namespace(DescribeNamespaceRequest(id=id))
    assert (found.properties or {})["owner"] == "me"
    namespace.namespace_exists(NamespaceExistsRequest(id=id))
    assert id[1] in namespace.list_namespaces(ListNamespacesRequest(id=[disk_lake.name])).namespaces
    namespace.drop_namespace(DropNamespaceRequest(id=id))
    with pytest.raises(NamespaceNotFoundError):
        namespace.describe_namespace(DescribeNamespaceRequest(id=id))


def test_nested_namespaces(disk_lake: Lake):
    namespace, parent = disk_lake.connect(), disk_lake.new_namespace()
    child, grandchild = [*parent, "child"], [*parent, "child", "grandchild"]
    for id in (child, grandchild):
        namespace.create_namespace(CreateNamespaceRequest(id=id))
    assert namespace.list_namespaces(ListNamespacesRequest(id=parent)).namespaces == ["child"]
    assert namespace.list_namespaces(ListNamespacesRequest(id=child)).namespaces == ["grandchild"]
    assert namespace.list_namespaces(ListNamespacesRequest(id=grandchild)).namespaces == []
    namespace.declare_table(DeclareTableRequest(id=[*grandchild, "t"]))
    assert namespace.list_tables(ListTablesRequest(id=grandchild)).tables == ["t"]
    assert namespace.list_tables(ListTablesRequest(id=child)).tables == []


def test_life_of_a_table(disk_lake: Lake):
    namespace, parent = disk_lake.connect(), disk_lake.new_namespace()
    id = [*parent, "t"]
    made = namespace.declare_table(DeclareTableRequest(id=id, properties={"owner": "me"}))
    assert made.location == f"{disk_lake.warehouse.root}/{'/'.join(id)}"
    found = namespace.describe_table(DescribeTableRequest(id=id))
    assert found.location == made.location
    assert (found.storage_options or {})["owner"] == "me"
    assert (found.version, found.table_uri, found.var_schema, found.stats) == (None, None, None, None)
    namespace.table_exists(TableExistsRequest(id=id))
    assert namespace.list_tables(ListTablesRequest(id=parent)).tables == ["t"]
    namespace.deregister_table(DeregisterTableRequest(id=id))
    assert namespace.list_tables(ListTablesRequest(id=parent)).tables == []
    with pytest.raises(TableNotFoundError):
        namespace.table_exists(TableExistsRequest(id=id))


def test_table_at_a_location_of_its_own(disk_lake: Lake):
    namespace, id = disk_lake.connect(), [*disk_lake.new_namespace(), "t"]
    location = f"{disk_lake.warehouse.root}/elsewhere/{id[1]}"
    assert namespace.declare_table(DeclareTableRequest(id=id, location=location)).location == location
    assert namespace.describe_table(DescribeTableRequest(id=id)).location == location


def test_pages(disk_lake: Lake):
    namespace, parent = disk_lake.connect(), disk_lake.new_namespace()
    names = [f"n{number}" for number in range(7)]
    for name in names:
        namespace.create_namespace(CreateNamespaceRequest(id=[*parent, name]))
        namespace.declare_table(DeclareTableRequest(id=[*parent, name]))

    def all_pages(list_page, request, field: str) -> list[list[str]]:
        pages = []
        while True:
            answer = list_page(request)
            pages.append(getattr(answer, field))
            if not answer.page_token:
                return pages
            request.page_token = answer.page_token

    expected = [names[:3], names[3:6], names[6:]]
    request = ListNamespacesRequest(id=parent, limit=3)
    assert all_pages(namespace.list_namespaces, request, "namespaces") == expected
    tables = ListTablesRequest(id=parent, limit=3)
    assert all_pages(namespace.list_tables, tables, "tables") == expected
