"""Statistics of targets of a snapshot: put by engines, captured by the catalog, read by both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from floecat.clock import Clock
from floecat.entries.calls import Call, Page, PageRequest
from floecat.entries.idempotency_keys import Finish, IdempotencyKeys, JsonAnswer
from floecat.entries.names import missing_table
from floecat.errors import BadRequestError, NotFoundError
from floecat.identifiers.namespace import TableIdentifier
from floecat.statistics.records import (
    StatisticsRecord,
    TargetKind,
    content_hash,
    target_storage_id,
)
from floecat.statistics.snapshots import ALL, Snapshots, TableSnapshot, size_of
from floecat.store import page_tokens
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import ForeignKeyError
from floecat.store.record_pages import fetch_records
from floecat.store.statistics.snapshot_records import TARGETS, RecordRow, SnapshotRecords
from floecat.working_memory import take_memory

__all__ = ["MOST_RECORDS", "CapturedFiles", "TargetStatistics", "put_rows", "record_row"]

MOST_RECORDS: Final = 10_000
"""Records in one put."""

CapturedFiles: TypeAlias = Callable[[Call, TableSnapshot, str, int], tuple[Sequence[StatisticsRecord], bool]]
"""Records of data files of a snapshot with storage ids after one, in order of these, at most so many; and
whether there are more."""

_Records: TypeAlias = Page[StatisticsRecord]


class TargetStatistics:
    """Puts, gets and lists statistics. Safe to share between threads."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        keys: IdempotencyKeys,
        snapshots: Snapshots,
        captured_files: CapturedFiles,
    ) -> None:
        self._store = store
        self._clock = clock
        self._keys = keys
        self._snapshots = snapshots
        self._captured_files = captured_files

    def put(
        self,
        call: Call,
        identifier: TableIdentifier,
        snapshot: str | None,
        records: Sequence[StatisticsRecord],
        *,
        strict: bool = True,
    ) -> int:
        """Puts records of one snapshot, each in place of the one of its target; all or none.

        Args:
            snapshot: see `Snapshots.read`.
            records: at most 10,000. The last one of a target counts.
            strict: see `Snapshots.write`.

        Returns:
            How many targets were put.

        Raises:
            ForbiddenError: the principal may not write the table.
            NoSuchTableError: the table does not exist.
            NotFoundError: it has no such snapshot.
            BadRequestError: there are too many records.
            IllegalArgumentError: a record is invalid.
        """
        if len(records) > MOST_RECORDS:
            raise BadRequestError(f"Too many records: send at most {MOST_RECORDS:,} in one request")
        for record in records:
            record.check()

        def work(finish: Finish[int]) -> int:
            found = self._snapshots.write(call, identifier, snapshot, strict=strict)
            now_ms = self._clock.now_ms()
            rows = [record_row(found.snapshot_id, record, now_ms) for record in records]
            return put_rows(self._store, TARGETS, found, rows, finish)

        return self._keys.run(call, JsonAnswer(int), work)

    def get(
        self, call: Call, identifier: TableIdentifier, snapshot: str | None, storage_id: str
    ) -> StatisticsRecord:
        """The record of a target.

        Args:
            snapshot: see `Snapshots.read`.
            storage_id: of the target, see `target_storage_id`. Ids of columns need no leading zeros.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            NotFoundError: it has no such snapshot, or no statistics of the target.
        """
        found = self._snapshots.read(call, identifier, snapshot)
        kind, _, rest = storage_id.partition("-")
        if kind == TargetKind.COLUMN.value:
            storage_id = f"{kind}-{rest:0>19}"
        with self._store.read() as conn:
            row = TARGETS.get(conn, found.entry_id, found.snapshot_id, storage_id)
        if row is not None:
            take_memory(len(row.body))
            return _decode(row)
        if storage_id.startswith("file-"):
            before = storage_id[:-1] + chr(ord(storage_id[-1]) - 1)
            for record in self._captured_files(call, found, before, 1)[0]:
                if target_storage_id(record.target) == storage_id:
                    return record
        raise NotFoundError(f"There are no statistics of {storage_id[:100]} in snapshot {found.snapshot_id}")

    def list(
        self,
        call: Call,
        identifier: TableIdentifier,
        snapshot: str | None = None,
        kind: TargetKind | None = None,
        page: PageRequest = ALL,
    ) -> tuple[int, _Records]:
        """Records of a snapshot in order of their storage ids.

        Args:
            snapshot: see `Snapshots.read`.
            kind: of the targets; by default all but captured files.
            page: which part.

        Returns:
            The snapshot, and a page.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
            NotFoundError: it has no such snapshot.
        """
        found = self._snapshots.read(call, identifier, snapshot)
        prefix = "" if kind is None else "table" if kind is TargetKind.TABLE else f"{kind.value}-"
        scope = f"statistics {found.entry_id} {found.snapshot_id} {prefix}"
        after = page_tokens.decode(page.token, scope) if page.token else ""
        size, of = size_of(page), (found.entry_id, found.snapshot_id, prefix, after)
        fetched = fetch_records(
            self._store,
            lambda conn, count: TARGETS.sizes(conn, *of, count),
            lambda conn, count: TARGETS.page(conn, *of, count),
            size,
        )
        records = {row.storage_id: _decode(row) for row in fetched.rows}
        # behind the last one of a part that goes on, others may be missing
        ends = [max(records)] if fetched.has_more and records else []
        if kind is TargetKind.FILE:
            captured, has_more = self._captured_files(call, found, after, size)
            of_files = {target_storage_id(each.target): each for each in captured}
            ends += [max(of_files)] if has_more and of_files else []
            records = of_files | records
        complete = sorted(id for id in records if not ends or id <= min(ends))
        has_more = bool(ends) or len(complete) > size
        token = page_tokens.encode(complete[:size][-1], scope) if has_more else None
        return found.snapshot_id, Page([records[id] for id in complete[:size]], token)


def put_rows(
    store: Store, kept: SnapshotRecords, found: TableSnapshot, rows: Sequence[RecordRow], finish: Finish[int]
) -> int:
    """Puts records of a snapshot, the last one of each storage id.

    Args:
        kept: where such records are.
        found: the snapshot.
        rows: the records.
        finish: notes the answer, in the same transaction.

    Returns:
        How many were put.

    Raises:
        NoSuchTableError: the table was dropped.
    """
    distinct = {row.storage_id: row for row in rows}

    def put(conn: Connection) -> int:
        kept.put(conn, found.entry_id, list(distinct.values()))
        finish(conn, len(distinct))
        return len(distinct)

    try:
        return store.run(put)
    except ForeignKeyError:
        raise missing_table(found.entry.identifier) from None


def record_row(snapshot_id: int, record: StatisticsRecord, now_ms: int) -> RecordRow:
    """The row of a record."""
    return RecordRow(
        snapshot_id=snapshot_id,
        storage_id=target_storage_id(record.target),
        etag=content_hash(record),
        body=msgspec.json.encode(record),
        updated_at_ms=now_ms,
    )


_decoder: Final = msgspec.json.Decoder(StatisticsRecord)


def _decode(row: RecordRow) -> StatisticsRecord:
    return _decoder.decode(row.body)
