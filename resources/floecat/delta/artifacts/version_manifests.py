"""The manifests of a version: made from all its files, or from those of the previous version.

A version that follows another costs what it changes: its new files go into new manifests, and only manifests
that hold a removed file are rewritten, by bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.chunks import ChunkManifests, ChunkRunner, FileChunks
from floecat.delta.artifacts.commit_changes import LiveManifest, entry_changes
from floecat.delta.artifacts.data_files import NOTHING_FOUND, FoundColumns
from floecat.delta.artifacts.version_context import VersionContext
from floecat.delta.protocol.actions import Commit, Snapshot
from floecat.errors import InvalidMetadataError
from floecat.iceberg.manifests.index import EntryKeys, ManifestIndex, read_index
from floecat.iceberg.manifests.lists import (
    DELETE_MANIFEST,
    ManifestFile,
    assign_row_ids,
    read_manifest_list,
    write_manifest_list,
)
from floecat.iceberg.manifests.reader import ManifestEntryStatus
from floecat.iceberg.manifests.rewriter import OldManifest, rewrite
from floecat.iceberg.manifests.writer import EncodedManifest
from floecat.iceberg.values.bounds import process_bounds

__all__ = ["TableManifests", "VersionManifests"]

T = TypeVar("T")
R = TypeVar("R")

_MOST_THREADS = 4
_SMALL_FILES = 500
_MERGED_FROM = 100
"""Number of small manifests that are merged into one (Iceberg's `commit.manifest.min-count-to-merge`)."""

_INDEX_BYTES = 16 << 10
"""Memory of an index beside its columns, estimated."""


@dataclass(frozen=True)
class VersionManifests:
    """The manifests of a version.

    Attributes:
        version: the version.
        manifest_list: its location.
        data: manifests of data files.
        deletes: manifests of delete files.
        files_size_bytes: size of all live data files.
        first_row_id: first row id that the version assigns; None before format version 3.
        next_row_id: the first free one after it.
        has_copies: whether some data files may be copies.
        columns: columns found in its new data files beside the known ones.
        vectorized: whether Spark's vectorised reader reads right all files whose footers were read.
        restores_rows: whether its commit takes back deletes of files that stay.
    """

    version: int
    manifest_list: str
    data: tuple[ManifestFile, ...]
    deletes: tuple[ManifestFile, ...]
    files_size_bytes: int
    first_row_id: int | None = None
    next_row_id: int = 0
    has_copies: bool = False
    columns: FoundColumns = NOTHING_FOUND
    vectorized: bool = True
    restores_rows: bool = False

    @property
    def added_row_ids(self) -> int:
        """The number of row ids that the version assigns."""
        return 0 if self.first_row_id is None else self.next_row_id - self.first_row_id

    @property
    def manifests(self) -> tuple[ManifestFile, ...]:
        """The manifests of data and of deletes, in the order of the list."""
        return self.data + self.deletes


class TableManifests:
    """Makes and reads manifests of the tables of a catalog."""

    def __init__(self, artifacts: ArtifactFiles, run_chunks: ChunkRunner) -> None:
        self._artifacts = artifacts
        self._run_chunks = run_chunks

    def whole(
        self,
        context: VersionContext,
        snapshot: Snapshot,
        added: pa.Array | None,
        *,
        parent: int | None,
        next_row_id: int,
    ) -> VersionManifests:
        """A version from all of its files.

        Args:
            snapshot: its state.
            added: paths that its own commit added; None if every file counts as added by it.
            parent: the previous snapshot, if any.
            next_row_id: first free row id.
        """
        files = snapshot.files
        is_added = np.ones(len(files), bool) if added is None else _is_in(files["path"], added)
        chunks = self._run_chunks(context, FileChunks(files, is_added))
        return self._finish(
            context,
            [chunk.data for chunk in chunks if chunk.data is not None],
            [chunk.deletes for chunk in chunks if chunk.deletes is not None],
            files_size_bytes=sum(chunk.files_size_bytes for chunk in chunks),
            has_copies=any(chunk.has_copies for chunk in chunks),
            columns=_columns(chunks),
            vectorized=all(chunk.vectorized for chunk in chunks),
            parent=parent,
            next_row_id=next_row_id,
        )

    def successor(
        self, context: VersionContext, before: VersionManifests, commit: Commit
    ) -> VersionManifests:
        """A version from the previous one and its commit.

        Raises:
            ArtifactLostError: a manifest of the previous version is missing.
            TwoVectorsError: the whole state is needed; see there.
        """
        changes = entry_changes(context, commit, self._sources(before.data), self._sources(before.deletes))
        chunks: Sequence[ChunkManifests] = []
        if len(changes.adds):
            files = FileChunks(changes.adds, np.ones(len(changes.adds), bool))
            chunks = self._run_chunks(context, files)
        data, removed_bytes = self._kept_and_rewritten(
            context, before.data, changes.removed_data, count(len(chunks)), context.paths.data_manifest
        )
        new_deletes = [chunk.deletes for chunk in chunks if chunk.deletes is not None]
        # numbered after all chunks: a chunk without vectors leaves its number unused
        deletes, _ = self._kept_and_rewritten(
            context,
            before.deletes,
            changes.removed_deletes,
            count(len(chunks)),
            context.paths.delete_manifest,
        )
        added_bytes = sum(chunk.files_size_bytes for chunk in chunks)
        made = self._finish(
            context,
            [chunk.data for chunk in chunks if chunk.data is not None] + data,
            new_deletes + deletes,
            files_size_bytes=before.files_size_bytes + added_bytes - removed_bytes,
            has_copies=before.has_copies or any(chunk.has_copies for chunk in chunks),
            columns=_columns(chunks),
            vectorized=all(chunk.vectorized for chunk in chunks),
            parent=before.version,
            next_row_id=before.next_row_id,
        )
        return replace(made, restores_rows=changes.restores_rows)

    def read(
        self,
        version: int,
        manifest_list: str,
        first_row_id: int | None,
        next_row_id: int,
        *,
        has_copies: bool,
    ) -> VersionManifests:
        """The manifests of a version that was written earlier; arguments as their attributes.

        Raises:
            ArtifactLostError: the list, or one of its manifests, is missing.
            InvalidMetadataError: another program wrote one of them.
        """
        data = self._artifacts.read(manifest_list)
        manifests = list(read_manifest_list(data, location=manifest_list, bounds=process_bounds.limits))
        deletes = tuple(entry for entry in manifests if entry.content == DELETE_MANIFEST)
        files = tuple(entry for entry in manifests if entry.content != DELETE_MANIFEST)
        sizes = self._artifacts.each(self._live_bytes, files)
        return VersionManifests(
            version, manifest_list, files, deletes, sum(sizes), first_row_id, next_row_id, has_copies
        )

    def _live_bytes(self, manifest: ManifestFile) -> int:
        entries = self._index(manifest).entries
        live = pc.not_equal(entries["status"], ManifestEntryStatus.DELETED.value)
        return int(pc.sum(pc.if_else(live, entries["file_size"], 0)).as_py() or 0)

    def _kept_and_rewritten(
        self,
        context: VersionContext,
        manifests: Sequence[ManifestFile],
        removed_keys: EntryKeys,
        numbers: Iterator[int],
        name: Callable[[int, int], str],
    ) -> tuple[list[ManifestFile], int]:
        """The manifests of the previous version, kept or rewritten, and the bytes of removed files."""
        live = [manifest for manifest in manifests if _live_files(manifest)]
        held = self._artifacts.each(lambda manifest: self._index(manifest).holds(removed_keys), live)
        touched = [manifest for manifest, holds in zip(live, held, strict=True) if holds]
        merged = self._to_merge(manifest for manifest, holds in zip(live, held, strict=True) if not holds)
        groups = [[manifest] for manifest in touched] + merged
        rewritten = {id(manifest) for group in groups for manifest in group}
        kept = [manifest for manifest in live if id(manifest) not in rewritten]
        # numbered in order, whichever is finished first
        names = [name(context.version, next(numbers)) for _ in groups]
        made = _on_few_threads(
            lambda group, location: self._rewrite(context, group, removed_keys, location), groups, names
        )
        return [manifest for manifest, _ in made] + kept, sum(removed for _, removed in made)

    def _to_merge(self, manifests: Iterator[ManifestFile]) -> list[list[ManifestFile]]:
        """Groups of small manifests of one form, where opening them costs readers most."""
        by_form: dict[object, list[ManifestFile]] = {}
        for manifest in manifests:
            if _live_files(manifest) < _SMALL_FILES:
                # one spec has several forms once the type of a partition column was widened
                partitions = self._index(manifest).entries.schema.field("partition").type
                by_form.setdefault((manifest.partition_spec_id, partitions), []).append(manifest)
        groups = []
        for small in by_form.values():
            if len(small) >= _MERGED_FROM:
                groups += [
                    small[start : start + _MERGED_FROM] for start in range(0, len(small), _MERGED_FROM)
                ]
        return [group for group in groups if len(group) > 1]

    def _rewrite(
        self, context: VersionContext, group: Sequence[ManifestFile], removed_keys: EntryKeys, location: str
    ) -> tuple[ManifestFile, int]:
        made = rewrite(
            [self._old(manifest) for manifest in group], remove=removed_keys, snapshot_id=context.version
        )
        entries = made.index.entries
        removed = pc.equal(entries["status"], ManifestEntryStatus.DELETED.value)
        removed_bytes = pc.sum(pc.if_else(removed, entries["file_size"], 0)).as_py() or 0
        if _is_listed(self._manifest(context, made, location), context):
            made = replace(made, data=self._artifacts.write(location, made.data, keep=True))
            self._remember((self._artifacts.owner, location), made.index)
        return self._manifest(context, made, location), int(removed_bytes)

    @staticmethod
    def _manifest(context: VersionContext, made: EncodedManifest, location: str) -> ManifestFile:
        return made.manifest_file(
            location, snapshot_id=context.version, sequence_number=context.sequence_number
        )

    def _sources(self, manifests: Sequence[ManifestFile]) -> list[LiveManifest]:
        live = [manifest for manifest in manifests if _live_files(manifest)]
        indexes = self._artifacts.each(self._index, live)
        return [
            LiveManifest(manifest, index, partial(self._old, manifest))
            for manifest, index in zip(live, indexes, strict=True)
        ]

    def _old(self, manifest: ManifestFile) -> OldManifest:
        data = self._artifacts.read(manifest.manifest_path)
        return OldManifest(data, manifest.manifest_path, manifest.first_row_id, self._index(manifest))

    def _finish(
        self,
        context: VersionContext,
        data: Sequence[ManifestFile],
        deletes: Sequence[ManifestFile],
        *,
        files_size_bytes: int,
        has_copies: bool,
        columns: FoundColumns,
        vectorized: bool,
        parent: int | None,
        next_row_id: int,
    ) -> VersionManifests:
        first_row_id = None
        if context.format_version >= 3:
            first_row_id = next_row_id
            data, next_row_id = assign_row_ids(data, next_row_id)
        location = context.paths.manifest_list(context.version)
        made = VersionManifests(
            context.version,
            location,
            tuple(data),
            tuple(deletes),
            files_size_bytes,
            first_row_id,
            next_row_id,
            has_copies,
            columns,
            vectorized,
        )
        listed = write_manifest_list(
            [manifest for manifest in made.manifests if _is_listed(manifest, context)],
            snapshot_id=context.version,
            parent_snapshot_id=parent,
            sequence_number=context.sequence_number,
            format_version=context.format_version,
            first_row_id=first_row_id,
        )
        # written last: a reader that finds it finds all that it names
        self._artifacts.write(location, listed, keep=True)
        return made

    def _index(self, manifest: ManifestFile) -> ManifestIndex:
        location = manifest.manifest_path
        key = (self._artifacts.owner, location)
        index = self._artifacts.indexes.get(key)
        if index is None:
            with self._artifacts.opened(location) as data:
                index = read_index(data, location=location, bounds=process_bounds.limits)
            if index is None:
                raise InvalidMetadataError(f"Manifest {location} was not written by this catalog")
            self._remember(key, index)
        return index

    def _remember(self, key: tuple[UUID | None, str], index: ManifestIndex) -> None:
        self._artifacts.indexes.put(key, index, _INDEX_BYTES + index.entries.get_total_buffer_size())


def _on_few_threads(work: Callable[[T, str], R], items: Sequence[T], names: Sequence[str]) -> list[R]:
    """Calls `work` on every item and its name; for work that computes, and holds megabytes meanwhile."""
    threads = min(os.cpu_count() or 1, _MOST_THREADS)
    if len(items) <= 1 or threads == 1:
        return [work(item, name) for item, name in zip(items, names, strict=True)]
    with ThreadPoolExecutor(threads, thread_name_prefix="delta-manifest") as pool:
        return list(pool.map(work, items, names))


def _columns(chunks: Sequence[ChunkManifests]) -> FoundColumns:
    found = NOTHING_FOUND
    for chunk in chunks:
        found |= chunk.columns
    return found


def _is_in(paths: pa.ChunkedArray, wanted: pa.Array) -> Any:
    return pc.is_in(paths, value_set=wanted).to_numpy()


def _is_listed(manifest: ManifestFile, context: VersionContext) -> bool:
    """Whether readers get a manifest.

    DuckDB 1.5 fails, or ends its process, on a manifest whose partition spec has columns that the schema does
    not have. Delta's live files have the current columns, so such a manifest has deleted entries only.
    """
    return bool(_live_files(manifest)) or manifest.partition_spec_id not in context.lost_specs


def _live_files(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
