"""The folders of an entry, and files that it names elsewhere.

Whoever writes a table can name any file in it, as a manifest or as a data file. What the service reads for
one entry must not lie in a folder of another one, since it reads with keys that open both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias
from uuid import UUID

import msgspec

from floecat.errors import BadRequestError
from floecat.fileio.locations import FileLocation, normalize_location
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["CheckRead", "FolderCheck", "OwnFolders", "ReadCheck"]

FolderCheck: TypeAlias = Callable[[CatalogStorage, UUID, Collection[str]], None]
"""Refuses folders that are, or lie in, one of another entry than this, with `BadRequestError`."""

CheckRead: TypeAlias = Callable[[Collection[str]], None]
"""The same for one entry."""


class OwnFolders(msgspec.Struct, frozen=True):
    """An entry that files are read for, and its folders in object storage in their one spelling."""

    entry_id: UUID
    folders: tuple[str, ...]

    def others(self, files: Iterable[str]) -> set[str]:
        """The folders in object storage that hold files and do not lie in those of the entry."""
        named = {file.rpartition("/")[0] for file in files}
        return {text for each in named if (text := _text(each)) is not None and not self._hold(text)}

    def _hold(self, folder: str) -> bool:
        return any(folder == own or folder.startswith(f"{own}/") for own in self.folders)


class ReadCheck:
    """Asks whether files may be read for an entry, once for each folder that is not its own."""

    def __init__(self, check: FolderCheck, storage: CatalogStorage, own: OwnFolders | None) -> None:
        """Takes the entry; None for files of none."""
        self._check = check
        self._storage = storage
        self._own = own
        self._asked: set[str] = set()

    def files(self, files: Iterable[str]) -> None:
        """Refuses files in folders of other entries.

        Raises:
            BadRequestError: there are such files.
            StoreUnavailableError: the store does not answer.
        """
        if self._own is not None:
            self.folders(self._own.others(files))

    def folders(self, folders: Collection[str]) -> None:
        """The same for the folders that `OwnFolders.others` gives."""
        new = [each for each in folders if each not in self._asked]
        if new and self._own is not None:
            self._check(self._storage, self._own.entry_id, new)
            self._asked.update(new)


def _text(folder: str) -> str | None:
    try:
        # a file may have characters that only other programs write; where it is counts here
        found = normalize_location(FileLocation(folder))
    except BadRequestError:
        return None  # nor has a file there a location
    return None if found.scheme == "file" else str(found)
