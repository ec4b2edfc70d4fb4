"""Histories that Sail wrote, read through the catalog at each of their versions."""

from __future__ import annotations

import pytest

from tests.clients.delta.lake import ENGINES, DeltaLake
from tests.clients.delta.oracles import oracle_rows_at
from tests.clients.delta.rows import check
from tests.clients.delta.sail import HISTORIES, SailTable

pytestmark = pytest.mark.spark

_NAMES = [history.name for history in HISTORIES]


@pytest.fixture(scope="session")
def registered(delta_lake: DeltaLake, sail_tables: dict[str, SailTable]) -> dict[str, str]:
    """The names under which the tables are registered."""
    return {name: delta_lake.register("sail", name, table.folder) for name, table in sail_tables.items()}


@pytest.mark.parametrize("name", _NAMES)
def test_others_read_what_sail_reads(sail_tables: dict[str, SailTable], name: str) -> None:
    """Else a fault of Sail would count as the truth."""
    table = sail_tables[name]
    # The reader for partitions under column mapping has no maps.
    without = ["mp"] if name == "mapped_by_name" else []
    for version, rows in table.rows.items():
        found = oracle_rows_at(table.folder, version)
        check(found.drop_columns(without), rows.drop_columns(without), f"version {version}")


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_version(
    delta_lake: DeltaLake,
    sail_tables: dict[str, SailTable],
    registered: dict[str, str],
    engine: str,
    name: str,
) -> None:
    versions = sail_tables[name].rows
    for version, rows in (*versions.items(), (None, versions[max(versions)])):
        found = ENGINES[engine](delta_lake, registered[name], version)
        check(found, rows, f"version {version}")


def test_deletion_vectors_were_written(sail_tables: dict[str, SailTable]) -> None:
    """Else these tests prove nothing about them."""
    without = [name for name, table in sail_tables.items() if not list(table.folder.rglob("*.bin"))]
    assert without == []
