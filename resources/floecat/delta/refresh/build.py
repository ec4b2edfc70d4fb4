"""What versions of one table are built with: its log, its document and its manifests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.chunks import ChunkRunner
from floecat.delta.artifacts.version_manifests import TableManifests
from floecat.delta.log.damage import DamagedFiles
from floecat.delta.log.delta_log import DeltaLog, LogListing
from floecat.delta.refresh.delta_table import DeltaState, DeltaTableEntry, KnownTable
from floecat.delta.refresh.iceberg_document import TableDocument
from floecat.delta.refresh.metadata_history import History
from floecat.delta.refresh.version_builder import BuildOptions, Point, VersionBuilder
from floecat.delta.translation.column_ids import FieldIds
from floecat.delta.translation.schema import translate_schema
from floecat.fileio.base import FileIO
from floecat.iceberg.position_deletes import DeleteFormat
from floecat.settings import DeltaCompatSettings

__all__ = ["Build", "Builds"]


@dataclass(frozen=True)
class Build:
    """A document of a table to which versions are added.

    Attributes:
        known: what the catalog held of the table before.
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
        """The newest snapshot of a state, as the version that the next one can be made from.

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
    """Begins builds of any table."""

    def __init__(
        self,
        files: FileIO,
        settings: DeltaCompatSettings,
        artifacts: ArtifactFiles,
        run_chunks: Callable[[DeltaTableEntry], ChunkRunner],
        damaged: DamagedFiles,
    ) -> None:
        self._files = files
        self._settings = settings
        self._artifacts = artifacts
        self._run_chunks = run_chunks
        self._damaged = damaged

    def log(self, known: KnownTable) -> DeltaLog:
        """The Delta log of a table."""
        return DeltaLog(self._files, known.table.allowed, known.delta.location, self._damaged)

    def first_document(self, known: KnownTable, history: History, ids: FieldIds) -> TableDocument:
        """A document without snapshots.

        Its format version is what the newest schema needs, and at least that of the entry. Versions that need
        a later one are left out.
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
            log: its log.
            listing: what the log holds.
            document: gets the versions as snapshots.
            ids: of its columns; gets those of new ones.
            names: of its partition fields, by id.
            in_request: whether a load waits for it.
        """
        manifests = TableManifests(
            self._artifacts.of(known.table.row.id), self._run_chunks(known.table), known.table.allowed
        )
        options = BuildOptions(
            paths=known.paths,
            format_version=document.format_version,
            position_delete_format=cast(DeleteFormat, self._settings.position_delete_format),
            # version 3 numbers rows, and so has to know how many a file has
            read_footers=self._settings.missing_statistics == "read" or document.format_version >= 3,
            may_copy_files=self._settings.unnumbered_collections == "copy",
            most_opened_files=self._settings.max_files_in_request if in_request else None,
        )
        builder = VersionBuilder(log, listing, manifests, document, ids, names, options)
        return Build(known, log, listing, document, manifests, builder)
