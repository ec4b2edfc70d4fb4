"""Which files of a snapshot are stored, and in which sidecars."""

from __future__ import annotations

from floecat.statistics.capture.reading.captured_files import SnapshotFiles
from floecat.statistics.capture.reading.files_with_deletes import LiveFile, file_key
from floecat.statistics.capture.reading.sidecars import FILE_HASH_BYTES
from floecat.statistics.files.summaries import DataFile
from floecat.store.statistics.files import SidecarRow


def live(number: int) -> LiveFile:
    file = DataFile(f"s3://b/{number}", "parquet", 1, 100 + number)
    return LiveFile(file_key(file), file)


def test_a_sidecar_is_whole_when_each_of_its_files_is_in_the_snapshot_once() -> None:
    first = SidecarRow("s3://b/1.stats", "1", "{}", files=2, size_bytes=9)
    second = SidecarRow("s3://b/2.stats", "2", "{}", files=2, size_bytes=9)
    files = SnapshotFiles()
    one, two, three, missing = map(live, range(4))
    files.add([one, missing, three], {one.key: first, three.key: second})
    assert (files.files, files.stored) == (3, 2)
    assert [used.is_whole for used in files.used.values()] == [False, False]
    files.add([two], {two.key: first})
    used = files.used[first.path]
    assert (used.is_whole, used.size_bytes, len(used.hashes)) == (True, 201, 2 * FILE_HASH_BYTES)
    # a manifest may list a file twice
    files.add([three], {three.key: second})
    assert not files.used[second.path].is_whole
