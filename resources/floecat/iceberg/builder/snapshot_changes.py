"""Changes to snapshots, branches and tags, to the current snapshot and to the snapshot log."""

from __future__ import annotations

from collections.abc import Set

from floecat.errors import CommitFailedError, IllegalArgumentError
from floecat.iceberg.metadata.metadata_header import NO_SNAPSHOT_ID
from floecat.iceberg.metadata.refs_and_logs import (
    CLOCK_SKEW_MS,
    MAIN_BRANCH,
    SnapshotLogEntry,
    SnapshotRef,
    check_ref,
    last_snapshot_log_entry,
)
from floecat.iceberg.metadata.snapshots import NewSnapshot, SnapshotIndex, SnapshotSummary, read_new_snapshot
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.encoded_json import (
    EMPTY_ARRAY,
    Fragment,
    RawJson,
    append_elements,
    array_of,
    encode_json,
    split_array,
)

__all__ = [
    "RefChanges",
    "SnapshotChanges",
]

_ROW_LINEAGE_VERSION = 3
_MAX_INT64 = 2**63 - 1
_DAY_MS = 86_400_000


class SnapshotChanges:
    """Snapshots that are added and removed, the last sequence number and the next row id."""

    def __init__(self, base: TableMetadata | None, now_ms: int) -> None:
        self._base = base
        self._now_ms = now_ms
        self._added: dict[int, NewSnapshot] = {}
        self._parents_of_added: set[int | None] = set()
        self._removed: set[int] = set()
        self.last_sequence_number = 0 if base is None else base.last_sequence_number
        self.next_row_id = 0 if base is None else base.next_row_id

    @property
    def added(self) -> list[SnapshotSummary]:
        """Snapshots that were added and not removed again."""
        return [snapshot.summary for snapshot in self._added.values()]

    @property
    def removed_ids(self) -> list[int]:
        """Removed snapshots of the base, in the order of the base."""
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
        """The snapshot with an id after the changes so far, None if it is missing."""
        added = self._added.get(snapshot_id)
        if added is not None:
            return added.summary
        if self._base is None or snapshot_id in self._removed:
            return None
        return self._base.snapshot(snapshot_id)

    def add(self, raw: RawJson, format_version: int) -> None:
        """Adds a snapshot; no branch points at it yet.

        Raises:
            IllegalArgumentError: not a snapshot, its id is taken, its manifest list or row ids are missing,
                or its time lies more than a day ahead.
            CommitFailedError: its sequence number or row ids were based on older metadata; the client can
                refresh and retry.
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
        self._check_ancestors(summary)
        self._check_time(summary)
        self._check_sequence_number(summary, format_version)
        if format_version >= _ROW_LINEAGE_VERSION:
            self._assign_rows(summary)
        # without a parent its number may have been taken meanwhile; that of the table never decreases
        self.last_sequence_number = max(self.last_sequence_number, summary.sequence_number)
        # an id that this request removed is a new snapshot, at the end
        self._added[summary.snapshot_id] = snapshot
        self._parents_of_added.add(summary.parent_snapshot_id)

    def _check_ancestors(self, summary: SnapshotSummary) -> None:
        """Refuses a circle, in which readers go on for ever: a parent may come after those that name it."""
        id, found = summary.snapshot_id, summary.parent_snapshot_id
        if found != id and not self._is_parent(id):
            return
        passed: set[int] = set()
        while found is not None and found not in passed:
            if found == id:
                raise IllegalArgumentError(f"Cannot add snapshot {id}: it is its own ancestor")
            passed.add(found)
            parent = self.get(found)
            found = None if parent is None else parent.parent_snapshot_id

    def _is_parent(self, snapshot_id: int) -> bool:
        """Whether a snapshot may name an id that is missing as its parent."""
        if snapshot_id in self._parents_of_added:
            return True
        base = self._base
        return base is not None and (
            snapshot_id in self._removed or snapshot_id in base.snapshot_index.missing_parents
        )

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
        # counted from the first row id of the snapshot, so that a gap never assigns an id twice
        self.next_row_id = first + added

    def remove(self, snapshot_ids: Set[int]) -> set[int]:
        """Removes snapshots; unknown ids are ignored.

        Returns:
            The ids that were found.
        """
        found = {snapshot_id for snapshot_id in snapshot_ids if self.get(snapshot_id) is not None}
        for snapshot_id in found:
            if self._added.pop(snapshot_id, None) is None:
                self._removed.add(snapshot_id)
        return found

    def references_schema(self, schema_ids: Set[int]) -> int | None:
        """The first of some schemas that a snapshot was written with, None without one."""
        base: tuple[SnapshotSummary, ...] = () if self._base is None else tuple(self._base.snapshots)
        for summary in (*base, *self.added):
            if summary.schema_id in schema_ids and self.get(summary.snapshot_id) is not None:
                return summary.schema_id
        return None

    def write(self, fields: dict[str, Fragment], format_version: int) -> SnapshotIndex | None:
        """Writes what has changed into the fields of the next document.

        Returns:
            The index of its snapshots; None if that of the base was never built and is still valid.
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
        """Counts row ids that snapshots assigned before the table kept a count."""
        if self._base is None or self._base.format_version < _ROW_LINEAGE_VERSION:
            known = () if self._base is None else self._base.snapshots
            rows = ((each.first_row_id or 0) + (each.added_rows or 0) for each in (*known, *self.added))
            self.next_row_id = max(rows, default=self.next_row_id)


