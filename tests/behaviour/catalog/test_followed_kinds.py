"""Built-in kinds of connectors from the scan to the entry, with a catalog of PyIceberg upstream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from floecat.connectors.connector_info import NewConnector
from floecat.entries.calls import Call
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel

SCHEMA = Schema(NestedField(1, "id", LongType()))


@pytest.fixture
def upstream(kernel: Kernel) -> Iterator[SqlCatalog]:
    """A SQL catalog with the table `sales.orders`, in the warehouse."""
    folder = Path(kernel.settings.warehouse_location.removeprefix("file://")) / "upstream"
    folder.mkdir(parents=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    catalog.create_namespace("sales")
    catalog.create_table("sales.orders", SCHEMA)
    yield catalog
    catalog.engine.dispose()


@pytest.mark.parametrize("kind", ["iceberg", "pyiceberg"])
def test_tables_stay_as_they_are_upstream(
    kernel: Kernel, call: Call, upstream: SqlCatalog, kind: str
) -> None:
    folder = str(upstream.properties["warehouse"])
    wanted = {
        "iceberg": NewConnector("up", "iceberg", folder),
        "pyiceberg": NewConnector(
            "up",
            "pyiceberg",
            "pyiceberg:lake",
            options={"type": "sql", "uri": str(upstream.engine.url)},
        ),
    }
    kernel.connectors.connectors.create(call, wanted[kind])
    here = TableIdentifier(("up", "sales"), "orders")
    scan = kernel.connectors.scans.scan

    before = kernel.files.counters.counts
    first = scan(call, "up")
    assert (kernel.files.counters.counts - before).reads == 1
    assert first.summary is None
    assert [made.identifier for made in first.registered] == [here]
    loaded = kernel.catalog.tables.load(call, here)
    assert loaded.metadata_location == upstream.load_table("sales.orders").metadata_location

    before = kernel.files.counters.counts
    second = scan(call, "up")
    assert ([each.identifier for each in second.skipped], second.changed) == ([here], [])
    assert (kernel.files.counters.counts - before).reads == 0

    with upstream.load_table("sales.orders").transaction() as transaction:
        transaction.set_properties(changed="yes")
    before = kernel.files.counters.counts
    third = scan(call, "up")
    assert (kernel.files.counters.counts - before).reads == 1
    assert [each.change for each in third.changed] == ["changed"]
    loaded = kernel.catalog.tables.load(call, here)
    assert loaded.metadata_location == upstream.load_table("sales.orders").metadata_location
