"""Names of data files under which their statistics are stored."""

from __future__ import annotations

from pathlib import Path

from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.planning.files.planner import open_planner
from floecat.statistics.capture.reading.files_with_deletes import file_key, live_files
from floecat.statistics.capture.reading.sidecars import file_hash
from floecat.statistics.files.summaries import DataFile, DeleteFile
from floecat.statistics.records import FileTarget, target_storage_id
from tests.storages import storage_at
from tests.unit.planning.small_tables import SmallTable, data_file, spec


def test_a_file_is_another_one_with_other_deletes_or_of_another_size() -> None:
    deletes = [DeleteFile("s3://b/d", "puffin", 1, 100, content_offset=offset) for offset in (4, 8)]
    files = [DataFile("s3://b/f", "parquet", 10, size) for size in (1_000, 1_001)]
    files += [DataFile("s3://b/f", "parquet", 10, 1_000, (delete,)) for delete in deletes]
    keys = {file_key(file) for file in files}
    assert len(keys) == 4
    storage_id = target_storage_id(FileTarget("s3://b/f"))
    assert all(key.startswith(f"{storage_id}-") for key in keys)
    assert len({file_hash(key) for key in keys}) == 4


def test_a_partition_value_that_a_manifest_lost_is_not_known(tmp_path: Path) -> None:
    by_both = spec(1, ("p", "identity", 1), ("q", "identity", 2))
    columns = {1: ("p", "int"), 2: ("q", "int"), 3: ("id", "long")}
    table = SmallTable(tmp_path, [columns, {2: ("q", "int"), 3: ("id", "long")}], [spec(0), by_both])
    entry = data_file("one", partition={"p": None, "q": 7})
    snapshot_id = table.add(entry, spec_id=1, types=["int", "int"], lost=["p"])
    planner = open_planner(local_bytes=1 << 20, processes=0)
    found = live_files(planner, storage_at(["file:///"]), TableMetadata.parse(table.metadata()), snapshot_id)
    assert [each.file.constants for each in found] == [{2: b"\7\0\0\0"}]
    planner.close()
