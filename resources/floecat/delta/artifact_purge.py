"""Purges the artifacts of a dropped Delta table, and never files of Delta.

Artifacts are found by their names in their folders, so that those which no metadata names are found too.
Files that name others are deleted first: if a purge stops halfway, all that a manifest list names still
exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby

from floecat.delta.artifacts.artifact_paths import ARTIFACT_FILE
from floecat.errors import InvalidMetadataError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.purge.deletion.deletions import Deletions
from floecat.purge.deletion.progress import PurgeProgress
from floecat.purge.deletion.table_purge import PurgeIncompleteError, PurgeTarget
from floecat.purge.sharing.live_tables import LiveTable
from floecat.purge.sharing.manifest_files import FileKind, ReachableFile
from floecat.purge.sharing.shared_files import SharedFiles
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.entries.documents import decompress

__all__ = ["ArtifactPurge"]

_FORMAT = "delta"


class ArtifactPurge:
    """Deletes artifacts. Safe to share between threads."""

    def __init__(self, shared: SharedFiles, *, batch_size: int, threads: int = 1) -> None:
        """Puts it together.

        Args:
            shared: finds what live tables need.
            batch_size: files in one call to storage.
            threads: calls to storage at a time.
        """
        self._shared = shared
        self._batch_size = batch_size
        self._threads = threads

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
        renew = target.renew
        with (
            self._shared.collect_in(
                storage, target.table_uuid, folders, _shared_folder, target.lease
            ) as kept,
            Deletions(
                storage,
                kept,
                batch_size=self._batch_size,
                before_batch=before_batch,
                progress=progress,
                threads=self._threads,
                renew=None if renew is None else lambda: renew().with_artifacts,
            ) as deletions,
        ):
            found = sorted(_artifacts(storage, folders), key=_before_what_it_names)
            for _, together in groupby(found, _before_what_it_names):
                for artifact in together:
                    deletions.add(artifact)
                deletions.flush()
                if not progress.complete:
                    reason = progress.failed_keys[0].reason
                    raise PurgeIncompleteError(f"files could not be deleted, the first because: {reason}")
        return progress


def _artifacts(storage: CatalogStorage, folders: Sequence[str]) -> Iterator[ReachableFile]:
    for folder in folders:
        for entry in storage.files(folder).list(folder):
            parent, _, name = entry.location.rpartition("/")
            if parent == folder and ARTIFACT_FILE.fullmatch(name) is not None:
                yield ReachableFile(entry.location, FileKind.DATA, None, size_bytes=entry.size_bytes)


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


def _before_what_it_names(artifact: ReachableFile) -> int:
    name = artifact.location.rpartition("/")[2]
    if name.endswith(".metadata.json"):
        return 0
    return 1 if name.startswith("snap-") else 2
