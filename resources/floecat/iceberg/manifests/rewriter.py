"""Rewrites manifests by the bytes of their entries.

The index of a manifest says where these begin. Blocks in which nothing changes are copied compressed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.errors import InvalidMetadataError
from floecat.iceberg.avro.container import (
    BLOCK_SIZE,
    Block,
    BlockWriter,
    check_marker,
    encode_container,
    read_blocks,
    read_header,
)
from floecat.iceberg.avro.inflation import inflate_block
from floecat.iceberg.avro.string_columns import Bools, Int64s
from floecat.iceberg.manifests.entry_bytes import (
    EntryBytes,
    as_deleted,
    concat_entries,
    file_path,
    select,
    status_bytes,
    with_first_row_ids,
)
from floecat.iceberg.manifests.index import INDEX_KEY, EntryKeys, ManifestIndex, index_of
from floecat.iceberg.manifests.lists import DATA_MANIFEST
from floecat.iceberg.manifests.reader import ManifestEntryStatus
from floecat.iceberg.manifests.writer import EncodedManifest

__all__ = ["FoundEntry", "OldManifest", "find_entries", "rewrite"]

_WHAT = "manifest"
_EXISTING = status_bytes(np.array([ManifestEntryStatus.EXISTING], np.uint8))[0]


class FoundEntry(NamedTuple):
    """A live entry that has one of some keys.

    Attributes:
        row: its place in the manifest.
        key: the key.
        file_path: path of its file, decoded.
    """

    row: int
    key: str
    file_path: str


@dataclass(frozen=True, eq=False)
class OldManifest:
    """A manifest to rewrite.

    Attributes:
        data: the whole file; it must have an index (`read_index`).
        location: where it is, for messages.
        first_row_id: in format version 3, of data manifests: what its entry in the manifest list says.
        index: its index, if that was read before.
    """

    data: bytes
    location: str
    first_row_id: int | None = None
    index: ManifestIndex | None = None


def rewrite(
    manifests: Sequence[OldManifest], *, remove: EntryKeys | pa.Array | pa.ChunkedArray, snapshot_id: int
) -> EncodedManifest:
    """Makes one manifest of one or several, less some files. The same arguments always give the same bytes.

    Survivors come first, in the order of the old manifests, with status EXISTING and otherwise unchanged;
    then the removed ones, with status DELETED and this snapshot's id. What was DELETED before is left out. In
    format version 3, data files that inherit their first row id get it written out, so that rows keep theirs.

    Args:
        manifests: of the same partition spec, content and format version. Header fields that may differ, as
            the table's schema, are taken from the last one.
        remove: keys of the entries to remove, or Arrow strings of these. Keys that no manifest holds are
            ignored.
        snapshot_id: the snapshot that removes them.

    Raises:
        InvalidMetadataError: a manifest is damaged, or does not fit its index.
        ValueError: no manifests, one without index, or they do not belong together.
    """
    sources = [_Source(manifest) for manifest in manifests]
    _check_alike(sources)
    keys = remove if isinstance(remove, EntryKeys) else EntryKeys(remove)
    output = BlockWriter()
    removed = [source.rewrite(keys, output, snapshot_id) for source in sources]
    output.write(*concat_entries(removed))
    survivors = [source.index_rows(source.survives, ManifestEntryStatus.EXISTING) for source in sources]
    gone = [source.index_rows(source.removed, ManifestEntryStatus.DELETED, snapshot_id) for source in sources]
    last = sources[-1]
    index = ManifestIndex(
        last.index.content,
        last.index.partition_spec_id,
        last.index.format_version,
        pa.concat_tables(survivors + gone),
    )
    metadata = {**last.header.metadata, INDEX_KEY: index.encode()}
    return EncodedManifest(encode_container(metadata, output.finish()), index)


def find_entries(manifest: OldManifest, keys: EntryKeys) -> list[FoundEntry]:
    """The live entries of a manifest that have one of some keys.

    Raises:
        InvalidMetadataError: the manifest is damaged, or does not fit its index.
        ValueError: it has no index.
    """
    return list(_Source(manifest).find(keys))


def _check_alike(sources: Sequence[_Source]) -> None:
    if not sources:
        raise ValueError("No manifest to rewrite")
    for name in ("avro.schema", "partition-spec-id", "format-version", "content"):
        if len({source.header.metadata.get(name) for source in sources}) > 1:
            raise ValueError(f"Manifests of different {name} cannot become one")


class _Source:
    """An old manifest, and what becomes of its entries.

    Attributes:
        survives: which entries are carried over; final after `rewrite`.
        removed: which are removed now, likewise.
    """

    def __init__(self, manifest: OldManifest) -> None:
        self._location = location = manifest.location
        self.header = read_header(manifest.data, location=location, what=_WHAT)
        index = manifest.index or index_of(self.header, location=location)
        if index is None:
            raise ValueError(f"Manifest {location} has no index")
        self.index = index
        self._blocks = list(read_blocks(manifest.data, self.header, location=location, what=_WHAT))
        check_marker(manifest.data, self.header, self._blocks, location=location, what=_WHAT)
        if sum(block.rows for block in self._blocks) != len(index):
            raise self._does_not_fit()
        self._rows = [
            slice(stop - block.rows, stop)
            for block, stop in zip(
                self._blocks, accumulate(block.rows for block in self._blocks), strict=True
            )
        ]
        self._hashes = index.column("key_hash")
        self._statuses = index.column("status")
        self._snapshot_ids = index.column("snapshot_id")
        self._sizes = index.column("entry_size").astype(np.int64)
        self.survives: Bools = self._statuses != ManifestEntryStatus.DELETED
        self.removed: Bools = np.zeros(len(index), np.bool_)
        self._inherits, self._first_row_ids = self._row_ids(manifest.first_row_id)

    def _row_ids(self, first_row_id: int | None) -> tuple[Bools, Int64s]:
        """A mask of the entries that inherit their first row id, and the ids."""
        inherits = self.index.entries["first_row_id"].is_null().to_numpy() & self.survives
        if first_row_id is None or self.index.content != DATA_MANIFEST:
            inherits[:] = False
            return inherits, np.zeros(len(inherits), np.int64)
        counts = np.where(inherits, self.index.column("record_count"), 0)
        return inherits, first_row_id + np.cumsum(counts) - counts

    def rewrite(self, keys: EntryKeys, output: BlockWriter, snapshot_id: int) -> EntryBytes:
        """Writes the entries that survive.

        Returns:
            Those that are removed, as they are to be written.
        """
        candidates = keys.candidates(self._hashes) & self.survives
        removed = []
        for block, rows, unchanged in zip(
            self._blocks, self._rows, self._unchanged(candidates).tolist(), strict=True
        ):
            if unchanged:
                output.copy(block)
                continue
            entries = self._entries(block, rows)
            gone = candidates[rows]
            if gone.any():
                gone = keys.confirm(entries, self._hashes[rows], gone)
            self.survives[rows] &= ~gone
            self.removed[rows] = gone
            if gone.any():
                deleted = as_deleted(select(entries, gone), self._snapshot_ids[rows][gone], snapshot_id)
                self._sizes[rows][gone] = deleted.sizes
                removed.append(deleted)
            output.write(*select(entries, self.survives[rows]))
        return concat_entries(removed)

    def find(self, keys: EntryKeys) -> Iterator[FoundEntry]:
        """The entries that have one of the keys."""
        candidates = keys.candidates(self._hashes) & self.survives
        for block, rows in zip(self._blocks, self._rows, strict=True):
            if candidates[rows].any():
                entries = self._read(block, rows)
                for row, key, entry in keys.find(entries, self._hashes[rows], candidates[rows]):
                    try:
                        path = file_path(entry)
                    except (IndexError, ValueError):
                        raise self._does_not_fit() from None
                    yield FoundEntry(rows.start + row, key, path)

    def _unchanged(self, candidates: Bools) -> Bools:
        """A mask of the blocks that stay as they are. Small ones are joined: their number must not grow."""
        changed = (self._statuses != ManifestEntryStatus.EXISTING) | candidates | self._inherits
        edges = np.array([0, *(rows.stop for rows in self._rows)], np.int64)
        changes, sizes = (np.append(0, np.cumsum(column))[edges] for column in (changed, self._sizes))
        unchanged: Bools = (np.diff(changes) == 0) & (np.diff(sizes) >= BLOCK_SIZE // 2)
        return unchanged

    def _read(self, block: Block, rows: slice) -> EntryBytes:
        """The entries of a block, as they are."""
        records = inflate_block(block.data, "deflate", location=self._location, what=_WHAT)
        data = np.frombuffer(bytearray(records), np.uint8)
        entries = EntryBytes(data, self._sizes[rows].copy())
        if (
            entries.sizes.sum() != len(data)
            or (data[entries.starts] != status_bytes(self._statuses[rows])).any()
        ):
            raise self._does_not_fit()
        return entries

    def _entries(self, block: Block, rows: slice) -> EntryBytes:
        """The entries of a block, all with status EXISTING, and with row ids of their own."""
        entries = self._read(block, rows)
        entries.data[entries.starts] = _EXISTING
        if self._inherits[rows].any():
            entries = with_first_row_ids(entries, self._first_row_ids[rows], self._inherits[rows])
            self._sizes[rows] = entries.sizes
        return entries

    def index_rows(
        self, chosen: Bools, status: ManifestEntryStatus, snapshot_id: int | None = None
    ) -> pa.Table:
        """Rows of the new index for some of the entries.

        Args:
            chosen: which entries.
            status: their status.
            snapshot_id: their snapshot id; None for the one that they have.
        """
        entries = self.index.entries
        inherited = pa.array(self._first_row_ids, mask=~self._inherits)
        changes: dict[str, Any] = {
            "entry_size": self._sizes,
            "status": np.full(len(chosen), status),
            "first_row_id": pc.coalesce(entries["first_row_id"], inherited),
        }
        if snapshot_id is not None:
            changes["snapshot_id"] = np.full(len(chosen), snapshot_id)
        for name, values in changes.items():
            column = entries.schema.get_field_index(name)
            field = entries.schema.field(column)
            array = values if isinstance(values, pa.ChunkedArray) else pa.array(values, field.type)
            entries = entries.set_column(column, field, array)
        return entries.filter(pa.array(chosen))

    def _does_not_fit(self) -> InvalidMetadataError:
        return InvalidMetadataError(
            f"Cannot read manifest {self._location}: its entries do not fit its index"
        )
