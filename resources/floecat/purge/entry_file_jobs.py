"""Jobs that delete what the catalog wrote for itself about a table that was removed, with purge or without.

No entry but the removed one has files in that folder, so nothing else is asked. A table that was unregistered
is a new entry when it comes back, and is captured anew.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec

from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.entries.entry_files import delete_entry_files
from floecat.errors import UnavailableError
from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import written
from floecat.jobs.kinds import Backoff, JobKind
from floecat.jobs.queue import JobQueue
from floecat.jobs.running_job import RunningJob
from floecat.settings import PurgeSettings
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store.database.engine import Connection, Store
from floecat.store.entries.tables import EntryRow
from floecat.store.jobs import jobs
from floecat.store.statistics import files as file_rows

__all__ = ["ENTRY_FILES", "EntryFileJobs"]

ENTRY_FILES: Final = "entry-files"
"""Name of the kind."""

_HOUR_MS: Final = 3_600_000


class _Payload(msgspec.Struct, frozen=True):
    entry_id: UUID
    warehouse: str
    """Storage location of the catalog."""


class EntryFileJobs:
    """Makes the jobs, and works on them. Safe to share between threads.

    Attributes:
        queue: of the jobs.
    """

    def __init__(
        self, store: Store, storages: CatalogStorages, clock: Clock, settings: PurgeSettings
    ) -> None:
        self._store = store
        self._storages = storages
        self._clock = clock
        kind = JobKind(
            name=ENTRY_FILES,
            work=self._work,
            lease_ms=settings.lease_timeout_ms,
            max_attempts=settings.max_attempts,
            backoff=Backoff(base_ms=settings.backoff_base_ms, max_ms=settings.backoff_max_ms),
            retention_ms=settings.completed_retention_hours * _HOUR_MS,
        )
        self.queue: Final = JobQueue(store, clock, kind)

    def insert(self, conn: Connection, call: Call, row: EntryRow, identifier: TableIdentifier) -> bool:
        """Inserts the job for a table that is removed in this transaction, unless it has no such files.

        Returns:
            Whether there is a job.
        """
        if not file_rows.may_have_any(conn, row.id):
            return False
        payload = _Payload(row.id, call.catalog.storage_location)
        job = self.queue.kind.new_job(
            account_id=call.catalog.account_id,
            catalog_id=row.catalog_id,
            title=written(identifier, call.catalog.schema_separator),
            subject=str(row.id),
            payload=payload,
            created_by=call.principal.name,
            now_ms=self._clock.now_ms(),
        )
        jobs.insert(conn, job)
        return True

    def _work(self, job: RunningJob) -> str | None:
        payload = msgspec.json.decode(job.row.payload, type=_Payload)
        with self._store.read() as conn:
            storage = self._storages.by_id(conn, job.row.catalog_id)
        if storage is None:
            return "the catalog was deleted, and its locations with it"
        job.check()
        outcome = delete_entry_files(storage, payload.warehouse, payload.entry_id)
        if outcome.failures:
            reason = outcome.failures[0].reason
            raise UnavailableError(
                f"{len(outcome.failures)} files could not be deleted, the first because: {reason}"
            )
        return f"{outcome.deleted} deleted"
