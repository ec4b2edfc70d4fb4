"""The capture of a snapshot: it looks which of the data files are stored, and has the others read.

Few files it reads itself; of many it makes groups, and goes on when these have ended. So every attempt begins
in the same way, and goes on from what was submitted before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from floecat.errors import NoSuchTableError
from floecat.jobs.groups import Group, Offer
from floecat.jobs.running_job import JobPostponedError, RunningJob
from floecat.statistics.capture.policies import CapturePolicy, capture_policy
from floecat.statistics.capture.publishing.finalization import Finalization, Found
from floecat.statistics.capture.publishing.publication import (
    StatisticsPublication,
    TableInUseError,
    captured_columns,
)
from floecat.statistics.capture.reading.captured_files import FileSearch, SnapshotFiles
from floecat.statistics.capture.reading.file_groups import (
    FileCapturer,
    FileGroup,
    FileProblem,
    group_problems,
    submission,
)
from floecat.statistics.capture.reading.file_records import FileRecords
from floecat.statistics.capture.reading.files_with_deletes import LiveFile
from floecat.statistics.capture.reading.sidecars import FilesSummary
from floecat.statistics.capture.reading.tables import CapturedSnapshot, CapturedTable, find_table
from floecat.statistics.capture.requests import (
    CAPTURE,
    COMMIT,
    SCAN,
    SPARK_LANE,
    CapturePayload,
    CaptureRequests,
    GroupPayload,
    payload_of,
)
from floecat.store.jobs import jobs
from floecat.store.jobs.jobs import JobRow
from floecat.store.statistics import captures
from floecat.store.statistics.captures import CaptureRow

if TYPE_CHECKING:
    from floecat.entries.open_entries import EntryParts
    from floecat.jobs.groups import Groups
    from floecat.planning.plans.task_chunks import ChunkedPlanner
    from floecat.settings import StatisticsSettings
    from floecat.statistics.capture.reading.processes import CaptureProcesses

__all__ = ["SnapshotCapturer"]

_FURTHER: Final = "a capture reads no more (floecat.statistics.groups-per-capture)"
_GROUPS_AT_ONCE: Final = 64
"""Groups that are made in one transaction, and whose files are held."""


class SnapshotCapturer:
    """Works on captures and publications. Safe to share between threads.

    Attributes:
        files: records of captured files.
        groups: captures groups of files.
    """

    def __init__(
        self,
        parts: EntryParts,
        planner: ChunkedPlanner,
        settings: StatisticsSettings,
        publication: StatisticsPublication,
        processes: CaptureProcesses,
        requests: CaptureRequests,
        division: Groups,
    ) -> None:
        self._parts = parts
        self._store = parts.store
        self._settings = settings
        self._publication = publication
        self._requests = requests
        self._division = division
        self._search = FileSearch(parts.store, planner)
        self._finalization = Finalization(parts, settings, processes.run)
        self.files = FileRecords(parts, self._search)
        self.groups = FileCapturer(parts, settings, processes.run)

    def capture(self, job: RunningJob) -> str | None:
        """Captures a snapshot, and publishes its statistics file.

        Raises:
            JobPostponedError: it waits for groups.
            FloecatError: nothing could be captured, or storage fails.
        """
        payload = payload_of(job.row)
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
        if row is not None and row.status == "finalized" and row.job_id == job.row.id:
            return self._publish_captured(job, payload, policy, row, is_partial=row.problem is not None)
        columns = captured_columns(table, payload.snapshot_id, policy)
        snapshot = CapturedSnapshot(table, payload.snapshot_id, columns)
        files = SnapshotFiles()
        found = self._read_missing(job, payload, snapshot, files, row)
        job.check()
        summary = self._finalization.finalize(job, snapshot, files, found)
        return self._publish_captured(
            job, payload, policy, row, summary, is_partial=summary.files < files.files
        )

    def publish(self, job: RunningJob) -> str | None:
        """Publishes the statistics file of a snapshot whose capture met a table in use.

        Raises:
            JobPostponedError: the table is in use still.
            FloecatError: storage or the store fails.
        """
        payload = payload_of(job.row)
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
            raise JobPostponedError("somebody works on the table", in_use.until_ms) from None

    def _needless(self, job: RunningJob, payload: CapturePayload, policy: CapturePolicy) -> str | None:
        if payload.reason not in (COMMIT, SCAN):
            return None
        if not policy.enabled:
            return "statistics of the table are turned off"
        if policy.snapshots == "all" or payload.reason == SCAN:
            return None
        with self._store.read() as conn:
            others = jobs.list_open(conn, CAPTURE, job.row.subject)
        newer = any(other.id > job.row.id and payload_of(other).reason == COMMIT for other in others)
        return "a newer snapshot is captured" if newer else None

    def _read_missing(
        self,
        job: RunningJob,
        payload: CapturePayload,
        snapshot: CapturedSnapshot,
        files: SnapshotFiles,
        own: CaptureRow | None,
    ) -> Found:
        """Reads the files that are not stored, if they are few.

        Args:
            files: is filled with those that are.

        Raises:
            JobPostponedError: they are many, and groups read them.
        """
        round = self._division.round(job)
        missing: list[LiveFile] = []
        ended: Sequence[JobRow] = ()
        size_bytes = 0
        group_size = self._settings.files_per_group
        room = self._settings.groups_per_capture * group_size
        only_by = job.row.id if payload.full else None
        for some in self._search.missing(files, snapshot, own=own, only_by=only_by, check=job.check):
            ended = round.before
            if ended:
                continue
            taken = some[:room]
            room -= len(taken)
            missing += taken
            size_bytes += sum(each.file.size_bytes for each in taken)
            if len(missing) > _GROUPS_AT_ONCE * group_size:
                whole = len(missing) - len(missing) % group_size
                round.make(self._split(snapshot, missing[:whole], round.made), self._offer(size_bytes))
                missing = missing[whole:]
        job.progress["files"] = files.files
        job.progress.setdefault("stored", files.stored)  # later attempts find what this capture has read
        round.forget()
        if round.made or not self._is_small(missing):
            round.make(self._split(snapshot, missing, round.made), self._offer(size_bytes))
            round.wait()
        if missing:
            return self._read_here(job, snapshot, missing)
        problems = group_problems(ended)
        if len(ended) >= self._settings.groups_per_capture:
            problems.append(FileProblem("", _FURTHER))
        return Found(problems=problems)

    def _is_small(self, missing: Sequence[LiveFile]) -> bool:
        size = sum(each.file.size_bytes for each in missing)
        return len(missing) <= self._settings.files_per_group and size <= self._settings.single_group_bytes

    def _read_here(self, job: RunningJob, snapshot: CapturedSnapshot, missing: Sequence[LiveFile]) -> Found:
        table, group = snapshot.table, FileGroup(snapshot.id, snapshot.columns, tuple(missing))
        result_id = f"{job.row.id}-{job.row.lease_epoch}"
        written = self.groups.read(job, table, group, result_id)
        return Found(written, submission(table, group.columns, written, result_id), written.problems)

    def _split(self, snapshot: CapturedSnapshot, files: Sequence[LiveFile], first: int) -> Iterator[Group]:
        """Groups of files, with numbers from the first one on."""
        size = self._settings.files_per_group
        for number, start in enumerate(range(0, len(files), size), first):
            group = FileGroup(snapshot.id, snapshot.columns, tuple(files[start : start + size]))
            payload = GroupPayload(
                snapshot.table.row.id, snapshot.id, number, len(group.files), group.size_bytes
            )
            yield Group(payload, msgspec.msgpack.encode(group))

    def _offer(self, size_bytes: int) -> Offer | None:
        """Groups are offered to Spark where the files of the capture so far have many bytes."""
        offer_ms = self._settings.large_capture_offer.ms
        is_large = offer_ms > 0 and size_bytes >= self._settings.large_capture_bytes
        return Offer(SPARK_LANE, offer_ms) if is_large else None

    def _publish_captured(
        self,
        job: RunningJob,
        payload: CapturePayload,
        policy: CapturePolicy,
        before: CaptureRow | None,
        summary: FilesSummary | None = None,
        *,
        is_partial: bool,
    ) -> str | None:
        """Publishes a snapshot at the end of its capture, or asks for that where the table is in use."""
        # commits went on meanwhile: one may have set a statistics file, or expired the snapshot
        now, snapshot_id = find_table(self._parts, payload.entry_id), payload.snapshot_id
        if now is None:
            return "the table was dropped"
        if before is None or before.published_at_ms is None:
            self._publication.note(now, snapshot_id)
        if is_partial or not self._publication.is_wanted(now, snapshot_id, policy, before):
            return None
        job.check()
        try:
            return self._publication.publish(
                now, snapshot_id, lambda: summary or self._summary(job, now, snapshot_id, policy)
            )
        except TableInUseError as in_use:
            self._requests.publish_later(job.row, payload, in_use.until_ms)
            return "the statistics file waits until nobody works on the table"

    def _summary(
        self, job: RunningJob, table: CapturedTable, snapshot_id: int, policy: CapturePolicy
    ) -> FilesSummary | None:
        """The summary of all files of a snapshot that was finalized before."""
        snapshot = CapturedSnapshot(table, snapshot_id, captured_columns(table, snapshot_id, policy))
        files = SnapshotFiles()
        with self._store.read() as conn:
            own = captures.get(conn, table.row.id, snapshot_id)
        if any(self._search.missing(files, snapshot, own=own)):
            return None
        return self._finalization.merge(job, snapshot, files, Found())
