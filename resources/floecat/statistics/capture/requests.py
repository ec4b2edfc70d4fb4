"""Captures that are asked for: by commits, by operators, by backfills. Each is a job; a twin is not made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final
from uuid import UUID

import msgspec

from floecat.clock import Clock
from floecat.errors import NoSuchTableError
from floecat.jobs.kinds import JobKind
from floecat.jobs.running_job import RunningJob
from floecat.store.commits import commit_log
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import DuplicateKeyError, ForeignKeyError
from floecat.store.jobs import jobs
from floecat.store.jobs.jobs import JobRow
from floecat.store.statistics import captures
from floecat.store.statistics.captures import CaptureRow, NamedTable

__all__ = [
    "BACKFILL",
    "CAPTURE",
    "COMMIT",
    "GROUP",
    "PUBLICATION",
    "REQUEST",
    "SCAN",
    "SPARK_LANE",
    "TABLE",
    "CapturePayload",
    "CaptureRequests",
    "GroupPayload",
    "TablePayload",
    "payload_of",
]

CAPTURE: Final = "capture"
"""Name of the kind of jobs."""

TABLE: Final = "capture-table"
"""Name of the kind of jobs that a scan of a connector asks for: captures of several snapshots of a table."""

GROUP: Final = "capture-group"
"""Name of the kind of jobs of groups."""

PUBLICATION: Final = "statistics-file"
"""Name of the kind of jobs that publish what was captured, once nobody works on the table."""

SPARK_LANE: Final = "spark"
"""Lane in which the groups of a large capture wait for Spark."""

COMMIT: Final = "commit"
"""Reason of captures that commits start."""

REQUEST: Final = "request"
"""Reason of captures that someone asked for."""

BACKFILL: Final = "backfill"
"""Reason of captures of snapshots that were there before."""

SCAN: Final = "scan"
"""Reason of captures of tables that a connector found."""

_TABLES: Final = 100
"""Tables whose captures are asked for in one transaction."""

_BACKFILLED: Final = 1_000
_COMMITS: Final = 1_000
"""Commits that one look takes from the log of a catalog."""


class CapturePayload(msgspec.Struct, frozen=True):
    """The subject of a capture."""

    entry_id: UUID
    snapshot_id: int
    reason: str
    """`commit`, `request`, `backfill` or `scan`."""
    full: bool = False
    """Whether files are read again whose statistics are stored."""


class TablePayload(msgspec.Struct, frozen=True):
    """The subject of the captures of a table."""

    entry_id: UUID
    newest: int = 0
    """Number of newest snapshots; 0 for the current one alone."""
    full: bool = False
    """Whether snapshots are captured again, and all of their files read."""


class GroupPayload(msgspec.Struct, frozen=True):
    """The subject of a group; its files are the attachment of the job."""

    entry_id: UUID
    snapshot_id: int
    number: int
    files: int
    size_bytes: int


class CaptureRequests:
    """Makes the jobs. Safe to share between threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        kind: JobKind,
        publication: JobKind,
        of_tables: JobKind,
        wake: Callable[[], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._kind = kind
        self._of_tables = of_tables
        self._publication = publication
        self._wake = wake

    def request(
        self,
        table: NamedTable,
        snapshot_ids: Sequence[int],
        reason: str,
        created_by: str,
        *,
        full: bool = False,
    ) -> list[JobRow]:
        """Asks for captures of snapshots of a table.

        Returns:
            The jobs, in the order of the snapshots; those that were open before among them.

        Raises:
            ForeignKeyError: the table was dropped.
        """

        def insert(conn: Connection) -> list[JobRow]:
            return [self._insert(conn, table, each, reason, created_by, full=full) for each in snapshot_ids]

        while True:
            try:
                made = self._store.run(insert)
            except DuplicateKeyError:
                continue  # another process asked for one of them at this moment
            self._wake()
            return made

    def request_tables(
        self, tables: Sequence[NamedTable], newest: int, *, parent_id: UUID | None, full: bool
    ) -> int:
        """Asks for captures of tables that a scan found, unless they are asked for already.

        Args:
            newest: how many snapshots of each; see `TablePayload`.
            parent_id: the job of the scan.
            full: whether snapshots are captured again.

        Returns:
            Number of tables that are new among those that are asked for.
        """
        asked = 0
        for start in range(0, len(tables), _TABLES):
            asked += self._insert_tables(tables[start : start + _TABLES], newest, parent_id, full=full)
        if asked:
            self._wake()
        return asked

    def _insert_tables(
        self, tables: Sequence[NamedTable], newest: int, parent_id: UUID | None, *, full: bool
    ) -> int:
        def insert(conn: Connection) -> int:
            asked = 0
            for table in tables:
                key = f"{table.entry_id}:{table.snapshot_id}"
                if jobs.open_with_key(conn, TABLE, key) is not None:
                    continue
                payload = TablePayload(table.entry_id, newest, full)
                jobs.insert(conn, self._job(self._of_tables, table, payload, SCAN, key, parent_id))
                asked += 1
            return asked

        while True:
            with suppress(DuplicateKeyError):  # another process asked for one of them at this moment
                return self._store.run(insert)

    def request_parts(self, job: RunningJob, table: NamedTable, snapshot_ids: Sequence[int]) -> int:
        """Asks for captures that belong to the job of their table, in one transaction.

        Those of an earlier round are forgotten.

        Returns:
            Number of captures; those that are open already belong to other jobs, and do not count.

        Raises:
            ForeignKeyError: the table was dropped.
            LeaseLostError: the job is another worker's.
            JobCancelledError: it is to be cancelled.
        """
        payload = msgspec.json.decode(job.row.payload, type=TablePayload)

        def insert(conn: Connection) -> int:
            own = job.row.id
            jobs.delete_finished_children(conn, own)
            asked = [
                self._insert(conn, table, each, SCAN, SCAN, full=payload.full, parent_id=own)
                for each in snapshot_ids
            ]
            return sum(each.parent_id == own for each in asked)

        while True:
            with suppress(DuplicateKeyError):  # another process asked for one of them at this moment
                made = job.submit(insert)
                break
        self._wake()
        return made

    def backfill(self, entry_id: UUID, created_by: str) -> list[JobRow]:
        """Asks for captures of the snapshots of a table that are not captured, newest first, at most 1,000.

        Raises:
            NoSuchTableError: there is no such table.
        """
        with self._store.read() as conn:
            missing = captures.uncaptured(conn, entry_id, _BACKFILLED)
            named = captures.named(conn, [entry_id])
        if not named:
            raise NoSuchTableError(f"Table does not exist: {entry_id}")
        try:
            return self.request(named[0], missing, BACKFILL, created_by) if missing else []
        except ForeignKeyError:
            raise NoSuchTableError(f"Table does not exist: {entry_id}") from None

    def publish_later(self, capture: JobRow, payload: CapturePayload, until_ms: int) -> None:
        """Asks for the publication of what a capture made, at a time, unless that was done before."""
        key = f"{payload.entry_id}:{payload.snapshot_id}"
        made = self._publication.new_job_about(capture, payload, self._clock.now_ms(), dedup_key=key)

        def insert(conn: Connection) -> None:
            if jobs.open_with_key(conn, PUBLICATION, key) is None:
                jobs.insert(conn, made.waiting_until(until_ms))

        with suppress(DuplicateKeyError):  # made at this moment
            self._store.run(insert)

    def search_commits(self) -> int:
        """Asks for captures of the tables that were committed to since the last search, in any process.

        A commit that leaves the current snapshot as it was starts nothing.

        Returns:
            How many captures were asked for.

        Raises:
            StoreUnavailableError: the store does not answer.
        """
        with self._store.read() as conn:
            behind = captures.behind(conn)
        asked = 0
        for catalog_id, seen in behind:
            try:
                asked += self._store.run(partial(self._search, catalog_id=catalog_id, seen=seen))
            except (DuplicateKeyError, ForeignKeyError):
                continue  # a capture was asked for, or a table dropped, at this moment
        if asked:
            self._wake()
        return asked

    def _search(self, conn: Connection, catalog_id: UUID, seen: int) -> int:
        commits = commit_log.read_after(conn, catalog_id, seen, _COMMITS)
        if not commits or not captures.move_position(conn, catalog_id, seen, commits[-1].commit_version):
            return 0
        changed = {each.entry_id for each in commits if each.kind == "table" and each.snapshot_id is not None}
        asked = 0
        for table in captures.named(conn, list(changed)) if changed else ():
            # scans ask for what they bring here
            is_wanted = table.policy is None or (table.policy.captures and not table.is_followed)
            if is_wanted and table.snapshot_id is not None and not table.captured:
                self._insert(conn, table, table.snapshot_id, COMMIT, COMMIT, full=False)
                asked += 1
        return asked

    def _insert(
        self,
        conn: Connection,
        table: NamedTable,
        snapshot_id: int,
        reason: str,
        created_by: str,
        *,
        full: bool,
        parent_id: UUID | None = None,
    ) -> JobRow:
        key = f"{table.entry_id}:{snapshot_id}"
        found = jobs.open_with_key(conn, CAPTURE, key)
        if found is not None:
            return found
        payload = CapturePayload(table.entry_id, snapshot_id, reason, full)
        job = self._job(self._kind, table, payload, created_by, key, parent_id)
        captures.request(
            conn,
            table.entry_id,
            [CaptureRow(snapshot_id=snapshot_id, job_id=job.id, requested_at_ms=job.created_at_ms)],
        )
        jobs.insert(conn, job)
        return job

    def _job(
        self,
        kind: JobKind,
        table: NamedTable,
        payload: msgspec.Struct,
        created_by: str,
        key: str,
        parent_id: UUID | None,
    ) -> JobRow:
        return kind.new_job(
            account_id=table.account_id,
            catalog_id=table.catalog_id,
            title=table.logical_name,
            subject=str(table.entry_id),
            payload=payload,
            created_by=created_by,
            now_ms=self._clock.now_ms(),
            dedup_key=key,
            parent_id=parent_id,
        )


def payload_of(row: JobRow) -> CapturePayload:
    """The subject of a capture."""
    return msgspec.json.decode(row.payload, type=CapturePayload)
