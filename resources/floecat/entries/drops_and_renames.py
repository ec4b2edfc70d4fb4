"""Drop, rename and unregister: changes of an entry that leave its metadata as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from floecat.auth.authorizer import Privilege
from floecat.clock import Clock
from floecat.entries.calls import Call, EntryKind
from floecat.entries.names import missing_entry, missing_namespace, protected
from floecat.errors import AlreadyExistsError, UnavailableError
from floecat.identifiers.namespace import TableIdentifier, check_name
from floecat.store.access import grants
from floecat.store.catalogs import namespaces
from floecat.store.commits import commit_log
from floecat.store.commits.confirmed_transactions import ConfirmedTransactions, leave_trace
from floecat.store.database.engine import Connection
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError
from floecat.store.entries import entry_changes, tables

__all__ = ["DropsAndRenames"]

_ATTEMPTS = 20
_RENAME: Mapping[EntryKind, tuple[Privilege, Privilege]] = {
    "table": (Privilege.RENAME_TABLE, Privilege.CREATE_TABLE),
    "view": (Privilege.RENAME_VIEW, Privilege.CREATE_VIEW),
}


class _MovedError(Exception):
    """The entry changed between look and compare-and-set; the transaction is rolled back."""


class DropsAndRenames:
    """Changes entries by compare-and-set, with a row in the commit log."""

    def __init__(self, transactions: ConfirmedTransactions, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock

    def remove(
        self,
        call: Call,
        identifier: TableIdentifier,
        kind: EntryKind,
        privileges: Sequence[Privilege],
        operation: str,
        also: Callable[[Connection, tables.EntryRow], None],
        *,
        purge: bool = False,
    ) -> None:
        """Removes an entry as it is at this moment; commits that come later fail.

        Args:
            identifier: the entry.
            kind: what it must be.
            privileges: what the principal must have on it.
            operation: how the commit log calls it.
            also: what else happens in the transaction, given the row; the document is still there.
            purge: whether the commit log says that its files are to be deleted.

        Raises:
            ForbiddenError: the principal does not have one of the privileges.
            NoSuchTableError, NoSuchViewError: there is no such entry.
            ConflictError: it is protected.
            CommitStateUnknownError: it may have been removed.
        """
        entry = call.on_entry(kind, identifier)
        call.check(*((privilege, entry) for privilege in privileges))

        def work(conn: Connection, transaction_id: UUID) -> None:
            row = self._find(conn, call, identifier, kind)
            if row.protected:
                raise protected(entry)
            also(conn, row)
            if not entry_changes.delete(conn, row.id, row.version):
                raise _MovedError
            grants.delete_of_securable(conn, row.id)
            self._log(conn, call, row, identifier, operation, transaction_id, purge=purge)

        self._retried(call, work)

    def rename(
        self,
        call: Call,
        source: TableIdentifier,
        destination: TableIdentifier,
        kind: EntryKind,
        also: Callable[[Connection], None],
    ) -> None:
        """Gives an entry another name, in the same or another namespace. Identity and location stay.

        Raises:
            BadRequestError: the new name cannot be addressed or stored.
            ForbiddenError: the principal may not rename the entry, or not create one of the new name.
            NoSuchTableError, NoSuchViewError: there is no such entry.
            NoSuchNamespaceError: the namespace of the new name does not exist.
            AlreadyExistsError: the new name is taken, by a table or a view.
            CommitStateUnknownError: it may have been renamed.
        """
        check_name(destination.name, f"{kind} name")
        may_rename, may_create = _RENAME[kind]
        call.check((may_rename, call.on_entry(kind, source)), (may_create, call.on_entry(kind, destination)))

        def work(conn: Connection, transaction_id: UUID) -> None:
            row = self._find(conn, call, source, kind)
            if source == destination:
                leave_trace(conn, transaction_id, self._clock.now_ms())
            else:
                target = namespaces.get(conn, call.catalog.id, destination.namespace)
                if target is None:
                    raise missing_namespace(destination.namespace)
                taken = tables.find(conn, call.catalog.id, destination)
                if taken is not None:
                    raise _taken(kind, source, destination, taken.kind)
                now_ms = self._clock.now_ms()
                if not entry_changes.rename(conn, row.id, row.version, target.id, destination.name, now_ms):
                    raise _MovedError
                self._log(conn, call, row, destination, "rename", transaction_id, into=target.id)
            also(conn)

        self._retried(call, work)

    def _find(
        self, conn: Connection, call: Call, identifier: TableIdentifier, kind: EntryKind
    ) -> tables.EntryRow:
        row = tables.find(conn, call.catalog.id, identifier)
        if row is None or row.kind != kind:
            raise missing_entry(kind, identifier)
        return row

    def _log(
        self,
        conn: Connection,
        call: Call,
        row: tables.EntryRow,
        identifier: TableIdentifier,
        operation: str,
        transaction_id: UUID,
        *,
        purge: bool = False,
        into: UUID | None = None,
    ) -> None:
        metadata_location = row.metadata_location if row.has_metadata else None
        entry = commit_log.CommitLogEntry(
            entry_id=row.id,
            kind=row.kind,
            operation=operation,
            namespace=identifier.namespace,
            name=identifier.name,
            snapshot_id=None,
            metadata_location=metadata_location,
            previous_metadata_location=metadata_location,
            principal=call.principal.name,
            purge_requested=purge,
        )
        now_ms = self._clock.now_ms()
        changed = {row.namespace_id} if into is None else {row.namespace_id, into}
        commit_log.append(
            conn, call.catalog.id, [entry], now_ms, transaction_id=transaction_id, contents_of=changed
        )

    def _retried(self, call: Call, work: Callable[[Connection, UUID], None]) -> None:
        """Runs a transaction until its compare-and-set holds; the next attempt decides a race on names."""
        for _ in range(_ATTEMPTS):
            try:
                self._transactions.run(call.catalog.id, work)
            except (_MovedError, DuplicateKeyError, ForeignKeyError):
                continue
            return
        raise UnavailableError("Too many concurrent changes of the entry; nothing was changed")


def _taken(
    kind: EntryKind, source: TableIdentifier, destination: TableIdentifier, taken_by: str
) -> AlreadyExistsError:
    if kind == taken_by == "table":
        return AlreadyExistsError(f"Table already exists: {destination}")
    return AlreadyExistsError(
        f"Cannot rename {source} to {destination}. {taken_by.capitalize()} already exists"
    )
