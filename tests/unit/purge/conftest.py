from __future__ import annotations

from pathlib import Path

import pytest

from floecat.fileio.base import FileIO
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.purge.deletion.table_purge import TablePurge
from tests.unit.purge.table_files import FakeLiveTables, new_purger


@pytest.fixture
def files() -> FileIO:
    return LocalFileIO(fsync=False)


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    (tmp_path / "warehouse").mkdir()
    return (tmp_path / "warehouse").as_uri()


@pytest.fixture
def allowed(warehouse: str) -> AllowedLocations:
    return AllowedLocations([warehouse])


@pytest.fixture
def live(warehouse: str, files: FileIO) -> FakeLiveTables:
    return FakeLiveTables(warehouse, files=files)


@pytest.fixture
def purger(live: FakeLiveTables) -> TablePurge:
    return new_purger(live)
