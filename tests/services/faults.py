"""Storage that fails or hangs at a chosen call, around a real one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias, TypeVar

from floecat.errors import StorageUnavailableError
from floecat.fileio.base import Counters, DeleteFailure, DeleteOutcome, FileEntry, FileIO
from floecat.fileio.locations import AllowedLocations

__all__ = ["FaultyFileIO", "Hang", "Kind", "When"]

T = TypeVar("T")

Kind: TypeAlias = Literal[
    "read",
    "read_range",
    "read_ranges",
    "write_new",
    "exists",
    "delete",
    "delete_many",
    "list",
    "list_folders",
    "make_directory",
]
"""The methods of `FileIO`. A listing counts as one call, made when it is started."""

When: TypeAlias = Literal["before", "after"]
"""Whether the call had its effect when it fails."""


class Hang:
    """A call that waits in the middle of a test."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        """Set when the call is there."""
        self._released = threading.Event()

    def release(self) -> None:
        """Lets the call go on."""
        self._released.set()

    def wait(self) -> None:
        self.reached.set()
        if not self._released.wait(60):
            raise AssertionError("A hanging call was never released")


class FaultyFileIO:
    """A `FileIO` with faults. Thread-safe; without faults it does just what the inner one does.

    files = FaultyFileIO(inner)
    files.fail("write_new", nth=2, when="after")      # the second write from now happens, and raises
    hang = files.hang("delete_many")                  # the next bulk delete waits for hang.release()
    files.refuse("/data/")                            # whatever concerns such a location fails
    """

    def __init__(self, inner: FileIO) -> None:
        self.inner = inner
        self.calls: list[tuple[Kind, str]] = []
        """Kind and location of every call so far; the location of a bulk delete is empty."""
        self._lock = threading.Lock()
        self._made: dict[Kind, int] = {}
        self._faults: dict[tuple[Kind, int, When], Callable[[], None]] = {}
        self._refused: list[str] = []

    @property
    def counters(self) -> Counters:
        return self.inner.counters

    def fail(
        self,
        kind: Kind,
        *,
        nth: int = 1,
        times: int = 1,
        when: When = "before",
        error: Exception | None = None,
    ) -> None:
        """Makes calls raise.

        Args:
            kind: which calls.
            nth: the first that raises, counted from now; 1 is the next.
            times: how many raise in a row.
            when: before or after the effect.
            error: what they raise; by default that storage does not answer.
        """

        def raise_it() -> None:
            raise error or StorageUnavailableError("Storage did not answer in time (injected)")

        for offset in range(times):
            self._add(kind, nth + offset, when, raise_it)

    def hang(self, kind: Kind, *, nth: int = 1, when: When = "before") -> Hang:
        """Makes a call wait until the test releases it; arguments as for `fail`."""
        hang = Hang()
        self._add(kind, nth, when, hang.wait)
        return hang

    def refuse(self, text: str) -> None:
        """Makes every call fail whose location holds the text; in a bulk delete those files are reported."""
        self._refused.append(text)

    def clear(self) -> None:
        """Takes back every fault that did not happen yet."""
        with self._lock:
            self._faults.clear()
            self._refused.clear()

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        return self._call("read", location, lambda: self.inner.read(location, max_bytes=max_bytes))

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        return self._call("read_range", location, lambda: self.inner.read_range(location, offset, length))

    def read_ranges(self, location: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return self._call("read_ranges", location, lambda: self.inner.read_ranges(location, ranges))

    def write_new(
        self,
        location: str,
        data: bytes,
        *,
        unique_name: bool = False,
        allowed: AllowedLocations | None = None,
    ) -> None:
        self._call(
            "write_new",
            location,
            lambda: self.inner.write_new(location, data, unique_name=unique_name, allowed=allowed),
        )

    def exists(self, location: str) -> bool:
        return self._call("exists", location, lambda: self.inner.exists(location))

    def delete(self, location: str) -> None:
        self._call("delete", location, lambda: self.inner.delete(location))

    def delete_many(self, locations: Iterable[str], allowed: AllowedLocations | None = None) -> DeleteOutcome:
        return self._call("delete_many", "", lambda: self._delete_allowed(list(locations), allowed))

    def list(self, prefix: str, *, start_after: str | None = None) -> Iterator[FileEntry]:
        return self._call("list", prefix, lambda: self.inner.list(prefix, start_after=start_after))

    def list_folders(self, prefix: str) -> Sequence[str]:
        return self._call("list_folders", prefix, lambda: self.inner.list_folders(prefix))

    def make_directory(self, *locations: str, allowed: AllowedLocations | None = None) -> None:
        self._call(
            "make_directory", locations[0], lambda: self.inner.make_directory(*locations, allowed=allowed)
        )

    def _add(self, kind: Kind, nth: int, when: When, fault: Callable[[], None]) -> None:
        with self._lock:
            self._faults[kind, self._made.get(kind, 0) + nth, when] = fault

    def _call(self, kind: Kind, location: str, work: Callable[[], T]) -> T:
        with self._lock:
            self.calls.append((kind, location))
            number = self._made[kind] = self._made.get(kind, 0) + 1
        self._happen(kind, number, "before")
        if self._is_refused(location):
            raise StorageUnavailableError(f"Storage failed (injected) at {location}")
        result = work()
        self._happen(kind, number, "after")
        return result

    def _happen(self, kind: Kind, number: int, when: When) -> None:
        with self._lock:
            fault = self._faults.pop((kind, number, when), None)
        if fault is not None:
            fault()

    def _is_refused(self, location: str) -> bool:
        return any(text in location for text in self._refused)

    def _delete_allowed(self, locations: Sequence[str], allowed: AllowedLocations | None) -> DeleteOutcome:
        refused = [DeleteFailure(each, "injected") for each in locations if self._is_refused(each)]
        outcome = self.inner.delete_many([each for each in locations if not self._is_refused(each)], allowed)
        return DeleteOutcome(outcome.deleted, (*outcome.failures, *refused))
