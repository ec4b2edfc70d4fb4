"""Files on the local disk."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Final

from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    FileMissingError,
    FloecatError,
    StorageRefusedError,
    StorageUnavailableError,
)
from floecat.fileio.base import Counters, DeleteFailure, DeleteOutcome, FileEntry, check_range, too_large
from floecat.fileio.local_folders import OpenFolders, open_folder
from floecat.fileio.locations import (
    AllowedLocations,
    Location,
    is_plain_name,
    normalize_location,
    real_path,
)

__all__ = ["LocalFileIO", "local_failure"]

_MISSING: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_BAD_NAME: Final = frozenset({errno.ENAMETOOLONG, errno.EINVAL})
_DELETED_TOGETHER: Final = 1000
_UNNAMED: Final = getattr(os, "O_TMPFILE", 0)
_NO_UNNAMED: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL})
"""The file system has no files without a name."""
_IN_THE_WAY: Final = frozenset({errno.ENOTDIR, errno.EISDIR, errno.ELOOP})


class LocalFileIO:
    """`FileIO` of the local disk."""

    def __init__(
        self, roots: Iterable[str] | None = None, *, fsync: bool = True, counters: Counters | None = None
    ) -> None:
        """Opens the local disk.

        Args:
            roots: folders that hold everything this storage may touch, symbolic links resolved. None if
                callers check each location themselves.
            fsync: whether a written file is on disk when `write_new` returns.
            counters: where to count; own counters by default.
        """
        self._allowed = None if roots is None else AllowedLocations(roots)
        self._fsync = fsync
        self.counters: Final = counters or Counters()

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """See `FileIO.read`."""
        found, path = self._find(location)
        self.counters.add("reads")
        try:
            size_bytes, data = _read_regular_file(path, max_bytes)
        except OSError as error:
            raise local_failure(error, found, reading=True) from error
        if data is None:
            raise too_large(found, max_bytes, size_bytes)
        self.counters.add("bytes_read", number=len(data))
        return data

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """See `FileIO.read_range`."""
        return self.read_ranges(location, [(offset, length)])[0]

    def read_ranges(self, location: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `FileIO.read_ranges`. The file is opened once."""
        found, path = self._find(location)
        for offset, length in ranges:
            check_range(offset, length)
        if not any(length for _, length in ranges):
            return [b""] * len(ranges)
        self.counters.add("reads")
        try:
            parts = _read_parts(path, ranges)
        except OSError as error:
            raise local_failure(error, found, reading=True) from error
        self.counters.add("bytes_read", number=sum(map(len, parts)))
        return parts

    def write_new(
        self,
        location: str,
        data: bytes,
        *,
        unique_name: bool = False,
        allowed: AllowedLocations | None = None,
    ) -> None:
        """See `FileIO.write_new`. The look for a file of that name is part of the link, and costs nothing."""
        allowed = allowed or self._allowed
        found = _named(location, allowed)
        folder, _, name = found.path.rpartition("/")
        self.counters.add("writes")
        try:
            with OpenFolders(folder, found, allowed, fsync=self._fsync) as folders:
                try:
                    self._write(folders.descriptor, name, data, unique_name)
                except FileExistsError:
                    raise AlreadyExistsError(f"File already exists: {found}") from None
                folders.sync()
        except OSError as error:
            raise local_failure(error, found) from error
        self.counters.add("bytes_written", number=len(data))

    def _write(self, folder: int, name: str, data: bytes, unique_name: bool) -> None:
        """Writes a file to an open folder. Unlike a rename, a link fails if the name is taken."""
        descriptor, temporary = _create(folder, unnamed=unique_name)
        try:
            try:
                _write_all(descriptor, data)
                if not unique_name:
                    self._sync(descriptor)
                source = temporary or f"/proc/self/fd/{descriptor}"
                os.link(source, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=not temporary)
            finally:
                if temporary:
                    os.unlink(temporary, dir_fd=folder)
            if unique_name:
                # Nobody can know the name yet. One write of the journal then holds file and name.
                self._sync(descriptor)
        finally:
            os.close(descriptor)

    def exists(self, location: str) -> bool:
        """See `FileIO.exists`."""
        found, path = self._find(location)
        self.counters.add("lookups")
        try:
            return stat.S_ISREG(os.lstat(path).st_mode)
        except OSError as error:
            if error.errno in _MISSING:
                return False
            raise local_failure(error, found) from error

    def delete(self, location: str) -> None:
        """See `FileIO.delete`."""
        found = self._normalized(location)
        self.counters.add("deletes")
        self._delete(found, self._allowed)

    def _delete(self, found: Location, allowed: AllowedLocations | None) -> None:
        with _opened_folder(found, allowed) as descriptor:
            if descriptor is not None:
                _unlink(descriptor, found, found.path.rpartition("/")[2])

    def delete_many(self, locations: Iterable[str], allowed: AllowedLocations | None = None) -> DeleteOutcome:
        """See `FileIO.delete_many`. Folders are looked up once; of a link, the link is deleted."""
        asked = 0
        failures: list[DeleteFailure] = []
        rest = iter(locations)
        while some := list(islice(rest, _DELETED_TOGETHER)):
            asked += len(some)
            for folder, names in _by_folder(some).items():
                failures += self._delete_in(folder, names, allowed or self._allowed)
        self.counters.add("deletes", number=asked)
        return DeleteOutcome(asked - len(failures), tuple(failures))

    def _delete_in(
        self, folder: str, names: Sequence[str], allowed: AllowedLocations | None
    ) -> list[DeleteFailure]:
        """Deletes files whose locations are that of a folder, which ends with a slash, and their names."""
        failures: list[DeleteFailure] = []

        def try_to(delete: Callable[[str], None], name: str) -> None:
            try:
                delete(name)
            except FloecatError as error:
                failures.append(_failure(f"{folder}{name}", error))

        # a name that links elsewhere counts where the roots are given
        if self._allowed is not None or not all(map(is_plain_name, names)):
            for name in names:
                try_to(lambda name: self._delete(self._normalized(folder + name), allowed), name)
            return failures
        try:
            found = self._normalized(f"{folder}_")
            with _opened_folder(found, allowed) as descriptor:
                if descriptor is not None:
                    unlink = partial(_unlink, descriptor, found)
                    for name in names:
                        try_to(unlink, name)
        except FloecatError as error:
            failures = [_failure(f"{folder}{name}", error) for name in names]
        return failures

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[FileEntry]:
        """See `FileIO.list`. Symbolic links are neither listed nor followed."""
        found, path = self._find(prefix)
        return self._walk(found, path, start_after or "")

    def list_folders(self, prefix: str) -> Sequence[str]:
        """See `FileIO.list_folders`. Symbolic links are not listed."""
        found, path = self._find(prefix)
        self.counters.add("lists")
        try:
            with os.scandir(path) as entries:
                names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError as error:
            if error.errno in _MISSING:
                return []
            raise local_failure(error, found) from error
        return [str(found._replace(path=f"{found.path}/{name}")) for name in names]

    def make_directory(self, *locations: str, allowed: AllowedLocations | None = None) -> None:
        """See `FileIO.make_directory`."""
        allowed = allowed or self._allowed
        by_folder: dict[str, list[Location]] = {}
        for location in locations:
            found = _named(location, allowed)
            by_folder.setdefault(found.path.rpartition("/")[0], []).append(found)
        self.counters.add("directories", number=len(locations))
        for folder, its_locations in by_folder.items():
            self._make_directories(folder, its_locations, allowed)

    def _make_directories(
        self, folder: str, locations: Sequence[Location], allowed: AllowedLocations | None
    ) -> None:
        found = locations[0]
        try:
            with OpenFolders(folder, found, allowed, fsync=self._fsync) as folders:
                for found in locations:
                    if not folders.make(found.path.rpartition("/")[2]):
                        # what has the name is a folder, and lies where it may
                        os.close(open_folder(found.path, found, allowed))
                folders.sync()
        except OSError as error:
            raise local_failure(error, found) from error

    def _find(self, location: str) -> tuple[Location, str]:
        found = self._normalized(location)
        return found, real_path(found.path or "/")

    def _normalized(self, location: str) -> Location:
        return _local(
            normalize_location(location) if self._allowed is None else self._allowed.check(location)
        )

    def _walk(self, root: Location, root_path: str, start_after: str) -> Iterator[FileEntry]:
        folders = [root_path]
        while folders:
            folder = folders.pop()
            self.counters.add("lists")
            try:
                with os.scandir(folder) as entries:
                    children = list(entries)
            except OSError as error:
                if error.errno in _MISSING:
                    continue
                raise local_failure(error, root) from error
            for child in children:
                # Named below the folder as the caller wrote it, not below what its links lead to.
                below = child.path[len(root_path.rstrip("/")) :]
                if child.is_dir(follow_symlinks=False):
                    if f"{below}/" > f"/{start_after}":
                        folders.append(child.path)
                elif below > f"/{start_after}" and child.is_file(follow_symlinks=False):
                    yield from _entry(child, root._replace(path=root.path + below))

    def _sync(self, descriptor: int) -> None:
        if self._fsync:
            os.fsync(descriptor)


