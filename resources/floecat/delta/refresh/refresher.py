"""Refreshing a Delta table: new versions of its log become snapshots of its entry."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from msgspec.structs import replace as replace_struct

from floecat.clock import Clock
from floecat.delta.artifacts.artifact_files import ArtifactFiles, ArtifactLostError, NameTakenError
from floecat.delta.artifacts.artifact_paths import generation_of
from floecat.delta.artifacts.chunks import ChunkRunner
from floecat.delta.artifacts.request_bounds import RequestBounds
from floecat.delta.artifacts.version_context import spec_names
from floecat.delta.log.delta_log import DeltaLog, LogListing
from floecat.delta.log.log_files import DamagedFiles
from floecat.delta.refresh.artifact_check import missing_artifacts
from floecat.delta.refresh.builds import Backfill, Builds, Progress
from floecat.delta.refresh.delta_table import DeltaState, DeltaTableEntry, KnownTable, read_known_table
from floecat.delta.refresh.iceberg_document import TableDocument
from floecat.delta.refresh.metadata_history import merged, misread, translatable, within
from floecat.delta.refresh.publication import VersionPublication
from floecat.delta.refresh.version_builder import FormatVersionError, build_versions
from floecat.delta.translation.column_ids import assign_history
from floecat.delta.translation.translated_schema import translate_schema
from floecat.entries.purge_guard import PurgeGuard
from floecat.errors import FileMissingError, InvalidDeltaTableError, InvalidMetadataError, UnavailableError
from floecat.settings import DeltaCompatSettings
from floecat.store.database.engine import Store
from floecat.store.entries.tables import EntryRow

__all__ = ["Refresher"]

_log = logging.getLogger(__name__)

_MAX_GENERATIONS = 8


class Refresher:
    """Refreshes one table. Callers make sure that there is one call at a time for each table."""

    def __init__(
        self,
        store: Store,
        guard: PurgeGuard,
        clock: Clock,
        settings: DeltaCompatSettings,
        bounds: RequestBounds,
        artifacts: ArtifactFiles,
        run_chunks: ChunkRunner,
        damaged: DamagedFiles,
        check_read: Callable[[Iterable[str]], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._artifacts = artifacts
        self._builds = Builds(settings, bounds, artifacts, run_chunks, damaged, check_read)
        self._publication = VersionPublication(store, guard, artifacts, clock)

    def current_entry(self, table: DeltaTableEntry) -> EntryRow | None:
        """The entry, if it has the newest version and all its artifacts exist; otherwise None.

        Costs three statements, a listing of the log and one of the artifacts.
        """
        known = read_known_table(self._store, table)
        if known.state is None:
            return None
        listing = self._builds.log(known, in_request=True).listing(after=known.state.version - 1)
        if not _is_newest(listing, known.state) or self._missing(known, in_request=True):
            return None
        self._publication.note_problem(known, known.state)
        return known.table.row

    def refresh(self, table: DeltaTableEntry, *, in_request: bool) -> bool:
        """Adds new versions of the log, and rebuilds the artifacts if any are missing.

        Args:
            in_request: whether a load waits; too much work for that is not started.

        Returns:
            Whether the entry changed since `table.row`.

        Raises:
            TooLargeError: `in_request`, and it is too much.
            InvalidDeltaTableError, UnsupportedDeltaTableError, FileMissingError: the newest version cannot
                be read exactly.
            StaleTableError: another process published first.
        """
        return self._retried(
            table,
            # another process may have done the work
            lambda known: (
                self._refresh(known, in_request=in_request)
                or known.table.row.metadata_location != table.row.metadata_location
            ),
        )

    def leave_to_pipeline(self, table: DeltaTableEntry) -> None:
        """Marks the table as incomplete, so that the pipeline finds it soon."""
        known = read_known_table(self._store, table)
        if known.state is not None:
            self._publication.note_state(known, replace_struct(known.state, complete=False))

    def backfill(self, table: DeltaTableEntry, work: Backfill, progress: Progress) -> bool:
        """Adds a part of the older versions of the log, and removes versions that it no longer has.

        Args:
            work: state of the earlier parts.
            progress: called with the number of missing versions tried, and of all.

        Returns:
            Whether there is another part.

        Raises:
            FloecatError: as `refresh`.
        """
        work.changed |= self.refresh(table, in_request=False)
        return self._retried(table, lambda known: self._backfill(known, work, progress))

    def has_missing_artifacts(self, table: DeltaTableEntry) -> bool:
        """Whether any artifacts of the entry are missing; see `missing_artifacts`."""
        return bool(self._missing(read_known_table(self._store, table), in_request=False))

    def _retried(self, table: DeltaTableEntry, work: Callable[[KnownTable], bool]) -> bool:
        """Does the work; again under new names if artifacts are lost or names are taken."""
        known = read_known_table(self._store, table)
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
                existing = self._artifacts.sizes(known.paths.folder) or ()
                taken = max(map(generation_of, existing), default=0)
                known = known.untranslated(generation=max(taken, known.generation) + 1)
        raise UnavailableError(f"The artifacts of {table.identifier} keep being changed by others")

    def _refresh(self, known: KnownTable, *, in_request: bool) -> bool:
        state, log = known.state, self._builds.log(known, in_request=in_request)
        listing = log.listing(after=state.version - 1 if state else None)
        if state is None:
            return self._add_first(known, log, listing, in_request=in_request)
        if listing.fingerprint_of(state.version) != state.fingerprint:
            # the log has another file of this version now: the table was replaced
            return self._refresh(replace(known.untranslated(), vectorized=True), in_request=in_request)
        self._check_artifacts(known, in_request=in_request)
        if _is_newest(listing, state):
            return False
        return self._add_new(known, state, log, listing, in_request=in_request)

    def _add_first(self, known: KnownTable, log: DeltaLog, listing: LogListing, *, in_request: bool) -> bool:
        """Publishes a document of the newest versions alone."""
        versions = listing.versions[-self._settings.max_versions_in_request :]
        ids = known.ids
        history = log.metadata_history(listing)
        assign_history([metadata for _, metadata in history], ids)
        history = translatable(history, ids)
        document = self._builds.first_document(known, history, ids)
        names = spec_names([translate_schema(metadata, ids) for _, metadata in history], {})
        build = self._builds.begin(known, log, listing, document, ids, names, in_request=in_request)
        generation = ids.generation
        newest = build_versions(build.builder, versions, None, must_have=listing.latest)
        if ids.generation != generation:
            return self._refresh(known.untranslated(ids), in_request=in_request)
        history = merged(within(history, versions), build.builder.history)
        return self._publication.publish(
            build, newest, history, complete=len(versions) == len(listing.versions)
        )

    def _add_new(
        self, known: KnownTable, state: DeltaState, log: DeltaLog, listing: LogListing, *, in_request: bool
    ) -> bool:
        """Publishes the document with the versions added since."""
        document = TableDocument.parse(known.document or b"")
        ids, names = state.field_ids, document.partition_names
        build = self._builds.begin(known, log, listing, document, ids, names, in_request=in_request)
        versions = [version for version in listing.versions if version > state.version]
        try:
            newest = build_versions(build.builder, versions, build.point(state), must_have=listing.latest)
        except FormatVersionError:
            return self._refresh(known.untranslated(), in_request=in_request)
        history = merged(state.history, build.builder.history)
        schemas = [build.builder.translated(metadata) for _, metadata in history]
        is_renamed = spec_names(schemas, names) != {**names, **document.partition_names}
        if is_renamed or ids.generation != known.ids.generation:
            return self._refresh(known.untranslated(ids), in_request=in_request)
        return self._publication.publish(build, newest, history, complete=state.complete)

    def _backfill(self, known: KnownTable, work: Backfill, progress: Progress) -> bool:
        state, log = known.state, self._builds.log(known, in_request=False)
        if state is None:
            return self._translate_again(known, work)
        work.resume(known.generation)
        listing = log.listing()
        if work.history is None:
            try:
                work.history = log.metadata_history(listing)
            except InvalidDeltaTableError:
                # the newest version is known, whatever happened to the log since
                work.history = state.history
        ids = known.ids
        assign_history([metadata for _, metadata in work.history], ids)
        if ids.generation != state.field_ids.generation:
            # an id means another column now: no artifact made with it can stay
            return self._translate_again(known.untranslated(ids), work)
        document = TableDocument.parse(known.document or b"")
        readable = translatable(work.history, ids)
        # rebuilt differently under the same names, they would have the table translated again each time
        schemas = [translate_schema(metadata, ids) for _, metadata in readable]
        left_out = misread(listing.versions, readable, schemas)
        missing = work.missing(document, listing.versions, state.version, left_out)
        names = document.partition_names
        build = self._builds.begin(known, log, listing, document, ids, names, in_request=False)
        has_more = work.build_part(build, missing, progress)
        if ids.generation != state.field_ids.generation:
            return self._translate_again(known.untranslated(ids), work)
        history = merged(state.history, build.builder.history)
        work.changed |= self._publication.publish(build, build.point(state), history, complete=not has_more)
        return has_more

    def _translate_again(self, known: KnownTable, work: Backfill) -> bool:
        work.changed |= self._refresh(known, in_request=False)
        return True

    def _missing(self, known: KnownTable, *, in_request: bool) -> Sequence[str]:
        if known.state is None or known.document is None:
            return []
        return missing_artifacts(
            self._artifacts,
            known.table.row.metadata_location,
            known.document,
            has_copies=known.state.has_copies,
            older_lists=self._settings.max_versions_in_request,
            in_request=in_request,
        )

    def _check_artifacts(self, known: KnownTable, *, in_request: bool) -> None:
        """Writes the metadata file again if nothing else is missing.

        Raises:
            ArtifactLostError: other files are missing.
        """
        location = known.table.row.metadata_location
        missing = self._missing(known, in_request=in_request)
        for other in missing:
            if other != location:
                raise ArtifactLostError(other)
        if missing and known.document is not None:
            self._artifacts.write(location, known.document)


def _is_newest(listing: LogListing, state: DeltaState) -> bool:
    return listing.latest == state.version and listing.fingerprint_of(state.version) == state.fingerprint
