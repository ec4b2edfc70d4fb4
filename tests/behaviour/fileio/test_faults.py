"""The storage with faults that other suites use does what it promises."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from floecat.errors import ForbiddenError, StorageUnavailableError
from floecat.fileio.local import LocalFileIO
from tests.services.faults import FaultyFileIO


@pytest.fixture
def files(tmp_path: Path) -> FaultyFileIO:
    return FaultyFileIO(LocalFileIO([str(tmp_path)], fsync=False))


def test_the_nth_call_fails_before_its_effect(files: FaultyFileIO, tmp_path: Path) -> None:
    files.fail("write_new", nth=2)
    files.write_new(f"{tmp_path}/1", b"")
    with pytest.raises(StorageUnavailableError, match="injected"):
        files.write_new(f"{tmp_path}/2", b"")
    files.write_new(f"{tmp_path}/3", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "3"]
    assert [kind for kind, _ in files.calls] == ["write_new"] * 3


def test_a_call_fails_after_its_effect(files: FaultyFileIO, tmp_path: Path) -> None:
    files.write_new(f"{tmp_path}/1", b"")
    files.fail("write_new", when="after", times=2, error=ForbiddenError("no"))
    for name in "23":
        with pytest.raises(ForbiddenError):
            files.write_new(f"{tmp_path}/{name}", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3"]


def test_reads_of_parts_fail_too(files: FaultyFileIO, tmp_path: Path) -> None:
    files.write_new(f"{tmp_path}/1", b"01234")
    files.fail("read_range")
    files.fail("read_ranges", nth=2)
    with pytest.raises(StorageUnavailableError):
        files.read_range(f"{tmp_path}/1", 1, 2)
    assert files.read_range(f"{tmp_path}/1", 1, 2) == b"12"
    assert files.read_ranges(f"{tmp_path}/1", [(0, 1)]) == [b"0"]
    with pytest.raises(StorageUnavailableError):
        files.read_ranges(f"{tmp_path}/1", [(0, 1)])
    assert [entry.size_bytes for entry in files.list(str(tmp_path), start_after="0")] == [5]


def test_a_call_hangs_until_it_is_released(files: FaultyFileIO, tmp_path: Path) -> None:
    hang = files.hang("write_new", when="after")
    thread = threading.Thread(target=files.write_new, args=(f"{tmp_path}/1", b"x"))
    thread.start()
    assert hang.reached.wait(120)
    assert thread.is_alive()
    assert files.read(f"{tmp_path}/1") == b"x"
    hang.release()
    thread.join(120)
    assert not thread.is_alive()


def test_refused_files_are_reported_by_a_bulk_delete(files: FaultyFileIO, tmp_path: Path) -> None:
    for name in ("a", "b"):
        files.write_new(f"{tmp_path}/{name}", b"")
    files.refuse("/b")
    outcome = files.delete_many([f"{tmp_path}/a", f"{tmp_path}/b"])
    assert (outcome.deleted, [failure.location for failure in outcome.failures]) == (1, [f"{tmp_path}/b"])
    with pytest.raises(StorageUnavailableError):
        files.read(f"{tmp_path}/b")
    files.clear()
    assert files.read(f"{tmp_path}/b") == b""
    files.delete(f"{tmp_path}/b")
    assert not files.exists(f"{tmp_path}/b")
    files.make_directory(f"{tmp_path}/folder")
    assert list(files.list(str(tmp_path))) == []
    assert files.counters is files.inner.counters
