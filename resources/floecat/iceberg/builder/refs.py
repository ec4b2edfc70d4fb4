"""Changes of branches and tags, of the current snapshot and of its history."""

from __future__ import annotations

from collections.abc import Set

from floecat.errors import IllegalArgumentError
from floecat.iceberg.builder.snapshots import SnapshotChanges
from floecat.iceberg.metadata.metadata_header import NO_SNAPSHOT_ID
from floecat.iceberg.metadata.metadata_logs import CLOCK_SKEW_MS, SnapshotLogEntry, last_snapshot_log_entry
from floecat.iceberg.metadata.refs import MAIN_BRANCH, SnapshotRef, check_ref
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.json_arrays import EMPTY_ARRAY, Fragment, append_elements, array_of, split_array
from floecat.iceberg.values.json_values import encode_json

__all__ = ["RefChanges"]


class RefChanges:
    """Branches, tags, the current snapshot and the snapshot log."""

    def __init__(self, base: TableMetadata | None, snapshots: SnapshotChanges, now_ms: int) -> None:
        """Starts from a base.

        Args:
            base: None for a new table.
            snapshots: the snapshots as they become.
            now_ms: the time of the commit, by the clock of the catalog.
        """
        self._base = base
        self._snapshots = snapshots
        self._now_ms = now_ms
        self.refs: dict[str, SnapshotRef] = {} if base is None else dict(base.refs)
        self.current_id = None if base is None else base.current_snapshot_id
        self._log: list[SnapshotLogEntry] = []
        self._passed: set[int] = set()
        # made when snapshots are first removed, and kept up then
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
        """Creates or moves a branch or tag; `main` takes the current snapshot along.

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
        """When `main` takes up a snapshot: as the client says, if that can be, so that times of both agree.

        The history must not end in the future, where it would lie before everything that honest clients
        append, and must not run backwards: readers refuse such a table, and cannot travel in it.

        Args:
            made_ms: time of a snapshot that this request adds; None for an older one, which is taken up now.
        """
        last_ms = self.last_log_ms
        if made_ms is not None and last_ms <= made_ms <= self._now_ms + CLOCK_SKEW_MS:
            return made_ms
        return max(last_ms, self._now_ms)

    def remove(self, name: str) -> None:
        """Removes a branch or tag, if there. Without `main` there is no current snapshot."""
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
        """Removes what points at snapshots that were just removed."""
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
        """Time of the last entry that `snapshot-log` will have, 0 without one."""
        if self._log:
            return self._log[-1].timestamp_ms
        existing = None if self._base is None else last_snapshot_log_entry(self._base.array("snapshot-log"))
        return 0 if existing is None else existing.timestamp_ms

    def write(self, fields: dict[str, Fragment], format_version: int) -> None:
        """Puts what has changed into the fields of the next document."""
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
                    # Without it, the one before would seem to have been current for longer than it was.
                    break
            elif entry.snapshot_id not in intermediate:
                kept.append(element)
        return array_of(reversed(kept))
