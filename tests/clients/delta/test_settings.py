"""What the settings of the Delta layer change, on a service that has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.connections import Connections
from tests.clients.delta.lake import ENGINES, DeltaLake, DeltaWarehouse, table_name
from tests.clients.delta.oracles import oracle_rows
from tests.clients.delta.rows import check
from tests.delta_tables import writable_copy
from tests.services.catalog import CatalogServer

pytestmark = pytest.mark.spark

_NAMES = ["golden/dv-partitioned-with-checkpoint/delta", "golden/table-with-columnmapping-mode-name/delta"]


class _OtherWarehouse(DeltaWarehouse, frozen=True):
    @property
    def kind(self) -> str:
        return "delta_settings"


@pytest.fixture(scope="module")
def other_lake(tmp_path_factory: pytest.TempPathFactory, connections: Connections) -> Iterator[DeltaLake]:
    """A service that writes what it makes into a place of its own, and position deletes as Avro."""
    root = tmp_path_factory.mktemp("delta-settings-lake")
    compat = tmp_path_factory.mktemp("delta-settings-compat")
    environment = {
        "FLOECAT_STORAGE_ALLOWED_LOCATIONS": f"{root.as_uri()},{compat.as_uri()}",
        "FLOECAT_GATEWAY_DELTA_COMPAT_LOCATION": compat.as_uri(),
        "FLOECAT_GATEWAY_DELTA_COMPAT_POSITION_DELETE_FORMAT": "avro",
    }
    server = CatalogServer(tmp_path_factory.mktemp("delta-settings-service"), environment).start()
    lake = DeltaLake(_OtherWarehouse(server), str(root), connections)
    yield lake
    lake.close()
    server.stop()


def _files(folder: Path) -> dict[str, int]:
    return {
        str(file.relative_to(folder)): file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()
    }


@pytest.mark.parametrize("name", _NAMES)
def test_nothing_is_written_beside_the_table(other_lake: DeltaLake, name: str) -> None:
    folder = writable_copy(name, Path(other_lake.root) / "untouched" / table_name(name))
    before = _files(folder)
    table = other_lake.register("settings", f"{table_name(name)}_untouched", folder)
    # Readers of Avro deletes are few; this one is Java's.
    check(ENGINES["spark"](other_lake, table, None), oracle_rows(name))
    assert _files(folder) == before
    assert not other_lake.metadata(table)["snapshots"][-1]["manifest-list"].startswith(folder.as_uri())


def test_position_deletes_are_avro(other_lake: DeltaLake) -> None:
    name = "golden/dv-partitioned-with-checkpoint/delta"
    folder = writable_copy(name, Path(other_lake.root) / "avro" / table_name(name))
    table = other_lake.pyiceberg(other_lake.register("settings", "avro", folder))
    deletes = {file.file_path for task in table.scan().plan_files() for file in task.delete_files}
    assert deletes
    assert {Path(path).suffix for path in deletes} == {".avro"}
