"""A folder on local disk that keeps bytes by name, within a size, for all processes that open it.

A file is written under another name and renamed, so no reader sees a part of it. Nothing is synced: after a
crash of the system a name may stand for other bytes, so what is kept has a checksum of its own. The time of a
file is when it was used last. The file `size` says how many bytes all have, and is locked while that changes.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

__all__ = ["DiskCache", "open_disk_cache"]

_log = logging.getLogger(__name__)

_SIZE_FILE: Final = "size"
_FOR_ITS_USER: Final = 0o600
_SUFFIX: Final = ".manifest"
_NAME: Final = re.compile(r"[0-9a-f]{64}\.manifest(\.[0-9a-f]{16})?")
"""Files of the cache, those that are being written included. Others in the folder are left alone."""

_LARGEST_PART: Final = 8
"""A larger part of the size costs too many others."""


class DiskCache:
    """The files of a folder. Thread-safe; problems of the disk are logged, and count as nothing kept."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        """Takes a folder, which is made if it is missing.

        Args:
            folder: for the files of this cache. Readable by its user alone: they name files and values.
            size_bytes: of all files together.

        Raises:
            OSError: the folder cannot be made or written.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._size_bytes = size_bytes
        self._has_failed = False
        with self._locked() as size_file:
            # a process that was killed may have left files that are not counted
            _write_size(size_file, self._shrink(size_bytes))

    def get(self, name: str) -> bytes | None:
        """The bytes kept under a name of 64 hexadecimal digits."""
        path = self._path(name)
        try:
            with path.open("rb") as file:
                data = file.read(self._size_bytes // _LARGEST_PART + 1)
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._failed(error)
            return None
        return data

    def put(self, name: str, data: bytes) -> None:
        """Keeps bytes, in the place of those before; the least recently used ones go beyond the size."""
        if len(data) > self._size_bytes // _LARGEST_PART:
            return
        path = self._path(name)
        being_written = path.with_suffix(f"{_SUFFIX}.{secrets.token_hex(8)}")
        try:
            descriptor = os.open(being_written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FOR_ITS_USER)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            with self._locked() as size_file:
                size = _read_size(size_file)
                if size is None or size + len(data) > self._size_bytes:
                    size = self._shrink(self._size_bytes * (_LARGEST_PART - 1) // _LARGEST_PART)
                else:
                    size += len(data)
                # counted first: a process that is killed between the two counts too much
                _write_size(size_file, size)
                being_written.replace(path)
        except OSError as error:
            self._failed(error)
            with suppress(OSError):
                being_written.unlink(missing_ok=True)
        else:
            self._has_failed = False

    def drop(self, name: str) -> None:
        """Deletes what is kept under a name. Its size is counted until files are deleted the next time."""
        with suppress(OSError):
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{_SUFFIX}"

    @contextmanager
    def _locked(self) -> Iterator[IO[bytes]]:
        descriptor = os.open(self._folder / _SIZE_FILE, os.O_RDWR | os.O_CREAT, _FOR_ITS_USER)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # ends with the file, or the process
            yield file

    def _shrink(self, most_bytes: int) -> int:
        """Deletes what was not used for longest; returns the size of the files that are left."""
        found = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # renamed or dropped meanwhile
                    if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        stat = entry.stat(follow_symlinks=False)
                        found.append((stat.st_mtime_ns, stat.st_size, entry.path))
        size = sum(each for _, each, _ in found)
        for _, file_size, path in sorted(found):
            if size <= most_bytes:
                break
            with suppress(FileNotFoundError):
                os.unlink(path)
            size -= file_size
        return size

    def _failed(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            _log.warning("The cache of manifests in %s failed: %s", self._folder, error.strerror)


def open_disk_cache(folder: str | None, size_bytes: int) -> DiskCache | None:
    """A cache; None without a folder, or with one that cannot be used, which is logged.

    Args:
        folder: see `DiskCache`.
        size_bytes: see `DiskCache`.
    """
    if folder is None:
        return None
    try:
        return DiskCache(Path(folder), size_bytes)
    except OSError as error:
        _log.warning(
            "Manifests are not kept on disk: the folder %s (floecat.planning.disk-cache-folder)"
            " cannot be used: %s",
            folder,
            error.strerror,
        )
        return None


def _read_size(file: IO[bytes]) -> int | None:
    text = file.read(32)
    return int(text) if text.isdigit() else None


def _write_size(file: IO[bytes], size: int) -> None:
    file.seek(0)
    file.write(b"%d" % size)
    file.truncate()
