"""Floecat's own client of schemas, by the examples of the design of nested namespaces."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.rest import RestCatalog

from floecat.clients.schemas import Schemas
from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    ForbiddenError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchWarehouseError,
    UnavailableError,
)
from tests.services.catalog import CatalogServer


@pytest.fixture
def iceberg(catalog_server: CatalogServer) -> RestCatalog:
    return RestCatalog("c", uri=catalog_server.base_url, warehouse=catalog_server.warehouse)


@pytest.fixture
def schemas(catalog_server: CatalogServer) -> Schemas:
    return Schemas(catalog_server.base_url, catalog_server.warehouse)


def test_the_examples(schemas: Schemas, iceberg: RestCatalog):
    assert schemas.separator == ":"
    made = schemas.create_schema("A:B:C", "nested", {"k": "v"})
    assert (made.name, made.comment, made.properties["k"]) == ("A:B:C", "nested", "v")
    schemas.create_schema("A:B:D")
    schemas.create_schema("B")
    assert {"A", "B"} <= set(schemas.list_schemas())
    assert not any(":" in name for name in schemas.list_schemas())
    assert schemas.list_schemas("A") == ["A:B"]
    assert schemas.list_schemas("A:B") == ["A:B:C", "A:B:D"]
    assert iceberg.list_namespaces(("A", "B")) == [("A", "B", "C"), ("A", "B", "D")]
    altered = schemas.alter_schema("A:B:C", {"p": "1"}, ["k"])
    assert {key: value for key, value in altered.properties.items() if key != "location"} == {"p": "1"}
    assert schemas.load_schema("A:B:C") == altered
    assert schemas.load_schema("A:B").properties.keys() == {"location"}
    with pytest.raises(NamespaceNotEmptyError, match="2 namespaces"):
        schemas.drop_schema("A:B")
    for name in ("A:B:C", "A:B:D", "A:B", "A", "B"):
        assert schemas.drop_schema(name)
    assert not schemas.drop_schema("A")


def test_odd_names_are_the_same_on_both_sides(schemas: Schemas, iceberg: RestCatalog):
    levels = ("odd %3A+/ü", "my.schema", 'q"uote')
    schemas.create_schema(":".join(levels))
    assert iceberg.namespace_exists(levels)
    assert schemas.load_schema(":".join(levels)).name == ":".join(levels)
    assert schemas.list_schemas(":".join(levels[:2])) == [":".join(levels)]
    for depth in (3, 2, 1):
        assert schemas.drop_schema(":".join(levels[:depth]))


def test_refusals(schemas: Schemas, catalog_server: CatalogServer):
    schemas.create_schema("there")
    with pytest.raises(AlreadyExistsError):
        schemas.create_schema("there")
    for malformed in ("A:", ":A", "A::B"):
        with pytest.raises(BadRequestError, match="a level is empty"):
            schemas.create_schema(malformed)
    with pytest.raises(NoSuchNamespaceError):
        schemas.load_schema("there:not")
    with pytest.raises(NoSuchNamespaceError):
        schemas.list_schemas("not:there")
    with pytest.raises(NoSuchWarehouseError):
        Schemas(catalog_server.base_url, "none").list_schemas()
    with pytest.raises(ForbiddenError):
        Schemas(catalog_server.base_url, "none", account="other").list_schemas()
    with pytest.raises(UnavailableError, match=r"No answer from 127\.0\.0\.1:1"):
        Schemas("http://127.0.0.1:1", "none")
    with pytest.raises(BadRequestError, match="has no port"):
        Schemas("http://127.0.0.1:http", "none")
    with pytest.raises(BadRequestError, match="Invalid token") as refused:
        Schemas(catalog_server.base_url, "none", token="hush\nhush")
    assert "hush" not in refused.value.message
    with pytest.raises(BadRequestError, match="without a password"):
        Schemas("http://me:secret@127.0.0.1:1", "none")
    assert schemas.drop_schema("there")
