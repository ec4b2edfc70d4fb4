"""Sets of file locations that may be larger than memory."""

from __future__ import annotations

import re
import sqlite3
from functools import lru_cache
from hashlib import blake2b
from types import TracebackType

from floecat.errors import BadRequestError
from floecat.fileio.locations import Location, same_file_location

__all__ = ["LocationSet", "file_key", "is_plain_name", "lies_below"]

_CACHE_KIB = 32 * 1024
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]*")


def file_key(location: str) -> bytes:
    """16 bytes that stand for a file; aliases of one file give the same ones.

    A malformed location stands for itself: no file that can be read or deleted has it.
    """
    folder, _, name = location.rpartition("/")
    text = _folder_text(folder) + name if is_plain_name(name) else _text(location)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def lies_below(location: str, folder: str) -> bool:
    """Whether a location lies below a folder, and is not the folder itself."""
    try:
        inner, outer = _folder(location), _folder(folder)
    except BadRequestError:
        return False
    return inner != outer and outer.contains(inner)


def is_plain_name(name: str) -> bool:
    """Whether the last part of a location is one that no rule about locations changes or refuses."""
    return _PLAIN_NAME.fullmatch(name) is not None


def _text(location: str) -> str:
    try:
        return str(same_file_location(location))
    except BadRequestError:
        return f"\0{location}"


def _folder(location: str) -> Location:
    # links of the folder itself are followed too, as they are for the files in it
    inside = same_file_location(f"{location.rstrip('/')}/_")
    return inside._replace(path=inside.path.removesuffix("/_"))


@lru_cache(maxsize=4096)
def _folder_text(folder: str) -> str:
    # millions of files lie in few folders, and a plain name needs no look of its own
    return _text(f"{folder}/_").removesuffix("_")


class LocationSet:
    """A set of files, and of folders with all that is in them, in bounded memory.

    What does not fit goes to a temporary file that vanishes with the set. Used by one thread. Files are kept
    as 128-bit hashes.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=OFF")
        self._database.execute("PRAGMA synchronous=OFF")
        self._database.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        self._database.execute("CREATE TABLE files (key BLOB PRIMARY KEY) WITHOUT ROWID")
        self._database.execute("BEGIN")
        self._size = 0
        self._folders: list[Location] = []

    def add_folder(self, location: str) -> None:
        """Adds every file below a folder, whether or not it is there yet.

        Raises:
            BadRequestError: the location is malformed.
        """
        self._folders.append(_folder(location))

    def add(self, location: str) -> bool:
        """Adds a file.

        Returns:
            False if the set held it already.
        """
        cursor = self._database.execute("INSERT OR IGNORE INTO files VALUES (?)", (file_key(location),))
        self._size += cursor.rowcount
        return cursor.rowcount == 1

    def __contains__(self, location: str) -> bool:
        if not (self._size or self._folders):
            return False
        found = self._database.execute("SELECT 1 FROM files WHERE key = ?", (file_key(location),))
        return found.fetchone() is not None or (bool(self._folders) and self._in_folder(location))

    def _in_folder(self, location: str) -> bool:
        try:
            found = same_file_location(location)
        except BadRequestError:
            return False
        return any(folder.contains(found) for folder in self._folders)

    @property
    def folders(self) -> tuple[Location, ...]:
        """The folders, without a trailing slash."""
        return tuple(self._folders)

    def keys(self, limit: int) -> frozenset[bytes]:
        """The `file_key` of at most so many of the files."""
        found = self._database.execute("SELECT key FROM files LIMIT ?", (limit,))
        return frozenset(key for (key,) in found)

    def __len__(self) -> int:
        return self._size

    def close(self) -> None:
        """Frees memory and disk."""
        self._database.close()

    def __enter__(self) -> LocationSet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
