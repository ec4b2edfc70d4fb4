"""Bringing a Delta table's entry up to its log: new versions become snapshots, and the entry has them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import msgspec

from floecat.clock import Clock
from floecat.compat.artifact_paths import ArtifactPaths
from floecat.compat.artifacts import ArtifactFiles, ArtifactLostError, NameTakenError
from floecat.compat.compat_table import CompatTable, DeltaState
from floecat.compat.file_chunks import ChunkRunner
from floecat.compat.layouts import Layouts
from floecat.compat.partition_specs import partition_fields, spec_names
from floecat.compat.properties import table_properties
from floecat.compat.publication import Publication
from floecat.compat.table_document import TableDocument
from floecat.compat.version_builder import (
    BuildOptions,
    Point,
    VersionBuilder,
    build_versions,
)
from floecat.connectors.delta_log import DeltaLog, LogListing
from floecat.delta.actions import Metadata
from floecat.delta.field_ids import FieldIds, assign_history
from floecat.delta.translation.name_mapping import resolved_schemas
from floecat.delta.translation.schema import TranslatedSchema, translate_schema
from floecat.errors import (
    FileMissingError,
    FloecatError,
    InvalidMetadataError,
    NoSuchTableError,
    UnavailableError,
)
from floecat.fileio.base import FileIO
from floecat.iceberg.position_deletes import DeleteFormat
from floecat.settings import DeltaCompatSettings
from floecat.store import delta_tables, tables
from floecat.store.delta_tables import DeltaTableRow, is_unread
from floecat.store.documents import decompress
from floecat.store.engine import Store

__all__ = ["Progress", "Refresher"]

_log = logging.getLogger(__name__)

_MAX_GENERATIONS = 8
_BATCH = 100
"""Versions after which a backfill publishes what it has: what is made is not lost when it is stopped."""

Progress = Callable[[int, int], None]
"""Told how many versions are done, of how many."""

History = list[tuple[int, Metadata]]


@dataclass(frozen=True)
class _Known:
    """What the catalog holds of a table.

    Attributes:
        table: with its entry as it is now.
        delta: how far its log was read.
        document: of the entry; None before the first refresh.
        state: what goes with the document.
        generation: of names for what is made next.
    """

    table: CompatTable
    delta: DeltaTableRow
    document: bytes | None
    state: DeltaState | None
    generation: int

    @property
    def ids(self) -> FieldIds:
        return FieldIds.decode(self.delta.field_ids) if self.delta.field_ids else FieldIds()

    def anew(self, ids: FieldIds | None = None) -> _Known:
        """The same, to be translated from scratch under new names. Ids of columns stay, or are these."""
        delta = self.delta
        if ids is not None:
            delta = msgspec.structs.replace(delta, field_ids=ids.encode())
        return replace(self, delta=delta, document=None, state=None, generation=self.generation + 1)


class Refresher:
    """Refreshes tables, one call at a time for each: callers see to that."""

    def __init__(
        self,
        store: Store,
        files: FileIO,
        clock: Clock,
        settings: DeltaCompatSettings,
        artifacts: ArtifactFiles,
        run_chunks: Callable[[CompatTable], ChunkRunner],
    ) -> None:
        """Takes where tables are kept, and who builds the chunks of a table."""
        self._store = store
        self._files = files
        self._settings = settings
        self._artifacts = artifacts
        self._run_chunks = run_chunks
        self._publication = Publication(store, clock)

    def is_current(self, table: CompatTable) -> bool:
        """Whether the entry is at the newest version: one statement and one listing."""
        known = self._known(table)
        if known.state is None:
            return False
        log = DeltaLog(self._files, table.allowed, known.delta.location)
        return _is_newest(log.listing(after=known.state.version - 1), known.state)

    def refresh(self, table: CompatTable, *, in_request: bool) -> bool:
        """Adds what is new in the log.

        Args:
            table: the table.
            in_request: whether somebody waits: then work that is too much for that is not begun.

        Returns:
            Whether the entry changed.

        Raises:
            TooLargeError: `in_request`, and it is too much.
            InvalidDeltaTableError, UnsupportedDeltaTableError, FileMissingError: the newest version cannot
                be read exactly.
            StaleTableError: another process was faster.
        """
        return self._with_names(table, lambda known: self._refresh(known, in_request=in_request))

    def backfill(self, table: CompatTable, progress: Progress) -> bool:
        """Adds all versions that the log still has and takes out those that it has no more.

        Raises:
            FloecatError: as `refresh`.
        """
        changed = self.refresh(table, in_request=False)
        return self._with_names(table, lambda known: self._backfill(known, progress)) or changed

    def missing_artifacts(self, table: CompatTable) -> Sequence[str]:
        """Manifests, delete files and copies of the newest snapshot that are not in storage."""
        known = self._known(table)
        if known.state is None or known.document is None:
            return []
        layouts = self._layouts(known)
        document = TableDocument.parse(known.document)
        try:
            layout = self._point(layouts, document, known.state).layout
            needed = layouts.files_of(layout, with_copies=_lacks_numbers(known.state))
        except ArtifactLostError as lost:
            return [str(lost)]
        existing = self._artifacts.existing(self._paths(known).folder)
        return sorted(needed - existing)

    def repair(self, table: CompatTable) -> bool:
        """Makes every artifact of a table anew, under new names."""
        return self._with_names(table, lambda known: self._refresh(known.anew(), in_request=False))

    def _with_names(self, table: CompatTable, work: Callable[[_Known], bool]) -> bool:
        """Does the work; begins anew under other names when artifacts are lost or names are taken."""
        known = self._known(table)
        seen_missing = False
        for _ in range(_MAX_GENERATIONS):
            try:
                return work(known)
            except FileMissingError:
                # the log may have been cleaned up since it was listed
                if seen_missing:
                    raise
                seen_missing = True
            except (ArtifactLostError, InvalidMetadataError, NameTakenError) as error:
                _log.warning("artifacts of %s are made anew: %s", table.identifier, error)
                known = known.anew()
        raise UnavailableError(f"The artifacts of {table.identifier} are changed by others all the time")

    def _refresh(self, known: _Known, *, in_request: bool) -> bool:
        table, state = known.table, known.state
        log = DeltaLog(self._files, table.allowed, known.delta.location)
        listing = log.listing(after=state.version - 1 if state else None)
        if state is not None and _is_newest(listing, state):
            return False
        if state is not None and listing.fingerprint_of(state.version) != state.fingerprint:
            # the version that was read is another one now: the table was replaced at its place
            return self._refresh(known.anew(), in_request=in_request)
        if state is None:
            return self._first(known, log, listing, in_request=in_request)
        return self._next(known, state, log, listing, in_request=in_request)

    def _first(self, known: _Known, log: DeltaLog, listing: LogListing, *, in_request: bool) -> bool:
        versions = listing.versions[-self._settings.max_versions_in_request :]
        ids = known.ids
        told = log.metadata_history(listing)
        assign_history([metadata for _, metadata in told], ids)
        history = _within(told, versions)
        format_version = self._format_version(known, [metadata for _, metadata in history], ids)
        document = TableDocument.new(known.table.row.object_uuid, known.delta.location, format_version)
        names = spec_names([translate_schema(metadata, ids) for _, metadata in told], {})
        builder = self._builder(known, log, listing, document, ids, names, in_request=in_request)
        point = build_versions(builder, versions, None, must_have=listing.latest)
        return self._publish(known, document, builder, point, history, listing)

    def _next(
        self, known: _Known, state: DeltaState, log: DeltaLog, listing: LogListing, *, in_request: bool
    ) -> bool:
        document = TableDocument.parse(known.document or b"")
        ids = state.field_ids
        names = document.partition_names
        builder = self._builder(known, log, listing, document, ids, names, in_request=in_request)
        versions = [version for version in listing.versions if version > state.version]
        start = self._point(self._layouts(known), document, state)
        point = build_versions(builder, versions, start, must_have=listing.latest)
        history = _merged(state.history, builder.history)
        renamed = spec_names([builder.translated(metadata) for _, metadata in history], names) != {
            **names,
            **document.partition_names,
        }
        if renamed or ids.generation != known.ids.generation:
            return self._refresh(known.anew(ids), in_request=in_request)
        if self._format_version(known, [metadata for _, metadata in history], ids) > document.format_version:
            return self._refresh(known.anew(), in_request=in_request)
        return self._publish(known, document, builder, point, history, listing)

    def _backfill(self, known: _Known, progress: Progress) -> bool:
        log = DeltaLog(self._files, known.table.allowed, known.delta.location)
        listing = log.listing()
        state = known.state
        if state is None:
            return self._first(known, log, listing, in_request=False)
        held = set(TableDocument.parse(known.document or b"").versions)
        missing = [version for version in listing.versions if version not in held]
        gone = held - set(listing.versions) - {state.version}
        ids = known.ids
        assign_history([metadata for _, metadata in log.metadata_history(listing)], ids)
        point: Point | None = None
        changed = False
        for start in range(0, max(len(missing), 1), _BATCH):
            progress(start, len(missing))
            document = TableDocument.parse(known.document or b"")
            document.remove(gone)
            names = document.partition_names
            builder = self._builder(known, log, listing, document, ids, names, in_request=False)
            point = build_versions(builder, missing[start : start + _BATCH], point, must_have=None)
            history = _merged(state.history, builder.history)
            newest = self._point(self._layouts(known), document, state)
            if self._publish(known, document, builder, newest, history, listing):
                changed = True
                known = self._known(known.table)
                state = known.state or state
        progress(len(missing), len(missing))
        return changed

    def _publish(
        self,
        known: _Known,
        document: TableDocument,
        builder: VersionBuilder,
        point: Point | None,
        history: History,
        listing: LogListing,
    ) -> bool:
        if point is None:
            raise RuntimeError("the newest version was neither made nor refused")
        current = builder.translated(point.metadata)
        schemas = [builder.translated(metadata) for _, metadata in history]
        document.remove(_misread(document.versions, history, schemas))
        document.make_current(
            point.version,
            document.spec(partition_fields(current, builder.names)),
            table_properties(point.metadata, point.version, current, schemas),
        )
        if known.document is not None and document.encode() == known.document:
            return False
        row = known.table.row
        fallen = [] if is_unread(row.metadata_location) else document.follow(row.metadata_location)
        data = document.encode()
        location = self._paths(known).metadata_file(point.version, data)
        self._artifacts.write(known.table.allowed, location, data)
        state = DeltaState(
            version=point.version,
            fingerprint=listing.fingerprint_of(point.version) or "",
            protocol=point.protocol,
            history=history,
            field_ids=builder.ids,
            generation=known.generation,
        )
        before = TableDocument.parse(known.document) if known.document is not None else self._before(known)
        self._publication.publish(
            known.table, before, document, state, document=data, metadata_location=location
        )
        self._delete(fallen)
        return True

    def _before(self, known: _Known) -> TableDocument | None:
        """The document that is replaced as a whole."""
        body = None if is_unread(known.table.row.metadata_location) else self._document(known.table)
        return TableDocument.parse(body) if body is not None else None

    def _delete(self, locations: Sequence[str]) -> None:
        """Deletes metadata files that fell out of the log. The entry is changed: nothing here may fail it."""
        for location in locations:
            try:
                self._files.delete(location)
            except FloecatError as error:
                _log.warning("old metadata file %s was left: %s", location, error.message)

    def _known(self, table: CompatTable) -> _Known:
        with self._store.read() as conn:
            row = tables.get(conn, table.row.id)
            delta = delta_tables.get(conn, table.row.id)
        if row is None or delta is None:
            raise NoSuchTableError(f"Table does not exist: {table.identifier}")
        table = CompatTable(row, table.identifier, table.allowed, table.principal)
        if delta.version is None or delta.state is None:
            return _Known(table, delta, None, None, delta.generation)
        state = DeltaState.decode(
            delta.state,
            version=delta.version,
            fingerprint=delta.log_fingerprint or "",
            field_ids=FieldIds.decode(delta.field_ids),
            generation=delta.generation,
        )
        return _Known(table, delta, self._document(table), state, delta.generation)

    def _document(self, table: CompatTable) -> bytes | None:
        with self._store.read() as conn:
            body = tables.document(conn, table.row.id)
        return decompress(body) if body is not None else None

    @staticmethod
    def _paths(known: _Known) -> ArtifactPaths:
        # where the first metadata file went, for the whole life of the table, whatever the settings say now
        folder = known.table.row.metadata_location.rpartition("/")[0]
        return ArtifactPaths(folder, known.generation)

    def _layouts(self, known: _Known) -> Layouts:
        return Layouts(self._artifacts, self._run_chunks(known.table), known.table.allowed)

    def _builder(
        self,
        known: _Known,
        log: DeltaLog,
        listing: LogListing,
        document: TableDocument,
        ids: FieldIds,
        names: Mapping[int, str],
        *,
        in_request: bool,
    ) -> VersionBuilder:
        options = BuildOptions(
            paths=self._paths(known),
            format_version=document.format_version,
            position_delete_format=cast(DeleteFormat, self._settings.position_delete_format),
            # version 3 numbers rows, and so has to know how many a file has
            read_footers=self._settings.missing_statistics == "read" or document.format_version >= 3,
            copies_unnumbered=self._settings.unnumbered_collections == "copy",
            most_opened_files=self._settings.max_files_in_request if in_request else None,
        )
        return VersionBuilder(log, listing, self._layouts(known), document, ids, names, options)

    def _format_version(self, known: _Known, metadata: Sequence[Metadata], ids: FieldIds) -> int:
        wanted = known.delta.format_version or self._settings.format_version
        return max([wanted, *(translate_schema(one, ids).format_version for one in metadata)])

    @staticmethod
    def _point(layouts: Layouts, document: TableDocument, state: DeltaState) -> Point:
        snapshot = document.snapshot(state.version) or {}
        layout = layouts.read(
            state.version,
            snapshot["manifest-list"],
            snapshot.get("first-row-id"),
            document.next_row_id,
        )
        return Point(layout, state.protocol, state.metadata)


def _is_newest(listing: LogListing, state: DeltaState) -> bool:
    return listing.latest == state.version and listing.fingerprint_of(state.version) == state.fingerprint


def _lacks_numbers(state: DeltaState) -> bool:
    """Whether files may lack field ids that readers need, so that there are copies of them."""
    return any(translate_schema(metadata, state.field_ids).unnumbered for _, metadata in state.history)


def _misread(versions: Sequence[int], history: History, schemas: Sequence[TranslatedSchema]) -> Sequence[int]:
    """Versions that some readers would read wrong, and so are not offered.

    - Readers take columns of files without field ids by name, and the name means another column by now. A
      table has no such files if its columns were mapped from the start.
    - Spark 1.10 binds filters on an old snapshot to the partition columns of the current schema, and finds
      nothing if those of the same name are others.
    """
    resolved = resolved_schemas(schemas)
    current = schemas[-1].schema.ids_by_name
    misread: list[int] = []
    carries_ids = history[0][0] == 0
    for position, (first, _) in enumerate(history):
        schema = schemas[position]
        carries_ids = carries_ids and schema.mapping_mode != "none"
        repartitioned = any(
            current.get(column.name, column.source_id) != column.source_id
            for column in schema.partition_fields
        )
        last = history[position + 1][0] if position + 1 < len(history) else None
        if repartitioned or not (resolved[position] or carries_ids):
            misread += [one for one in versions if one >= first and (last is None or one < last)]
    return misread


def _within(history: History, versions: Sequence[int]) -> History:
    """The part of a history that is in force in some of the versions."""
    first = versions[0]
    before = [entry for entry in history if entry[0] <= first][-1:]
    return before + [entry for entry in history if entry[0] > first]


def _merged(one: History, other: History) -> History:
    """Both histories as one, without repetitions of what is in force already."""
    merged: History = []
    for version, metadata in sorted(one + other, key=lambda entry: entry[0]):
        if not merged or merged[-1][1] != metadata:
            merged.append((version, metadata))
    return merged
