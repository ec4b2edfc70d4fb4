"""Statistics files of Iceberg: one for a captured snapshot, set by a commit of its own.

It is a commit as any other, retried when another one is faster. If it fails, the statistics stay in the store
and the table stays as it is. A snapshot that has a statistics file keeps it, and none gets a second one.

A transaction of Iceberg's Java library in which a schema changes fails if the table changes between its load
and its commit, whatever was changed. So files are published in tables that nobody seems to be working on.

Engines read the newest statistics file alone, so one that lacks what the newest one has is not published.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.commits.table_changes import TableChange
from floecat.entries.calls import Call
from floecat.entries.formats import is_derived
from floecat.errors import CommitStateUnknownError, FloecatError
from floecat.events.catalog_events import STATISTICS_PRINCIPAL
from floecat.iceberg.metadata.statistics_files import StatisticsFile
from floecat.iceberg.requirements import AssertTableUuid
from floecat.iceberg.schemas.transforms import IDENTITY
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.updates import SetStatistics
from floecat.statistics.capture.policies import CapturePolicy
from floecat.statistics.capture.reading.sidecars import FilesSummary
from floecat.statistics.capture.reading.tables import CapturedTable, find_table
from floecat.statistics.files.summaries import CountedColumns
from floecat.statistics.records import THETA_SKETCH
from floecat.store.entries.tables import EntryState
from floecat.store.statistics import captures

if TYPE_CHECKING:
    from floecat.catalog.catalogs import CallContext
    from floecat.catalog.recent_loads import RecentLoads
    from floecat.commits.commit import CommitService
    from floecat.entries.open_entries import EntryParts
    from floecat.store.statistics.captures import CaptureRow

__all__ = ["StatisticsPublication", "TableInUseError", "captured_columns"]

_RECENT_MS: Final = 86_400_000
_OWN_COMMITS: Final = 1_000
_RECHECKS: Final = 32
"""Checks of a table that is loaded all the time, in the time since its last commit."""

_log = logging.getLogger(__name__)


class TableInUseError(Exception):
    """A client may be about to commit.

    Attributes:
        until_ms: when to look again, in ms since the epoch.
    """

    def __init__(self, until_ms: int) -> None:
        super().__init__("the table is in use")
        self.until_ms = until_ms


class StatisticsPublication:
    """Publishes statistics files. Safe to share between threads."""

    def __init__(
        self,
        parts: EntryParts,
        calls: CallContext,
        commits: CommitService,
        loads: RecentLoads,
        *,
        quiet_ms: int,
    ) -> None:
        """`quiet_ms`: how long nobody must have committed."""
        self._parts = parts
        self._store = parts.store
        self._clock = parts.clock
        self._calls = calls
        self._commits = commits
        self._loads = loads
        self._quiet_ms = quiet_ms
        self._own_commits: dict[UUID, tuple[EntryState | None, int]] = {}

    def is_wanted(
        self, table: CapturedTable, snapshot_id: int, policy: CapturePolicy, row: CaptureRow | None
    ) -> bool:
        """Whether a snapshot is to get a statistics file, has none, and had none from here.

        Args:
            policy: of the table.
            row: its capture.
        """
        if is_derived(table.row.format) or policy.publish == "never":
            return False
        if row is not None and row.published_at_ms is not None:
            return False
        if table.metadata.snapshot(snapshot_id) is None:
            return False
        last_commit_ms = table.metadata.last_updated_ms
        if policy.publish == "recent" and last_commit_ms < self._clock.now_ms() - _RECENT_MS:
            return False
        return published_file(table, snapshot_id) is None

    def check_quiet(self, table: CapturedTable) -> None:
        """Returns if nobody seems to be working on a table.

        Raises:
            TableInUseError: there was a commit or a load a short while ago.
        """
        if not self._quiet_ms:
            return
        now_ms, committed_ms = self._clock.now_ms(), self._committed_ms(table)
        if now_ms - committed_ms < self._quiet_ms:
            raise TableInUseError(committed_ms + self._quiet_ms)
        until_ms = self._loads.counts_until_ms(table.row.id, committed_ms)
        if until_ms > now_ms:
            raise TableInUseError(max(until_ms, now_ms + (now_ms - committed_ms) // _RECHECKS))

    def _check_still_quiet(self, seen: CapturedTable) -> None:
        if self._quiet_ms:
            now = find_table(self._parts, seen.row.id)
            if now is None or now.row.state != seen.row.state:
                raise TableInUseError(self._clock.now_ms() + self._quiet_ms)
            self.check_quiet(now)

    def _committed_ms(self, table: CapturedTable) -> int:
        """The time of the table's last change by others than this."""
        state, before_ms = self._own_commits.get(table.row.id, (None, 0))
        return before_ms if state == table.row.state else table.row.updated_at_ms

    def note(self, table: CapturedTable, snapshot_id: int) -> None:
        """Notes the statistics file that a snapshot has: of another engine, or of a worker that died."""
        path = published_file(table, snapshot_id)
        if path is not None:
            self._note(table, snapshot_id, path)

    def publish(
        self, table: CapturedTable, snapshot_id: int, summary: Callable[[], FilesSummary | None]
    ) -> str | None:
        """Publishes a statistics file; never raises for a commit that fails.

        Args:
            snapshot_id: a finalized snapshot.
            summary: all its files together.

        Returns:
            What became of it.

        Raises:
            TableInUseError: a client may be about to commit; nothing was done.
        """
        self.check_quiet(table)
        try:
            found = summary()
            if found is None or not found.is_exact or not any(column.sketch for column in found.columns):
                return None  # an engine would take upper bounds for the numbers
            if not _newest_blobs(table, snapshot_id) <= _blobs_of(found):
                return "not published: the newest statistics file of the table has more columns"
            path = self._commit(table, snapshot_id, found)
        except FloecatError as error:
            _log.warning("the statistics of %s were not published: %s", table.row.name, error.message)
            return f"not published: {error.message}"
        self._note(table, snapshot_id, path)
        return "published"

    def _note(self, table: CapturedTable, snapshot_id: int, path: str) -> None:
        entry_id, now_ms = table.row.id, self._clock.now_ms()
        self._store.run(lambda conn: captures.mark_published(conn, entry_id, snapshot_id, path, now_ms))

    def _commit(self, table: CapturedTable, snapshot_id: int, summary: FilesSummary) -> str:
        from floecat.statistics.files.puffin_statistics import write_statistics_file

        snapshot = table.metadata.snapshot(snapshot_id)
        path = f"{table.row.metadata_location.rpartition('/')[0]}/{snapshot_id}-{uuids.uuid7()}-floecat.stats"
        data, written = write_statistics_file(
            summary.columns, path, snapshot_id, 0 if snapshot is None else snapshot.sequence_number
        )
        files = table.storage.files(path)
        call, change = self._change(table, msgspec.json.encode(written))
        table.storage.allowed.check(path)
        files.write_new(path, data, unique_name=True)
        try:
            self._check_still_quiet(table)  # writing the file may have taken a while
            committed = self._commits.commit(call, change)
        except CommitStateUnknownError:
            raise  # the table may name the file
        except (FloecatError, TableInUseError):
            with suppress(FloecatError):
                files.delete(path)
            raise
        while len(self._own_commits) >= _OWN_COMMITS:
            self._own_commits.pop(next(iter(self._own_commits)), None)
        self._own_commits[table.row.id] = (committed.state, self._committed_ms(table))
        return path

    def _change(self, table: CapturedTable, statistics: bytes) -> tuple[Call, TableChange]:
        with self._store.read() as conn:
            named = captures.named(conn, [table.row.id])
        if not named:
            raise FloecatError("the table was dropped")
        call = self._calls.open_as_operator(STATISTICS_PRINCIPAL, named[0].account_id, named[0].catalog)
        requirement = AssertTableUuid(uuid=table.metadata.table_uuid)
        return call, TableChange(
            named[0].identifier, [requirement], [SetStatistics(statistics=msgspec.Raw(statistics))]
        )


