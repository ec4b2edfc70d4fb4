"""Files in S3, Google Cloud Storage and Azure Data Lake Storage."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import obstore

from floecat.errors import BadRequestError, FloecatError, PayloadTooLargeError, StorageUnavailableError
from floecat.fileio.base import (
    Counters,
    DeleteFailure,
    DeleteOutcome,
    FileEntry,
    check_range,
    read_merged,
    too_large,
)
from floecat.fileio.buckets import Bucket, Buckets
from floecat.fileio.locations import AllowedLocations, Location, normalize_location
from floecat.fileio.object_failures import OBJECT_STORE_ERRORS, FailureKind, failure_kind, object_failure
from floecat.fileio.options import ObjectStoreOptions

if TYPE_CHECKING:
    from obstore import ObjectMeta

__all__ = ["MAX_BULK_DELETE", "ObjectStoreFileIO"]

MAX_BULK_DELETE: Final = 1000
"""Files that are deleted together: the most that a bulk request of S3 takes."""

_MAX_BULK: Final = {"s3": MAX_BULK_DELETE, "abfss": 256}

_LIST_PAGE: Final = 1000
_LARGE_FILE_BYTES: Final = 8 << 20
_LARGE_BATCH: Final = 100
_DELETES_AT_ONCE: Final = 16
_FIRST_BACKOFF_S: Final = 0.05
_LAST_BACKOFF_S: Final = 1.0


class ObjectStoreFileIO:
    """`FileIO` of object storage; one client for each bucket."""

    def __init__(
        self, options: ObjectStoreOptions | None = None, *, counters: Counters | None = None
    ) -> None:
        """Opens object storage. Nothing is sent before the first call.

        Args:
            options: how it is reached.
            counters: where to count; own counters by default.
        """
        self._options = options or ObjectStoreOptions()
        self._buckets = Buckets(self._options)
        self.counters: Final = counters or Counters()

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """See `FileIO.read`."""
        found, bucket = self._find(location)
        self.counters.add("reads")
        try:
            result = obstore.get(bucket, found.key)
            if max_bytes is not None and result.meta["size"] > max_bytes:
                raise too_large(found, max_bytes, result.meta["size"])
            data = result.bytes().to_bytes()
        except OBJECT_STORE_ERRORS as error:
            raise object_failure(error, found, reading=True) from None
        self.counters.add("bytes_read", number=len(data))
        return data

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """See `FileIO.read_range`."""
        found, bucket = self._find(location)
        check_range(offset, length)
        return self._read_range(found, bucket, offset, length) if length else b""

    def read_ranges(self, location: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `FileIO.read_ranges`."""
        found, bucket = self._find(location)
        # The client can fetch several ranges itself, and crashes if one starts after the end of the file.
        return read_merged(ranges, lambda offset, length: self._read_range(found, bucket, offset, length))

    def write_new(
        self,
        location: str,
        data: bytes,
        *,
        unique_name: bool = False,
        allowed: AllowedLocations | None = None,
    ) -> None:
        """See `FileIO.write_new`."""
        found = _file_location(location, allowed)
        if unique_name:
            self._write(found, data)
        else:
            self._write_if_absent(found, data)
        self.counters.add("bytes_written", number=len(data))

    def exists(self, location: str) -> bool:
        """See `FileIO.exists`."""
        found, bucket = self._find(location)
        self.counters.add("lookups")
        try:
            obstore.head(bucket, found.key)
        except OBJECT_STORE_ERRORS as error:
            if failure_kind(error) is FailureKind.MISSING:
                return False
            raise object_failure(error, found) from None
        return True

    def delete(self, location: str) -> None:
        """See `FileIO.delete`."""
        found, bucket = self._find(location)
        self.counters.add("deletes")
        try:
            obstore.delete(bucket, found.key)
        except OBJECT_STORE_ERRORS as error:
            if failure_kind(error) is not FailureKind.MISSING:
                raise object_failure(error, found) from None

    def delete_many(self, locations: Iterable[str], allowed: AllowedLocations | None = None) -> DeleteOutcome:  # noqa: ARG002
        """See `FileIO.delete_many`."""
        deletion = _BulkDeletion(self._buckets, self.counters)
        for location in locations:
            deletion.add(location)
        return deletion.finish()

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[FileEntry]:
        """See `FileIO.list`."""
        found = normalize_location(prefix)
        return self._entries(found, self._buckets.get(found), start_after)

    def list_folders(self, prefix: str) -> Sequence[str]:
        """See `FileIO.list_folders`."""
        found = normalize_location(prefix)
        bucket = self._buckets.get(found)
        self.counters.add("lists")
        try:
            # with Arrow, the files beside the folders take a third of the memory
            listed = obstore.list_with_delimiter(bucket, found.key or None, return_arrow=True)
        except OBJECT_STORE_ERRORS as error:
            raise object_failure(error, found) from None
        return [str(found._replace(path=f"/{key.strip('/')}")) for key in sorted(listed["common_prefixes"])]

    def make_directory(self, *locations: str, allowed: AllowedLocations | None = None) -> None:
        """Does nothing but check the locations: object storage has no folders."""
        for location in locations:
            self._buckets.get(_normalized(location, allowed))

    def _find(self, location: str) -> tuple[Location, Bucket]:
        found = _file_location(location)
        return found, self._buckets.get(found)

    def _read_range(self, found: Location, bucket: Bucket, offset: int, length: int) -> bytes:
        self.counters.add("reads")
        try:
            data = obstore.get_range(bucket, found.key, start=offset, length=length).to_bytes()
        except OBJECT_STORE_ERRORS as error:
            if failure_kind(error) is FailureKind.OTHER and self._ends_before(found, bucket, offset):
                return b""
            raise object_failure(error, found, reading=True) from None
        self.counters.add("bytes_read", number=len(data))
        return data

    def _ends_before(self, found: Location, bucket: Bucket, offset: int) -> bool:
        # Servers refuse a range that starts after the end of a file, each in its own words.
        self.counters.add("lookups")
        try:
            return obstore.head(bucket, found.key)["size"] <= offset
        except OBJECT_STORE_ERRORS as error:
            raise object_failure(error, found, reading=True) from None

    def _entries(self, folder: Location, bucket: Bucket, start_after: str | None) -> Iterator[FileEntry]:
        offset = f"{folder.key}/{start_after}".removeprefix("/") if start_after else None
        pages = iter(obstore.list(bucket, folder.key or None, offset=offset, chunk_size=_LIST_PAGE))
        self.counters.add("lists")
        page = _next_page(pages, folder)
        while page:
            for entry in page:
                # Some tools mark a folder by an empty object; below the folder itself there is no such file.
                # Not every server starts where it is asked to.
                if entry["path"] != folder.key and (offset is None or entry["path"] > offset):
                    where = folder._replace(path=f"/{entry['path']}")
                    modified_at_ms = int(entry["last_modified"].timestamp() * 1000)
                    yield FileEntry(str(where), entry["size"], modified_at_ms)
            page = _next_page(pages, folder)
            if page:
                self.counters.add("lists")

    def _write(self, found: Location, data: bytes) -> None:
        """Writes without a look; a retry of the client writes the same bytes."""
        bucket = self._buckets.get(found, patient=len(data) > _LARGE_FILE_BYTES)
        self.counters.add("writes")
        try:
            obstore.put(bucket, found.key, data, use_multipart=False)
        except OBJECT_STORE_ERRORS as error:
            raise object_failure(error, found) from None

    def _write_if_absent(self, found: Location, data: bytes) -> None:
        # The client's own retries would report a file that an earlier try wrote as one that was there before.
        bucket = self._buckets.get(found, retrying=False, patient=len(data) > _LARGE_FILE_BYTES)
        deadline = time.monotonic() + self._options.answer_timeout_s
        self.counters.add("writes")
        for tries in range(self._options.max_retries + 1):
            try:
                obstore.put(bucket, found.key, data, mode="create", use_multipart=False)
            except OBJECT_STORE_ERRORS as error:
                kind = failure_kind(error)
                if kind is FailureKind.EXISTS and tries and self._holds(found, data):
                    break
                if kind is not FailureKind.PASSING or not self._may_retry(tries, deadline):
                    raise object_failure(error, found) from None
            else:
                break

    def _holds(self, location: Location, data: bytes) -> bool:
        try:
            return self.read(str(location), max_bytes=len(data)) == data
        except PayloadTooLargeError:
            return False

    def _may_retry(self, tries: int, deadline: float) -> bool:
        pause_s = min(_LAST_BACKOFF_S, _FIRST_BACKOFF_S * 2**tries) * random.uniform(0.5, 1.0)  # noqa: S311
        if tries >= self._options.max_retries or time.monotonic() + pause_s > deadline:
            return False
        time.sleep(pause_s)
        return True


