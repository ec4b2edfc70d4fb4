"""Interface of storage, of whatever kind, for the kernel, and code that its implementations share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from floecat.errors import PayloadTooLargeError
from floecat.fileio.locations import AllowedLocations

__all__ = [
    "Counters",
    "Counts",
    "DeleteFailure",
    "DeleteOutcome",
    "FileEntry",
    "FileIO",
    "check_range",
    "read_merged",
    "too_large",
]

LARGEST_GAP: Final = 1024 * 1024
"""Largest number of unwanted bytes read between two ranges to save a request."""


class FileEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """A file that a listing found."""

    location: str
    """Location of the file, normalized."""

    size_bytes: int
    modified_at_ms: int


class DeleteFailure(msgspec.Struct, frozen=True):
    """A file that may still be there."""

    location: str
    """Location as the caller wrote it."""

    reason: str
    """Reason in one sentence, without credentials."""

    passing: bool = False
    """Storage failed or did not answer, so that the reason need not be the file."""


class DeleteOutcome(msgspec.Struct, frozen=True):
    """The result of a bulk delete."""

    deleted: int
    """Files that are gone now, whether or not they were there before."""

    failures: tuple[DeleteFailure, ...] = ()
    """The others."""


class Counts(msgspec.Struct, frozen=True):
    """Requests sent to storage, and the bytes of files in them. Retries of a request are not counted."""

    reads: int = 0
    writes: int = 0
    lookups: int = 0
    """Calls of `FileIO.exists`."""
    deletes: int = 0
    """A bulk request is one, however many files it names."""
    lists: int = 0
    """Pages of a listing."""
    directories: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def calls(self) -> int:
        """Requests of every kind."""
        return self.reads + self.writes + self.lookups + self.deletes + self.lists + self.directories

    def __sub__(self, earlier: Counts) -> Counts:
        """The counts since `earlier`."""
        names = self.__struct_fields__
        return Counts(**{name: getattr(self, name) - getattr(earlier, name) for name in names})


class Counters:
    """Counts that all threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values = dict.fromkeys(Counts.__struct_fields__, 0)

    def add(self, kind: str, *, number: int = 1) -> None:
        """Adds to one field of `Counts`.

        Args:
            kind: the name of the field.
            number: how much to add.
        """
        with self._lock:
            self._values[kind] += number

    @property
    def counts(self) -> Counts:
        """The numbers so far."""
        with self._lock:
            return Counts(**self._values)


