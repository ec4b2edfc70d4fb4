"""Bringing a Delta table's entry up to its log: new versions become snapshots, and the entry has them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from msgspec.structs import replace as replace_struct

from floecat.clock import Clock
from floecat.delta import delta_rows as delta_tables
from floecat.delta.artifacts.artifact_files import ArtifactFiles, ArtifactLostError, NameTakenError
from floecat.delta.artifacts.artifact_paths import ArtifactPaths, generation_of
from floecat.delta.artifacts.chunk_order import ChunkRunner
from floecat.delta.artifacts.partition_specs import partition_fields, spec_names
from floecat.delta.artifacts.version_manifests import Layouts
from floecat.delta.delta_rows import DeltaTableRow
from floecat.delta.log.damage import DamagedFiles
from floecat.delta.log.delta_log import DeltaLog, LogListing
from floecat.delta.refresh.artifact_check import missing_artifacts
from floecat.delta.refresh.delta_table import CompatTable, DeltaState
from floecat.delta.refresh.iceberg_document import TableDocument
from floecat.delta.refresh.metadata_history import History, merged, misread, translatable, within
from floecat.delta.refresh.publication import Publication
from floecat.delta.refresh.table_properties import table_properties
from floecat.delta.refresh.version_builder import (
    BuildOptions,
    FormatVersionError,
    Point,
    VersionBuilder,
    build_versions,
)
from floecat.delta.translation.column_ids import FieldIds, assign_history
from floecat.delta.translation.schema import translate_schema
from floecat.errors import (
    FileMissingError,
    FloecatError,
    InvalidDeltaTableError,
    InvalidMetadataError,
    NoSuchTableError,
    UnavailableError,
)
from floecat.fileio.base import FileIO
from floecat.iceberg.position_deletes import DeleteFormat
from floecat.settings import DeltaCompatSettings
from floecat.store import tables
from floecat.store.confirmed_transactions import ConfirmedTransactions
from floecat.store.database.engine import Store
from floecat.store.documents import decompress
from floecat.store.tables import EntryRow

__all__ = ["Backfill", "Progress", "Refresher"]

_log = logging.getLogger(__name__)

_MAX_GENERATIONS = 8
_PART_VERSIONS = 100
_PART_S = 5.0
"""A part of a backfill ends after so many versions or seconds, and is published.

