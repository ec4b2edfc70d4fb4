from __future__ import annotations

from pathlib import Path

import pytest

from floecat.entries.metadata_files import MetadataFiles
from floecat.fileio.base import FileIO
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.purge.live_tables import SharedFiles
from floecat.purge.purger import Purger
from tests.unit.purge.table_files import FakeLiveTables


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
def live(warehouse: str) -> FakeLiveTables:
    return FakeLiveTables(warehouse)


@pytest.fixture
def purger(files: FileIO, live: FakeLiveTables) -> Purger:
    return Purger(files, MetadataFiles(files, max_bytes=1 << 20), SharedFiles(files, live), batch_size=5)
