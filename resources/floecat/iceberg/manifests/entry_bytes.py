"""Manifest entries as bytes: selected and changed without decoding them.

An entry begins with its status and snapshot id, and ends, if it is one of a data file in format version 3,
with its first row id and three nulls. These are all that changes when a snapshot carries an entry over or
removes it. Two sequence numbers, the content and the path of the file follow the snapshot id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from floecat.iceberg.avro.columns import (
    Cells,
    constant,
    lay_out,
    optional,
    ragged,
    varint,
    varint_lengths,
    varints,
    where,
    zigzag,
)
from floecat.iceberg.avro.string_columns import Bools, Bytes, Int64s
from floecat.iceberg.manifests.reader import ManifestEntryStatus

__all__ = [
    "EntryBytes",
    "as_deleted",
    "concat_entries",
    "file_path",
    "select",
    "status_bytes",
    "with_first_row_ids",
]

_STATUS_SIZE = 1
_PRESENT = b"\x02"
_ROW_ID_AND_NULLS_SIZE = 4
_NULLS = constant(b"\x00\x00\x00")


class EntryBytes(NamedTuple):
    """Some entries.

    Attributes:
        data: the entries, one after the other.
        sizes: bytes of each.
    """

    data: Bytes
    sizes: Int64s

    @property
    def starts(self) -> Int64s:
        """The start of each."""
        starts: Int64s = np.cumsum(self.sizes) - self.sizes
        return starts


def status_bytes(statuses: Bytes) -> Bytes:
    """The first byte of entries."""
    return statuses << np.uint8(1)


def concat_entries(parts: Sequence[EntryBytes]) -> EntryBytes:
    """Entries of several parts, in order."""
    return EntryBytes(
        np.concatenate([np.zeros(0, np.uint8), *(part.data for part in parts)]),
        np.concatenate([np.zeros(0, np.int64), *(part.sizes for part in parts)]),
    )


def select(entries: EntryBytes, chosen: Bools) -> EntryBytes:
    """Some of the entries, in order."""
    if chosen.all():
        return entries
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    offsets = np.append(entries.starts, len(entries.data))[edges].tolist()
    runs = [entries.data[start:stop] for start, stop in zip(offsets[::2], offsets[1::2], strict=True)]
    return EntryBytes(np.concatenate([np.zeros(0, np.uint8), *runs]), entries.sizes[chosen])


def file_path(entry: bytes) -> str:
    """The path of the file that an entry is about.

    Raises:
        IndexError, ValueError: the bytes are no entry.
    """
    at = _STATUS_SIZE
    for _ in ("snapshot_id", "sequence_number", "file_sequence_number"):
        is_present, at = _read_long(entry, at)
        if is_present:
            _, at = _read_long(entry, at)
    _, at = _read_long(entry, at)  # content
    length, at = _read_long(entry, at)
    if not 0 <= length <= len(entry) - at:
        raise ValueError("The path of an entry is cut off")
    return entry[at : at + length].decode()


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    """A number as Avro writes it (zigzag varint), and where the next value starts."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def as_deleted(entries: EntryBytes, old_snapshot_ids: Int64s, snapshot_id: int) -> EntryBytes:
    """Entries with status DELETED and another snapshot id.

    Args:
        old_snapshot_ids: the snapshot id that each has now.
        snapshot_id: the one to write instead.
    """
    status = bytes([ManifestEntryStatus.DELETED << 1])
    head = status + _PRESENT + varint(snapshot_id)
    old_heads = _STATUS_SIZE + len(_PRESENT) + varint_lengths(zigzag(old_snapshot_ids)).astype(np.int64)
    stops = np.cumsum(entries.sizes)
    starts = stops - entries.sizes + old_heads
    view = entries.data.data
    parts = [
        part
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
        for part in (head, view[start:stop])
    ]
    return EntryBytes(np.frombuffer(b"".join(parts), np.uint8), entries.sizes - old_heads + len(head))


def with_first_row_ids(entries: EntryBytes, first_row_ids: Int64s, chosen: Bools) -> EntryBytes:
    """Entries of data files in format version 3, some of them with a first row id added.

    Args:
        first_row_ids: the ids to write.
        chosen: which entries get one. These have none yet.
    """
    body = ragged(entries.data, entries.sizes)
    stops = np.where(chosen, entries.sizes - _ROW_ID_AND_NULLS_SIZE, entries.sizes)
    new = [*optional([varints(first_row_ids)], None), _NULLS]
    cells = [
        Cells(body.data, np.arange(body.width) < stops[:, np.newaxis]),
        *where(new, chosen),
    ]
    return EntryBytes(*lay_out(cells, len(entries.sizes)))
