"""Files beside the metadata of a dropped table are found wherever its metadata was."""

from __future__ import annotations

from uuid import UUID

from floecat.entries.entry_locations import statistics_folder
from floecat.fileio.base import FileIO
from floecat.purge.statistics_files import StatisticsFiles
from floecat.purge.table_purge import PurgeTarget
from tests.storages import storage_at

ENTRY = UUID(int=7)


def test_a_folder_that_is_not_allowed_any_more_is_left_out(warehouse: str, files: FileIO) -> None:
    now, before = (f"{place}/t/metadata/1.metadata.json" for place in (warehouse, f"{warehouse}-old"))
    own = f"{statistics_folder(now, ENTRY)}/a.stats"
    files.write_new(own, b"a")
    target = PurgeTarget("uuid", now, storage_at([warehouse], files=files), entry_id=ENTRY)
    assert list(StatisticsFiles(lambda _: [before])(target)) == [own]
