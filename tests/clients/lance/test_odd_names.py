"""Names with spaces, slashes, percent signs, unicode and dots, of namespaces and of tables."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from lance_namespace import (
    CreateNamespaceRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DropNamespaceRequest,
    ListNamespacesRequest,
    ListTablesRequest,
)

from tests.clients.lance.conftest import Lake

NAMES = ["b c/d", "a%1Fb", "100%", "ü", "a.b", "x~y", "a+b", "?q=1&r#s", "日本"]


@pytest.mark.parametrize("storage", ["disk", pytest.param("s3", marks=pytest.mark.s3)])
def test_odd_names(storage: str, request: pytest.FixtureRequest):
    lake: Lake = request.getfixturevalue(f"{storage}_lake")
    namespace, top = lake.connect(), lake.new_namespace()
    rows = {name: pa.table({"number": [number]}) for number, name in enumerate(NAMES)}
    for name in NAMES:
        level = [*top, name]
        namespace.create_namespace(CreateNamespaceRequest(id=level, properties={"name": name}))
        options = {"namespace_client": namespace, "table_id": [*level, name], "storage_options": lake.keys}
        lance.write_dataset(rows[name], **options)
        assert lance.dataset(**options).to_table() == rows[name]

    assert sorted(namespace.list_namespaces(ListNamespacesRequest(id=top)).namespaces) == sorted(NAMES)
    for name in NAMES:
        level = [*top, name]
        found = namespace.describe_namespace(DescribeNamespaceRequest(id=level))
        assert (found.properties or {})["name"] == name
        assert namespace.list_tables(ListTablesRequest(id=level)).tables == [name]
        namespace.deregister_table(DeregisterTableRequest(id=[*level, name]))
        namespace.drop_namespace(DropNamespaceRequest(id=level, mode="Fail"))
    assert namespace.list_namespaces(ListNamespacesRequest(id=top)).namespaces == []
