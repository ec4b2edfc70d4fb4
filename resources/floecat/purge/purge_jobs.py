"""Purge as a kind of job: what a row holds, how it is worked on, what is shown and reported of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.entries.formats import is_derived
from floecat.events.listeners import EventListeners
from floecat.events.table_events import PurgeCompleted, PurgeFailed, PurgeStarted
from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import written
from floecat.jobs.descriptions import JobInfo
from floecat.jobs.kinds import Backoff, JobKind
from floecat.jobs.queue import server_identity
from floecat.jobs.running_job import RunningJob
from floecat.purge.deletion.progress import PROGRESS, PurgeProgress, progress_of
from floecat.purge.deletion.ranges import RangeRunner
from floecat.purge.purgers import Purgers, ReachableFilesPurger
from floecat.purge.spi import PurgeRequest, PurgerRows
from floecat.settings import PurgeSettings
from floecat.store.entries.tables import EntryRow
from floecat.store.jobs.job_claims import Lease
from floecat.store.jobs.jobs import JobRow

__all__ = ["PURGE", "PurgeInfo", "PurgePayload", "PurgeWork", "payload_of", "purge_job_for", "purge_kind"]

PURGE: Final = "purge"
"""Name of the kind."""

_HOUR_MS: Final = 3_600_000


class PurgePayload(msgspec.Struct, frozen=True):
    """A dropped table. Its files are not listed here, as its metadata names them; nor are keys of storage."""

    entry_id: UUID
    table_uuid: str
    location: str
    metadata_location: str
    """Root of what is reachable, and the last file that is deleted."""
    format: str
    purger: str
    """Name of the purger that is called."""
    catalog: str
    """Name of its catalog."""
    namespace: tuple[str, ...]
    name: str

    @property
    def identifier(self) -> TableIdentifier:
        """The name that the table had."""
        return TableIdentifier(self.namespace, self.name)


class PurgeInfo(JobInfo, frozen=True, kw_only=True):
    """A purge as operators see it; its location is that of the table."""

    account_id: UUID
    catalog: str
    """Name of its catalog."""
    identifier: TableIdentifier
    """Name of the table when it was dropped."""
    table_uuid: str
    metadata_location: str
    format: str
    purger: str
    progress: PurgeProgress

    @property
    def table(self) -> Mapping[str, object]:
        """Name of the table when it was dropped."""
        return self.identifier._asdict()

    @property
    def counts(self) -> Mapping[str, int]:
        """Files by what became of them."""
        return self.progress.numbers


class PurgeWork:
    """Works on purge jobs, by the purger that each names. Safe to share between threads."""

    def __init__(
        self,
        purgers: Purgers,
        listeners: EventListeners,
        clock: Clock,
        rows: Callable[[Lease], PurgerRows],
    ) -> None:
        """`listeners` are called when an attempt starts, and when a purge has ended."""
        self._rows = rows
        self._purgers = purgers
        self._listeners = listeners
        self._clock = clock

    def __call__(self, job: RunningJob, *, runner: RangeRunner | None = None) -> str | None:
        """Calls the purger.

        Args:
            runner: deletes data files in other processes; only built-in purgers use it.

        Raises:
            SettingsError: it is not a purger of this process.
            FloecatError: as the purger raises it.
        """
        payload = payload_of(job.row)
        purger = self._purgers.get(payload.purger)
        request = _request(job, payload, self._rows(job.lease))
        job.progress[PROGRESS] = request.progress
        self._listeners.emit(
            PurgeStarted(
                **self._common(job.row), job_id=job.row.id, purger=payload.purger, attempt=job.row.attempts
            )
        )
        if isinstance(purger, ReachableFilesPurger):
            purger.purge_table(request, runner)
        else:
            purger.purge_table(request)
        counted = {"deleted": request.progress.deleted, **request.progress.kept}
        return ", ".join(f"{number} {name}" for name, number in counted.items() if number) or None

    def ended(self, job: RunningJob, state: str, error: str | None) -> None:
        """Calls the listeners for a purge that has ended."""
        row, purger = job.row, payload_of(job.row).purger
        if state == "succeeded":
            event = PurgeCompleted(
                **self._common(row),
                job_id=row.id,
                purger=purger,
                elapsed_ms=self._clock.now_ms() - row.created_at_ms,
                counts=job.progress[PROGRESS].numbers,
            )
            self._listeners.emit(event)
        elif state == "failed":
            self._listeners.emit(
                PurgeFailed(
                    **self._common(row),
                    job_id=row.id,
                    purger=purger,
                    attempts=min(row.attempts, row.max_attempts),
                    error=error or "",
                )
            )

    def _common(self, row: JobRow) -> dict[str, Any]:
        payload = payload_of(row)
        return {
            "catalog": payload.catalog,
            "catalog_id": row.catalog_id,
            "identifier": payload.identifier,
            "logical_name": row.title,
            "table_uuid": payload.table_uuid,
            "location": payload.location,
            "principal": row.created_by,
            "request_id": row.request_id,
            "at_ms": self._clock.now_ms(),
        }


def purge_kind(work: PurgeWork, settings: PurgeSettings) -> JobKind:
    """The kind of purge jobs."""
    return JobKind(
        name=PURGE,
        work=work,
        lease_ms=settings.lease_timeout_ms,
        max_attempts=settings.max_attempts,
        backoff=Backoff(base_ms=settings.backoff_base_ms, max_ms=settings.backoff_max_ms),
        retention_ms=settings.completed_retention_hours * _HOUR_MS,
        describe=_describe,
        is_irreversible=True,
        ended=work.ended,
    )


def purge_job_for(
    kind: JobKind,
    call: Call,
    row: EntryRow,
    identifier: TableIdentifier,
    *,
    purger: str,
    request_id: str | None,
    now_ms: int,
) -> JobRow:
    """The job for a table that is dropped in this transaction. Its attachment is the metadata document.

    Args:
        kind: as `purge_kind` makes it.
        call: who drops it, from which catalog.
        row: the table, as it is when it is dropped.
        identifier: its name.
        purger: name of the purger.
        request_id: of the request that drops it.
    """
    payload = PurgePayload(
        row.id,
        row.object_uuid,
        row.location,
        row.metadata_location,
        row.format,
        purger,
        call.catalog.name,
        tuple(identifier.namespace),
        identifier.name,
    )
    return kind.new_job(
        account_id=call.catalog.account_id,
        catalog_id=row.catalog_id,
        title=written(identifier, call.catalog.schema_separator),
        subject=row.object_uuid.lower(),
        # a table of another format is known by its root, as its metadata can be rebuilt at any time
        resource=row.location if is_derived(row.format) else row.metadata_location,
        payload=payload,
        created_by=call.principal.name,
        now_ms=now_ms,
        request_id=request_id,
    )


def payload_of(row: JobRow) -> PurgePayload:
    """The table that a purge job is about."""
    return msgspec.json.decode(row.payload, type=PurgePayload)


def _describe(row: JobRow, children: Sequence[JobInfo] | None) -> PurgeInfo:
    payload, progress = payload_of(row), progress_of(row)
    if children is None:
        progress.failed_keys.clear()
    return PurgeInfo.of(
        row,
        children,
        location=payload.location,
        worker=row.lease_owner or progress.server or None,  # who works on it, or did last
        account_id=row.account_id,
        catalog=payload.catalog,
        identifier=payload.identifier,
        table_uuid=payload.table_uuid,
        metadata_location=payload.metadata_location,
        format=payload.format,
        purger=payload.purger,
        progress=progress,
    )


def _request(job: RunningJob, payload: PurgePayload, rows: PurgerRows) -> PurgeRequest:
    row, progress = job.row, progress_of(job.row)
    progress.begin_again()
    progress.server = server_identity()
    return PurgeRequest(
        job_id=row.id,
        attempt=row.attempts,
        account_id=row.account_id,
        catalog_id=row.catalog_id,
        catalog=payload.catalog,
        identifier=payload.identifier,
        entry_id=payload.entry_id,
        table_uuid=payload.table_uuid,
        location=payload.location,
        metadata_location=payload.metadata_location,
        format=payload.format,
        principal=row.created_by,
        request_id=row.request_id,
        requested_at_ms=row.created_at_ms,
        progress=progress,
        lease=job.lease,
        check=job.check,
        rows=rows,
        attachment=job.attachment,
    )