class RefChanges:
    """Branches, tags, the current snapshot and the snapshot log."""

    def __init__(self, base: TableMetadata | None, snapshots: SnapshotChanges, now_ms: int) -> None:
        self._base = base
        self._snapshots = snapshots
        self._now_ms = now_ms
        self.refs: dict[str, SnapshotRef] = {} if base is None else dict(base.refs)
        self.current_id = None if base is None else base.current_snapshot_id
        self._log: list[SnapshotLogEntry] = []
        self._passed: set[int] = set()
        # built when snapshots are first removed, and maintained from then on
        self._names: dict[int, set[str]] | None = None

    @property
    def refs_changed(self) -> bool:
        """Whether a branch or tag is different from the base."""
        return self.refs != ({} if self._base is None else self._base.refs)

    @property
    def changed(self) -> bool:
        """Whether anything is different from the base."""
        return self._base is None or self.refs_changed or self.current_id != self._base.current_snapshot_id

    def set_ref(self, name: str, ref: SnapshotRef) -> None:
        """Creates or moves a branch or tag; with `main` the current snapshot changes.

        Raises:
            IllegalArgumentError: the snapshot does not exist, or the reference breaks the rules for its type.
        """
        check_ref(name, ref)
        if self.refs.get(name) == ref and (name != MAIN_BRANCH or self.current_id == ref.snapshot_id):
            return
        snapshot = self._snapshots.get(ref.snapshot_id)
        if snapshot is None:
            raise IllegalArgumentError(f"Cannot set {name} to unknown snapshot: {ref.snapshot_id}")
        if name == MAIN_BRANCH:
            added = self._snapshots.is_added(ref.snapshot_id)
            made_ms = snapshot.timestamp_ms if added else None
            self._log.append(SnapshotLogEntry(self._entry_time(made_ms), ref.snapshot_id))
            if added:
                self._passed.add(ref.snapshot_id)
            self.current_id = ref.snapshot_id
        self._set(name, ref)

    def _entry_time(self, made_ms: int | None) -> int:
        """The time at which `main` moves to a snapshot: if possible that of the snapshot, so that both agree.

        The log must not end in the future, before everything that other clients append, and must not run
        backwards: readers refuse such a table, and time travel fails.

        Args:
            made_ms: time of a snapshot that this request adds; None for an older one.
        """
        last_ms = self.last_log_ms
        if made_ms is not None and last_ms <= made_ms <= self._now_ms + CLOCK_SKEW_MS:
            return made_ms
        return max(last_ms, self._now_ms)

    def remove(self, name: str) -> None:
        """Removes a branch or tag, if it exists. Without `main` there is no current snapshot."""
        self._set(name, None)
        if name == MAIN_BRANCH:
            self.current_id = None

    def _set(self, name: str, ref: SnapshotRef | None) -> None:
        before = self.refs.pop(name, None) if ref is None else self.refs.get(name)
        if ref is not None:
            self.refs[name] = ref
        if self._names is not None:
            if before is not None:
                self._names[before.snapshot_id].discard(name)
            if ref is not None:
                self._names.setdefault(ref.snapshot_id, set()).add(name)

    def remove_dangling(self, removed: Set[int]) -> None:
        """Removes branches and tags of snapshots that were just removed."""
        if self._names is None:
            self._names = {}
            for name, ref in self.refs.items():
                self._names.setdefault(ref.snapshot_id, set()).add(name)
        for snapshot_id in removed:
            for name in list(self._names.get(snapshot_id, ())):
                self.remove(name)
        if self.current_id in removed:
            self.current_id = None

    @property
    def last_log_ms(self) -> int:
        """Time of the last entry of the new `snapshot-log`, 0 without one."""
        if self._log:
            return self._log[-1].timestamp_ms
        existing = None if self._base is None else last_snapshot_log_entry(self._base.array("snapshot-log"))
        return 0 if existing is None else existing.timestamp_ms

    def write(self, fields: dict[str, Fragment], format_version: int) -> None:
        """Writes what has changed into the fields of the next document."""
        current_changed = self._base is None or self.current_id != self._base.current_snapshot_id
        upgraded = self._base is not None and self._base.format_version != format_version
        if current_changed or (upgraded and self.current_id is None):
            fields["current-snapshot-id"] = (encode_json(self._current_value(format_version)),)
        if self.refs_changed or "refs" not in fields:
            fields["refs"] = (encode_json(self.refs),)
        fields["snapshot-log"] = self._snapshot_log()

    def _current_value(self, format_version: int) -> int | None:
        if self.current_id is None and format_version < 3:
            return NO_SNAPSHOT_ID
        return self.current_id

    def _snapshot_log(self) -> Fragment:
        existing = EMPTY_ARRAY if self._base is None else self._base.array("snapshot-log")
        intermediate = self._passed - {self.current_id}
        if not intermediate and not self._snapshots.any_removed:
            return append_elements(existing, [encode_json(entry) for entry in self._log])
        return self._rewritten_log(existing, intermediate)

    def _rewritten_log(self, existing: Fragment, intermediate: Set[int]) -> Fragment:
        entries = [] if self._base is None else list(self._base.snapshot_log)
        elements = [memoryview(element) for element in split_array(existing, "snapshot-log")]
        elements += [memoryview(encode_json(entry)) for entry in self._log]
        kept = []
        for entry, element in zip(reversed(entries + self._log), reversed(elements), strict=True):
            if self._snapshots.get(entry.snapshot_id) is None:
                if self._snapshots.any_removed:
                    # without this entry, the one before would seem current for too long
                    break
            elif entry.snapshot_id not in intermediate:
                kept.append(element)
        return array_of(reversed(kept))
