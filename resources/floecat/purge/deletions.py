"""Deletes reachable files in batches, a file only after everything that it leads to."""

from __future__ import annotations

from collections.abc import Callable

from floecat.errors import BadRequestError, LocationNotAllowedError
from floecat.purge.kept_files import KeptFiles
from floecat.purge.location_set import is_plain_name
from floecat.purge.progress import PurgeProgress
from floecat.purge.reachable_files import FileKind, ReachableFile
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["Deletions"]


class Deletions:
    """Collects files, leaves first, and deletes them in that order, many in one call to storage."""

    def __init__(
        self,
        storage: CatalogStorage,
        kept: KeptFiles,
        *,
        batch_size: int,
        before_batch: Callable[[], None],
        progress: PurgeProgress,
        keeps_data: bool = False,
    ) -> None:
        """Starts with nothing to delete.

        Args:
            storage: of the catalog; nothing outside its allowed locations is ever deleted.
            kept: files that live tables need; each batch asks again.
            batch_size: files in one call to storage.
            before_batch: called before each one; raises if the deletion must stop.
            progress: where files are counted.
            keeps_data: whether data and delete files stay.
        """
        self._storage = storage
        self._kept = kept
        self._batch_size = batch_size
        self._before_batch = before_batch
        self._pending: dict[FileKind, list[ReachableFile]] = {kind: [] for kind in FileKind}
        self._pending_count = 0
        self._blocked: set[str] = set()
        self._allowed_folder: str | None = None
        self._progress = progress
        self._keeps_data = keeps_data

    def add(self, file: ReachableFile) -> None:
        """Adds the next file, after every file that it leads to."""
        self._progress.found += 1
        if not file.complete:
            self._block(file.location)
        if self._may_go(file):
            self._pending[file.kind].append(file)
            self._pending_count += 1
            if self._pending_count >= self._batch_size:
                self.flush()

    def flush(self) -> None:
        """Deletes the files added so far, kind by kind, leaves first."""
        if self._pending_count == 0:
            return
        with self._kept.batch() as has_grown:
            for kind, pending in self._pending.items():
                doomed = [file for file in pending if not (has_grown and self._is_kept(file.location))]
                ready = [file for file in doomed if file.location not in self._blocked]
                for file in doomed:
                    if file.location in self._blocked:
                        self._progress.waiting += 1
                        self._block(file.parent)
                self._pending[kind] = []
                for start in range(0, len(ready), self._batch_size):
                    self._delete(ready[start : start + self._batch_size])
        self._pending_count = 0

    def _delete(self, batch: list[ReachableFile]) -> None:
        self._before_batch()
        outcome = self._storage.delete_many([file.location for file in batch])
        failed = {failure.location for failure in outcome.failures}
        self._progress.deleted += len(batch) - len(failed)
        for failure in outcome.failures:
            self._progress.fail(failure.location, failure.reason)
        for file in batch:
            if file.location in failed:
                self._block(file.parent)

    def _block(self, location: str | None) -> None:
        if location is not None:
            self._blocked.add(location)

    def _may_go(self, file: ReachableFile) -> bool:
        if self._keeps_data and file.kind is FileKind.DATA:
            self._progress.gc_disabled += 1
        elif not self._is_allowed(file.location):
            self._progress.outside += 1
        else:
            return not self._is_kept(file.location)
        return False

    def _is_kept(self, location: str) -> bool:
        if location in self._kept:
            self._progress.shared += 1
            return True
        return False

    def _is_allowed(self, location: str) -> bool:
        folder, _, name = location.rpartition("/")
        if folder == self._allowed_folder and is_plain_name(name):
            return True
        try:
            found = self._storage.allowed.check(location)
        except (LocationNotAllowedError, BadRequestError):
            return False
        # on the local disk a name can be a link, so each one is checked
        if found.scheme != "file" and is_plain_name(name):
            self._allowed_folder = folder
        return True