def local_failure(error: OSError, location: Location, *, reading: bool = False) -> FloecatError:
    """The error that a failure of the operating system means to the caller."""
    if error.errno in _MISSING and reading:
        return FileMissingError(f"Failed to open input stream for file: {location}")
    if error.errno in _FORBIDDEN:
        return StorageRefusedError(f"Storage refuses access to {location}")
    if error.errno in _NO_SPACE:
        return StorageUnavailableError(f"Storage has no space left for {location}")
    if error.errno in _BAD_NAME:
        return BadRequestError(f"No file can have the location {location}")
    if error.errno in _IN_THE_WAY:
        return StorageUnavailableError(f"Storage has a file where a folder of {location} belongs")
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    return StorageUnavailableError(f"Storage failed ({name}) at {location}")


def _by_folder(locations: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """The last parts of locations, by what is before them."""
    found: dict[str, list[str]] = {}
    for location in locations:
        folder, slash, name = location.rpartition("/")
        found.setdefault(folder + slash, []).append(name)
    return found


@contextmanager
def _opened_folder(file: Location, allowed: AllowedLocations | None) -> Iterator[int | None]:
    """The folder of a file, whatever becomes of its path meanwhile; `None` if it is missing."""
    try:
        descriptor = open_folder(file.path.rpartition("/")[0], file, allowed)
    except FileNotFoundError:
        descriptor = None
    except OSError as error:
        raise local_failure(error, file) from error
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _unlink(folder: int, location: Location, name: str) -> None:
    """Deletes a file or a link in an open folder; `location` is of any file in it."""
    try:
        os.unlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return
        found = location._replace(path=f"{location.path.rpartition('/')[0]}/{name}")
        with suppress(OSError):
            if stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):
                raise BadRequestError(f"Location is a folder: {found}") from None
        raise local_failure(error, found) from error


