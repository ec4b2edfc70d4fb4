"""Purges one dropped table: everything reachable from its metadata, except what others need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias
from uuid import UUID

import msgspec

from floecat.entries.formats import is_derived
from floecat.entries.metadata_files import MetadataFiles
from floecat.errors import (
    FileMissingError,
    FloecatError,
    ForbiddenError,
    InvalidMetadataError,
    LocationNotAllowedError,
)
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.normalization import read_metadata_file
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.purge.deletion.deletions import Deletions
from floecat.purge.deletion.progress import PurgeProgress
from floecat.purge.deletion.ranges import RangeRunner, Ranges
from floecat.purge.deletion.read_ahead import read_ahead
from floecat.purge.sharing.earlier_snapshots import NOTHING_EARLIER, Earlier, read_earlier
from floecat.purge.sharing.kept_files import KeptFiles
from floecat.purge.sharing.reachable_files import ReachableFiles
from floecat.purge.sharing.shared_files import SharedFiles
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.entries.documents import decompress
from floecat.store.jobs.job_claims import Lease

__all__ = [
    "GC_ENABLED",
    "DeferredPurge",
    "FormatPurge",
    "NoPurge",
    "PurgeIncompleteError",
    "PurgeTarget",
    "Sidecars",
    "TablePurge",
]


class PurgeTarget(msgspec.Struct, frozen=True):
    """A table whose files are to go."""

    table_uuid: str
    metadata_location: str
    storage: CatalogStorage
    document: bytes | None = None
    """The metadata file's content, as `store.entries.documents` compresses it, in case the file is lost."""
    format: str = "iceberg"
    """Format of the table; decides which of its files are deleted."""
    lease: Lease | None = None
    """Lease of the purge job. While held, commits that add files of this table wait for a batch under way."""
    renew: Callable[[], CatalogStorage] | None = None
    """Finds the storage again, with the keys of this moment; called when it refuses access."""
    entry_id: UUID | None = None
    """Id of the entry that was dropped."""


class FormatPurge(Protocol):
    """Purges tables of a format other than Iceberg."""

    def purge(
        self, target: PurgeTarget, before_batch: Callable[[], None], progress: PurgeProgress, /
    ) -> PurgeProgress:
        """Deletes the files that were made for the table here; see `TablePurge.purge`."""
        ...


class NoPurge:
    """The purge of tables whose files are all another catalog's."""

    def purge(
        self, _target: PurgeTarget, _before_batch: Callable[[], None], progress: PurgeProgress, /
    ) -> PurgeProgress:
        """Deletes nothing."""
        return progress


class PurgeIncompleteError(FloecatError):
    """Some files are left. They can be found again from the root metadata file, which is left too."""


Sidecars: TypeAlias = Callable[[PurgeTarget], Iterable[str]]
"""Locations of files of a table that its metadata does not name: sidecars of indexes, files of statistics.

They are deleted with the table, and those of a live table are no orphans. What the table metadata lists as
`statistics` and `partition-statistics` needs none."""


class DeferredPurge:
    """A `FormatPurge` that is opened by its first use. Safe to share between threads."""

    def __init__(self, open_purge: Callable[[], FormatPurge]) -> None:
        """Opens nothing: `open_purge` makes the purge, and threads may call it at the same time."""
        self._open = open_purge

    def purge(
        self, target: PurgeTarget, before_batch: Callable[[], None], progress: PurgeProgress, /
    ) -> PurgeProgress:
        """See `FormatPurge.purge`."""
        return self._open().purge(target, before_batch, progress)


GC_ENABLED = "gc.enabled"
"""Table property: `false` says that data files may belong to other tables too. They stay, and metadata
goes, as with `CatalogUtil.dropTableData` of the reference."""


