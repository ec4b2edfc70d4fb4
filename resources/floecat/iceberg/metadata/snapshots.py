"""Snapshots of a table, and an index over their encoded array.

The array may be megabytes long. It is decoded once, into what commits and loads need of a snapshot and its
position in the array; adding and removing snapshots derive the next index from the last.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import NamedTuple

import msgspec

from floecat.errors import IllegalArgumentError, InvalidMetadataError
from floecat.iceberg.values.bounds import exceeded, process_bounds
from floecat.iceberg.values.encoded_json import (
    EMPTY_ARRAY,
    Fragment,
    Int32,
    Int64,
    Piece,
    RawJson,
    append_elements,
    decode_fields,
    decode_json,
    encode_json,
    fragment_bytes,
    fragment_size,
    is_empty_array,
    is_null,
    take_json,
)
from floecat.iceberg.values.text_limits import check_numbers, check_stored_text

__all__ = [
    "OPERATIONS",
    "NewSnapshot",
    "SnapshotIndex",
    "SnapshotSummary",
    "check_number_of_snapshots",
    "check_snapshots",
    "check_stored_texts",
    "read_new_snapshot",
]


class _Summary(msgspec.Struct, frozen=True, gc=False):
    operation: str | None = None


class SnapshotSummary(msgspec.Struct, frozen=True, rename="kebab", gc=False):
    """The parts of a snapshot that the catalog uses. The rest, its counters included, stays encoded.

    Attributes:
        sequence_number: 0 in format version 1.
        manifest_list: None in v1 snapshots that list their manifests inline.
        manifests: manifest files listed inline.
        first_row_id: first row id that the snapshot assigns; None before format version 3.
        added_rows: upper bound of the row ids it assigns.
    """

    snapshot_id: Int64
    timestamp_ms: Int64
    sequence_number: Int64 = 0
    parent_snapshot_id: Int64 | None = None
    manifest_list: str | None = None
    manifests: tuple[str, ...] | None = None
    schema_id: Int32 | None = None
    first_row_id: Int64 | None = None
    added_rows: Int64 | None = None
    key_id: str | None = None
    summary: _Summary | None = None

    @property
    def operation(self) -> str | None:
        """`append`, `replace`, `overwrite` or `delete`; None if the snapshot does not say."""
        return None if self.summary is None else self.summary.operation


class NewSnapshot(NamedTuple):
    """A snapshot that a commit adds."""

    summary: SnapshotSummary
    raw: bytes


class _Entry(msgspec.Struct, frozen=True, gc=False):
    summary: SnapshotSummary
    start: int
    end: int


OPERATIONS = frozenset({"append", "replace", "overwrite", "delete"})
"""Operations of snapshots (table specification, "Snapshots")."""

_OPTIONAL = frozenset(
    field.encode_name for field in msgspec.structs.fields(SnapshotSummary) if not field.required
)

_ID_KEY = b'"snapshot-id"'
_COUNTED_AT_ONCE = 1 << 20

_summaries_decoder = msgspec.json.Decoder(list[SnapshotSummary])
_elements_decoder = msgspec.json.Decoder(list[msgspec.Raw])


def check_number_of_snapshots(number: int) -> None:
    """Refuses more snapshots than `floecat.limits` allows.

    Raises:
        BoundExceededError: there are more.
    """
    limits = process_bounds.limits
    if number > limits.snapshots:
        raise exceeded(limits, "snapshots", "table metadata", "its snapshots are more than")


def check_snapshots(array: Piece) -> None:
    """As `check_number_of_snapshots`, of an encoded array before it is decoded."""
    if len(array) <= process_bounds.limits.snapshots * len(_ID_KEY):
        return
    view = memoryview(array)
    # a part ends before the key that begins in the next one is complete
    size = _COUNTED_AT_ONCE + len(_ID_KEY) - 1
    parts = (view[start : start + size] for start in range(0, len(view), _COUNTED_AT_ONCE))
    check_number_of_snapshots(sum(bytes(part).count(_ID_KEY) for part in parts))


class SnapshotIndex:
    """The position of each snapshot in the encoded array. Immutable; shared between successive documents."""

    __slots__ = ("_entries", "_missing_parents", "_summaries")

    def __init__(self, entries: dict[int, _Entry]) -> None:
        self._entries = entries
        self._summaries: tuple[SnapshotSummary, ...] | None = None
        self._missing_parents: frozenset[int] | None = None

    @classmethod
    def of(cls, array: Piece) -> SnapshotIndex:
        """Decodes an array of snapshots.

        Raises:
            BoundExceededError: there are more than `floecat.limits` allows.
            InvalidMetadataError: an element is not a snapshot, or an id occurs twice.
        """
        check_snapshots(array)
        try:
            summaries = _summaries_decoder.decode(array)
            elements = _elements_decoder.decode(array)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            raise InvalidMetadataError("Invalid table metadata: cannot parse snapshots") from None
        data = bytes(array)
        entries: dict[int, _Entry] = {}
        end = 0
        for summary, element in zip(summaries, elements, strict=True):
            start = data.index(b"{", end)
            end = start + len(memoryview(element))
            entries[summary.snapshot_id] = _Entry(summary, start, end)
        if len(entries) != len(summaries):
            raise InvalidMetadataError("Invalid table metadata: a snapshot id occurs more than once")
        return cls(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self._entries

    def get(self, snapshot_id: int) -> SnapshotSummary | None:
        """The snapshot with an id, None if it is missing."""
        entry = self._entries.get(snapshot_id)
        return None if entry is None else entry.summary

    @property
    def summaries(self) -> tuple[SnapshotSummary, ...]:
        """All snapshots, in the order of the document."""
        if self._summaries is None:
            self._summaries = tuple(entry.summary for entry in self._entries.values())
        return self._summaries

    @property
    def missing_parents(self) -> frozenset[int]:
        """Ids that snapshots name as their parents, and that no snapshot has."""
        if self._missing_parents is None:
            parents = {entry.summary.parent_snapshot_id for entry in self._entries.values()}
            self._missing_parents = frozenset(
                id for id in parents if id is not None and id not in self._entries
            )
        return self._missing_parents

    def slice(self, array: Piece, snapshot_id: int) -> Piece:
        """The encoded snapshot, from the array that this index was made of."""
        entry = self._entries[snapshot_id]
        return array[entry.start : entry.end]

    def select(self, array: Piece, snapshot_ids: Collection[int]) -> list[Piece]:
        """The encoded snapshots with these ids, in the order of the array. The others cost nothing."""
        found = [self._entries[snapshot_id] for snapshot_id in snapshot_ids if snapshot_id in self._entries]
        found.sort(key=lambda entry: entry.start)
        view = memoryview(array)
        return [view[entry.start : entry.end] for entry in found]

    def appended(self, array: Fragment, added: Sequence[NewSnapshot]) -> tuple[SnapshotIndex, Fragment]:
        """The index and the array with snapshots appended."""
        if not added:
            return self, array
        entries = self._entries.copy()
        start = fragment_size(array) - (1 if is_empty_array(array) else 0)
        for snapshot in added:
            end = start + len(snapshot.raw)
            entries[snapshot.summary.snapshot_id] = _Entry(snapshot.summary, start, end)
            start = end + 1
        index = SnapshotIndex(entries)
        if self._missing_parents is not None:  # not looked for again with every commit
            parents = [snapshot.summary.parent_snapshot_id for snapshot in added]
            named = self._missing_parents.union(parent for parent in parents if parent is not None)
            index._missing_parents = named - entries.keys()
        return index, append_elements(array, [snapshot.raw for snapshot in added])

    def without(self, array: Fragment, removed: Set[int]) -> tuple[SnapshotIndex, Fragment]:
        """The index and the array without some snapshots; the others keep their bytes."""
        if not any(snapshot_id in self._entries for snapshot_id in removed):
            return self, array
        runs = _Runs(memoryview(fragment_bytes(array)))
        entries = {
            snapshot_id: runs.keep(entry)
            for snapshot_id, entry in self._entries.items()
            if snapshot_id not in removed
        }
        return SnapshotIndex(entries), runs.array()


class _Runs:
    """Copies elements of an array into a new one, whole runs of neighbours at a time."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._pieces: list[Piece] = []
        self._size = 1
        self._start = self._end = -1

    def keep(self, entry: _Entry) -> _Entry:
        if self._end < 0 or not self._follows(entry):
            self._close()
            self._start = entry.start
        shift = self._size + (1 if self._pieces else 0) - self._start
        self._end = entry.end
        return _Entry(entry.summary, entry.start + shift, entry.end + shift)

    def _follows(self, entry: _Entry) -> bool:
        gap = entry.start - self._end
        return gap == 1 or bytes(self._view[self._end : entry.start]).strip() == b","

    def _close(self) -> None:
        if self._end < 0:
            return
        if self._pieces:
            self._size += 1
        self._pieces.append(self._view[self._start : self._end])
        self._size += self._end - self._start
        self._end = -1

    def array(self) -> Fragment:
        self._close()
        return (b"[" + b",".join(self._pieces) + b"]",) if self._pieces else EMPTY_ARRAY