def _failure(location: str, error: FloecatError) -> DeleteFailure:
    return DeleteFailure(location, error.message, isinstance(error, StorageUnavailableError))


def _read_regular_file(path: str, max_bytes: int | None) -> tuple[int, bytes | None]:
    """The size, and the content; None if it is larger."""
    with os.fdopen(_open_regular_file(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if max_bytes is None:
            return size, file.read()
        if size > max_bytes:
            return size, None
        # reading allocates what is asked for: no more than the file holds, and a byte to see it grow
        data = file.read(size + 1)
        return len(data), data if len(data) <= max_bytes else None


def _read_parts(path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
    descriptor = _open_regular_file(path)
    try:
        # never allocate more than the file holds
        size = os.fstat(descriptor).st_size
        return [
            os.pread(descriptor, max(0, min(length, size - offset)), min(offset, size))
            for offset, length in ranges
        ]
    finally:
        os.close(descriptor)


def _open_regular_file(path: str) -> int:
    # Without O_NONBLOCK a named pipe would hold the caller for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(errno.ENOENT, "Not a regular file")
    return descriptor


def _create(folder: int, *, unnamed: bool) -> tuple[int, str]:
    """A new file in an open folder, for writing, and its name.

    Args:
        unnamed: whether it may be without a name, where the system has such files. Nothing is left of one if
            the process ends. What is synced of it before it gets a name may be lost with the power.
    """
    if unnamed and _UNNAMED:
        try:
            return os.open(".", os.O_WRONLY | _UNNAMED | os.O_CLOEXEC, 0o666, dir_fd=folder), ""
        except OSError as error:
            if error.errno not in _NO_UNNAMED:
                raise
    name = f".{uuid.uuid4().hex}.tmp"
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder), name


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _named(location: str, allowed: AllowedLocations | None) -> Location:
    return _local(normalize_location(location) if allowed is None else allowed.check_text(location))


def _local(found: Location) -> Location:
    if found.scheme != "file":
        raise BadRequestError(f"Location is not on the local disk: {found}")
    return found


def _entry(child: os.DirEntry[str], location: Location) -> Iterator[FileEntry]:
    # A file that goes away between the listing and here is not there.
    with suppress(FileNotFoundError):
        status = child.stat(follow_symlinks=False)
        yield FileEntry(str(location), status.st_size, status.st_mtime_ns // 1_000_000)
