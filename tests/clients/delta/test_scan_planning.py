"""PyIceberg has scans of every packed table planned, and reads what it reads when it plans itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.clients.connections import connect_pyiceberg
from tests.clients.delta.expectations import Outcome, tables_that_give
from tests.clients.delta.lake import DeltaLake
from tests.clients.delta.rows import difference

_READABLE = [facts.name for facts in tables_that_give(Outcome.ROWS)]


@pytest.fixture(scope="module")
def planned(delta_lake: DeltaLake) -> Iterator[RestCatalog]:
    """A catalog that has its scans planned."""
    with connect_pyiceberg(delta_lake.warehouse, **{"scan-planning-mode": "server"}) as catalog:
        assert catalog.supports_server_side_planning()
        yield catalog


@pytest.mark.parametrize("name", _READABLE)
def test_rows_and_count(
    delta_lake: DeltaLake, planned: RestCatalog, packed: Callable[[str], str], name: str
) -> None:
    table = packed(name)
    here, there = delta_lake.pyiceberg(table).scan(), planned.load_table(table).scan()
    rows = there.to_arrow()
    assert difference(rows, here.to_arrow()) == ""
    assert there.count() == rows.num_rows
