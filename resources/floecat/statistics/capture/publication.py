"""Statistics files of Iceberg: one for a captured snapshot, set by a commit of its own.

It is a commit as any other, retried when another one is faster. If it fails, the statistics stay in the store
and the table stays as it is. A snapshot that has a statistics file already, of whoever, keeps it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
import uuid_utils.compat as uuids

from floecat.commits.table_changes import TableChange
from floecat.entries.calls import Call
from floecat.errors import CommitStateUnknownError, FloecatError
from floecat.events.catalog_events import STATISTICS_PRINCIPAL
from floecat.iceberg.requirements import AssertTableUuid
from floecat.iceberg.updates import SetStatistics
from floecat.statistics.capture.policies import CapturePolicy
from floecat.statistics.capture.sidecars import FilesSummary
from floecat.statistics.capture.tables import CapturedTable
from floecat.store.statistics import captures

if TYPE_CHECKING:
    from floecat.catalog.catalogs import CallContext
    from floecat.clock import Clock
    from floecat.commits.commit import CommitService
    from floecat.store.database.engine import Store

__all__ = ["Publication"]

_RECENT_MS: Final = 86_400_000
_log = logging.getLogger(__name__)


class Publication:
    """Publishes statistics files. Safe to share between threads."""

    def __init__(self, store: Store, clock: Clock, calls: CallContext, commits: CommitService) -> None:
        self._store = store
        self._clock = clock
        self._calls = calls
        self._commits = commits

    def is_due(self, table: CapturedTable, snapshot_id: int, policy: CapturePolicy) -> bool:
        """Whether a snapshot is to get a statistics file, and has none."""
        if table.row.format != "iceberg" or policy.publish == "never":
            return False
        if table.metadata.snapshot(snapshot_id) is None:
            return False
        last_commit_ms = table.metadata.last_updated_ms
        if policy.publish == "recent" and last_commit_ms < self._clock.now_ms() - _RECENT_MS:
            return False
        return published_file(table, snapshot_id) is None

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
            table: the table.
            snapshot_id: a finalized snapshot.
            summary: all its files together.

        Returns:
            What became of it.
        """
        try:
            found = summary()
            if found is None or not found.is_exact or not any(column.sketch for column in found.columns):
                return None  # an engine would take upper bounds for the numbers
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
            self._commits.commit(call, change)
        except CommitStateUnknownError:
            raise  # the table may name the file
        except FloecatError:
            with suppress(FloecatError):
                files.delete(path)
            raise
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


def published_file(table: CapturedTable, snapshot_id: int) -> str | None:
    """The statistics file that a snapshot has in its table."""
    found = (each.statistics_path for each in table.metadata.statistics if each.snapshot_id == snapshot_id)
    return next(found, None)
