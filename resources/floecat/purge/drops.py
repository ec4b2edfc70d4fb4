"""Dropping a table, with or without its files.

The entry is removed and the purge job inserted in one SQL transaction: a crash in between can neither lose
track of the files nor delete files of a table that still exists.
"""

from __future__ import annotations

from collections.abc import Callable

from floecat.auth.authorizer import Privilege
from floecat.catalog.tables import TableService
from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.kinds import JobKind
from floecat.purge.jobs import purge_job_for
from floecat.store import jobs, tables
from floecat.store.database.engine import Connection

__all__ = ["DropService"]


class DropService:
    """Drops tables."""

    def __init__(self, services: TableService, clock: Clock, kind: JobKind, wake: Callable[[], None]) -> None:
        """Puts the service together.

        Args:
            services: removes entries.
            clock: wall-clock time.
            kind: the kind of purge jobs.
            wake: called after a drop that made a job, so that a worker of this process looks for it.
        """
        self._tables = services
        self._clock = clock
        self._kind = kind
        self._wake = wake

    def drop(self, call: Call, identifier: TableIdentifier, *, purge: bool) -> None:
        """Removes the table; with `purge` a worker deletes its files later.

        Raises:
            ForbiddenError: the principal may not drop the table, or not purge it.
            NoSuchTableError: the table does not exist.
        """

        def insert_job(conn: Connection, row: tables.EntryRow) -> None:
            account_id, principal = call.catalog.account_id, call.principal.name
            job = purge_job_for(self._kind, row, identifier, account_id, principal, self._clock.now_ms())
            jobs.insert(conn, job, tables.document(conn, row.id))

        if purge:
            self._tables.drop(call, identifier, insert_job, (Privilege.DROP_TABLE, Privilege.PURGE_TABLE))
            self._wake()
        else:
            self._tables.drop(call, identifier)
