from __future__ import annotations

from pathlib import Path

import pytest

from floecat.delta.log.log_bounds import LogBounds, ReadMeter
from floecat.delta.log.log_files import LogFile
from floecat.delta.log.log_reader import LogReader
from floecat.errors import UnavailableError
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.working_memory import WorkingMemory, take_memory

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "_delta_log" / "_sidecars"
    folder.mkdir(parents=True)
    return folder


def _reader(folder: Path, files: LocalFileIO) -> LogReader:
    location = folder.parents[1].as_uri()
    return LogReader(files, AllowedLocations([location]), location, LogBounds(in_request=True))


@pytest.mark.parametrize("size_bytes", [17 * MIB, 1])
def test_sidecars_are_counted_before_they_are_read(folder: Path, size_bytes: int) -> None:
    names = ["a.parquet", "b.parquet"]
    for name in names:
        with (folder / name).open("wb") as file:
            file.truncate(size_bytes)
    files, memory = LocalFileIO(), WorkingMemory(8 * MIB, wait_ms=0)
    reader = _reader(folder, files)
    with memory.work():
        take_memory(8 * MIB)
        with memory.work(), pytest.raises(UnavailableError, match="working-memory-bytes"):
            next(reader.read_sidecars(names, ReadMeter(reader.bounds)))
    assert files.counters.counts.bytes_read == 0


def test_files_that_are_larger_than_listed_are_read_in_order(folder: Path) -> None:
    listed = []
    for number in range(20):
        (folder / f"{number}.json").write_bytes(b"x" * number)
        listed.append(LogFile(f"_sidecars/{number}.json", size_bytes=number % 2 * number, modified_at_ms=0))
    texts = list(_reader(folder, LocalFileIO()).read_all(listed))
    assert [len(text.data) for text in texts] == list(range(20))
    assert [Path(text.location).name for text in texts] == [f"{number}.json" for number in range(20)]
