"""The files of a dropped table that others need, while the dropped table is purged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

from floecat.fileio.locations import Location, same_file_location
from floecat.purge.location_set import LocationSet, file_key
from floecat.store.job_claims import Lease

__all__ = ["KeptFiles", "KeptKeys"]


@dataclass(frozen=True)
class KeptKeys:
    """Files that must stay, for other processes."""

    keys: frozenset[bytes] = frozenset()
    """Of `floecat.purge.location_set.file_key`."""
    folders: tuple[Location, ...] = ()

    @contextmanager
    def batch(self) -> Iterator[bool]:
        """See `Kept.batch`: the worker asks again between rounds."""
        yield False

    def __contains__(self, location: str) -> bool:
        if self.keys and file_key(location) in self.keys:
            return True
        return bool(self.folders) and any(
            folder.contains(same_file_location(location)) for folder in self.folders
        )


class KeptFiles:
    """A set of files that must stay. It grows: tables are committed to while a purge runs.

    Used by one thread, as a context that frees the set.
    """

    def __init__(self, files: LocationSet, lease: Lease | None) -> None:
        """Takes the files to begin with, and the lease of the purge job."""
        self._files = files
        self._lease = lease

    @contextmanager
    def batch(self) -> Iterator[bool]:
        """A block in which files are deleted, except those that the set holds when the block begins.

        Yields:
            Whether the set has grown since the block before.
        """
        yield False

    def keys(self, limit: int) -> KeptKeys | None:
        """The set for other processes; `None` if it has more than `limit` files."""
        keys = self._files.keys(limit + 1)
        return None if len(keys) > limit else KeptKeys(keys, self._files.folders)

    def __contains__(self, location: str) -> bool:
        return location in self._files

    def __enter__(self) -> KeptFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()
