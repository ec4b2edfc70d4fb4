"""Dropping a table, with or without its files.

The entry goes and the purge job comes in one SQL transaction: a crash in between can neither lose the files'
trace nor delete files of a table that is still there.
"""

from __future__ import annotations

from floecat.catalog.calls import Call
from floecat.catalog.tables import TableService
from floecat.clock import Clock
from floecat.identifiers.namespace import TableIdentifier
from floecat.purge.requests import purge_job_for
from floecat.store import purge_jobs, tables
from floecat.store.engine import Connection

__all__ = ["DropService"]


class DropService:
    """Drops tables."""

    def __init__(self, services: TableService, clock: Clock) -> None:
        """Takes the service that removes entries, and the clock."""
        self._tables = services
        self._clock = clock

    def drop(self, call: Call, identifier: TableIdentifier, *, purge: bool) -> None:
        """Removes the table; with `purge` its files are deleted later, by a purge worker.

        Raises:
            NoSuchTableError: the table does not exist.
        """

        def insert_job(conn: Connection, row: tables.EntryRow) -> None:
            document = tables.document(conn, row.id)
            purge_jobs.insert(conn, purge_job_for(row, identifier, self._clock.now_ms(), document))

        self._tables.drop(call, identifier, insert_job if purge else None)
