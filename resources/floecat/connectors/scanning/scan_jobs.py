"""Scans of connectors as jobs: by their schedules, and those that somebody starts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.catalog.catalogs import CatalogService
from floecat.clock import Clock
from floecat.connectors.connector_info import ConnectorPolicy, NewConnector, ScanProgress
from floecat.connectors.connector_service import MIN_INTERVAL_MS, SCAN_JOB, ConnectorService
from floecat.connectors.scan_reports import ConnectorScanReport
from floecat.connectors.scanning.account_turns import AccountTurns
from floecat.connectors.scanning.scans import ConnectorScans
from floecat.entries.calls import Call
from floecat.errors import (
    BadRequestError,
    FloecatError,
    ForbiddenError,
    NotAuthorizedError,
    NotFoundError,
    SettingsError,
    UnprocessableError,
)
from floecat.jobs.descriptions import JobInfo
from floecat.jobs.kinds import Backoff, JobKind
from floecat.jobs.queue import JobQueue
from floecat.jobs.rounds import JobRound
from floecat.jobs.running_job import JobFailedError, RunningJob
from floecat.settings import Settings
from floecat.store.catalogs import connectors
from floecat.store.catalogs.connectors import ConnectorRow
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError
from floecat.store.jobs import job_claims, jobs
from floecat.store.jobs.job_claims import Lease
from floecat.store.jobs.jobs import JobRow

__all__ = ["ReconcileSettings", "ScanInfo", "ScanJobs"]

_log = logging.getLogger(__name__)

_DUE_AT_ONCE = 100
_SCANS_AT_ONCE = 16
_PRINCIPAL = "connector"
_LEASE_MS = 60_000
_MAX_ATTEMPTS = 8
_BACKOFF = Backoff(base_ms=500, max_ms=30_000)
_RETENTION_MS = 7 * 86_400_000
_POLL_S = 0.1
_LONGEST_REASON = 1000
_RUN = "run"
"""Key in the progress: the run of the pipeline that works on the scan."""
_LASTING = (
    BadRequestError,
    ForbiddenError,
    NotAuthorizedError,
    NotFoundError,
    SettingsError,
    UnprocessableError,
)
"""Errors of a scan that another try would meet again: a login that is refused, a bound that is reached."""


class _ScanPayload(msgspec.Struct, frozen=True):
    connector_id: UUID
    full: bool = False
    """Whether everything is read again, whatever the policy says."""


class ScanInfo(JobInfo, frozen=True, kw_only=True):
    """A scheduled scan as operators see it."""

    connector_id: UUID
    folders: int
    tables: int
    registered: int
    changed: int
    gone: int
    failed: int
    captures: int

    @property
    def counts(self) -> Mapping[str, int]:
        """See `ScanProgress`."""
        return {name: getattr(self, name) for name in ScanProgress.__struct_fields__}


class ReconcileSettings(msgspec.Struct, frozen=True, rename="kebab"):
    """How scans and the captures that they ask for are worked on. Times in ms."""

    default_interval_ms: int
    """Between two scheduled scans of a connector that sets none."""
    shortest_interval_ms: int
    default_policy: ConnectorPolicy
    scan_attempts: int
    """Tries of a scan whose other catalog is away; a login that is refused ends it at once."""
    scan_backoff_ms: tuple[int, int]
    """Wait after the first try, which doubles, and the longest one."""
    scan_lease_ms: int
    """Time after which the scan of a process that died is done by another."""
    longest_scan_ms: int
    finished_scan_retention_ms: int
    gone_table_grace_ms: int
    capture_attempts: int
    capture_backoff_ms: tuple[int, int]
    capture_lease_ms: int
    capture_workers: int
    """Captures that each process of the service works on at once."""
    finished_capture_retention_ms: int


class ScanJobs:
    """Makes the jobs of scans, and works on them. Safe to share between threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        catalogs: CatalogService,
        services: ConnectorService,
        scans: ConnectorScans,
        settings: Settings,
    ) -> None:
        """Puts it together; `catalogs` finds the catalogs of scheduled scans."""
        self._settings = settings
        self._store = store
        self._clock = clock
        self._catalogs = catalogs
        self._services = services
        self._scans = scans
        self._started = AccountTurns("connector-scan", self._work_on)
        self.kind = JobKind(
            name=SCAN_JOB,
            work=self._work,
            lease_ms=_LEASE_MS,
            max_attempts=_MAX_ATTEMPTS,
            backoff=_BACKOFF,
            retention_ms=_RETENTION_MS,
            describe=_describe,
        )

    def start(self, call: Call, name: str, *, full: bool = False) -> ScanInfo:
        """Has a connector scanned behind the requests, as a job that this process works on.

        It goes on after this process has stopped, where the pipeline runs. If one is open, it is that one.

        Args:
            name: of the connector.
            full: whether everything is read again, whatever the policy says.

        Raises:
            ForbiddenError: the principal may not scan connectors.
            NotFoundError: there is no such connector.
            StoreUnavailableError: the store does not answer.
        """
        row, account_id = (
            self._services.find(call, name, Privilege.MANAGE_CONNECTORS),
            call.catalog.account_id,
        )

        def ask(conn: Connection) -> JobRow:
            job = jobs.open_with_key(conn, SCAN_JOB, str(row.id))
            if job is None:
                job = self._job(row, account_id, call.principal.name, full=full)
                self._insert(conn, job)
            return job

        try:
            job = self._store.run(ask)
        except DuplicateKeyError:
            job = self._store.run(ask)  # another process asked at this moment
        self._started.add(account_id, (job.id, job.subject))
        return _describe(job, None)

    def stop(self) -> None:
        """Has scans that were started here end after their step; they go on in other processes."""
        self._started.stop()

    def _work_on(self, started: tuple[UUID, str]) -> None:
        job_id, subject = started
        queue, stopped = JobQueue(self._store, self._clock, self.kind), self._started.stopped
        while not stopped.is_set():
            try:
                queue.drain_once(stopped=stopped.is_set, subject=subject)
                with self._store.read() as conn:
                    row = jobs.get(conn, job_id)
            except FloecatError as error:
                _log.warning("scan %s was left to the pipeline: %s", job_id, error.message)
                return
            if row is None or row.state not in ("queued", "waiting"):
                return  # it has ended, or another worker has it
            stopped.wait(_POLL_S)

    def settings(self, call: Call) -> ReconcileSettings:
        """What is set, or is the default.

        Raises:
            ForbiddenError: the principal may not read connectors.
        """
        call.check((Privilege.READ_CONNECTORS, call.on_catalog()))
        statistics, defaults = self._settings.statistics, NewConnector("", "", "")
        return ReconcileSettings(
            default_interval_ms=defaults.interval_ms,
            shortest_interval_ms=MIN_INTERVAL_MS,
            default_policy=ConnectorPolicy(),
            scan_attempts=_MAX_ATTEMPTS,
            scan_backoff_ms=(_BACKOFF.base_ms, _BACKOFF.max_ms),
            scan_lease_ms=_LEASE_MS,
            longest_scan_ms=self._settings.limits.connector_scan_time.ms,
            finished_scan_retention_ms=_RETENTION_MS,
            gone_table_grace_ms=self._settings.connectors.gone_table_grace.ms,
            capture_attempts=statistics.max_attempts,
            capture_backoff_ms=(statistics.backoff_base_ms, statistics.backoff_max_ms),
            capture_lease_ms=statistics.lease_ms,
            capture_workers=statistics.workers,
            finished_capture_retention_ms=statistics.completed_retention_hours * 3_600_000,
        )

    def is_due(self, now_ms: int) -> bool:
        """Whether the scan of a connector is due at a time: by its schedule, or as one that is to go on.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        with self._store.read() as conn:
            return bool(connectors.due(conn, now_ms, 1)) or job_claims.may_claim(conn, SCAN_JOB, now_ms)

    def scan_due(self, run_id: str | None = None) -> Iterator[ConnectorScanReport]:
        """Scans every connector whose time has come, of all catalogs; each is scanned by one process only.

        Several are scanned at once, so that one whose catalog hangs holds up no other.

        Args:
            run_id: the run of the pipeline that does so; see `end_run`.

        Yields:
            Reports in the order in which scans end.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        queue = JobQueue(self._store, self._clock, self.kind)
        lasts_s = self._settings.limits.connector_scan_time.seconds
        round_: JobRound[ConnectorScanReport] = JobRound(
            queue, partial(self._work, run_id=run_id), at_once=_SCANS_AT_ONCE, lasts_s=lasts_s
        )
        yield from round_.run(self._enqueue_due)

    def _enqueue_due(self) -> None:
        """Inserts a job for each scan that is due, and sets its next one, in one transaction.

        So a scan whose process dies is done again, and none is done twice.
        """
        now_ms = self._clock.now_ms()
        with self._store.read() as conn:
            due = connectors.due(conn, now_ms, _DUE_AT_ONCE)
        for row in due:
            account_id = self._catalogs.by_id(row.catalog_id).account_id

            def enqueue(conn: Connection, row: ConnectorRow = row, account_id: UUID = account_id) -> None:
                if connectors.claim(conn, row, now_ms + row.interval_ms):
                    self._insert(conn, self._job(row, account_id, _PRINCIPAL))

            try:
                self._store.run(enqueue)
            except DuplicateKeyError:
                # its scan before is still open, and the connector stays due until that one has ended
                _log.debug("connector %s is still being scanned", row.name)

    def _insert(self, conn: Connection, job: JobRow) -> None:
        # the newest one tells how it stands
        jobs.delete_failed(conn, SCAN_JOB, job.subject)
        jobs.insert(conn, job)

    def _job(self, row: ConnectorRow, account_id: UUID, created_by: str, *, full: bool = False) -> JobRow:
        return self.kind.new_job(
            account_id=account_id,
            catalog_id=row.catalog_id,
            title=row.name,
            subject=str(row.id),
            resource=row.location,
            payload=_ScanPayload(row.id, full),
            created_by=created_by,
            now_ms=self._clock.now_ms(),
            dedup_key=str(row.id),
        )

    def end_run(self, run_id: str, reason: str) -> int:
        """Makes the scans due again that a run of the pipeline left when it failed, with why.

        Otherwise each would wait until the lease of the run has ended.

        Returns:
            Number of scans.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        with self._store.read() as conn:
            left = [
                row
                for row in jobs.list_open(conn, SCAN_JOB)
                if row.state == "running" and msgspec.json.decode(row.progress).get(_RUN) == run_id
            ]
        now_ms = self._clock.now_ms()
        for row in left:
            lease = Lease(row.id, row.lease_owner or "", row.lease_epoch)
            self._store.run(
                partial(
                    job_claims.put_back,
                    lease=lease,
                    progress=row.progress,
                    now_ms=now_ms,
                    error=reason[:_LONGEST_REASON],
                    retry_at_ms=now_ms + _BACKOFF.delay_ms(row.attempts),
                )
            )
        return len(left)

    def _work(
        self,
        job: RunningJob,
        told: Callable[[ConnectorScanReport], None] = lambda _report: None,
        run_id: str | None = None,
    ) -> str | None:
        payload = msgspec.json.decode(job.row.payload, type=_ScanPayload)
        with self._store.read() as conn:
            row = connectors.get(conn, payload.connector_id)
        if row is None:
            return "the connector was deleted"
        if payload.full:
            row = msgspec.structs.replace(row, policy=msgspec.structs.replace(row.policy, full=True))
        catalog = self._catalogs.by_id(row.catalog_id)
        # the principal that created the connector was asked then; a schedule has none
        call = Call.of_service(_PRINCIPAL, catalog)

        run = {} if run_id is None else {_RUN: run_id}
        job.progress = dict(run)
        if run:
            job.submit(lambda _conn: None)

        def note(progress: ScanProgress) -> None:
            job.progress = msgspec.structs.asdict(progress) | run
            job.check()

        report = self._scans.run(call, row, note, job.row.id)
        told(report)
        if report.error is None:
            return report.summary
        if isinstance(report.error, _LASTING):
            raise JobFailedError(report.error.message)
        raise report.error


def _describe(row: JobRow, children: Sequence[JobInfo] | None) -> ScanInfo:
    progress = msgspec.json.decode(row.progress, type=ScanProgress)
    connector_id = msgspec.json.decode(row.payload, type=_ScanPayload).connector_id
    return ScanInfo.of(row, children, connector_id=connector_id, **msgspec.structs.asdict(progress))