class FileIO(Protocol):
    """Files by location. Every call ends within the configured times, or raises.

    Callers check locations against the allowed ones first (`floecat.fileio.locations.AllowedLocations`).
    All methods may raise, beside what they name:

    - BadRequestError: the location is malformed, or of a scheme that this storage does not serve.
    - StorageRefusedError: storage refuses access.
    - StorageUnavailableError: storage fails, is full, or does not answer in time.
    """

    @property
    def counters(self) -> Counters:
        """The counts of all calls so far."""
        ...

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The content of a file.

        Args:
            max_bytes: the largest content to take.

        Raises:
            FileMissingError: there is no such file.
            PayloadTooLargeError: it is larger than `max_bytes`; its `size_bytes` is that of the file.
        """
        ...

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of a file. Fewer bytes come if the file ends within the range, none if it ends before it.

        Args:
            offset: the first byte.
            length: how many bytes. Of 0 bytes nothing is sent to storage.

        Raises:
            FileMissingError: there is no such file.
            ValueError: offset or length is negative.
        """
        ...

    def read_ranges(self, location: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Parts of a file, in as few requests as their distance allows.

        Args:
            ranges: offsets and lengths as of `read_range`, in any order; they may overlap.

        Returns:
            The bytes of each range, in the order of `ranges`.

        Raises:
            FileMissingError: there is no such file.
            ValueError: an offset or a length is negative.
        """
        ...

    def write_new(
        self,
        location: str,
        data: bytes,
        *,
        unique_name: bool = False,
        allowed: AllowedLocations | None = None,
    ) -> None:
        """Writes a file that does not exist. It is durable when this returns, and is never seen in part.

        After StorageUnavailableError the file may or may not be there.

        Args:
            data: what it will hold.
            unique_name: whether no other writer can pick this name, because it holds a random UUID. Object
                storage then skips the check for a file of that name; some lock the name for it.
            allowed: checks the location, in place of the caller. On the local disk, the folder that is
                written to is checked after it is opened, so that links made later lead nowhere.

        Raises:
            LocationNotAllowedError: the location is outside of `allowed`.
            AlreadyExistsError: there is such a file. It was not touched.
        """
        ...

    def exists(self, location: str) -> bool:
        """Whether there is a file at the location. A folder does not count."""
        ...

    def delete(self, location: str) -> None:
        """Deletes a file; one that is missing is no error."""
        ...

    def delete_many(self, locations: Iterable[str], allowed: AllowedLocations | None = None) -> DeleteOutcome:
        """Deletes files in as few requests as storage allows; streams its input.

        What fails for single files, as a malformed location or a refusal, is reported and not raised.

        Args:
            locations: of the files, which the caller has checked.
            allowed: what they were checked by. On the local disk, a folder that links lead outside of it by
                then is refused.
        """
        ...

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[FileEntry]:
        """Every file below a folder, at any depth, in no particular order; none if it is missing.

        Args:
            prefix: the folder. ``s3://b/t`` and ``s3://b/t/`` are the same; neither covers ``s3://b/t2``.
            start_after: a name directly below the folder. Only files whose path below the folder sorts after
                it are listed, and what comes before costs little. Of a folder whose name does not sort after
                it, some storage leaves out the files altogether.
        """
        ...

    def list_folders(self, prefix: str) -> Sequence[str]:
        """Normalized locations of the folders directly below a folder, in order; empty if it is missing.

        Their content is not listed.

        Args:
            prefix: the folder, as for `list`.
        """
        ...

    def make_directory(self, *locations: str, allowed: AllowedLocations | None = None) -> None:
        """Makes folders and their parents where the storage has folders; otherwise does nothing.

        They are durable when this returns. Together they cost less than one by one.

        Args:
            locations: of the folders.
            allowed: checks them, as of `write_new`.

        Raises:
            LocationNotAllowedError: one of them is outside of `allowed`.
        """
        ...


def too_large(location: object, max_bytes: int | None, size_bytes: int) -> PayloadTooLargeError:
    """The error for a file that is larger than the caller takes."""
    error = PayloadTooLargeError(f"File is larger than {max_bytes} bytes: {location}")
    error.size_bytes = size_bytes
    return error


def check_range(offset: int, length: int) -> None:
    """Checks that a range of a file is valid.

    Raises:
        ValueError: offset or length is negative.
    """
    if offset < 0 or length < 0:
        raise ValueError("A range of a file has no negative offset and no negative length")


def read_merged(ranges: Sequence[tuple[int, int]], read: Callable[[int, int], bytes]) -> list[bytes]:
    """Reads ranges of one file, those that lie close to each other in one go.

    Args:
        ranges: offsets and lengths, in any order; they may overlap.
        read: reads one range; gives fewer bytes if the file ends before.

    Returns:
        The bytes of each range, in the order of `ranges`.
    """
    parts = [b""] * len(ranges)
    for span_offset, span_end, members in _spans(ranges):
        data = read(span_offset, span_end - span_offset)
        for member in members:
            start = ranges[member][0] - span_offset
            parts[member] = data[start : start + ranges[member][1]]
    return parts


def _spans(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int, list[int]]]:
    spans: list[tuple[int, int, list[int]]] = []
    for member in sorted(range(len(ranges)), key=ranges.__getitem__):
        offset, length = ranges[member]
        check_range(offset, length)
        if length == 0:
            continue
        if spans and offset - spans[-1][1] <= LARGEST_GAP:
            start, end, members = spans[-1]
            spans[-1] = (start, max(end, offset + length), [*members, member])
        else:
            spans.append((offset, offset + length, [member]))
    return spans
