"""Building versions of one table from its log, and backfills of its older versions."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.chunks import ChunkRunner
from floecat.delta.artifacts.request_bounds import RequestBounds
from floecat.delta.artifacts.version_manifests import TableManifests
from floecat.delta.log.delta_log import DeltaLog, LogListing
from floecat.delta.log.log_bounds import LogBounds
from floecat.delta.log.log_files import DamagedFiles
from floecat.delta.refresh.delta_table import DeltaState, KnownTable
from floecat.delta.refresh.iceberg_document import TableDocument
from floecat.delta.refresh.metadata_history import History
from floecat.delta.refresh.version_builder import BuildOptions, Point, VersionBuilder, build_versions
from floecat.delta.translation.column_ids import FieldIds
from floecat.delta.translation.translated_schema import translate_schema
from floecat.iceberg.position_deletes import DeleteFormat
from floecat.settings import DeltaCompatSettings

__all__ = ["PART_VERSIONS", "Backfill", "Build", "Builds", "Progress"]

PART_VERSIONS = 100

_PART_S = 5.0
"""A part of a backfill ends after this many versions or seconds, and is published.

No more than a part is lost when the work is stopped, and loads of newer versions get in between.
"""

Progress = Callable[[int, int], None]
"""Function that is called with the number of versions done, and of all."""


@dataclass(frozen=True)
class Build:
    """A document of a table to which versions are added.

    Attributes:
        known: what the catalog held of the table before the build.
        log: its Delta log.
        listing: what the log holds.
        document: the document.
        manifests: reads and writes manifests.
        builder: adds versions to the document.
    """

    known: KnownTable
    log: DeltaLog
    listing: LogListing
    document: TableDocument
    manifests: TableManifests
    builder: VersionBuilder

    def point(self, state: DeltaState) -> Point:
        """The newest snapshot of a state, from which the next version can be made.

        Raises:
            ArtifactLostError: one of its manifests is missing.
        """
        snapshot = self.document.snapshot(state.version) or {}
        newest = self.manifests.read(
            state.version,
            snapshot["manifest-list"],
            snapshot.get("first-row-id"),
            self.document.next_row_id,
            has_copies=state.has_copies,
        )
        return Point(newest, state.protocol, state.metadata)


class Builds:
    """Starts builds of one table."""

    def __init__(
        self,
        settings: DeltaCompatSettings,
        bounds: RequestBounds,
        artifacts: ArtifactFiles,
        run_chunks: ChunkRunner,
        damaged: DamagedFiles,
        check_read: Callable[[Iterable[str]], None],
    ) -> None:
        self._settings = settings
        self._bounds = bounds
        self._artifacts = artifacts
        self._run_chunks = run_chunks
        self._damaged = damaged
        self._check_read = check_read

    def log(self, known: KnownTable, *, in_request: bool) -> DeltaLog:
        """The Delta log of a table; a load may read less of it than the pipeline."""
        bounds = LogBounds(in_request=in_request)
        return DeltaLog(known.table.files, known.table.allowed, known.delta.location, self._damaged, bounds)

    def first_document(self, known: KnownTable, history: History, ids: FieldIds) -> TableDocument:
        """A document without snapshots.

        Its format version is the one that the newest schema needs, and at least that of the entry. Versions
        that need a higher one are left out.
        """
        wanted = known.delta.format_version or self._settings.format_version
        row = known.table.row
        held = row.format_version if row.has_metadata else wanted
        needed = [translate_schema(metadata, ids).format_version for _, metadata in history[-1:]]
        return TableDocument.new(row.object_uuid, known.delta.location, max([wanted, held, *needed]))

    def begin(
        self,
        known: KnownTable,
        log: DeltaLog,
        listing: LogListing,
        document: TableDocument,
        ids: FieldIds,
        names: Mapping[int, str],
        *,
        in_request: bool,
    ) -> Build:
        """A build.

        Args:
            known: the table.
            listing: what the log holds.
            document: gets the versions as snapshots.
            ids: of its columns; new columns are added.
            names: of its partition fields, by id.
            in_request: whether a load waits for it.
        """
        manifests = TableManifests(self._artifacts, self._run_chunks)
        options = BuildOptions(
            paths=known.paths,
            format_version=document.format_version,
            position_delete_format=cast("DeleteFormat", self._settings.position_delete_format),
            # version 3 numbers rows, and so needs the row count of every file
            read_footers=self._settings.missing_statistics == "read" or document.format_version >= 3,
            may_copy_files=self._settings.unnumbered_collections == "copy",
            bounds=self._bounds if in_request else None,
            check_read=self._check_read,
        )
        builder = VersionBuilder(log, listing, manifests, document, ids, names, options)
        return Build(known, log, listing, document, manifests, builder)


@dataclass
class Backfill:
    """A backfill in progress.

    Attributes:
        generation: of the names of the parts; None before the first.
        history: every metadata of the log; read once.
        tried: versions that need not be tried again.
        last: the last version of the last part, from which the next one can be made.
        changed: whether the entry changed.
    """

    generation: int | None = None
    history: History | None = None
    tried: set[int] = field(default_factory=set)
    last: Point | None = None
    changed: bool = False

    def resume(self, generation: int) -> None:
        """Starts again, if the parts were made under other names."""
        if self.generation != generation:
            self.generation, self.history, self.tried, self.last = generation, None, set(), None

    def missing(
        self, document: TableDocument, versions: Sequence[int], newest: int, left_out: Collection[int]
    ) -> Sequence[int]:
        """Removes versions from a document that the log no longer has, and returns those to add.

        Args:
            versions: versions of the log.
            newest: the newest snapshot; it stays. Versions after it come with the next refresh.
            left_out: versions that are not added.
        """
        held = set(document.versions)
        document.remove(held - set(versions) - {newest})
        others = held.union(self.tried, left_out)
        return [version for version in versions if version < newest and version not in others]

    def build_part(self, build: Build, missing: Sequence[int], progress: Progress) -> bool:
        """Adds some of the missing versions; returns whether there are more."""
        tried_before = len(self.tried)
        ends_at = time.monotonic() + _PART_S
        done = 0
        for version in missing[:PART_VERSIONS]:
            progress(tried_before + done, tried_before + len(missing))
            self.last = build_versions(build.builder, [version], self.last, must_have=None)
            self.tried.add(version)
            done += 1
            if time.monotonic() > ends_at:
                break
        progress(tried_before + done, tried_before + len(missing))
        return done < len(missing)
