from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.connections import Connections
from tests.clients.delta.lake import DeltaLake, DeltaWarehouse, table_name
from tests.clients.delta.sail import SailTable, write_with_sail
from tests.delta_tables import all_tables, writable_copy
from tests.services.catalog import CatalogServer

PACKED = "packed"
"""The namespace of the packed tables."""


@pytest.fixture(scope="session")
def delta_lake(tmp_path_factory: pytest.TempPathFactory, connections: Connections) -> Iterator[DeltaLake]:
    """A service on the local disk that may read below one folder, where tests put their Delta tables."""
    root = tmp_path_factory.mktemp("delta-lake")
    environment = {
        "FLOECAT_STORAGE_ALLOWED_LOCATIONS": root.as_uri(),
        # Each load looks for newer versions.
        "FLOECAT_GATEWAY_DELTA_COMPAT_REFRESH_AFTER": "PT0S",
    }
    server = CatalogServer(tmp_path_factory.mktemp("delta-service"), environment).start()
    lake = DeltaLake(DeltaWarehouse(server), str(root), connections)
    yield lake
    lake.close()
    server.stop()


@pytest.fixture(scope="session")
def packed(delta_lake: DeltaLake) -> Callable[[str], str]:
    """Gives the name under which a packed table is registered; all of them are."""
    names = {}
    for facts in all_tables():
        folder = writable_copy(facts.name, Path(delta_lake.root) / "packed" / facts.name)
        names[facts.name] = delta_lake.register(PACKED, table_name(facts.name), folder)
    return names.__getitem__


@pytest.fixture(scope="session")
def sail_tables(tmp_path_factory: pytest.TempPathFactory, delta_lake: DeltaLake) -> dict[str, SailTable]:
    """The tables that Sail wrote, below the folder of the lake, by name."""
    folder = Path(delta_lake.root) / "sail"
    folder.mkdir()
    return write_with_sail(folder)


@pytest.fixture
def table_folder(delta_lake: DeltaLake, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder below the lake's for the tables of one test."""
    folder = Path(delta_lake.root) / "tests" / re.sub(r"\W+", "_", request.node.name)
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)
