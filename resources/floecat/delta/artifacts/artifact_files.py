"""Writing and reading artifacts: each is written once, and a second writer must bring the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from itertools import islice
from threading import Condition, Lock
from typing import Any, TypeVar
from uuid import UUID

from floecat.errors import AlreadyExistsError, FileMissingError, ForbiddenError, PayloadTooLargeError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.avro.container import same_records
from floecat.iceberg.manifests.index import ManifestIndex
from floecat.iceberg.values.bounds import exceeded, process_bounds
from floecat.memory_budget import LruCache, MemoryBudget

__all__ = ["ArtifactFiles", "ArtifactLostError", "ByteBudget", "NameTakenError"]

T = TypeVar("T")
R = TypeVar("R")

_MOST_LARGER = 4
"""Most times that another compression of the same records may be larger. Larger files are not read."""

_PARALLEL_CALLS = 16
_SMALL_BYTES = 16 << 20
"""Sixteen threads may hold artifacts of this size; larger ones are decoded one at a time."""

_LARGEST_PART = 4
_FOOTER_BYTES = 8 << 20


class NameTakenError(Exception):
    """A file of this name exists with other content: artifacts need the names of a later generation."""


class ArtifactLostError(Exception):
    """An artifact that a snapshot needs is missing, as after `VACUUM`, or damaged."""


class ByteBudget:
    """Bounds the bytes that threads hold at once. More than the bound is held by one thread alone."""

    def __init__(self, total: int) -> None:
        # a bound of 0 lets one thread in at a time
        self._total = self._free = max(total, 1)
        self._changed = Condition()

    @contextmanager
    def holding(self, count: int) -> Iterator[None]:
        """Waits until this many bytes are free, and holds them."""
        taken = min(count, self._total)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= taken)
            self._free -= taken
        try:
            yield
        finally:
            with self._changed:
                self._free += taken
                self._changed.notify_all()


class ArtifactFiles:
    """The artifacts of a table in storage, with a cache of their bytes.

    A table writes each location once. Another table of the catalog, dropped or not, may have other bytes at
    the same location, so bytes in memory are kept by table.

    Attributes:
        storage: where artifacts, data files and deletion vectors are.
        allowed: the allowed locations of the catalog.
        owner: the table; None where only one is worked on.
        indexes: of manifests, by owner and location.
        listed: what manifest lists and manifests name, by owner and location.
        copies: bytes of data files and position deletes that are held while they are written.
        footers: bytes of large Parquet footers that are held while they are decoded.
    """

    def __init__(
        self, storage: FileIO, allowed: AllowedLocations, memory: MemoryBudget, owner: UUID | None = None
    ) -> None:
        self.storage = storage
        self.allowed = allowed
        self.owner = owner
        self._cache: LruCache[bytes] = memory.cache("delta-artifacts", largest_part=_LARGEST_PART)
        self.indexes: LruCache[ManifestIndex] = memory.cache("delta-indexes")
        self.listed: LruCache[Any] = memory.cache("delta-listed")
        self.copies = ByteBudget(memory.share("delta-copies"))
        self.footers = ByteBudget(_FOOTER_BYTES)
        self._large_artifact = Lock()
        self._threads = ThreadPoolExecutor(_PARALLEL_CALLS, thread_name_prefix="compat-files")

    def of(self, storage: FileIO, allowed: AllowedLocations, owner: UUID) -> ArtifactFiles:
        """The artifacts of another table, with this one's memory and threads; this one closes them."""
        view = copy(self)
        view.storage, view.allowed, view.owner = storage, allowed, owner
        return view

    def write(self, location: str, data: bytes, *, keep: bool = False) -> bytes:
        """Writes an artifact, unless it exists already.

        An existing one may be compressed differently, if another kind of processor made it.

        Args:
            location: where.
            keep: whether the bytes will be wanted again soon.

        Returns:
            The bytes in storage.

        Raises:
            NameTakenError: the file exists with other content.
            LocationNotAllowedError: the location is outside the allowed ones.
            ForbiddenError: storage refuses the write.
            StorageUnavailableError: storage fails.
        """
        self.allowed.check(location)
        try:
            self.storage.write_new(location, data)
        except AlreadyExistsError:
            data = self._same(location, data)
        except ForbiddenError:
            raise _cannot_write(location) from None
        if keep:
            self._cache.put((self.owner, location), data, len(data))
        return data

    def _same(self, location: str, data: bytes) -> bytes:
        """The bytes in storage, if they hold the same records."""
        try:
            found = self.storage.read(location, max_bytes=_MOST_LARGER * len(data))
        except PayloadTooLargeError:
            raise NameTakenError(location) from None
        # files other than Avro containers must be equal byte for byte
        if found != data and not (location.endswith(".avro") and same_records(found, data)):
            raise NameTakenError(location)
        return found

    def write_large(
        self,
        location: str,
        make: Callable[[], bytes],
        *,
        offset: int,
        tail: bytes,
    ) -> None:
        """Writes an artifact that is too large to compare whole: only its end is compared.

        Args:
            location: where.
            make: returns the whole file; called if it does not exist.
            offset: where its end begins, in bytes.
            tail: its end.

        Raises:
            NameTakenError: the file exists with another end.
            LocationNotAllowedError: the location is outside the allowed ones.
            StorageUnavailableError: storage fails.
        """
        self.allowed.check(location)
        if self._ends_with(location, offset, tail):
            return
        try:
            self.storage.write_new(location, make())
        except AlreadyExistsError:
            self._ends_with(location, offset, tail)
        except ForbiddenError:
            raise _cannot_write(location) from None

    def _ends_with(self, location: str, offset: int, tail: bytes) -> bool:
        try:
            # one byte more, to see that the file ends there
            found = self.storage.read_range(location, offset, len(tail) + 1)
        except FileMissingError:
            return False
        if found != tail:
            raise NameTakenError(location)
        return True

    def read(self, location: str) -> bytes:
        """The bytes of a manifest or a manifest list, from memory if it was used lately.

        Raises:
            ArtifactLostError: it is missing.
            BoundExceededError: it is larger than `floecat.limits.manifest-bytes`.
            LocationNotAllowedError: the location is outside the allowed ones.
        """
        bounds = process_bounds.limits
        try:
            return self._read(location, bounds.manifest_bytes)
        except PayloadTooLargeError:
            problem = "it has more bytes than"
            raise exceeded(bounds, "manifest_bytes", f"artifact {location}", problem) from None

    @contextmanager
    def opened(self, location: str) -> Iterator[bytes]:
        """The bytes that `read` returns, for a block that decodes them; no two large artifacts at once."""
        try:
            data = self._read(location, min(_SMALL_BYTES, process_bounds.limits.manifest_bytes))
        except PayloadTooLargeError:
            pass
        else:
            yield data
            return
        with self._large_artifact:
            yield self.read(location)

    def _read(self, location: str, most_bytes: int) -> bytes:
        data = self._cache.get((self.owner, location))
        if data is not None:
            return data
        self.allowed.check(location)
        try:
            data = self.storage.read(location, max_bytes=most_bytes)
        except FileMissingError:
            raise ArtifactLostError(location) from None
        self._cache.put((self.owner, location), data, len(data))
        return data

    def sizes(self, folder: str, *, most: int | None = None) -> Mapping[str, int] | None:
        """Locations and sizes in bytes of all files in a folder; one request for a thousand of them.

        Args:
            most: how many files are listed at most.

        Returns:
            None if there are more.

        Raises:
            LocationNotAllowedError: the folder is outside the allowed locations.
        """
        self.allowed.check(folder)
        found = {entry.location: entry.size_bytes for entry in islice(self.storage.list(folder), most)}
        return found if most is None or len(found) < most else None

    def exist(self, locations: Sequence[str]) -> list[tuple[str, bool]]:
        """Whether each location has a file; one request each, several at a time."""
        return list(zip(locations, self.each(self.storage.exists, locations), strict=True))

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Calls `work` on every item, several at a time, for what mostly waits for storage."""
        if len(items) <= 1:
            return [work(item) for item in items]
        return list(self._threads.map(work, items))

    def close(self) -> None:
        """Ends the threads."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def _cannot_write(location: str) -> ForbiddenError:
    return ForbiddenError(
        f"Storage refuses to write {location}; what is made of Delta tables can lie elsewhere:"
        " floecat.gateway.delta-compat.location"
    )