def captured_columns(table: CapturedTable, snapshot_id: int, policy: CapturePolicy) -> CountedColumns:
    """The columns captured of a snapshot: those of the policy, and those of the newest statistics file.

    A policy that names columns is obeyed; then no file is published while the newest one has others.
    """
    schema = table.schema_of(snapshot_id)
    columns = policy.columns_of(schema)
    if policy.columns or policy.publish == "never":
        return columns
    added = {
        id: str(type)
        for kind, ids in _newest_blobs(table, snapshot_id)
        for id in ids
        if kind == THETA_SKETCH and isinstance(type := schema.find_type(id), PrimitiveType)
    }
    return msgspec.structs.replace(columns, types=columns.types | added) if added else columns


_Blobs: TypeAlias = set[tuple[str, tuple[int, ...]]]
"""Types of blobs with the ids of their columns."""


def _blobs_of(summary: FilesSummary) -> _Blobs:
    columns = (column for column in summary.columns if column.sketch and column.transform == IDENTITY)
    return {(THETA_SKETCH, (column.field_id,)) for column in columns}


def _newest_blobs(table: CapturedTable, snapshot_id: int) -> _Blobs:
    """The blobs that engines find for a snapshot: in the file of the nearest ancestor that has one."""
    files = {each.snapshot_id: each for each in table.metadata.statistics}
    newest = _newest_file(table, snapshot_id, files) if files else None
    known = table.schema_of(snapshot_id).fields_by_id
    blobs = () if newest is None else newest.blob_metadata
    return {(each.type, each.fields) for each in blobs if all(id in known for id in each.fields)}


def _newest_file(
    table: CapturedTable, snapshot_id: int, files: Mapping[int, StatisticsFile]
) -> StatisticsFile | None:
    seen: set[int] = set()
    found: int | None = snapshot_id
    while found is not None and found not in seen:
        if found in files:
            return files[found]
        seen.add(found)  # a parent may be anything that a client wrote
        snapshot = table.metadata.snapshot(found)
        found = None if snapshot is None else snapshot.parent_snapshot_id
    return None


def published_file(table: CapturedTable, snapshot_id: int) -> str | None:
    """The statistics file that a snapshot has in its table."""
    found = (each.statistics_path for each in table.metadata.statistics if each.snapshot_id == snapshot_id)
    return next(found, None)