What is made is not lost when the work is stopped, and loads that meet a newer version get in between.
"""

Progress = Callable[[int, int], None]
"""Told how many versions are done, of how many."""


@dataclass(frozen=True)
class _Known:
    """What the catalog holds of a table.

    Attributes:
        table: with its entry as it is now.
        delta: how far its log was read.
        document: of the entry; None before the first refresh.
        state: what goes with the document.
        generation: of names for what is made next.
        vectorized: attribute of the state. It outlives the state, since the files do.
    """

    table: CompatTable
    delta: DeltaTableRow
    document: bytes | None
    state: DeltaState | None
    generation: int
    vectorized: bool = True

    @property
    def ids(self) -> FieldIds:
        return FieldIds.decode(self.delta.field_ids) if self.delta.field_ids else FieldIds()

    def anew(self, ids: FieldIds | None = None, *, generation: int | None = None) -> _Known:
        """The same, to be translated from scratch under new names. Ids of columns stay, or are these."""
        delta = self.delta
        if ids is not None:
            delta = replace_struct(delta, field_ids=ids.encode())
        generation = self.generation + 1 if generation is None else generation
        return replace(self, delta=delta, document=None, state=None, generation=generation)


@dataclass
class Backfill:
    """A backfill that is going on.

    Attributes:
        generation: of the names under which the parts were made; None before the first.
        told: every metadata of the log, which is read once.
        tried: versions that need not be tried again.
        last: the version that the last part ended with, from which the next one can be made.
        changed: whether the entry changed.
    """

    generation: int | None = None
    told: History | None = None
    tried: set[int] = field(default_factory=set)
    last: Point | None = None
    changed: bool = False

    def go_on(self, generation: int) -> None:
        """Forgets what was made, if that was under other names."""
        if self.generation != generation:
            self.generation, self.told, self.tried, self.last = generation, None, set(), None


class Refresher:
    """Refreshes tables, one call at a time for each: callers see to that."""

    def __init__(
        self,
        store: Store,
        transactions: ConfirmedTransactions,
        files: FileIO,
        clock: Clock,
        settings: DeltaCompatSettings,
        artifacts: ArtifactFiles,
        run_chunks: Callable[[CompatTable], ChunkRunner],
        damaged: DamagedFiles,
    ) -> None:
        self._store = store
        self._files = files
        self._settings = settings
        self._artifacts = artifacts
        self._run_chunks = run_chunks
        self._clock = clock
        self._publication = Publication(transactions, clock)
        self._damaged = damaged

    def current_entry(self, table: CompatTable) -> EntryRow | None:
        """The entry, if it is at the newest version and all that it leads to is in storage.

        Three statements, a listing of the log and one of the artifacts. None if there is something to do.
        """
        known = self._known(table)
        if known.state is None:
            return None
        log = self._delta_log(known)
        listing = log.listing(after=known.state.version - 1)
        if not _is_newest(listing, known.state) or self._missing(known, in_request=True):
            return None
        self._note_problem(known, known.state)
        return known.table.row

    def refresh(self, table: CompatTable, *, in_request: bool) -> bool:
        """Adds what is new in the log, and rebuilds the artifacts if some are missing.

        Args:
            table: the table.
            in_request: whether a load waits: then work that is too much for that is not begun.

        Returns:
            Whether the entry is another one than `table.row`.

        Raises:
            TooLargeError: `in_request`, and it is too much.
            InvalidDeltaTableError, UnsupportedDeltaTableError, FileMissingError: the newest version cannot
                be read exactly.
            StaleTableError: another process was faster.
        """
        return self._with_names(
            table,
            # another process may have changed it, and has left nothing to do
            lambda known: (
                self._refresh(known, in_request=in_request)
                or known.table.row.metadata_location != table.row.metadata_location
            ),
        )

    def leave_to_pipeline(self, table: CompatTable) -> None:
        """Notes that the pipeline has work on a table; it looks for missing artifacts only now and then."""
        known = self._known(table)
        if known.state is not None:
            self._note_state(known, replace_struct(known.state, complete=False))

    def backfill(self, table: CompatTable, work: Backfill, progress: Progress) -> bool:
        """Adds a part of the versions that the log still has, and takes out those that it has no more.

        Args:
            table: the table.
            work: what earlier parts did.
            progress: told how many of the missing versions were tried.

        Returns:
            Whether there is another part.

        Raises:
            FloecatError: as `refresh`.
        """
        work.changed |= self.refresh(table, in_request=False)
        return self._with_names(table, lambda known: self._backfill(known, work, progress))

    def has_missing_artifacts(self, table: CompatTable) -> bool:
        """Whether artifacts that the entry leads to are not in storage; see `missing_artifacts`."""
        return bool(self._missing(self._known(table), in_request=False))

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
                _log.warning("artifacts of %s are rebuilt: %s", table.identifier, error)
                existing = self._artifacts.sizes(table.allowed, self._paths(known).folder) or ()
                taken = max(map(generation_of, existing), default=0)
                known = known.anew(generation=max(taken, known.generation) + 1)
        raise UnavailableError(f"The artifacts of {table.identifier} are changed by others all the time")

    def _missing(self, known: _Known, *, in_request: bool) -> Sequence[str]:
        if known.state is None or known.document is None:
            return []
        return missing_artifacts(
            self._artifacts.of(known.table.row.id),
            known.table,
            known.document,
            has_copies=known.state.has_copies,
            older_lists=self._settings.max_versions_in_request,
            in_request=in_request,
        )

    def _check_artifacts(self, known: _Known, *, in_request: bool) -> None:
        """Writes the metadata file again if nothing but that is missing.

        Raises:
            ArtifactLostError: other files are missing.
        """
        location = known.table.row.metadata_location
        missing = self._missing(known, in_request=in_request)
        for other in missing:
            if other != location:
                raise ArtifactLostError(other)
        if missing and known.document is not None:
            self._artifacts.write(known.table.allowed, location, known.document)

    def _refresh(self, known: _Known, *, in_request: bool) -> bool:
        state = known.state
        log = self._delta_log(known)
        listing = log.listing(after=state.version - 1 if state else None)
        if state is None:
            return self._first(known, log, listing, in_request=in_request)
        if listing.fingerprint_of(state.version) != state.fingerprint:
            # the version that was read is another one now: the table was replaced at its place
            return self._refresh(replace(known.anew(), vectorized=True), in_request=in_request)
        self._check_artifacts(known, in_request=in_request)
        if _is_newest(listing, state):
            return False
        return self._next(known, state, log, listing, in_request=in_request)

    def _first(self, known: _Known, log: DeltaLog, listing: LogListing, *, in_request: bool) -> bool:
        versions = listing.versions[-self._settings.max_versions_in_request :]
        ids = known.ids
        told = log.metadata_history(listing)
        assign_history([metadata for _, metadata in told], ids)
        told = translatable(told, ids)
        format_version = self._format_version(known, told, ids)
        document = TableDocument.new(known.table.row.object_uuid, known.delta.location, format_version)
        names = spec_names([translate_schema(metadata, ids) for _, metadata in told], {})
        builder = self._builder(known, log, listing, document, ids, names, in_request=in_request)
        generation = ids.generation
        point = build_versions(builder, versions, None, must_have=listing.latest)
        if ids.generation != generation:
            return self._refresh(known.anew(ids), in_request=in_request)
        complete = len(versions) == len(listing.versions)
        history = merged(within(told, versions), builder.history)
        return self._publish(known, document, builder, point, history, log, listing, complete)

    def _next(
        self, known: _Known, state: DeltaState, log: DeltaLog, listing: LogListing, *, in_request: bool
    ) -> bool:
        document = TableDocument.parse(known.document or b"")
        ids = state.field_ids
        names = document.partition_names
        builder = self._builder(known, log, listing, document, ids, names, in_request=in_request)
        versions = [version for version in listing.versions if version > state.version]
        start = self._point(self._layouts(known), document, state)
        try:
            point = build_versions(builder, versions, start, must_have=listing.latest)
        except FormatVersionError:
            return self._refresh(known.anew(), in_request=in_request)
        history = merged(state.history, builder.history)
        renamed = spec_names([builder.translated(metadata) for _, metadata in history], names) != {
            **names,
            **document.partition_names,
        }
        if renamed or ids.generation != known.ids.generation:
            return self._refresh(known.anew(ids), in_request=in_request)
        return self._publish(known, document, builder, point, history, log, listing, state.complete)

    def _backfill(self, known: _Known, work: Backfill, progress: Progress) -> bool:
        log = self._delta_log(known)
        state = known.state
        if state is None:
            return self._begin_anew(known, work)
        work.go_on(known.generation)
        listing = log.listing()
        if work.told is None:
            try:
                work.told = log.metadata_history(listing)
            except InvalidDeltaTableError:
                # the newest version is known, whatever became of the log since
                work.told = state.history
        ids = known.ids
        assign_history([metadata for _, metadata in work.told], ids)
        if ids.generation != state.field_ids.generation:
            # an id means another column by now: nothing that was made under it can stay
            return self._begin_anew(known.anew(ids), work)
        document = TableDocument.parse(known.document or b"")
        held = set(document.versions)
        document.remove(held - set(listing.versions) - {state.version})
        # what came after the newest snapshot comes with the next refresh
        older = (version for version in listing.versions if version < state.version)
        told = translatable(work.told, ids)
        # made again under the same names in another way, they would make the table begin anew each time
        left_out = misread(listing.versions, told, [translate_schema(metadata, ids) for _, metadata in told])
        missing = [version for version in older if version not in held.union(work.tried, left_out)]
        builder = self._builder(
            known, log, listing, document, ids, document.partition_names, in_request=False
        )
        done = self._build_part(builder, missing, work, progress)
        if ids.generation != state.field_ids.generation:
            return self._begin_anew(known.anew(ids), work)
        history = merged(state.history, builder.history)
        newest = self._point(self._layouts(known), document, state)
        complete = done == len(missing)
        work.changed |= self._publish(known, document, builder, newest, history, log, listing, complete)
        return not complete

    def _begin_anew(self, known: _Known, work: Backfill) -> bool:
        work.changed |= self._refresh(known, in_request=False)
        return True

    @staticmethod
    def _build_part(
        builder: VersionBuilder, missing: Sequence[int], work: Backfill, progress: Progress
    ) -> int:
        """How many of the missing versions were tried."""
        tried_before = len(work.tried)
        ends_at = time.monotonic() + _PART_S
        done = 0
        for version in missing[:_PART_VERSIONS]:
            progress(tried_before + done, tried_before + len(missing))
            work.last = build_versions(builder, [version], work.last, must_have=None)
            work.tried.add(version)
            done += 1
            if time.monotonic() > ends_at:
                break
        progress(tried_before + done, tried_before + len(missing))
        return done

    def _publish(
        self,
        known: _Known,
        document: TableDocument,
        builder: VersionBuilder,
        point: Point | None,
        history: History,
        log: DeltaLog,
        listing: LogListing,
        complete: bool,
    ) -> bool:
        if point is None:
            raise RuntimeError("the newest version was neither made nor refused")
        current = builder.translated(point.metadata)
        schemas = [builder.translated(metadata) for _, metadata in history]
        vectorized = known.vectorized and builder.vectorized
        document.remove(misread(document.versions, history, schemas))
        document.make_current(
            point.version,
            document.spec(partition_fields(current, builder.names)),
            table_properties(
                [metadata for _, metadata in history] + [point.metadata],
                point.version,
                current,
                schemas,
                builder.ids,
                vectorized=vectorized,
            ),
        )
        state = DeltaState(
            version=point.version,
            fingerprint=listing.fingerprint_of(point.version) or "",
            protocol=point.protocol,
            history=history,
            field_ids=builder.ids,
            generation=known.generation,
            complete=complete,
            has_copies=point.layout.has_copies,
            faults=log.faults_since(known.state.faults if known.state else (), listing),
            vectorized=vectorized,
        )
        row = known.table.row
        if known.document is not None and document.encode() == known.document:
            self._note_state(known, state)
            return False
        fallen = document.follow(row.metadata_location) if row.has_metadata else []
        data = document.encode()
        location = self._paths(known).metadata_file(point.version, data)
        self._artifacts.write(known.table.allowed, location, data)
        before = TableDocument.parse(known.document) if known.document is not None else self._before(known)
        self._publication.publish(
            known.table, before, document, state, document=data, metadata_location=location
        )
        self._delete(fallen)
        return True

    def _note_state(self, known: _Known, state: DeltaState) -> None:
        old, new, entry_id = known.delta.state or b"", state.encode(), known.table.row.id
        if old != new:
            self._store.run(lambda conn: delta_tables.note_state(conn, entry_id, old, new))
        self._note_problem(known, state)

    def _note_problem(self, known: _Known, state: DeltaState) -> None:
        entry_id, problem, now_ms = known.table.row.id, state.problem, self._clock.now_ms()
        if known.delta.problem != problem:
            self._store.run(lambda conn: delta_tables.note_problem(conn, entry_id, problem, now_ms))

    def _before(self, known: _Known) -> TableDocument | None:
        """The document that is replaced as a whole."""
        body = self._document(known.table) if known.table.row.has_metadata else None
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
        table = CompatTable(row, table.identifier, table.storage, table.principal)
        if delta.version is None or delta.state is None:
            return _Known(table, delta, None, None, delta.generation)
        state = DeltaState.decode(
            delta.state,
            version=delta.version,
            fingerprint=delta.log_fingerprint or "",
            field_ids=FieldIds.decode(delta.field_ids),
            generation=delta.generation,
        )
        known = _Known(table, delta, self._document(table), state, delta.generation, state.vectorized)
        return known.anew() if state.is_outdated else known

    def _document(self, table: CompatTable) -> bytes | None:
        with self._store.read() as conn:
            body = tables.document(conn, table.row.id)
        return decompress(body) if body is not None else None

    def _delta_log(self, known: _Known) -> DeltaLog:
        return DeltaLog(self._files, known.table.allowed, known.delta.location, self._damaged)

    @staticmethod
    def _paths(known: _Known) -> ArtifactPaths:
        # where the first metadata file went, for the whole life of the table, whatever the settings say now
        folder = known.table.row.metadata_location.rpartition("/")[0]
        return ArtifactPaths(folder, known.generation)

    def _layouts(self, known: _Known) -> Layouts:
        artifacts = self._artifacts.of(known.table.row.id)
        return Layouts(artifacts, self._run_chunks(known.table), known.table.allowed)

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

    def _format_version(self, known: _Known, told: History, ids: FieldIds) -> int:
        """What the newest schema needs; versions that need a later one are left out. It never goes down."""
        wanted = known.delta.format_version or self._settings.format_version
        row = known.table.row
        held = row.format_version if row.has_metadata else wanted
        needed = [translate_schema(metadata, ids).format_version for _, metadata in told[-1:]]
        return max([wanted, held, *needed])

    @staticmethod
    def _point(layouts: Layouts, document: TableDocument, state: DeltaState) -> Point:
        snapshot = document.snapshot(state.version) or {}
        layout = layouts.read(
            state.version,
            snapshot["manifest-list"],
            snapshot.get("first-row-id"),
            document.next_row_id,
            has_copies=state.has_copies,
        )
        return Point(layout, state.protocol, state.metadata)


def _is_newest(listing: LogListing, state: DeltaState) -> bool:
    return listing.latest == state.version and listing.fingerprint_of(state.version) == state.fingerprint
