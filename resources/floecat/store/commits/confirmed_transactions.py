"""Transactions whose outcome is found out when the store did not say.

Each leaves a trace, its id, by which another connection tells whether it was committed. A change of tables or
views leaves the id in the commit log, any other one in the table `transactions`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar
from uuid import UUID

import msgspec
import sqlalchemy as sa
import uuid_utils.compat as uuids

from floecat.errors import CommitStateUnknownError, FloecatError, NoSuchWarehouseError
from floecat.store.catalogs import catalogs
from floecat.store.commits import commit_log
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import CommitOutcomeUnknownError, ForeignKeyError
from floecat.store.database.statements import LIMIT
from floecat.store.schema import id_column, integer_column, metadata

__all__ = [
    "TRACES_KEPT_MS",
    "Confirmation",
    "ConfirmedTransactions",
    "delete_traces",
    "leave_trace",
    "was_committed",
]

_transactions: Final = sa.Table(
    "transactions",
    metadata,
    id_column(primary_key=True),
    integer_column("committed_at_ms", index=True),
)

T = TypeVar("T")

TRACES_KEPT_MS: Final = 60 * 60 * 1000
"""Time that a trace is kept; it is asked for within seconds."""

_INSERT_TRACE: Final = sa.insert(_transactions)
_FIND_TRACE: Final = sa.select(sa.literal(1)).where(_transactions.c.id == sa.bindparam("id"))
_old_traces: Final = (
    sa.select(_transactions.c.id)
    .where(_transactions.c.committed_at_ms < sa.bindparam("before_ms"))
    .order_by(_transactions.c.committed_at_ms)
    .limit(LIMIT)
)
_DELETE_TRACES: Final = sa.delete(_transactions).where(_transactions.c.id.in_(_old_traces))


class Confirmation(msgspec.Struct, frozen=True):
    """The looks for a transaction: one after each pause; pauses double up to a bound."""

    max_attempts: int
    initial_sleep_ms: int
    max_sleep_ms: int


class ConfirmedTransactions:
    """Runs the transactions that change a catalog.

    A connection can die between COMMIT and its answer. Each transaction leaves its id behind, so that another
    connection can find out whether it was committed.
    """

    def __init__(self, store: Store, confirmation: Confirmation) -> None:
        """Takes the store and how persistently it is asked."""
        self._store = store
        self._confirmation = confirmation

    def run(self, catalog_id: UUID, work: Callable[[Connection, UUID], T]) -> T:
        """Runs `work` as `Store.run` does, and answers what it returned once it is known to be committed.

        Args:
            catalog_id: whose catalog is changed.
            work: makes the change, and leaves the id that it is given in the commit log or in `transactions`.
                It may run several times; only its last run is committed.

        Raises:
            StoreUnavailableError: the store is away; nothing was changed.
            CommitStateUnknownError: the change may have been made, or may still be.
            NoSuchWarehouseError: the catalog was deleted since the request found it.
            ForeignKeyError: something else that the change refers to was.
        """
        transaction_id = uuids.uuid7()
        results: list[T] = []

        def remembered(conn: Connection) -> None:
            results[:] = [work(conn, transaction_id)]

        try:
            self._store.run(remembered, catalog_id=catalog_id)
        except ForeignKeyError:
            with self._store.read() as conn:
                if catalogs.get(conn, catalog_id) is None:
                    raise NoSuchWarehouseError("Warehouse does not exist any more") from None
            raise
        except CommitOutcomeUnknownError as error:
            if not self._was_committed(catalog_id, transaction_id):
                raise CommitStateUnknownError(
                    "The store did not say whether the change was made; look before trying again"
                ) from error
        return results[0]

    def _was_committed(self, catalog_id: UUID, transaction_id: UUID) -> bool:
        """Whether the transaction was found. One that was not may still be committed by the database."""
        poll = self._confirmation
        sleep_ms = poll.initial_sleep_ms
        for _ in range(poll.max_attempts):
            time.sleep(sleep_ms / 1000)
            sleep_ms = min(sleep_ms * 2, poll.max_sleep_ms)
            try:
                with self._store.read() as conn:
                    if was_committed(conn, catalog_id, transaction_id):
                        return True
            except FloecatError:  # whatever keeps the store from answering, the change may have been made
                continue
        return False


def leave_trace(conn: Connection, transaction_id: UUID, now_ms: int) -> None:
    """Leaves the trace of a transaction that writes nothing to the commit log.

    Raises:
        DuplicateKeyError: another transaction has this id.
    """
    conn.change(_INSERT_TRACE, {"id": transaction_id, "committed_at_ms": now_ms})


def was_committed(conn: Connection, catalog_id: UUID, transaction_id: UUID) -> bool:
    """Whether a transaction of some seconds ago left its trace, here or in the commit log of its catalog."""
    if conn.first(_FIND_TRACE, {"id": transaction_id}) is not None:
        return True
    return commit_log.has_transaction(conn, catalog_id, transaction_id)


def delete_traces(conn: Connection, before_ms: int, limit: int) -> int:
    """Deletes traces that are older, oldest first.

    Returns:
        How many; fewer than `limit` when none are left.
    """
    return conn.change(_DELETE_TRACES, {"before_ms": before_ms, "limit": limit})
