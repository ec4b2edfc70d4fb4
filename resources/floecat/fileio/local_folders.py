"""Folders of the local disk that stay open while files in them are made or deleted.

A folder is checked when it is open: what its path leads to later makes no difference then.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from floecat.fileio.locations import AllowedLocations, Location, normalize_location

__all__ = ["OpenFolders", "link_below", "open_folder"]

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PLACE: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_OPEN: Final = 16


def open_folder(path: str, location: Location, allowed: AllowedLocations | None) -> int:
    """A descriptor of a folder for `dir_fd`, with which it cannot be read.

    Args:
        path: of the folder.
        location: this folder, or something in it.
        allowed: where it has to be.

    Raises:
        LocationNotAllowedError: links lead outside the allowed locations, maybe only since they were checked.
        OSError: there is no such folder, or the system fails.
    """
    return _open(path, _PLACE, location, allowed)


def link_below(location: str) -> str | None:
    """The path of a symbolic link: a folder of the local disk, or something in it.

    None if there is none, the folder is missing or cannot be read, or is not on the local disk.
    """
    found = normalize_location(location)
    if found.scheme != "file":
        return None
    if os.path.islink(found.path):
        return found.path
    folders = [found.path]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as children:
            for child in children:
                if child.is_symlink():
                    return child.path
                if child.is_dir(follow_symlinks=False):
                    folders.append(child.path)
    return None


class OpenFolders:
    """A folder in which files are made, and the folders above it that got new folders for it.

    A context manager, which closes them.
    """

    def __init__(
        self, path: str, location: Location, allowed: AllowedLocations | None, *, fsync: bool
    ) -> None:
        """Opens a folder; makes it, and its parents, if it is missing.

        Args:
            path: of the folder.
            location: of something in it.
            allowed: where it has to be.
            fsync: whether folders are synced at all.

        Raises:
            LocationNotAllowedError: links lead outside the allowed locations.
            OSError: the system fails.
        """
        self._fsync = fsync
        missing = []
        while True:
            try:
                self._open = [_open(path, _FOLDER, location, allowed)]
                break
            except FileNotFoundError:
                if not path:
                    raise
                path, _, name = path.rpartition("/")
                missing.append(name)
        try:
            for name in reversed(missing):
                self._enter_new(name)
        except BaseException:
            self.__exit__()
            raise

    @property
    def descriptor(self) -> int:
        """The open folder."""
        return self._open[-1]

    def make(self, name: str) -> bool:
        """Makes a folder in this one; says whether the name was free.

        Raises:
            OSError: the system fails.
        """
        try:
            os.mkdir(name, dir_fd=self.descriptor)
        except FileExistsError:
            return False
        return True

    def sync(self) -> None:
        """Makes the names in the folder durable, and those of the folders that were made for it."""
        # one write of the journal holds all of them: from the second on there is little to do
        for descriptor in reversed(self._open):
            self._sync(descriptor)

    def __enter__(self) -> OpenFolders:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._open:
            os.close(descriptor)

    def _enter_new(self, name: str) -> None:
        self.make(name)  # another writer may have been faster
        # not through a link that has the name
        self._open.append(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.descriptor))
        if len(self._open) > _MOST_OPEN:
            self._sync(self._open[0])
            os.close(self._open.pop(0))

    def _sync(self, descriptor: int) -> None:
        if self._fsync:
            os.fsync(descriptor)


def _open(path: str, flags: int, location: Location, allowed: AllowedLocations | None) -> int:
    descriptor = os.open(path or "/", flags)
    try:
        if allowed is not None:
            allowed.check_opened(location, path, descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
