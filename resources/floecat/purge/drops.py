"""Drops and unregisters tables, and sees to the purge of their files.

The entry is removed and the job inserted in one SQL transaction: a crash in between can neither lose track of
the files nor delete files of a table that still exists.
"""

from __future__ import annotations

from collections.abc import Callable

from floecat.catalog.tables import TableService
from floecat.clock import Clock
from floecat.entries.calls import Call, LoadedTable
from floecat.errors import PurgeFailedError
from floecat.events.listeners import EventListeners
from floecat.events.table_events import TableDropped
from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import written
from floecat.jobs.queue import JobQueue
from floecat.purge.entry_file_jobs import EntryFileJobs
from floecat.purge.purge_jobs import purge_job_for
from floecat.purge.purgers import SQL_ASYNC
from floecat.store.database.engine import Connection
from floecat.store.entries import tables
from floecat.store.entries.tables import EntryRow
from floecat.store.jobs import jobs
from floecat.store.jobs.jobs import JobRow
from floecat.store.statistics import artifact_files

__all__ = ["DropService"]


class DropService:
    """Drops tables."""

    def __init__(
        self,
        services: TableService,
        clock: Clock,
        queue: JobQueue,
        listeners: EventListeners,
        entry_files: EntryFileJobs,
        *,
        purger: str,
    ) -> None:
        """`purger` names the purger of new jobs; `listeners` are called after a drop."""
        self._tables = services
        self._clock = clock
        self._queue = queue
        self._listeners = listeners
        self._entry_files = entry_files
        self._purger = purger

    @property
    def purges_at_once(self) -> bool:
        """Whether a drop with purge takes as long as the purger."""
        return self._purger != SQL_ASYNC

    def drop(
        self,
        call: Call,
        identifier: TableIdentifier,
        *,
        purge: bool,
        request_id: str | None = None,
        check: Callable[[EntryRow], None] = lambda _row: None,
    ) -> None:
        """Removes the table; with `purge` its files go too, later if the purger is `sql-async`.

        Args:
            check: raises if the table is not the one that is meant; called in the transaction.

        Raises:
            ForbiddenError: the principal may not drop the table, or not purge it.
            NoSuchTableError: the table does not exist.
            PurgeFailedError: the table is dropped, and the purger failed at once; workers try again.
        """
        dropped: tuple[EntryRow, JobRow | None] | None = None

        def within(conn: Connection, row: tables.EntryRow) -> None:
            nonlocal dropped
            check(row)
            dropped = row, self._insert_job(conn, call, row, identifier, request_id) if purge else None
            self._entry_files.insert(conn, call, row, identifier)

        self._tables.drop(call, identifier, within, purge=purge)
        if dropped is None:
            return  # the answer to an earlier request was given again
        row, job = dropped
        self._listeners.emit(self._event(call, identifier, row, purge=purge, request_id=request_id))
        self._entry_files.queue.wake()
        self._queue.wake()
        if job is not None:
            self._purge(job)

    def unregister(self, call: Call, identifier: TableIdentifier) -> LoadedTable:
        """Forgets a table; see `TableService.unregister`."""

        def within(conn: Connection, row: EntryRow) -> None:
            self._entry_files.insert(conn, call, row, identifier)

        table = self._tables.unregister(call, identifier, within)
        self._entry_files.queue.wake()
        return table

    def _insert_job(
        self,
        conn: Connection,
        call: Call,
        row: EntryRow,
        identifier: TableIdentifier,
        request_id: str | None,
    ) -> JobRow:
        job = purge_job_for(
            self._queue.kind,
            call,
            row,
            identifier,
            purger=self._purger,
            request_id=request_id,
            now_ms=self._clock.now_ms(),
        )
        if self.purges_at_once:
            job = self._queue.claimed(job)
        jobs.insert(conn, job, tables.document(conn, row.id))
        artifact_files.keep_for_purge(conn, job.id, row.id)
        return job

    def _purge(self, job: JobRow) -> None:
        if not self.purges_at_once:
            return
        worked = self._queue.work_on(job)
        if worked.outcome != "succeeded":
            raise PurgeFailedError(
                f"Table {job.title} is dropped, and the purge of its files failed: {worked.error}."
                f" Job {job.id} tries again"
            )

    def _event(
        self, call: Call, identifier: TableIdentifier, row: EntryRow, *, purge: bool, request_id: str | None
    ) -> TableDropped:
        return TableDropped(
            catalog=call.catalog.name,
            catalog_id=row.catalog_id,
            identifier=identifier,
            logical_name=written(identifier, call.catalog.schema_separator),
            table_uuid=row.object_uuid,
            location=row.location,
            principal=call.principal.name,
            request_id=request_id,
            at_ms=self._clock.now_ms(),
            purge_requested=purge,
            metadata_location=row.metadata_location,
        )
