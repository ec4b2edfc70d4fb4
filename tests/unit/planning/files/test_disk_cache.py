"""Bytes that are kept on local disk."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from floecat.planning.files.disk_cache import DiskCache, open_disk_cache


def name(number: int) -> str:
    return f"{number:064x}"


def kept(cache: DiskCache, count: int) -> list[int]:
    """Numbers of what is kept; these count as used."""
    return [number for number in range(count) if cache.get(name(number)) is not None]


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.manifest*"))


def used_at(folder: Path, number: int, seconds: int) -> None:
    os.utime(folder / f"{name(number)}.manifest", (seconds, seconds))


def test_what_was_kept_is_there_for_another_process(tmp_path: Path) -> None:
    DiskCache(tmp_path / "new" / "folder", 1000).put(name(1), b"one")
    cache = DiskCache(tmp_path / "new" / "folder", 1000)
    assert cache.get(name(1)) == b"one"
    assert cache.get(name(2)) is None
    cache.put(name(1), b"other")
    assert cache.get(name(1)) == b"other"
    cache.drop(name(1))
    assert cache.get(name(1)) is None
    assert (tmp_path / "new" / "folder").stat().st_mode & 0o777 == 0o700


def test_no_other_user_reads_a_file(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    DiskCache(tmp_path, 1000).put(name(1), b"one")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1000)
    (tmp_path / "of-someone-else").write_bytes(b"x" * 5000)
    for number in range(10):
        cache.put(name(number), b"x" * 100)
        used_at(tmp_path, number, number)
    assert size_of(tmp_path) == 1000
    assert cache.get(name(0)) is not None
    cache.put(name(10), b"x" * 100)
    # down to seven eighths
    assert kept(cache, 11) == [0, 4, 5, 6, 7, 8, 9, 10]
    assert (tmp_path / "of-someone-else").exists()


def test_what_is_too_large_is_not_kept(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 800)
    cache.put(name(0), b"x" * 100)
    cache.put(name(1), b"x" * 101)
    assert kept(cache, 2) == [0]


def test_a_smaller_size_and_what_killed_processes_left_count_from_the_start(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 1000)
    for number in range(5):
        cache.put(name(number), b"x" * 100)
        used_at(tmp_path, number, 10 + number)
    left = tmp_path / f"{name(9)}.manifest.0123456789abcdef"
    left.write_bytes(b"x" * 700)
    os.utime(left, (1, 1))
    (tmp_path / "size").write_bytes(b"12\0broken")
    assert kept(DiskCache(tmp_path, 300), 5) == [2, 3, 4]
    assert not left.exists()


def test_processes_share_the_size(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from floecat.planning.files.disk_cache import DiskCache\n"
        "cache = DiskCache(Path(sys.argv[1]), 10_000)\n"
        "for number in range(int(sys.argv[2]), 400, 2): cache.put(f'{number:064x}', b'x' * 100)\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), str(first)]) for first in range(2)
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    files = sorted(path.name for path in tmp_path.iterdir())
    assert 5_000 < size_of(tmp_path) <= 10_000
    # the size may be counted too high, never too low
    assert int((tmp_path / "size").read_bytes()) >= size_of(tmp_path)
    assert all(len(each) == len(f"{name(0)}.manifest") for each in files if each != "size")


def test_a_folder_that_cannot_be_used_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert open_disk_cache(str(tmp_path / "file" / "folder"), 1000) is None
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert str(tmp_path / "file" / "folder") in record.message
    assert "floecat.planning.disk-cache-folder" in record.message
    assert open_disk_cache(None, 1000) is None


def test_a_disk_that_fails_keeps_nothing_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = DiskCache(tmp_path / "cache", 1000)
    (tmp_path / "cache").rename(tmp_path / "moved")
    for number in range(3):
        cache.put(name(number), b"x")
        assert cache.get(name(number)) is None
    assert len(caplog.records) == 1
    (tmp_path / "moved").rename(tmp_path / "cache")
    cache.put(name(1), b"x")
    assert cache.get(name(1)) == b"x"
