"""Making a new document current: pointer, snapshots, commit log and the state of the Delta table at once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from floecat.clock import Clock
from floecat.delta import delta_rows as delta_tables
from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.version_context import partition_fields
from floecat.delta.refresh.builds import Build
from floecat.delta.refresh.delta_table import DeltaState, KnownTable, read_document
from floecat.delta.refresh.iceberg_document import TableDocument
from floecat.delta.refresh.metadata_history import History, misread, table_properties
from floecat.delta.refresh.version_builder import Point
from floecat.entries.prepared_changes import (
    EncodedDocument,
    PointerMovedError,
    Prepared,
    SnapshotRowChanges,
    write_rows,
)
from floecat.entries.purge_guard import PurgeGuard
from floecat.errors import FloecatError, NoSuchTableError
from floecat.iceberg.metadata.refs_and_logs import MAIN_BRANCH, SnapshotRef
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.database.engine import Connection, Store
from floecat.store.entries import tables
from floecat.store.entries.documents import compress

__all__ = ["StaleTableError", "VersionPublication"]

_log = logging.getLogger(__name__)


class StaleTableError(Exception):
    """Another process published first; the work must start again from its result."""


class VersionPublication:
    """Writes the result of a refresh: the metadata file, then all rows in one transaction."""

    def __init__(
        self,
        store: Store,
        guard: PurgeGuard,
        artifacts: ArtifactFiles,
        clock: Clock,
    ) -> None:
        self._store = store
        self._guard = guard
        self._artifacts = artifacts
        self._clock = clock

    def publish(self, build: Build, newest: Point | None, history: History, *, complete: bool) -> bool:
        """Makes a version and its document current.

        Args:
            build: the document with its new snapshots.
            newest: the version.
            history: every metadata that a snapshot has.
            complete: whether every version of the log was tried.

        Returns:
            Whether the entry changed.

        Raises:
            NoSuchTableError: the table was dropped.
            StaleTableError: another process published first.
            CommitStateUnknownError: the document may be current.
        """
        if newest is None:
            raise RuntimeError("the newest version was neither built nor refused")
        known, document, builder = build.known, build.document, build.builder
        current = builder.translated(newest.metadata)
        schemas = [builder.translated(metadata) for _, metadata in history]
        vectorized = known.vectorized and builder.vectorized
        document.remove(misread(document.versions, history, schemas))
        document.make_current(
            newest.version,
            document.spec(partition_fields(current, builder.names)),
            table_properties(
                [metadata for _, metadata in history] + [newest.metadata],
                newest.version,
                current,
                schemas,
                builder.ids,
                vectorized=vectorized,
            ),
        )
        faults = known.state.faults if known.state else ()
        state = DeltaState(
            version=newest.version,
            fingerprint=build.listing.fingerprint_of(newest.version) or "",
            protocol=newest.protocol,
            history=history,
            field_ids=builder.ids,
            generation=known.generation,
            complete=complete,
            has_copies=newest.manifests.has_copies,
            faults=build.log.faults_since(faults, build.listing),
            vectorized=vectorized,
        )
        if known.document is not None and document.encode() == known.document:
            self.note_state(known, state)
            return False
        row = known.table.row
        dropped_files = document.follow(row.metadata_location) if row.has_metadata else []
        data = document.encode()
        location = known.paths.metadata_file(newest.version, data)
        self._artifacts.write(location, data)
        self._write_rows(known, document, state, data, location)
        self._delete(dropped_files)
        return True

    def note_state(self, known: KnownTable, state: DeltaState) -> None:
        """Writes the state of a table whose entry does not change."""
        old, new, entry_id = known.delta.state or b"", state.encode(), known.table.row.id
        if old != new:
            self._store.run(lambda conn: delta_tables.note_state(conn, entry_id, old, new))
        self.note_problem(known, state)

    def note_problem(self, known: KnownTable, state: DeltaState) -> None:
        """Writes the problem of a readable table, if it changed."""
        entry_id, problem, now_ms = known.table.row.id, state.problem, self._clock.now_ms()
        if known.delta.problem != problem:
            self._store.run(lambda conn: delta_tables.note_problem(conn, entry_id, problem, now_ms))

    def _write_rows(
        self, known: KnownTable, document: TableDocument, state: DeltaState, data: bytes, location: str
    ) -> None:
        """Swaps the entry: pointer, snapshots, commit log and the state of the Delta table."""
        table = known.table
        snapshots = _snapshot_changes(self._replaced(known), document)
        body = compress(data)
        made: list[Prepared[EncodedDocument]] = []

        def work(conn: Connection, transaction_id: UUID) -> bool:
            row = tables.get(conn, table.row.id)
            if row is None:
                raise NoSuchTableError(f"Table does not exist: {table.identifier}")
            if row.metadata_location != table.row.metadata_location:
                raise StaleTableError
            now_ms = self._clock.now_ms()
            change = Prepared(
                identifier=TableIdentifier(table.identifier.namespace, row.name),
                kind="table",
                operation="refresh",
                metadata=EncodedDocument(data),
                metadata_location=location,
                object_uuid=row.object_uuid,
                location=row.location,
                format_version=document.format_version,
                base=row,
                namespace_id=row.namespace_id,
                snapshot_id=state.version,
                snapshots=snapshots,
            )
            made[:] = [change]
            try:
                purging = write_rows(
                    conn, row.catalog_id, table.principal, [(change, body)], now_ms, transaction_id
                )
            except PointerMovedError:
                raise StaleTableError from None
            delta_tables.publish(
                conn,
                row.id,
                version=state.version,
                log_fingerprint=state.fingerprint,
                field_ids=state.field_ids.encode(),
                state=state.encode(),
                generation=state.generation,
                problem=state.problem,
                now_ms=now_ms,
            )
            return purging

        self._guard.run(table.row.catalog_id, made, work)

    def _replaced(self, known: KnownTable) -> TableDocument | None:
        """The document of the entry that is replaced; None if it has none."""
        data = known.document
        if data is None and known.table.row.has_metadata:
            data = read_document(self._store, known.table)
        return TableDocument.parse(data) if data is not None else None

    def _delete(self, locations: Sequence[str]) -> None:
        """Deletes metadata files that fell out of the log. Failures are logged: the entry is published."""
        for location in locations:
            try:
                self._artifacts.storage.delete(location)
            except FloecatError as error:
                _log.warning("old metadata file %s was not deleted: %s", location, error.message)


def _snapshot_changes(before: TableDocument | None, after: TableDocument) -> SnapshotRowChanges:
    old = {version: before.snapshot(version) for version in before.versions} if before else {}
    new = {version: after.snapshot(version) for version in after.versions}
    changed = [version for version in new if old.get(version) != new[version]]
    gone = [version for version in old if old[version] != new.get(version)]
    return SnapshotRowChanges(
        added=[after.summary(version) for version in changed],
        removed_ids=gone,
        refs={MAIN_BRANCH: SnapshotRef(after.versions[-1], "branch")},
    )
