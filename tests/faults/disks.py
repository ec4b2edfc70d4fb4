"""Disks that fill up, and can be given room again."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.services.catalog import CatalogServer

__all__ = ["Disk", "FileSizeLimit", "Tmpfs", "can_mount", "mounted"]

_TMPFS_BYTES = 4 << 20
# the shared memory of SQLite's log needs 32 KiB also for reads
_FILE_BYTES = 40 << 10


class Disk(Protocol):
    """What a service writes to."""

    def fill(self, server: CatalogServer) -> None:
        """Takes all room that is left."""

    def free(self, server: CatalogServer) -> None:
        """Gives it back."""


class Tmpfs:
    """A small file system of its own; a file takes what is left."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self, server: CatalogServer) -> None:
        # the file system gives out whole pages: what is left is less than one
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                return

    def free(self, server: CatalogServer) -> None:
        self._ballast.unlink()


class FileSizeLimit:
    """No file of the service may grow beyond what the log of SQLite has long reached; needs no rights."""

    def fill(self, server: CatalogServer) -> None:
        _limit_file_size(server.pid, _FILE_BYTES)

    def free(self, server: CatalogServer) -> None:
        _limit_file_size(server.pid, None)


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """A tmpfs of 4 MiB at a folder."""
    folder.mkdir(parents=True)
    _mount(folder)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


def can_mount(folder: Path) -> bool:
    """Whether this process may mount file systems; root in a container may not."""
    if os.getuid() != 0:
        return False
    folder.mkdir(parents=True)
    try:
        _mount(folder)
    except (subprocess.CalledProcessError, FileNotFoundError):
        return False
    subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)
    return True


def _mount(folder: Path) -> None:
    options = f"size={_TMPFS_BYTES},mode=0700"
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "floecat-test", str(folder)], check=True, capture_output=True
    )


def _limit_file_size(pid: int, size: int | None) -> None:
    """Sets the soft limit, which the owner of a process may do; `None` for all that the hard one allows."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))
