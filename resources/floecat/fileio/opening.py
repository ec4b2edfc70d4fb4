"""Storage of every kind behind one `FileIO`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from floecat.errors import FloecatError
from floecat.fileio.base import Counters, DeleteFailure, DeleteOutcome, FileEntry, FileIO
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations, normalize_location, scheme_of
from floecat.fileio.object_store import ObjectStoreFileIO
from floecat.fileio.options import ObjectStoreOptions

__all__ = ["StorageFileIO", "open_fileio"]

_BATCH: Final = 10_000


def open_fileio(
    options: ObjectStoreOptions | None = None,
    *,
    local_roots: Iterable[str] | None = None,
    fsync: bool = True,
    counters: Counters | None = None,
) -> FileIO:
    """Opens the local disk and object storage. Nothing is sent before the first call.

    Args:
        options: how object storage is reached.
        local_roots: folders that hold everything that may be touched on the local disk. None if callers check
            each location themselves.
        fsync: whether a written local file is on disk when `FileIO.write_new` returns.
        counters: where calls are counted; by default in counters of its own.
    """
    return StorageFileIO(
        options or ObjectStoreOptions(), local_roots=local_roots, fsync=fsync, counters=counters
    )


class StorageFileIO:
    """`FileIO` that sends each call to the storage that the scheme of the location names."""

    def __init__(
        self,
        options: ObjectStoreOptions,
        *,
        local_roots: Iterable[str] | None,
        fsync: bool,
        counters: Counters | None = None,
    ) -> None:
        self.counters: Final = counters or Counters()
        self._local = LocalFileIO(local_roots, fsync=fsync, counters=self.counters)
        self._objects = ObjectStoreFileIO(options, counters=self.counters)

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """See `FileIO.read`."""
        return self._storage(location).read(location, max_bytes=max_bytes)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """See `FileIO.read_range`."""
        return self._storage(location).read_range(location, offset, length)

    def read_ranges(self, location: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `FileIO.read_ranges`."""
        return self._storage(location).read_ranges(location, ranges)

    def write_new(
        self,
        location: str,
        data: bytes,
        *,
        unique_name: bool = False,
        allowed: AllowedLocations | None = None,
    ) -> None:
        """See `FileIO.write_new`."""
        self._storage(location).write_new(location, data, unique_name=unique_name, allowed=allowed)

    def exists(self, location: str) -> bool:
        """See `FileIO.exists`."""
        return self._storage(location).exists(location)

    def delete(self, location: str) -> None:
        """See `FileIO.delete`."""
        self._storage(location).delete(location)

    def delete_many(self, locations: Iterable[str], allowed: AllowedLocations | None = None) -> DeleteOutcome:
        """See `FileIO.delete_many`."""
        deleted = 0
        failures: list[DeleteFailure] = []
        rest = iter(locations)
        while batch := list(islice(rest, _BATCH)):
            by_storage: dict[int, tuple[FileIO, list[str]]] = {}
            for location in batch:
                try:
                    normalize_location(location)
                    storage = self._storage(location)
                except FloecatError as error:
                    failures.append(DeleteFailure(location, error.message))
                    continue
                by_storage.setdefault(id(storage), (storage, []))[1].append(location)
            for storage, its_locations in by_storage.values():
                outcome = storage.delete_many(its_locations, allowed)
                deleted += outcome.deleted
                failures += outcome.failures
        return DeleteOutcome(deleted, tuple(failures))

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[FileEntry]:
        """See `FileIO.list`."""
        return self._storage(prefix).list(prefix, start_after=start_after)

    def list_folders(self, prefix: str) -> Sequence[str]:
        """See `FileIO.list_folders`."""
        return self._storage(prefix).list_folders(prefix)

    def make_directory(self, *locations: str, allowed: AllowedLocations | None = None) -> None:
        """See `FileIO.make_directory`. All are in one storage."""
        self._storage(locations[0]).make_directory(*locations, allowed=allowed)

    def _storage(self, location: str) -> FileIO:
        return self._local if scheme_of(location) == "file" else self._objects
