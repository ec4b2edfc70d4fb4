"""The work of captures and of groups of files.

A capture plans the files of its snapshot and looks which of them are stored. What is missing it reads itself,
if that is little; otherwise it makes a job for each group and is put back until they have ended. So every
attempt begins in the same way, and goes on from what was submitted before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from floecat.errors import FloecatError, NoSuchTableError
from floecat.jobs.kinds import JobKind
from floecat.jobs.running import JobCancelledError, JobPostponedError, RunningJob
from floecat.statistics.capture import counting
from floecat.statistics.capture.finalization import Finalization, Found
from floecat.statistics.capture.groups import (
    FileGroup,
    FileProblem,
    GroupResult,
    ReadGroup,
    read_group,
    store_group,
)
from floecat.statistics.capture.live_files import LiveFile, live_files
from floecat.statistics.capture.policies import CapturePolicy, capture_policy
from floecat.statistics.capture.publication import Publication
from floecat.statistics.capture.requests import (
    CAPTURE,
    COMMIT,
    SPARK_LANE,
    CapturePayload,
    CaptureRequests,
    GroupPayload,
    payload_of,
)
from floecat.statistics.capture.sidecars import FilesSummary, Sidecar, read_files
from floecat.statistics.capture.tables import CapturedTable, discard_files, find_table
from floecat.statistics.files.summaries import CountedColumns, FileSummary
from floecat.statistics.records import StatisticsRecord
from floecat.store import job_claims, jobs
from floecat.store.database.engine import Connection
from floecat.store.database.errors import ForeignKeyError
from floecat.store.jobs import DEFAULT_LANE, OPEN_STATES, JobRow
from floecat.store.leases import LeaseLostError
from floecat.store.statistics import captures
from floecat.store.statistics import files as file_rows

if TYPE_CHECKING:
    from floecat.entries.open_entries import EntryParts
    from floecat.planning.plans.task_chunks import ChunkedPlanner
    from floecat.settings import StatisticsSettings

__all__ = ["CaptureWork"]

_GROUPS_WAIT_MS: Final = 5_000
_ROUND: Final = "round"


class CaptureWork:
    """Works on captures and groups. Safe to share between threads."""

    def __init__(
        self,
        parts: EntryParts,
        planner: ChunkedPlanner,
        settings: StatisticsSettings,
        publication: Publication,
        requests: CaptureRequests,
        group_kind: JobKind,
        *,
        enter_lane: Callable[[UUID, UUID], bool],
        wake: Callable[[], None],
        memory_bytes: int,
    ) -> None:
        """Puts the work together.

        Args:
            parts: what services share.
            planner: plans scans.
            settings: of statistics.
            publication: publishes statistics files.
            requests: asks for captures.
            group_kind: of jobs of groups.
            enter_lane: takes the lane of a table for a capture, or extends it.
            wake: called when there are new groups.
            memory_bytes: what may be held of a data file at a time.
        """
        self._parts = parts
        self._store = parts.store
        self._clock = parts.clock
        self._planner = planner
        self._settings = settings
        self._publication = publication
        self._requests = requests
        self._group_kind = group_kind
        self._enter_lane = enter_lane
        self._wake = wake
        self._finalization = Finalization(parts, planner, settings)
        self._memory_bytes = memory_bytes

    def capture(self, job: RunningJob, payload: CapturePayload) -> str | None:
        """Captures a snapshot, in the lane of its table.

        Args:
            job: the capture.
            payload: what it is about.

        Returns:
            A note for the log.

        Raises:
            JobPostponedError: it waits for groups.
            FloecatError: nothing could be captured, or storage fails.
        """
        table = find_table(self._parts, payload.entry_id)
        if table is None:
            return "the table was dropped"
        if table.metadata.snapshot(payload.snapshot_id) is None:
            self._finalization.forget_expired(table)
            return "the snapshot has expired"
        policy = capture_policy(self._settings, table.catalog_properties, table.metadata.properties)
        reason = self._needless(job, payload, policy)
        if reason is not None:
            self._store.run(lambda conn: captures.forget(conn, payload.entry_id, payload.snapshot_id))
            return reason
        if policy.snapshots == "all" and payload.reason == COMMIT:
            with suppress(NoSuchTableError):  # dropped meanwhile, which is seen below
                self._requests.backfill(payload.entry_id, job.row.created_by)
        with self._store.read() as conn:
            row = captures.get(conn, payload.entry_id, payload.snapshot_id)
        summary: FilesSummary | None = None
        if row is None or row.status != "finalized" or row.job_id != job.row.id:
            summary = self._finalize(job, payload, table, policy)
            is_partial = summary.files < job.progress["files"]
        else:
            is_partial = row.problem is not None
        # commits went on meanwhile: one may have set a statistics file, or expired the snapshot
        now = find_table(self._parts, payload.entry_id)
        if now is None:
            return "the table was dropped"
        if row is None or row.published_at_ms is None:
            self._publication.note(now, payload.snapshot_id)
        if is_partial or not self._publication.is_due(now, payload.snapshot_id, policy):
            return None
        job.check()
        return self._publication.publish(
            now, payload.snapshot_id, lambda: summary or self._summary(now, payload.snapshot_id, policy)
        )

    def _summary(self, table: CapturedTable, snapshot_id: int, policy: CapturePolicy) -> FilesSummary | None:
        """All files of a snapshot that was finalized before, together."""
        columns = policy.columns_of(table.schema_of(snapshot_id))
        live = live_files(self._planner.planner(), table.storage, table.metadata, snapshot_id)
        known = self._finalization.known(table, columns, only_by=None)
        return self._finalization.merge(table, snapshot_id, columns, live, known, Found())[0]

    def _needless(self, job: RunningJob, payload: CapturePayload, policy: CapturePolicy) -> str | None:
        if payload.reason != COMMIT:
            return None
        if not policy.enabled:
            return "statistics of the table are turned off"
        if policy.snapshots == "all":
            return None
        with self._store.read() as conn:
            others = jobs.list_open(conn, CAPTURE, job.row.subject)
        newer = any(other.id > job.row.id and payload_of(other).reason == COMMIT for other in others)
        return "a newer snapshot is captured" if newer else None

    def _finalize(
        self, job: RunningJob, payload: CapturePayload, table: CapturedTable, policy: CapturePolicy
    ) -> FilesSummary:
        snapshot_id = payload.snapshot_id
        columns = policy.columns_of(table.schema_of(snapshot_id))
        live = live_files(
            self._planner.planner(), table.storage, table.metadata, snapshot_id, check=job.check
        )
        known = self._finalization.known(table, columns, only_by=job.row.id if payload.full else None)
        missing = tuple(each for each in live if each.key not in known)
        job.progress["files"], job.progress["stored"] = len(live), len(live) - len(missing)
        found = Found()
        if missing:
            with self._store.read() as conn:
                groups = jobs.children(conn, job.row.id)
            if any(group.state in OPEN_STATES for group in groups):
                raise self._waiting(len(groups))
            ended = _of_round(groups, job.progress.pop(_ROUND, None))
            if ended and all(group.state != "cancelled" for group in ended):
                found = Found(problems=_problems(ended))
            elif self._is_small(missing):
                found = self._read_here(job, table, FileGroup(snapshot_id, columns, missing))
            else:
                raise self._waiting(self._make_groups(job, payload, columns, missing))
        job.check()
        return self._finalization.finalize(
            job, table, snapshot_id, columns, live, known, found, reuse=not payload.full
        )

    def _is_small(self, missing: Sequence[LiveFile]) -> bool:
        size = sum(each.file.size_bytes for each in missing)
        return len(missing) <= self._settings.files_per_group and size <= self._settings.single_group_bytes

    def _read_here(self, job: RunningJob, table: CapturedTable, group: FileGroup) -> Found:
        result = self._read(job, table, group, lane_of=job.row.id)
        result_id = f"{job.row.id}-{job.row.lease_epoch}"
        return Found(result, store_group(table, group, result, result_id, self._clock), result.problems)

    def _make_groups(
        self,
        job: RunningJob,
        payload: CapturePayload,
        columns: CountedColumns,
        missing: Sequence[LiveFile],
    ) -> int:
        """Makes the jobs of groups, and returns how many they are."""
        settings, now_ms, row = self._settings, self._clock.now_ms(), job.row
        offer_ms = settings.large_capture_offer.ms
        size = sum(each.file.size_bytes for each in missing)
        offered = offer_ms > 0 and size >= settings.large_capture_bytes
        made: list[tuple[JobRow, bytes]] = []
        for number, files in enumerate(self._split(missing)):
            group = GroupPayload(
                payload.entry_id,
                payload.snapshot_id,
                number,
                len(files),
                sum(each.file.size_bytes for each in files),
            )
            made_job = self._group_kind.new_job(
                account_id=row.account_id,
                catalog_id=row.catalog_id,
                title=row.title,
                subject=row.subject,
                payload=group,
                created_by=row.created_by,
                now_ms=now_ms,
                parent_id=row.id,
                dedup_key=f"{row.id}:{row.lease_epoch}:{number}",
            )
            if offered:
                made_job = msgspec.structs.replace(
                    made_job, lane=SPARK_LANE, state="waiting", not_before_ms=now_ms + offer_ms
                )
            files_of_group = FileGroup(payload.snapshot_id, columns, tuple(files))
            made.append((made_job, msgspec.msgpack.encode(files_of_group)))
        job.progress[_ROUND] = row.lease_epoch

        def insert(conn: Connection) -> None:
            progress = job.encoded_progress()
            cancelled = job_claims.renew(conn, job.lease, progress, self._clock.now_ms(), settings.lease_ms)
            if cancelled is None:
                raise LeaseLostError
            if cancelled:
                raise JobCancelledError
            for group_job, attachment in made:
                jobs.insert(conn, group_job, attachment)

        self._store.run(insert)
        self._wake()
        return len(made)

    def _split(self, files: Sequence[LiveFile]) -> Iterator[Sequence[LiveFile]]:
        size = self._settings.files_per_group
        return (files[start : start + size] for start in range(0, len(files), size))

    def _waiting(self, groups: int) -> JobPostponedError:
        until_ms = self._clock.now_ms() + _GROUPS_WAIT_MS
        return JobPostponedError(f"waits for {groups} groups of files", until_ms, DEFAULT_LANE)

    # -- groups ---------------------------------------------------------------------------------------------

    def group(self, job: RunningJob, read: ReadGroup | None = None) -> str | None:
        """Works on a group: reads its files, and submits the result.

        Args:
            job: of the group.
            read: reads the files elsewhere; by default this process does.

        Raises:
            FloecatError: no file could be read, or storage fails.
        """
        attachment, parent_id = job.attachment(), job.row.parent_id
        table = find_table(self._parts, UUID(job.row.subject))
        if table is None or attachment is None or parent_id is None:
            return "the table was dropped"
        group = msgspec.msgpack.decode(attachment, type=FileGroup)
        result = self._read(job, table, group, lane_of=parent_id, read=read)
        if not result.summaries and result.problems:
            raise FloecatError(result.problems[0].reason)
        job.progress["problems"] = msgspec.to_builtins(result.problems)
        # of this attempt: should it be sent twice, it is taken once
        result_id = f"{parent_id}-{job.row.id}-{job.row.lease_epoch}"
        put = store_group(table, group, result, result_id, self._clock)

        def submit(conn: Connection) -> None:
            if not job_claims.is_held(conn, job.lease):
                raise LeaseLostError
            put(conn)

        try:
            self._store.run(submit)
        except ForeignKeyError:
            discard_files(table)
            raise JobCancelledError from None  # the table was dropped
        return None

    def _read(
        self,
        job: RunningJob,
        table: CapturedTable,
        group: FileGroup,
        *,
        lane_of: UUID,
        read: ReadGroup | None = None,
    ) -> GroupResult:
        renewed_at = time.monotonic()

        def check(done: int) -> None:
            nonlocal renewed_at
            job.check()
            job.progress["done"] = done
            if time.monotonic() - renewed_at >= self._settings.lease_ms / 3000:
                renewed_at = time.monotonic()
                self._enter_lane(table.row.id, lane_of)

        if read is not None:
            return read(table, group, check)
        return read_group(table, group, check, memory_bytes=self._memory_bytes)

    # -- files ----------------------------------------------------------------------------------------------

    def file_records(
        self, entry_id: UUID, snapshot_id: int, after: str, limit: int
    ) -> list[StatisticsRecord]:
        """Records of captured data files of a snapshot, in order of storage ids.

        Args:
            entry_id: the table.
            snapshot_id: the snapshot.
            after: storage id before the first one.
            limit: most records.

        Raises:
            FloecatError: a manifest or a sidecar cannot be read.
        """
        table = find_table(self._parts, entry_id)
        if table is None:
            return []
        live = live_files(self._planner.planner(), table.storage, table.metadata, snapshot_id)
        with self._store.read() as conn:
            by_key = file_rows.sidecars_of(conn, entry_id)
            sidecars = {row.path: row for row in file_rows.list_sidecars(conn, entry_id)}
        # keys begin with storage ids, so they are in the same order
        wanted = sorted(
            # the second reading may lack a sidecar of the first
            (each for each in live if each.storage_id > after and by_key.get(each.key) in sidecars),
            key=lambda each: each.key,
        )[:limit]
        summaries: dict[str, FileSummary] = {}
        for path in {by_key[each.key] for each in wanted}:
            keys = [each.key for each in wanted if by_key[each.key] == path]
            sidecar = Sidecar(path, sidecars[path].size_bytes)
            summaries |= read_files(table.storage, sidecar, keys)
        schema = table.schema_of(snapshot_id)
        return [
            counting.file_record(each.file, summaries[each.key], schema)
            for each in wanted
            if each.key in summaries
        ]


def _of_round(groups: Sequence[JobRow], epoch: int | None) -> list[JobRow]:
    """The groups that one attempt of a capture made."""
    return [group for group in groups if epoch is not None and f":{epoch}:" in (group.dedup_key or "")]


def _problems(groups: Sequence[JobRow]) -> list[FileProblem]:
    """What groups could not read."""
    found: list[FileProblem] = []
    for group in groups:
        reported = msgspec.json.decode(group.progress).get("problems", [])
        found += msgspec.convert(reported, list[FileProblem])
        if group.state != "succeeded":
            found.append(FileProblem("", group.last_error or "a group of files failed"))
    return found
