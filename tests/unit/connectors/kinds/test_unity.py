"""The connector `unity`, with a server of our own that answers as the published API says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floecat.connectors.kinds.unity import UnityConnector
from floecat.connectors.selection import Selection
from floecat.connectors.spi import ConnectorSource, DiscoveredTable, LoadsTables, UnreadablePlace
from floecat.errors import (
    BadRequestError,
    LocationNotAllowedError,
    NoSuchTableError,
    UnavailableError,
    UnprocessableError,
    UpstreamRefusedError,
)
from floecat.store.catalogs.connector_policies import ConnectorPolicy
from tests.services.unity_catalog import UnityCatalog, unity_catalog
from tests.storages import storage_at

ICEBERG = "s3://lake/orders/metadata/00001-a.metadata.json"


@pytest.fixture
def unity() -> Iterator[UnityCatalog]:
    with unity_catalog() as found:
        yield found


def connector(
    location: str,
    *,
    hosts: tuple[str, ...] = ("127.0.0.1",),
    token: str | None = None,
    patterns: tuple[str, ...] = (),
    **options: str,
) -> UnityConnector:
    credentials = {} if token is None else {"scheme": "bearer", "token": token}
    return UnityConnector(
        ConnectorSource(
            location,
            options,
            storage_at(["s3://lake"]),
            credentials=credentials,
            allowed_hosts=hosts,
            selection=Selection(ConnectorPolicy(namespaces=patterns)),
        )
    )


def uniform(unity: UnityCatalog, name: str = "orders", **fields: Any) -> None:
    properties = {"delta.universalFormat.enabledFormats": "hudi,iceberg"}
    unity.add(
        "main", "sales", name, storage_location=f"s3://lake/{name}", **{"properties": properties, **fields}
    )


def test_delta_tables_by_their_storage(unity: UnityCatalog) -> None:
    for number in range(5):
        unity.add("main", "sales", f"t{number}", storage_location=f"s3a://lake/t{number}/")
    unity.add("other", "raw", "t", storage_location="s3://elsewhere/t", table_type="EXTERNAL")
    unity.add("other", "information_schema", "tables", table_type="VIEW")
    opened = connector(unity.url)
    opened.check_root()
    asked = len(unity.asked)
    found = list(opened.discover())
    assert found[0] == DiscoveredTable("t0", "s3://lake/t0", ("main", "sales"))
    assert [each.name for each in found if isinstance(each, DiscoveredTable)] == [
        *(f"t{number}" for number in range(5)),
        "t",
    ]
    # a page of catalogs, one of schemas for each, three pages of tables and one of them
    assert len(unity.asked) - asked == 1 + 2 + 3 + 1


def test_one_catalog_alone(unity: UnityCatalog) -> None:
    unity.add("main", "sales", "t", storage_location="s3://lake/t")
    unity.add("other", "raw", "t", storage_location="s3://lake/u")
    assert list(connector(unity.url, catalog="main").discover()) == [
        DiscoveredTable("t", "s3://lake/t", ("sales",))
    ]


def test_schemas_that_are_not_taken_are_not_listed(unity: UnityCatalog) -> None:
    for levels in (("main", "sales"), ("main", "raw"), ("other", "sales")):
        unity.add(*levels, "t", storage_location=f"s3://lake/{'/'.join(levels)}")
    opened = connector(unity.url, patterns=("main.sales",))
    assert [each.location for each in opened.discover()] == ["s3://lake/main/sales"]
    # catalogs, schemas of one of them, tables of one schema
    assert len(unity.asked) == 3
    unity.asked.clear()
    found = connector(unity.url, catalog="main", patterns=("!raw",)).discover()
    assert [each.location for each in found] == ["s3://lake/main/sales"]
    assert len(unity.asked) == 2


def test_uniform_tables_are_followed_by_their_iceberg_metadata(unity: UnityCatalog) -> None:
    uniform(unity, delta_uniform_iceberg={"metadata_location": ICEBERG})
    opened = connector(unity.url)
    assert isinstance(opened, LoadsTables)
    (found,) = opened.discover()
    assert isinstance(found, DiscoveredTable)
    assert (found.format, found.state) == ("iceberg", None)
    document = opened.load(found, None)
    assert document is not None
    assert (document.metadata_location, document.state, document.document) == (ICEBERG, ICEBERG, None)
    assert opened.load(found, ICEBERG) is None


def test_uniform_without_metadata_yet_is_told(unity: UnityCatalog) -> None:
    uniform(unity)
    opened = connector(unity.url)
    (found,) = opened.discover()
    assert isinstance(found, DiscoveredTable)
    with pytest.raises(UnprocessableError, match="names no Iceberg metadata"):
        opened.load(found, None)
    unity.schemas["main", "sales"].clear()
    with pytest.raises(NoSuchTableError):
        opened.load(found, None)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"data_source_format": "CSV", "storage_location": "s3://lake/c"}, "table of format CSV"),
        ({"table_type": "VIEW", "data_source_format": None}, "view"),
        ({"table_type": "MATERIALIZED_VIEW"}, "materialized view"),
        ({"data_source_format": "ICEBERG", "storage_location": "s3://lake/i"}, "table of format ICEBERG"),
        ({"storage_location": "dbfs:/user/t"}, "table in storage of an unknown kind"),
    ],
)
def test_what_cannot_be_had_fails_by_name(unity: UnityCatalog, fields: dict[str, Any], what: str) -> None:
    unity.add("main", "sales", "odd", **fields)
    opened = connector(unity.url)
    (found,) = opened.discover()
    assert isinstance(found, DiscoveredTable)
    with pytest.raises(UnprocessableError, match=f"odd is a {what}: only Delta"):
        opened.load(found, None)


def test_a_token(unity: UnityCatalog) -> None:
    unity.token = "right"
    unity.add("main", "sales", "t", storage_location="s3://lake/t")
    assert len(list(connector(unity.url, token="right").discover())) == 1
    with pytest.raises(UpstreamRefusedError, match="refuses the credentials: status 401") as refused:
        list(connector(unity.url, token="wrong").discover())
    assert "wrong" not in refused.value.message


def test_one_bad_schema_does_not_hide_the_others(unity: UnityCatalog) -> None:
    for schema in ("a", "b", "c"):
        unity.add("main", schema, "t", storage_location=f"s3://lake/{schema}")
    unity.failing = {"b"}
    found = list(connector(unity.url).discover())
    assert sorted(type(each).__name__ for each in found) == [
        "DiscoveredTable",
        "DiscoveredTable",
        "UnreadablePlace",
    ]
    unity.failing = {"a", "b", "c"}
    with pytest.raises(UnavailableError, match="status 500, INTERNAL"):
        list(connector(unity.url).discover())


def test_pages_that_do_not_end(unity: UnityCatalog) -> None:
    unity.add("main", "sales", "t", storage_location="s3://lake/t")
    unity.endless = True
    with pytest.raises(UnprocessableError, match="do not end"):
        list(connector(unity.url).discover())
    found = list(connector(unity.url, catalog="main").discover())
    assert any(isinstance(each, UnreadablePlace) for each in found)


@pytest.mark.parametrize(
    ("location", "options", "error"),
    [
        ("https://elsewhere", {}, LocationNotAllowedError),
        ("s3://127.0.0.1", {}, BadRequestError),
        ("http://127.0.0.1/api/2.1/unity-catalog", {}, BadRequestError),
        ("http://127.0.0.1/?x=y", {}, BadRequestError),
        ("http://127.0.0.1", {"warehouse": "x"}, BadRequestError),
    ],
)
def test_places_and_options_are_checked(
    location: str, options: dict[str, str], error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error):
        connector(location, **options)