class _BulkDeletion:
    """Collects files by bucket and deletes them in full batches."""

    def __init__(self, buckets: Buckets, counters: Counters) -> None:
        self._buckets = buckets
        self._counters = counters
        self._batches: dict[tuple[str, str], list[tuple[str, Location]]] = {}
        self._deleted = 0
        self._failures: list[DeleteFailure] = []

    def add(self, location: str) -> None:
        try:
            found = _file_location(location)
            self._buckets.get(found)
        except FloecatError as error:
            self._failures.append(DeleteFailure(location, error.message))
            return
        batch = self._batches.setdefault((found.scheme, found.authority), [])
        batch.append((location, found))
        if len(batch) == MAX_BULK_DELETE:
            self._delete(batch)
            batch.clear()

    def finish(self) -> DeleteOutcome:
        for batch in self._batches.values():
            self._delete(batch)
        return DeleteOutcome(self._deleted, tuple(self._failures))

    def _delete(self, batch: list[tuple[str, Location]]) -> None:
        if not batch:
            return
        scheme = batch[0][1].scheme
        if scheme == "gs":  # has no bulk requests
            self._delete_one_by_one(batch)
            return
        self._counters.add("deletes", number=-(-len(batch) // _MAX_BULK[scheme]))
        try:
            bucket = self._buckets.get(batch[0][1], patient=len(batch) > _LARGE_BATCH)
            obstore.delete(bucket, [found.key for _, found in batch])
        except OBJECT_STORE_ERRORS as error:
            self._delete_in_halves(batch, error)
        else:
            self._deleted += len(batch)

    def _delete_in_halves(self, batch: list[tuple[str, Location]], error: BaseException) -> None:
        """Finds out which files a failure is about; the others may be gone already, which is fine."""
        kind = failure_kind(error)
        if kind is FailureKind.MISSING:
            self._delete_one_by_one(batch)
        elif kind in (FailureKind.PART_OF_BATCH, FailureKind.BAD_NAME) and len(batch) > 1:
            middle = len(batch) // 2
            self._delete(batch[:middle])
            self._delete(batch[middle:])
        else:
            for location, found in batch:
                self._failed(location, found, error)

    def _delete_one_by_one(self, batch: list[tuple[str, Location]]) -> None:
        """Deletes where a missing file is a failure, which says nothing about the others of a batch."""
        bucket = self._buckets.get(batch[0][1])
        for (location, found), error in zip(batch, asyncio.run(_delete_each(bucket, batch)), strict=True):
            self._counters.add("deletes")
            if error is None or failure_kind(error) is FailureKind.MISSING:
                self._deleted += 1
            else:
                self._failed(location, found, error)

    def _failed(self, location: str, found: Location, error: BaseException) -> None:
        failure = object_failure(error, found)
        passing = isinstance(failure, StorageUnavailableError)
        self._failures.append(DeleteFailure(location, failure.message, passing))


async def _delete_each(bucket: Bucket, batch: list[tuple[str, Location]]) -> list[BaseException | None]:
    turns = asyncio.Semaphore(_DELETES_AT_ONCE)

    async def delete(key: str) -> None:
        async with turns:
            await obstore.delete_async(bucket, key)

    return await asyncio.gather(*(delete(found.key) for _, found in batch), return_exceptions=True)


def _next_page(pages: Iterator[Sequence[ObjectMeta]], folder: Location) -> Sequence[ObjectMeta]:
    try:
        return next(pages, ())
    except OBJECT_STORE_ERRORS as error:
        raise object_failure(error, folder) from None


def _normalized(location: str, allowed: AllowedLocations | None) -> Location:
    return normalize_location(location) if allowed is None else allowed.check_text(location)


def _file_location(location: str, allowed: AllowedLocations | None = None) -> Location:
    found = _normalized(location, allowed)
    if not found.path:
        raise BadRequestError(f"Location names no file: {found}")
    return found
