"""Purge as a kind of job: the drop that makes one, what it holds, and how it is worked on.

The entry is removed and the job inserted in one SQL transaction: a crash in between can neither lose track of
the files nor delete files of a table that still exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.catalog.tables import TableService
from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.errors import LocationNotAllowedError
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.kinds import Backoff, JobKind
from floecat.jobs.running import RunningJob
from floecat.purge.deletions import PurgeCounts
from floecat.purge.purger import PurgeIncompleteError, Purger, PurgeTarget
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store import jobs, tables
from floecat.store.database.engine import Connection, Store
from floecat.store.jobs import JobRow
from floecat.store.tables import EntryRow

__all__ = ["PURGE", "DropService", "PurgePayload", "PurgeWork", "purge_job_for", "purge_kind"]

PURGE: Final = "purge"
"""Name of the kind."""

_WORDS: Final = {"queued": "pending", "waiting": "pending", "succeeded": "done", "failed": "dead"}
_DELETED: Final = "deleted_files"


class PurgePayload(msgspec.Struct, frozen=True):
    """A dropped table. Its files are not listed here, as its metadata names them."""

    entry_id: UUID
    table_uuid: str
    location: str
    metadata_location: str
    """Root of what is reachable, and the last file that is deleted."""
    format: str = "iceberg"


class PurgeWork:
    """Works on purge jobs. Safe to share between threads."""

    def __init__(self, store: Store, storages: CatalogStorages, purger: Purger) -> None:
        """Puts the work together.

        Args:
            store: holds the catalogs.
            storages: of the catalogs.
            purger: deletes files.
        """
        self._store = store
        self._purger = purger
        self._storages = storages

    def __call__(self, job: RunningJob) -> str | None:
        """Deletes the files of the table.

        Raises:
            PurgeIncompleteError: some files could not be deleted.
            FloecatError: as `Purger.purge`.
        """
        payload = msgspec.json.decode(job.row.payload, type=PurgePayload)
        with self._store.read() as conn:
            storage = self._storages.by_id(conn, job.row.catalog_id)
        if storage is None:
            raise LocationNotAllowedError("the catalog of the table was deleted, and its locations with it")
        target = PurgeTarget(
            payload.table_uuid,
            payload.metadata_location,
            storage,
            job.attachment(),
            payload.format,
            job.lease,
        )
        try:
            report = self._purger.purge(target, job.check)
        except PurgeIncompleteError as error:
            _count(job, error.counts)
            raise
        _count(job, report.counts)
        return (
            f"{report.counts.deleted} files deleted, {report.counts.shared} shared with live tables,"
            f" {report.counts.outside} outside the allowed locations"
            + (f"; {report.note}" if report.note else "")
        )


def purge_kind(work: PurgeWork, *, lease_ms: int, max_attempts: int, retention_ms: int) -> JobKind:
    """The kind of purge jobs."""
    return JobKind(
        name=PURGE,
        work=work,
        lease_ms=lease_ms,
        max_attempts=max_attempts,
        backoff=Backoff(),
        retention_ms=retention_ms,
        words=_WORDS,
    )


def purge_job_for(
    kind: JobKind, row: EntryRow, identifier: TableIdentifier, account_id: UUID, principal: str, now_ms: int
) -> JobRow:
    """The job for a table that is dropped in this transaction. Its attachment is the metadata document.

    Args:
        kind: as `purge_kind` makes it.
        row: the table, as it is when it is dropped.
        identifier: its name.
        account_id: of its catalog.
        principal: who drops it.
        now_ms: the time.
    """
    # a table of another format is known by its root, as its metadata can be rebuilt at any time
    resource = row.metadata_location if row.format == "iceberg" else row.location
    return kind.new_job(
        account_id=account_id,
        catalog_id=row.catalog_id,
        title=str(identifier),
        subject=row.object_uuid.lower(),
        resource=resource,
        payload=PurgePayload(row.id, row.object_uuid, row.location, row.metadata_location, row.format),
        created_by=principal,
        now_ms=now_ms,
    )


def _count(job: RunningJob, counts: PurgeCounts) -> None:
    job.progress[_DELETED] = job.progress.get(_DELETED, 0) + counts.deleted


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
