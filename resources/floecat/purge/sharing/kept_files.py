"""The files of a dropped table that others need, while the dropped table is purged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from floecat.errors import UnavailableError
from floecat.fileio.locations import Location, same_file_location
from floecat.purge.sharing.location_set import FileKeys, LocationSet

__all__ = ["BatchTurns", "KeptFiles", "KeptKeys"]

_LOOKS_AFTER_S = 0.02
_LONGEST_WAIT_S = 60.0


@dataclass(frozen=True)
class KeptKeys:
    """Files that must stay, for other processes."""

    keys: frozenset[bytes] = frozenset()
    """Keys of `floecat.purge.sharing.location_set.FileKeys`."""
    folders: tuple[Location, ...] = ()
    _key_of: FileKeys = field(default_factory=FileKeys, compare=False)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """See `Kept.batch`: the worker asks again between rounds."""
        self._key_of.forget()
        yield

    def __contains__(self, location: str) -> bool:
        if self.keys and self._key_of(location) in self.keys:
            return True
        return bool(self.folders) and any(
            folder.contains(same_file_location(location)) for folder in self.folders
        )


class BatchTurns(Protocol):
    """The announcement of batches to commits: see `store.jobs.purge_batches`."""

    def begin(self) -> bool:
        """Announces a batch; False if commits go first."""
        ...

    def end(self) -> None:
        """Ends it."""
        ...


class KeptFiles:
    """A set of files that must stay. It grows: tables are committed to while a purge runs.

    Used by one thread, as a context that frees the set.
    """

    def __init__(
        self, files: LocationSet, catch_up: Callable[[LocationSet], object], turns: BatchTurns | None
    ) -> None:
        """Takes the files to begin with.

        Args:
            catch_up: adds what was committed since the last call.
            turns: announce batches; `None` for a purge without a job, beside which nothing may be committed.
        """
        self._files = files
        self._catch_up = catch_up
        self._turns = turns

    @contextmanager
    def batch(self) -> Iterator[None]:
        """A block in which files are deleted, except those that the set holds in the block.

        Raises:
            LeaseLostError: the job is another worker's.
            SharedFilesUnknownError: a table that was committed to cannot be read.
            UnavailableError: commits kept the batch waiting.
        """
        # most of it is read before commits have to wait
        self._catch_up(self._files)
        if self._turns is None:
            self._files.forget_links()
            yield
            return
        self._begin(self._turns)
        try:
            self._catch_up(self._files)
            self._files.forget_links()
            yield
        finally:
            self._turns.end()

    def _begin(self, turns: BatchTurns) -> None:
        ends_at = time.monotonic() + _LONGEST_WAIT_S
        while not turns.begin():
            if time.monotonic() >= ends_at:
                raise UnavailableError("Commits to tables that may share files keep the purge waiting")
            time.sleep(_LOOKS_AFTER_S)

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
