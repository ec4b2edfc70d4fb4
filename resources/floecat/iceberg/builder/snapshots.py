"""Changes of the snapshots of a table: sequence numbers and row ids included."""

from __future__ import annotations

from collections.abc import Set

from floecat.errors import CommitFailedError, IllegalArgumentError
from floecat.iceberg.metadata.snapshots import NewSnapshot, SnapshotIndex, SnapshotSummary, read_new_snapshot
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.json_arrays import EMPTY_ARRAY, Fragment
from floecat.iceberg.values.json_values import RawJson, encode_json

__all__ = ["SnapshotChanges"]

_ROW_LINEAGE_VERSION = 3
_MAX_INT64 = 2**63 - 1
_DAY_MS = 86_400_000


class SnapshotChanges:
    """Snapshots that are added and removed, the last sequence number and the next row id."""

    def __init__(self, base: TableMetadata | None, now_ms: int) -> None:
        """Starts from a base.

        Args:
            base: None for a new table.
            now_ms: the time of the commit, by the clock of the catalog.
        """
        self._base = base
        self._now_ms = now_ms
        self._added: dict[int, NewSnapshot] = {}
        self._removed: set[int] = set()
        self.last_sequence_number = 0 if base is None else base.last_sequence_number
        self.next_row_id = 0 if base is None else base.next_row_id

    @property
    def added(self) -> list[SnapshotSummary]:
        """What was added and not removed again."""
        return [snapshot.summary for snapshot in self._added.values()]

    @property
    def removed_ids(self) -> list[int]:
        """What the base had and is removed, in the order of the base."""
        if self._base is None or not self._removed:
            return []
        return [s.snapshot_id for s in self._base.snapshots if s.snapshot_id in self._removed]

    @property
    def changed(self) -> bool:
        """Whether anything is different from the base."""
        return bool(self._added or self._removed) or (
            self._base is not None and self.last_sequence_number != self._base.last_sequence_number
        )

    @property
    def any_removed(self) -> bool:
        """Whether snapshots of the base are removed."""
        return bool(self._removed)

    def is_added(self, snapshot_id: int) -> bool:
        """Whether this request added the snapshot."""
        return snapshot_id in self._added

    def get(self, snapshot_id: int) -> SnapshotSummary | None:
        """The snapshot with an id as things are now, None if there is none."""
        added = self._added.get(snapshot_id)
        if added is not None:
            return added.summary
        if self._base is None or snapshot_id in self._removed:
            return None
        return self._base.snapshot(snapshot_id)

    def add(self, raw: RawJson, format_version: int) -> None:
        """Adds a snapshot, on whatever branch it will be.

        Raises:
            IllegalArgumentError: not a snapshot, its id is taken, its manifest list or row ids are missing,
                or its time lies more than a day ahead.
            CommitFailedError: its sequence number or row ids were chosen on older metadata; the client can
                refresh and try again.
        """
        snapshot = read_new_snapshot(raw)
        summary = snapshot.summary
        if self.get(summary.snapshot_id) is not None:
            raise IllegalArgumentError(f"Snapshot already exists for id: {summary.snapshot_id}")
        if format_version > 1 and summary.operation is None:
            raise IllegalArgumentError(
                f"Cannot add snapshot {summary.snapshot_id}: its summary does not say the operation"
            )
        if format_version > 1 and summary.manifest_list is None:
            raise IllegalArgumentError(
                f"Cannot add snapshot {summary.snapshot_id}: manifest-list is required in v{format_version}"
            )
        self._check_time(summary)
        self._check_sequence_number(summary, format_version)
        if format_version >= _ROW_LINEAGE_VERSION:
            self._assign_rows(summary)
        # Without a parent it may carry a number that was taken meanwhile; the table never goes back.
        self.last_sequence_number = max(self.last_sequence_number, summary.sequence_number)
        # An id that this request removed comes back as another snapshot, at the end.
        self._added[summary.snapshot_id] = snapshot

    def _check_time(self, summary: SnapshotSummary) -> None:
        if summary.timestamp_ms - self._now_ms > _DAY_MS:
            raise IllegalArgumentError(
                f"Invalid snapshot timestamp {summary.timestamp_ms}: more than a day ahead of the catalog's"
                f" clock, which is at {self._now_ms} ms; timestamps are in milliseconds"
            )

    def _check_sequence_number(self, summary: SnapshotSummary, format_version: int) -> None:
        if format_version == 1:
            if summary.sequence_number != 0:
                raise IllegalArgumentError(f"Sequence number must be 0 in v1: {summary.sequence_number}")
            return
        if summary.sequence_number < 0:
            raise IllegalArgumentError(
                f"Invalid sequence number (cannot be negative): {summary.sequence_number}"
            )
        if summary.parent_snapshot_id is not None and summary.sequence_number <= self.last_sequence_number:
            raise CommitFailedError(
                "Validation failed, please retry: Cannot add snapshot with sequence number"
                f" {summary.sequence_number} older than last sequence number {self.last_sequence_number}"
            )

    def _assign_rows(self, summary: SnapshotSummary) -> None:
        first, added = summary.first_row_id, summary.added_rows
        if first is None or added is None:
            raise IllegalArgumentError("Cannot add a snapshot: first-row-id is null")
        if first < self.next_row_id:
            raise CommitFailedError(
                "Validation failed, please retry: Cannot add a snapshot, first-row-id is behind table"
                f" next-row-id: {first} < {self.next_row_id}"
            )
        if first + added > _MAX_INT64:
            raise IllegalArgumentError(f"Invalid added-rows (row ids exceed 64 bits): {added}")
        # Counted from the first row id that was used, so that a gap never leads to an id twice.
        self.next_row_id = first + added

    def remove(self, snapshot_ids: Set[int]) -> set[int]:
        """Removes snapshots; unknown ids do nothing.

        Returns:
            The ids that were there.
        """
        found = {snapshot_id for snapshot_id in snapshot_ids if self.get(snapshot_id) is not None}
        for snapshot_id in found:
            if self._added.pop(snapshot_id, None) is None:
                self._removed.add(snapshot_id)
        return found

    def references_schema(self, schema_ids: Set[int]) -> int | None:
        """The first of some schemas that a snapshot was written with, None if none was."""
        base: tuple[SnapshotSummary, ...] = () if self._base is None else tuple(self._base.snapshots)
        for summary in (*base, *self.added):
            if summary.schema_id in schema_ids and self.get(summary.snapshot_id) is not None:
                return summary.schema_id
        return None

    def write(self, fields: dict[str, Fragment], format_version: int) -> SnapshotIndex | None:
        """Puts what has changed into the fields of the next document.

        Returns:
            The index of its snapshots, None if that of the base was never needed and still holds.
        """
        if format_version > 1:
            fields["last-sequence-number"] = (encode_json(self.last_sequence_number),)
        if format_version >= _ROW_LINEAGE_VERSION:
            self._count_rows_of_older_versions()
            fields["next-row-id"] = (encode_json(self.next_row_id),)
        if self._base is None:
            index, array = SnapshotIndex({}), EMPTY_ARRAY
        elif not (self._added or self._removed):
            fields.setdefault("snapshots", EMPTY_ARRAY)
            return self._base.known_snapshot_index
        else:
            index, array = self._base.snapshot_index, self._base.array("snapshots")
        index, array = index.without(array, self._removed)
        index, fields["snapshots"] = index.appended(array, list(self._added.values()))
        return index

    def _count_rows_of_older_versions(self) -> None:
        """Rows that snapshots numbered although their format version keeps no count of them."""
        if self._base is None or self._base.format_version < _ROW_LINEAGE_VERSION:
            known = () if self._base is None else self._base.snapshots
            rows = ((each.first_row_id or 0) + (each.added_rows or 0) for each in (*known, *self.added))
            self.next_row_id = max(rows, default=self.next_row_id)
