"""Making a new document current: pointer, snapshots, commit log and the state of the Delta table at once."""

from __future__ import annotations

from collections.abc import Sequence

from floecat.clock import Clock
from floecat.compat.compat_table import CompatTable, DeltaState
from floecat.compat.table_document import TableDocument
from floecat.errors import NoSuchTableError
from floecat.store import commit_log, delta_tables, snapshots, tables
from floecat.store.documents import compress
from floecat.store.engine import Connection, Store
from floecat.store.snapshots import RefRow

__all__ = ["Publication", "StaleTableError"]


class StaleTableError(Exception):
    """Another process published meanwhile; what was worked out is of no use."""


class Publication:
    """Writes the rows of Delta tables."""

    def __init__(self, store: Store, clock: Clock) -> None:
        """Takes the store and the clock."""
        self._store = store
        self._clock = clock

    def publish(
        self,
        table: CompatTable,
        before: TableDocument | None,
        after: TableDocument,
        state: DeltaState,
        *,
        document: bytes,
        metadata_location: str,
    ) -> None:
        """Makes a document current.

        Args:
            table: the table as it was when the work began.
            before: its document then; `None` if it had none.
            after: the new document.
            state: what goes with it.
            document: `after`, encoded.
            metadata_location: where it was written.

        Raises:
            NoSuchTableError: the table was dropped.
            StaleTableError: somebody else published.
        """
        body = compress(document)

        def work(conn: Connection) -> None:
            row = tables.get(conn, table.row.id)
            if row is None:
                raise NoSuchTableError(f"Table does not exist: {table.identifier}")
            if row.metadata_location != table.row.metadata_location:
                raise StaleTableError
            now_ms = self._clock.now_ms()
            swapped = tables.swap(
                conn,
                row.id,
                row.version,
                metadata_location=metadata_location,
                document=body,
                size_bytes=len(document),
                location=row.location,
                format_version=after.format_version,
                object_uuid=row.object_uuid,
                now_ms=now_ms,
            )
            if not swapped:
                raise StaleTableError
            self._write_history(conn, table, before, after)
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
            entry = commit_log.CommitLogEntry(
                entry_id=row.id,
                kind="table",
                operation="refresh",
                namespace=table.identifier.namespace,
                name=row.name,
                snapshot_id=state.version,
                metadata_location=metadata_location,
                previous_metadata_location=row.metadata_location,
                principal=table.principal,
            )
            commit_log.append(conn, row.catalog_id, [entry], now_ms)

        self._store.run(work)

    @staticmethod
    def _write_history(
        conn: Connection, table: CompatTable, before: TableDocument | None, after: TableDocument
    ) -> None:
        old = {version: before.snapshot(version) for version in before.versions} if before else {}
        new = {version: after.snapshot(version) for version in after.versions}
        changed = [version for version in new if old.get(version) != new[version]]
        gone = [version for version in old if old[version] != new.get(version)]
        snapshots.delete_many(conn, table.row.id, gone)
        snapshots.insert_many(
            conn, table.row.id, [snapshots.row_of(after.summary(version)) for version in changed]
        )
        snapshots.replace_refs(conn, table.row.id, _refs(after))


def _refs(document: TableDocument) -> Sequence[RefRow]:
    return [RefRow("main", "branch", document.versions[-1])]
