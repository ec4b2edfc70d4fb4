"""Sets of file locations that may be larger than memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from hashlib import blake2b
from itertools import islice
from types import TracebackType

from floecat.errors import BadRequestError
from floecat.fileio.locations import Location, cut_location, is_plain_name, same_file_location

__all__ = ["FileKeys", "LocationSet", "file_key", "lies_below"]

_CACHE_KIB = 32 * 1024
_MOST_FOLDERS = 4096
_MOST_IN_MEMORY = 100_000
"""Files, of about 100 bytes each."""


class FileKeys:
    """Makes the keys of files. Used by one thread.

    On the local disk, links of folders are followed. Folders are remembered, as millions of files lie in few.
    """

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def __call__(self, location: str) -> bytes:
        """16 bytes that stand for a file; aliases of one file give the same ones.

        A malformed location stands for itself: no file that can be read or deleted has it.
        """
        folder, _, name = location.rpartition("/")
        if is_plain_name(name):
            text = self._folders.get(folder)
            if text is None:
                text = self._remembered(folder)
            text += name
        else:
            text = _text(location)
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def forget(self) -> None:
        """Looks at folders again from now on: links may have been made."""
        self._folders.clear()

    def _remembered(self, folder: str) -> str:
        if len(self._folders) >= _MOST_FOLDERS:
            self._folders.clear()
        text = self._folders[folder] = _text(f"{folder}/_").removesuffix("_")
        return text


def file_key(location: str) -> bytes:
    """The key of a single file; see `FileKeys`."""
    return FileKeys()(location)


def lies_below(location: str, folder: str) -> bool:
    """Whether a location lies below a folder, and is not the folder itself."""
    try:
        inner, outer = _folder(location), _folder(folder)
    except BadRequestError:
        return False
    return inner != outer and outer.contains(inner)


def _text(location: str) -> str:
    try:
        return str(same_file_location(location))
    except BadRequestError:
        return f"\0{location}"


def _folder(location: str) -> Location:
    # links of the folder itself are followed too, as they are for the files in it
    inside = same_file_location(f"{location.rstrip('/')}/_")
    return inside._replace(path=inside.path.removesuffix("/_"))


class LocationSet:
    """A set of files, and of folders with all that is in them, in bounded memory.

    What does not fit goes to a temporary file that vanishes with the set. Used by one thread. Files are kept
    as 128-bit hashes.
    """

    def __init__(self) -> None:
        self._keys = FileKeys()
        self._first: set[bytes] = set()
        self._database: sqlite3.Connection | None = None
        self._size = 0
        self._folders: dict[Location, None] = {}

    def add_folder(self, location: str) -> None:
        """Adds every file below a folder, whether or not it is there yet.

        Raises:
            BadRequestError: the location is malformed.
        """
        self._folders[_folder(location)] = None

    def add(self, location: str) -> bool:
        """Adds a file.

        Returns:
            False if the set held it already.
        """
        key = self._keys(location)
        if self._database is not None:
            is_new = self._database.execute("INSERT OR IGNORE INTO files VALUES (?)", (key,)).rowcount == 1
        elif is_new := key not in self._first:
            self._first.add(key)
            if len(self._first) >= _MOST_IN_MEMORY:
                self._database = _database(self._first)
                self._first = set()
        self._size += is_new
        return is_new

    def keep(self, location: str) -> None:
        """Adds every file that some client may read by a location, see `cut_location`."""
        self.add(location)
        if (cut := cut_location(location)) is not None:
            self.add(cut)

    def forget_links(self) -> None:
        """Looks at folders of the local disk again when a file is looked up: links may have been made."""
        self._keys.forget()

    def __contains__(self, location: str) -> bool:
        if not (self._size or self._folders):
            return False
        return self._has(self._keys(location)) or (bool(self._folders) and self._in_folder(location))

    def _has(self, key: bytes) -> bool:
        if self._database is None:
            return key in self._first
        return self._database.execute("SELECT 1 FROM files WHERE key = ?", (key,)).fetchone() is not None

    def _in_folder(self, location: str) -> bool:
        try:
            found = same_file_location(location)
        except BadRequestError:
            return False
        path = found.path
        while path and found._replace(path=path) not in self._folders:
            path = path.rpartition("/")[0]
        return found._replace(path=path) in self._folders

    @property
    def folders(self) -> tuple[Location, ...]:
        """The folders, without a trailing slash."""
        return tuple(self._folders)

    def keys(self, limit: int) -> frozenset[bytes]:
        """The `file_key` of at most so many of the files."""
        if self._database is None:
            return frozenset(islice(self._first, limit))
        found = self._database.execute("SELECT key FROM files LIMIT ?", (limit,))
        return frozenset(key for (key,) in found)

    def __len__(self) -> int:
        return self._size

    def close(self) -> None:
        """Frees memory and disk."""
        if self._database is not None:
            self._database.close()

    def __enter__(self) -> LocationSet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _database(keys: Iterable[bytes]) -> sqlite3.Connection:
    database = sqlite3.connect("", isolation_level=None)
    database.execute("PRAGMA journal_mode=OFF")
    database.execute("PRAGMA synchronous=OFF")
    database.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    database.execute("CREATE TABLE files (key BLOB PRIMARY KEY) WITHOUT ROWID")
    database.execute("BEGIN")
    database.executemany("INSERT INTO files VALUES (?)", ((key,) for key in sorted(keys)))
    return database
