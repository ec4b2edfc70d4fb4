"""Names of data files under which their statistics are stored."""

from __future__ import annotations

from floecat.statistics.capture.live_files import file_key
from floecat.statistics.capture.sidecars import file_hash
from floecat.statistics.files.summaries import DataFile, DeleteFile
from floecat.statistics.records import FileTarget, target_storage_id


def test_a_file_is_another_one_with_other_deletes_or_of_another_size() -> None:
    deletes = [DeleteFile("s3://b/d", "puffin", 1, 100, content_offset=offset) for offset in (4, 8)]
    files = [DataFile("s3://b/f", "parquet", 10, size) for size in (1_000, 1_001)]
    files += [DataFile("s3://b/f", "parquet", 10, 1_000, (delete,)) for delete in deletes]
    keys = {file_key(file) for file in files}
    assert len(keys) == 4
    storage_id = target_storage_id(FileTarget("s3://b/f"))
    assert all(key.startswith(f"{storage_id}-") for key in keys)
    assert len({file_hash(key) for key in keys}) == 4
