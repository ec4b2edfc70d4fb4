"""Making a new document current: pointer, snapshots, commit log and the state of the Delta table at once."""

from __future__ import annotations

from uuid import UUID

from floecat.clock import Clock
from floecat.delta import delta_rows as delta_tables
from floecat.delta.refresh.delta_table import CompatTable, DeltaState
from floecat.delta.refresh.iceberg_document import TableDocument
from floecat.entries.commit_rows import PointerMovedError, write_rows
from floecat.entries.prepared_changes import EncodedDocument, Prepared, SnapshotChanges
from floecat.errors import NoSuchTableError
from floecat.iceberg.metadata.refs import MAIN_BRANCH, SnapshotRef
from floecat.identifiers.namespace import TableIdentifier
from floecat.store import tables
from floecat.store.confirmed_transactions import ConfirmedTransactions
from floecat.store.database.engine import Connection
from floecat.store.documents import compress

__all__ = ["Publication", "StaleTableError"]


class StaleTableError(Exception):
    """Another process published first; the work has to start again from what it published."""


class Publication:
    """Writes the rows of Delta tables."""

    def __init__(self, transactions: ConfirmedTransactions, clock: Clock) -> None:
        self._transactions = transactions
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
            StaleTableError: another process published first.
            CommitStateUnknownError: the document may be current.
        """
        body = compress(document)

        def work(conn: Connection, transaction_id: UUID) -> None:
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
                metadata=EncodedDocument(document),
                metadata_location=metadata_location,
                object_uuid=row.object_uuid,
                location=row.location,
                format_version=after.format_version,
                base=row,
                namespace_id=row.namespace_id,
                snapshot_id=state.version,
                snapshots=_snapshot_changes(before, after),
            )
            try:
                write_rows(conn, row.catalog_id, table.principal, [(change, body)], now_ms, transaction_id)
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

        self._transactions.run(table.row.catalog_id, work)


def _snapshot_changes(before: TableDocument | None, after: TableDocument) -> SnapshotChanges:
    old = {version: before.snapshot(version) for version in before.versions} if before else {}
    new = {version: after.snapshot(version) for version in after.versions}
    changed = [version for version in new if old.get(version) != new[version]]
    gone = [version for version in old if old[version] != new.get(version)]
    return SnapshotChanges(
        added=[after.summary(version) for version in changed],
        removed_ids=gone,
        refs={MAIN_BRANCH: SnapshotRef(after.versions[-1], "branch")},
    )
