"""The work of captures and of groups of files.

A capture plans the files of its snapshot and looks which of them are stored. What is missing it reads itself,
if that is little; otherwise it makes a job for each group and is put back until they have ended. So every
attempt begins in the same way, and goes on from what was submitted before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

import msgspec

from floecat.errors import NoSuchTableError
from floecat.jobs.kinds import JobKind
from floecat.jobs.running import JobCancelledError, JobPostponedError, RunningJob
from floecat.statistics.capture.policies import CapturePolicy, capture_policy
from floecat.statistics.capture.publishing.finalization import Finalization, Found
from floecat.statistics.capture.publishing.publication import Publication, TableInUseError, captured_columns
from floecat.statistics.capture.reading.captured_files import FileSearch, SnapshotFiles
from floecat.statistics.capture.reading.counting import FileSource
from floecat.statistics.capture.reading.file_groups import (
    FileGroup,
    FileProblem,
    GroupOrder,
    ReadGroup,
    WrittenGroup,
    capture_elsewhere,
    capture_group,
    group_problems,
    named_problems,
    nothing_captured,
    of_round,
    submission,
    write_group,
)
from floecat.statistics.capture.reading.file_records import FileRecords
from floecat.statistics.capture.reading.files_with_deletes import LiveFile
from floecat.statistics.capture.reading.processes import CaptureProcesses, Check
from floecat.statistics.capture.reading.sidecars import FilesSummary
from floecat.statistics.capture.reading.tables import CapturedTable, discard_files, find_table
from floecat.statistics.capture.requests import (
    CAPTURE,
    COMMIT,
    SPARK_LANE,
    CapturePayload,
    CaptureRequests,
    GroupPayload,
    payload_of,
)
from floecat.statistics.files.sources import NeedsProcessError
from floecat.statistics.files.summaries import CountedColumns
from floecat.store.database.engine import Connection
from floecat.store.database.errors import ForeignKeyError
from floecat.store.jobs import job_claims, jobs
from floecat.store.jobs.jobs import DEFAULT_LANE, JobRow
from floecat.store.jobs.leases import LeaseLostError
from floecat.store.statistics import captures
from floecat.store.statistics.captures import CaptureRow

if TYPE_CHECKING:
    from floecat.entries.open_entries import EntryParts
    from floecat.planning.plans.task_chunks import ChunkedPlanner
    from floecat.settings import StatisticsSettings

__all__ = ["CaptureWork"]

_GROUPS_WAIT_MS: Final = 5_000
_ROUND: Final = "round"
_FEW_FILES: Final = 16
_FURTHER: Final = "a capture reads no more (floecat.statistics.groups-per-capture)"
_GROUPS_AT_ONCE: Final = 64
"""Groups that are made in one transaction, and whose files are held."""


class CaptureWork:
    """Works on captures and groups. Safe to share between threads.

    Attributes:
        files: records of captured files.
    """

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
        processes: CaptureProcesses,
    ) -> None:
        """Puts the work together.

        Args:
            parts: what services share.
            settings: of statistics.
            publication: publishes statistics files.
            requests: asks for captures.
            group_kind: of jobs of groups.
            enter_lane: takes the lane of a table for a capture, or extends it.
            wake: called when there are new groups.
            processes: do what takes long.
        """
        self._parts = parts
        self._store = parts.store
        self._clock = parts.clock
        self._settings = settings
        self._publication = publication
        self._requests = requests
        self._group_kind = group_kind
        self._enter_lane = enter_lane
        self._wake = wake
        self._search = FileSearch(parts.store, planner)
        self._run = processes.run
        self.files = FileRecords(parts, self._search)
        self._finalization = Finalization(parts, settings, processes.run)

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
            summary = self._finalize(job, payload, table, policy, row)
            is_partial = summary.files < job.progress["files"]
        else:
            is_partial = row.problem is not None
        # commits went on meanwhile: one may have set a statistics file, or expired the snapshot
        now = find_table(self._parts, payload.entry_id)
        if now is None:
            return "the table was dropped"
        if row is None or row.published_at_ms is None:
            self._publication.note(now, payload.snapshot_id)
        if is_partial or not self._publication.is_wanted(now, payload.snapshot_id, policy, row):
            return None
        job.check()
        try:
            return self._publication.publish(
                now,
                payload.snapshot_id,
                lambda: summary or self._summary(job, now, payload.snapshot_id, policy),
            )
        except TableInUseError as in_use:
            self._requests.publish_later(job.row, payload, in_use.until_ms)
            return "the statistics file waits until nobody works on the table"

    def publish(self, job: RunningJob, payload: CapturePayload) -> str | None:
        """Publishes the statistics file of a snapshot whose capture met a table in use.

        Args:
            job: the publication.
            payload: of the capture.

        Returns:
            A note for the log.

        Raises:
            JobPostponedError: the table is in use still.
            FloecatError: storage or the store fails.
        """
        table, snapshot_id = find_table(self._parts, payload.entry_id), payload.snapshot_id
        if table is None:
            return "the table was dropped"
        if payload.reason == COMMIT and snapshot_id != table.metadata.current_snapshot_id:
            return "there is a newer snapshot"
        policy = capture_policy(self._settings, table.catalog_properties, table.metadata.properties)
        with self._store.read() as conn:
            row = captures.get(conn, payload.entry_id, snapshot_id)
        if row is None or row.status != "finalized" or row.problem is not None:
            return "the snapshot is not captured"
        if not self._publication.is_wanted(table, snapshot_id, policy, row):
            self._publication.note(table, snapshot_id)
            return "no statistics file is wanted"
        try:
            return self._publication.publish(
                table, snapshot_id, lambda: self._summary(job, table, snapshot_id, policy)
            )
        except TableInUseError as in_use:
            raise JobPostponedError("somebody works on the table", in_use.until_ms, DEFAULT_LANE) from None

    def _summary(
        self, job: RunningJob, table: CapturedTable, snapshot_id: int, policy: CapturePolicy
    ) -> FilesSummary | None:
        """All files of a snapshot that was finalized before, together."""
        columns = captured_columns(table, snapshot_id, policy)
        files = SnapshotFiles()
        with self._store.read() as conn:
            own = captures.get(conn, table.row.id, snapshot_id)
        if any(self._search.missing(files, table, snapshot_id, columns, own=own)):
            return None
        check = self._checking(job, table, job.row.id)
        return self._finalization.merge(table, snapshot_id, columns, files, Found(), check)

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
        self,
        job: RunningJob,
        payload: CapturePayload,
        table: CapturedTable,
        policy: CapturePolicy,
        own: CaptureRow | None,
    ) -> FilesSummary:
        columns = captured_columns(table, payload.snapshot_id, policy)
        files, found = SnapshotFiles(), Found()
        missing: list[LiveFile] = []
        ended: list[JobRow] | None = None
        made = size = 0
        room = self._settings.groups_per_capture * self._settings.files_per_group
        only_by = job.row.id if payload.full else None
        for some in self._search.missing(
            files, table, payload.snapshot_id, columns, own=own, only_by=only_by, check=job.check
        ):
            if ended is None:
                ended = self._ended_groups(job)
            if not ended:
                taken = some[:room]
                room -= len(taken)
                missing += taken
                size += sum(each.file.size_bytes for each in taken)
            if len(missing) > _GROUPS_AT_ONCE * self._settings.files_per_group:
                whole = len(missing) - len(missing) % self._settings.files_per_group
                made += self._make_groups(job, payload, columns, missing[:whole], made, size)
                missing = missing[whole:]
        job.progress["files"] = files.files
        job.progress.setdefault("stored", files.stored)  # later attempts find what this capture has read
        job.progress.pop(_ROUND, None)  # what is lost from now on, the next attempt reads
        if made or not self._is_small(missing):
            job.progress[_ROUND] = job.row.lease_epoch
            raise self._waiting(made + self._make_groups(job, payload, columns, missing, made, size))
        if ended:
            found = Found(problems=self._problems(ended))
        elif missing:
            found = self._read_here(job, table, FileGroup(payload.snapshot_id, columns, tuple(missing)))
        job.check()
        check = self._checking(job, table, job.row.id)
        return self._finalization.finalize(job, table, payload.snapshot_id, columns, files, found, check)

    def _ended_groups(self, job: RunningJob) -> list[JobRow]:
        """The groups of the last round, where all were worked on: what is missing after them stays so.

        Raises:
            JobPostponedError: some groups are open.
        """
        made_by = job.progress.get(_ROUND)
        with self._store.read() as conn:
            open_groups = jobs.count_open_children(conn, job.row.id)
            groups = [] if open_groups or made_by is None else jobs.children(conn, job.row.id)
        if open_groups:
            raise self._waiting(open_groups)
        ended = of_round(groups, made_by)
        return ended if all(group.state != "cancelled" for group in ended) else []

    def _problems(self, ended: Sequence[JobRow]) -> list[FileProblem]:
        """Why files were not captured that are missing after these groups."""
        problems = group_problems(ended)
        if len(ended) >= self._settings.groups_per_capture:
            problems.append(FileProblem("", _FURTHER))
        return problems

    def _is_small(self, missing: Sequence[LiveFile]) -> bool:
        size = sum(each.file.size_bytes for each in missing)
        return len(missing) <= self._settings.files_per_group and size <= self._settings.single_group_bytes

    def _read_here(self, job: RunningJob, table: CapturedTable, group: FileGroup) -> Found:
        result_id = f"{job.row.id}-{job.row.lease_epoch}"
        written = self._read(job, table, group, result_id, lane_of=job.row.id)
        return Found(written, submission(table, group.columns, written, result_id), written.problems)

    def _make_groups(
        self,
        job: RunningJob,
        payload: CapturePayload,
        columns: CountedColumns,
        missing: Sequence[LiveFile],
        first: int,
        size_bytes: int,
    ) -> int:
        """Makes the jobs of groups, with numbers from the first one on, and returns how many they are.

        They are offered to Spark where the files of the capture so far have so many bytes.
        """
        settings, now_ms, row = self._settings, self._clock.now_ms(), job.row
        offer_ms = settings.large_capture_offer.ms
        offered = offer_ms > 0 and size_bytes >= settings.large_capture_bytes
        made: list[tuple[JobRow, bytes]] = []
        for number, files in enumerate(self._split(missing), first):
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

        def insert(conn: Connection) -> None:
            progress = job.encoded_progress()
            cancelled = job_claims.renew(conn, job.lease, progress, self._clock.now_ms(), settings.lease_ms)
            if cancelled is None:
                raise LeaseLostError
            if cancelled:
                raise JobCancelledError
            if first == 0:
                jobs.delete_finished_children(conn, row.id)
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
        # of this attempt: should it be sent twice, it is taken once
        result_id = f"{parent_id}-{job.row.id}-{job.row.lease_epoch}"
        written = self._read(job, table, group, result_id, lane_of=parent_id, read=read)
        job.progress["problems"] = msgspec.to_builtins(named_problems(written.problems))
        if written.merged is None and written.problems:
            raise nothing_captured(written.problems, len(written.problems))
        put = submission(table, group.columns, written, result_id)

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
        result_id: str,
        *,
        lane_of: UUID,
        read: ReadGroup | None = None,
    ) -> WrittenGroup:
        def check(done: int) -> None:
            job.progress["done"] = done
            go_on(done)

        go_on = self._checking(job, table, lane_of)
        order = GroupOrder(
            FileSource.of(table, group.snapshot_id, group.columns),
            table.storage,
            group.files,
            f"{table.folder}/{result_id}.stats",
            self._settings.memory_bytes,
        )
        if read is not None:
            return write_group(order, read(table, group, check))
        size = sum(each.file.size_bytes for each in group.files)
        is_small = len(group.files) <= _FEW_FILES and size <= self._settings.in_process_bytes
        if is_small:
            with suppress(NeedsProcessError):
                small = order._replace(only_small=True)
                return self._run(partial(capture_group, small), check, is_small=True)
        return capture_elsewhere(self._run, order, check)

    def _checking(self, job: RunningJob, table: CapturedTable, lane_of: UUID) -> Check:
        """What is called while files are read: it extends the lane of the table."""
        renewed_at = time.monotonic()

        def check(_done: int) -> None:
            nonlocal renewed_at
            job.check()
            if time.monotonic() - renewed_at >= self._settings.lease_ms / 3000:
                renewed_at = time.monotonic()
                self._enter_lane(table.row.id, lane_of)

        return check
