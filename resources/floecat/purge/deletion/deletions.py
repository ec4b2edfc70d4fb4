"""Deletes reachable files in batches, a file only after everything that it leads to."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Protocol

from floecat.errors import BadRequestError, LocationNotAllowedError, StorageUnavailableError
from floecat.fileio.base import DeleteFailure
from floecat.fileio.locations import is_plain_name, normalize_location
from floecat.purge.deletion.progress import PurgeProgress
from floecat.purge.sharing.location_set import LocationSet
from floecat.purge.sharing.manifest_files import FileKind, ReachableFile
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["Deletions", "Kept"]

_PAUSES_S: Final = (0.1, 0.5)
"""Pauses before the second and the third call for files that the one before left."""

_MOST_FOLDERS: Final = 4096

_QUICK_S: Final = 200e-6
"""A file system that deletes a file in less is a local disk, where threads only get in each other's way."""


class Kept(Protocol):
    """Files that must stay, as `floecat.purge.sharing.kept_files.KeptFiles` has them."""

    def batch(self) -> AbstractContextManager[None]:
        """A block in which files are deleted: what it holds there stays."""
        ...

    def __contains__(self, location: str, /) -> bool: ...


class Deletions:
    """Collects files, leaves first, and deletes them in that order, many in one call to storage.

    A context that ends its threads.
    """

    def __init__(
        self,
        storage: CatalogStorage,
        kept: Kept,
        *,
        batch_size: int,
        before_batch: Callable[[], None],
        progress: PurgeProgress,
        threads: int = 1,
        keeps_data: bool = False,
        renew: Callable[[], CatalogStorage] | None = None,
    ) -> None:
        """Starts with nothing to delete.

        Args:
            storage: of the catalog; nothing outside its allowed locations is ever deleted.
            kept: files that live tables need; each batch asks again.
            batch_size: files in one call to storage.
            before_batch: called before calls that delete; raises if the deletion must stop.
            progress: where files are counted.
            threads: calls to storage at a time.
            keeps_data: whether data and delete files stay.
            renew: finds the storage again, with the keys of this moment, before files are tried again.
        """
        self._storage = storage
        self._kept = kept
        self._batch_size = batch_size
        self._before_batch = before_batch
        self._pending: dict[FileKind, list[ReachableFile]] = {kind: [] for kind in FileKind}
        self._pending_count = 0
        self._blocked = LocationSet()
        self._allowed_folders: dict[str, bool] = {}
        self._progress = progress
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="delete")
        self._is_quick = True
        self._keeps_data = keeps_data
        self._renew = renew
        self._worked_until = time.monotonic()

    def __enter__(self) -> Deletions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._blocked.close()

    def add(self, file: ReachableFile) -> None:
        """Adds the next file, after every file that it leads to."""
        self._progress.found += 1
        if not file.complete:
            self._block(file.location)
        if self._keeps_data and file.kind is FileKind.DATA:
            self._progress.gc_disabled += 1
            return
        self._pending[file.kind].append(file)
        self._pending_count += 1
        if self._pending_count >= self._batch_size * self._threads:
            self.flush()

    def flush(self) -> None:
        """Deletes the files added so far, kind by kind, leaves first.

        Raises:
            StorageUnavailableError: storage does not answer at all.
        """
        if self._pending_count == 0:
            return
        with self._kept.batch():
            # links may have been made since the last batch
            self._allowed_folders.clear()
            for kind, pending in self._pending.items():
                self._pending[kind] = []
                self._delete([file for file in pending if self._may_go(file) and self._has_no_leaves(file)])
        self._pending_count = 0
        now = time.monotonic()
        self._progress.working_ms += int((now - self._worked_until) * 1000)
        self._worked_until = now

    def is_blocked(self, location: str) -> bool:
        """Whether something that a file leads to is still there."""
        return len(self._blocked) > 0 and location in self._blocked

    def _has_no_leaves(self, file: ReachableFile) -> bool:
        if not self.is_blocked(file.location):
            return True
        self._progress.waiting += 1
        self._block(file.parent)
        return False

    def _delete(self, files: Sequence[ReachableFile]) -> None:
        if not files:
            return
        left = self._call([file.location for file in files])
        for pause_s in _PAUSES_S:
            if not left:
                break
            passing = any(failure.passing for failure in left)
            if passing:
                time.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311
            if self._renew is not None:
                self._storage = self._renew()
            left = self._call([failure.location for failure in left])
            if not passing:
                break
        if len(left) == len(files) > 1 and all(failure.passing for failure in left):
            raise StorageUnavailableError(left[0].reason)
        for failure in left:
            self._progress.fail(failure.location, failure.reason)
        failed = {failure.location for failure in left}
        for file in files:
            if file.location in failed:
                self._block(file.parent)
            else:
                self._progress.deleted += 1
                self._progress.bytes += file.size_bytes

    def _call(self, locations: Sequence[str]) -> list[DeleteFailure]:
        """Deletes files in calls of at most a batch each; returns what is left."""
        self._before_batch()
        starts = range(0, len(locations), self._batch_size)
        batches = [locations[start : start + self._batch_size] for start in starts]
        left: list[DeleteFailure] = []
        is_local = normalize_location(locations[0]).scheme == "file"
        while batches and (len(batches) == 1 or (is_local and self._is_quick)):
            left += self._timed(batches.pop(0))
        calls = [self._pool.submit(self._storage.delete_many, batch) for batch in batches]
        wait(calls)  # none may go on behind the batch
        return left + [failure for call in calls for failure in call.result().failures]

    def _timed(self, locations: Sequence[str]) -> Sequence[DeleteFailure]:
        started = time.perf_counter()
        failures = self._storage.delete_many(locations).failures
        self._is_quick = time.perf_counter() - started < _QUICK_S * len(locations)
        return failures

    def _block(self, location: str | None) -> None:
        if location is not None:
            self._blocked.add(location)

    def _may_go(self, file: ReachableFile) -> bool:
        if not self._is_allowed(file.location):
            self._progress.outside += 1
        elif file.location in self._kept:
            self._progress.shared += 1
        else:
            return True
        return False

    def _is_allowed(self, location: str) -> bool:
        """Whether the folder is allowed: of a link in it, the link is deleted and not what it leads to."""
        folder, _, name = location.rpartition("/")
        if not is_plain_name(name):
            return self._is_allowed_now(location)
        is_allowed = self._allowed_folders.get(folder)
        if is_allowed is None:
            # millions of files lie in few folders
            if len(self._allowed_folders) >= _MOST_FOLDERS:
                self._allowed_folders.clear()
            is_allowed = self._allowed_folders[folder] = self._is_allowed_now(f"{folder}/_")
        return is_allowed

    def _is_allowed_now(self, location: str) -> bool:
        try:
            self._storage.allowed.check(location)
        except (LocationNotAllowedError, BadRequestError):
            return False
        return True