def read_new_snapshot(raw: RawJson) -> NewSnapshot:
    """Reads a snapshot that a client sends.

    Nulls for optional fields are dropped, and so is the parent -1, which ClickHouse sends for none; the rest
    keeps its bytes.

    Raises:
        IllegalArgumentError: a required field is missing or of another type, row ids are negative, the
            operation is not one of the four, or a number is too long for readers.
    """
    data = take_json(raw, "snapshot")
    fields = decode_fields(data, "snapshot")
    check_numbers(data, "snapshot")
    if "summary" in fields and not is_null(fields["summary"]):
        decode_json(fields["summary"], dict[str, str], "snapshot summary")
    absent = [name for name in _OPTIONAL if name in fields and is_null(fields[name])]
    if bytes(fields.get("parent-snapshot-id", b"")) == b"-1":
        absent.append("parent-snapshot-id")
    if absent:
        # Readers of the reference implementation fail on a null parent id.
        data = encode_json({name: value for name, value in fields.items() if name not in absent})
    summary = decode_json(data, SnapshotSummary, "snapshot")
    _check(summary)
    return NewSnapshot(summary, data)


def check_stored_texts(summary: SnapshotSummary) -> None:
    """Refuses texts of a snapshot that some stores cannot keep.

    Raises:
        IllegalArgumentError: the operation or the manifest list holds the character NUL.
    """
    check_stored_text(summary.operation, f"operation of snapshot {summary.snapshot_id}", None)
    check_stored_text(summary.manifest_list, f"manifest-list of snapshot {summary.snapshot_id}", None)


def _check(summary: SnapshotSummary) -> None:
    if summary.snapshot_id == -1:
        raise IllegalArgumentError("Invalid snapshot id -1: it stands for no snapshot")
    if summary.manifest_list is None and summary.manifests is None:
        raise IllegalArgumentError(
            f"Cannot parse missing string: manifest-list of snapshot {summary.snapshot_id}"
        )
    check_stored_texts(summary)
    if summary.operation is not None and summary.operation not in OPERATIONS:
        raise IllegalArgumentError(
            f"Invalid operation of snapshot {summary.snapshot_id}: not append, replace, overwrite or delete"
        )
    if summary.first_row_id is not None:
        if summary.first_row_id < 0:
            raise IllegalArgumentError(f"Invalid first-row-id (cannot be negative): {summary.first_row_id}")
        if summary.added_rows is None:
            raise IllegalArgumentError("Invalid added-rows (required when first-row-id is set): null")
    if summary.added_rows is not None and summary.added_rows < 0:
        raise IllegalArgumentError(f"Invalid added-rows (cannot be negative): {summary.added_rows}")
