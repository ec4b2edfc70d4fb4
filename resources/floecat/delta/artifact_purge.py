"""Purges the artifacts of a dropped Delta table, and never files of Delta.

Artifacts are found by their names in their folders, so that those which no metadata names are found too.
Files that name others are deleted first: if a purge stops halfway, all that a manifest list names still
exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from floecat.delta.artifacts.artifact_paths import ARTIFACT_FILE
from floecat.errors import InvalidMetadataError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.purge.kept_files import KeptFiles
from floecat.purge.live_tables import LiveTable
from floecat.purge.progress import PurgeProgress
from floecat.purge.shared_files import SharedFiles
from floecat.purge.table_purge import PurgeIncompleteError, PurgeTarget
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.documents import decompress

__all__ = ["ArtifactPurge"]

_FORMAT = "delta"


class ArtifactPurge:
    """Deletes artifacts. Safe to share between threads."""

    def __init__(self, shared: SharedFiles, *, batch_size: int) -> None:
        """`batch_size`: files in one call to storage."""
        self._shared = shared
        self._batch_size = batch_size

    def purge(
        self, target: PurgeTarget, before_batch: Callable[[], None], progress: PurgeProgress
    ) -> PurgeProgress:
        """Deletes the artifacts of a table. Can be repeated.

        Args:
            target: the table.
            before_batch: called before each call that deletes; raises to stop.
            progress: where files are counted.

        Raises:
            PurgeIncompleteError: some files could not be deleted.
            SharedFilesUnknownError: a live table that may need artifacts cannot be read; nothing was deleted.
            LocationNotAllowedError: a folder of artifacts is located outside the allowed locations.
            StorageUnavailableError: storage fails.
        """
        folders, storage = _folders(target), target.storage.with_artifacts
        for folder in folders:
            storage.allowed.check(folder)
        with self._shared.collect_in(
            storage, target.table_uuid, folders, _shared_folder, target.lease
        ) as kept:
            doomed = list(self._unshared(storage, folders, kept, progress))
            doomed.sort(key=_before_what_it_names)
            for start in range(0, len(doomed), self._batch_size):
                chunk = doomed[start : start + self._batch_size]
                with kept.batch():
                    batch = [location for location in chunk if location not in kept]
                    progress.shared += len(chunk) - len(batch)
                    self._delete(storage, batch, progress, before_batch)
        return progress

    def _unshared(
        self, storage: CatalogStorage, folders: Sequence[str], kept: KeptFiles, progress: PurgeProgress
    ) -> Iterator[str]:
        for folder in folders:
            for entry in storage.files(folder).list(folder):
                parent, _, name = entry.location.rpartition("/")
                if parent != folder or ARTIFACT_FILE.fullmatch(name) is None:
                    continue
                progress.found += 1
                if entry.location in kept:
                    progress.shared += 1
                else:
                    yield entry.location

    def _delete(
        self,
        storage: CatalogStorage,
        batch: list[str],
        progress: PurgeProgress,
        before_batch: Callable[[], None],
    ) -> None:
        before_batch()
        outcome = storage.delete_many(batch)
        for failure in outcome.failures:
            progress.fail(failure.location, failure.reason)
        progress.deleted += len(batch) - len(outcome.failures)
        if outcome.failures:
            reason = f"files could not be deleted, the first because: {outcome.failures[0].reason}"
            raise PurgeIncompleteError(reason)


def _shared_folder(table: LiveTable) -> str | None:
    # two entries of one Delta table share their artifacts, and no other files
    return _artifact_folder(table) if table.format == _FORMAT else None


def _artifact_folder(table: LiveTable) -> str:
    return table.metadata_location.rpartition("/")[0]


def _folders(target: PurgeTarget) -> list[str]:
    """The folders of the artifacts of a table, those made under other settings included."""
    folders = {target.metadata_location.rpartition("/")[0]}
    if target.document is not None:
        with suppress(InvalidMetadataError):  # the table has not been read yet
            for snapshot in TableMetadata.parse(decompress(target.document)).snapshots:
                folder, _, name = (snapshot.manifest_list or "").rpartition("/")
                if ARTIFACT_FILE.fullmatch(name) is not None:
                    folders.add(folder)
    return sorted(folders)


def _before_what_it_names(location: str) -> tuple[int, str]:
    name = location.rpartition("/")[2]
    if name.endswith(".metadata.json"):
        return (0, name)
    if name.startswith("snap-"):
        return (1, name)
    return (2, name)