class TablePurge:
    """Deletes the files of dropped tables. Safe to share between threads."""

    def __init__(
        self,
        metadata_files: MetadataFiles,
        shared: SharedFiles,
        *,
        batch_size: int,
        threads: int = 1,
        large_from: int | None = None,
        range_s: float = 60.0,
        bounds: Bounds = DEFAULT_BOUNDS,
        sidecars: Sequence[Sidecars] = (),
        others: Mapping[str, FormatPurge] = MappingProxyType({}),
    ) -> None:
        """Puts a purger together.

        Args:
            metadata_files: reads metadata files.
            shared: finds what live tables need.
            batch_size: files in one call to storage.
            threads: calls to storage at a time.
            large_from: number of files from which on a table is large; `None` if none is.
            range_s: how long a range of manifests may take that other processes delete.
            bounds: of manifest lists and manifests.
            sidecars: find further files of a table.
            others: purge tables of other formats than Iceberg, by name of the format.
        """
        self._metadata_files = metadata_files
        self._shared = shared
        self._batch_size = batch_size
        self._threads = threads
        self._large_from = large_from
        self._range_s = range_s
        self._bounds = bounds
        self._sidecars = sidecars
        self._others = others
        self._large_file = Lock()

    def purge(
        self,
        target: PurgeTarget,
        before_batch: Callable[[], None] = lambda: None,
        progress: PurgeProgress | None = None,
        *,
        runner: RangeRunner | None = None,
        if_large: Callable[[int], None] | None = None,
    ) -> PurgeProgress:
        """Deletes every file that the metadata reaches, leaves first and the root metadata file last.

        A table of another format is left to its `FormatPurge`.

        Can be repeated. If the root is missing, its stored document takes its place, if there is one.

        Args:
            target: the table.
            before_batch: called before each call that deletes; raises to stop.
            progress: where files are counted as they go; it starts empty by default.
            runner: deletes data files in other processes.
            if_large: called for a large table with the number of its files, by the counts of the manifest
                lists, before anything is deleted; raises to leave them to others.

        Returns:
            The progress.

        Raises:
            PurgeIncompleteError: some files could not be deleted.
            SharedFilesUnknownError: a live table that may need files cannot be read; nothing was deleted.
            LocationNotAllowedError: the metadata file is outside the allowed locations.
            InvalidMetadataError: the metadata file is broken, or belongs to another table.
            StorageUnavailableError: storage fails.
        """
        progress = PurgeProgress() if progress is None else progress
        if is_derived(target.format):
            return self._others[target.format].purge(target, before_batch, progress)
        way = _Way(before_batch, progress, runner, if_large)
        try:
            self._purge(target, way)
        except LocationNotAllowedError:
            raise
        except ForbiddenError:
            if target.renew is None:
                raise
            progress.begin_again()
            self._purge(msgspec.structs.replace(target, storage=target.renew()), way)
        return progress

    def _purge(self, target: PurgeTarget, way: _Way) -> None:
        metadata, progress = self._metadata(target), way.progress
        if metadata is None:
            progress.note = "the metadata file is gone"
            return
        if metadata.table_uuid.lower() != target.table_uuid.lower():
            raise InvalidMetadataError(
                f"{target.metadata_location} was overwritten: it belongs to another table now, so nothing was"
                " deleted"
            )
        keeps_data = metadata.properties.get(GC_ENABLED, "true").lower() == "false"
        is_first = progress.deleted == 0
        if way.if_large is not None and self._large_from is not None and not keeps_data:
            progress.expected = sum(files for _, files in self._reachable(target, metadata).manifests())
            if progress.expected >= self._large_from:
                way.if_large(progress.expected)
        earlier = read_earlier(
            self._metadata_files,
            target.storage,
            target.metadata_location,
            metadata,
            self._sidecars_of(target),
            self._bounds,
        )
        reachable = self._reachable(target, metadata, earlier)
        sidecars = self._sidecars_of(target)
        with self._shared.collect(
            target.storage, target.metadata_location, metadata, target.lease, sidecars, earlier
        ) as kept:
            self._delete(target, reachable, kept, way, keeps_data=keeps_data)
        progress.note = _note(reachable, earlier, keeps_data=keeps_data, is_first=is_first)
        if not progress.complete:
            raise PurgeIncompleteError(_reason(progress, reachable))

    def _reachable(
        self, target: PurgeTarget, metadata: TableMetadata, earlier: Earlier = NOTHING_EARLIER
    ) -> ReachableFiles:
        return ReachableFiles(
            target.storage,
            target.metadata_location,
            metadata,
            self._bounds,
            renew=target.renew,
            large_file=self._large_file,
            sidecars=self._sidecars_of(target),
            earlier=earlier,
        )

    def _sidecars_of(self, target: PurgeTarget) -> Iterable[str]:
        return chain.from_iterable(find(target) for find in self._sidecars)

    def _metadata(self, target: PurgeTarget) -> TableMetadata | None:
        try:
            return read_metadata_file(self._metadata_files.read(target.storage, target.metadata_location))
        except FileMissingError:
            # lost, or deleted by a run that died before it reported; that run left no other file
            return None if target.document is None else TableMetadata.parse(decompress(target.document))

    def _delete(
        self, target: PurgeTarget, reachable: ReachableFiles, kept: KeptFiles, way: _Way, *, keeps_data: bool
    ) -> None:
        with Deletions(
            target.storage,
            kept,
            batch_size=self._batch_size,
            before_batch=way.before_batch,
            progress=way.progress,
            threads=self._threads,
            keeps_data=keeps_data,
            renew=target.renew,
        ) as deletions:
            if way.runner is not None and not keeps_data:
                ranges = Ranges(target.storage, way.runner, self._batch_size, self._range_s, self._bounds)
                reachable.emptied = ranges.empty(reachable.manifests(), kept, way.before_batch, way.progress)
            with read_ahead(reachable) as files:
                for file in files:
                    deletions.add(file)
            deletions.flush()


class _Way(NamedTuple):
    """The arguments of a purge; see `TablePurge.purge`."""

    before_batch: Callable[[], None]
    progress: PurgeProgress
    runner: RangeRunner | None
    if_large: Callable[[int], None] | None


def _reason(progress: PurgeProgress, reachable: ReachableFiles) -> str:
    if reachable.unreadable:
        return reachable.unreadable[0].error.message
    first = progress.failed_keys[0]
    return f"{progress.failed} files could not be deleted, the first because: {first.reason}"


def _note(reachable: ReachableFiles, earlier: Earlier, *, keeps_data: bool, is_first: bool) -> str:
    notes = []
    if reachable.lost:
        by_whom = "" if is_first else ", unless an earlier attempt deleted them"
        notes.append(f"{reachable.lost} manifests or manifest lists were missing or located outside{by_whom}")
    if not earlier.is_whole:
        notes.append(
            "the oldest metadata files were deleted unread, and what only they name stays"
            " (floecat.limits.earlier-metadata-files)"
        )
    if keeps_data:
        notes.append(f"{GC_ENABLED} is false: data files stay")
    return "; ".join(notes)
