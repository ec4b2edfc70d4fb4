"""Index of the entries in the header of our manifests, by which entries are found.

The index lets a manifest be rewritten by bytes, and shows without reading the entries whether a rewrite
is needed at all. It is an Arrow table under a metadata key of its own, which other readers ignore.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.errors import InvalidMetadataError
from floecat.iceberg.avro.columns import varint
from floecat.iceberg.avro.container import AvroHeader, read_header
from floecat.iceberg.avro.string_columns import Bools, string_hashes
from floecat.iceberg.manifests.entry_bytes import EntryBytes
from floecat.iceberg.manifests.index_streams import stream_size
from floecat.iceberg.manifests.lists import DATA_MANIFEST, DELETE_MANIFEST, ManifestFile
from floecat.iceberg.manifests.partition_tuples import summarize_partitions
from floecat.iceberg.manifests.reader import ManifestEntryStatus
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds, exceeded

__all__ = [
    "CONTENT_NAMES",
    "INDEX_KEY",
    "EntryKeys",
    "ManifestIndex",
    "index_entries",
    "index_of",
    "read_index",
]

INDEX_KEY = "floecat.index"
"""Key of the file's metadata under which the index stands, in base64: many readers take metadata for text."""

_CHECKSUM_SIZE = 8

CONTENT_NAMES = {DATA_MANIFEST: b"data", DELETE_MANIFEST: b"deletes"}
"""Names of a manifest's content in its header."""


@dataclass(frozen=True, eq=False)
class ManifestIndex:
    """The entries of a manifest in short.

    Attributes:
        content: `DATA_MANIFEST` or `DELETE_MANIFEST`.
        partition_spec_id: of all entries.
        format_version: 2 or 3.
        entries: one row for each entry in the order of the file: `key_hash` (uint64, `string_hashes` of the
            key that `EntryKeys` describes), `entry_size` (int32, bytes before compression), `status` (uint8),
            `snapshot_id`, `sequence_number`, `record_count`, `file_size` (int64), `first_row_id` (int64, null
            if inherited or not of a data file), `empty_vector` (string, see `ManifestRows`), `partition`
            (struct).
    """

    content: int
    partition_spec_id: int
    format_version: int
    entries: pa.Table

    def __len__(self) -> int:
        return len(self.entries)

    def column(self, name: str) -> Any:
        """A column of `entries` as a NumPy array; those with nulls and `partition` have none."""
        return self.entries[name].to_numpy()

    def holds(self, keys: EntryKeys | pa.Array | pa.ChunkedArray) -> bool:
        """Whether a live entry (not DELETED) may have one of these keys; removing them needs a rewrite then.

        Args:
            keys: the keys, or Arrow strings of these.

        Returns:
            False only if none has. A needless True is as rare as equal hashes of two paths.
        """
        live = self.column("status") != ManifestEntryStatus.DELETED
        wanted = keys if isinstance(keys, EntryKeys) else EntryKeys(keys)
        return bool(wanted.candidates(self.column("key_hash")[live]).any())

    def manifest_file(
        self, path: str, length: int, *, snapshot_id: int, sequence_number: int
    ) -> ManifestFile:
        """The manifest's entry in a manifest list, also for a manifest that was found rather than written.

        Args:
            path: where the file is.
            length: its bytes.
            snapshot_id: the snapshot that adds this manifest.
            sequence_number: of that snapshot.
        """
        statuses, sequence_numbers = self.column("status"), self.column("sequence_number")
        # a negative count is an unknown one
        rows = np.maximum(self.column("record_count"), 0)
        of_status = {status: statuses == status for status in ManifestEntryStatus}
        files = {status: int(np.count_nonzero(chosen)) for status, chosen in of_status.items()}
        counts = {status: int(rows[chosen].sum()) for status, chosen in of_status.items()}
        live = sequence_numbers[statuses != ManifestEntryStatus.DELETED]
        return ManifestFile(
            manifest_path=path,
            manifest_length=length,
            partition_spec_id=self.partition_spec_id,
            content=self.content,
            sequence_number=sequence_number,
            min_sequence_number=int(live.min(initial=sequence_number)),
            added_snapshot_id=snapshot_id,
            added_files_count=files[ManifestEntryStatus.ADDED],
            existing_files_count=files[ManifestEntryStatus.EXISTING],
            deleted_files_count=files[ManifestEntryStatus.DELETED],
            added_rows_count=counts[ManifestEntryStatus.ADDED],
            existing_rows_count=counts[ManifestEntryStatus.EXISTING],
            deleted_rows_count=counts[ManifestEntryStatus.DELETED],
            partitions=summarize_partitions(self.entries["partition"].combine_chunks()),
        )

    def encode(self) -> bytes:
        """The entries as `read_index` reads them."""
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 3))
        entries = self.entries
        if entries[_EMPTY_VECTOR].null_count == len(entries):
            entries = entries.drop_columns([_EMPTY_VECTOR])
        with pa.ipc.new_stream(sink, entries.schema, options=options) as writer:
            writer.write_table(entries.combine_chunks())
        table = sink.getvalue()
        return base64.b64encode(_checksum(table) + table)


_EMPTY_VECTOR = "empty_vector"
"""A column that hardly any table needs: it is not written where all of it is null."""

_COLUMNS = {
    "key_hash": pa.uint64(),
    "entry_size": pa.int32(),
    "status": pa.uint8(),
    "snapshot_id": pa.int64(),
    "sequence_number": pa.int64(),
    "record_count": pa.int64(),
    "file_size": pa.int64(),
    "first_row_id": pa.int64(),
    _EMPTY_VECTOR: pa.string(),
}


def index_entries(
    keys: pa.Array | pa.ChunkedArray, partitions: pa.StructArray, columns: Mapping[str, Any]
) -> pa.Table:
    """The table of an index.

    Args:
        keys: the key of each entry, Arrow strings.
        partitions: partition values as `partition_struct` makes them.
        columns: the other columns of the table, NumPy or Arrow arrays.
    """
    columns = {"key_hash": string_hashes(keys), **columns}
    arrays = [pa.array(columns[name], type) for name, type in _COLUMNS.items()]
    return pa.table([*arrays, partitions], names=[*_COLUMNS, "partition"])


def read_index(data: bytes, *, location: str, bounds: Bounds = DEFAULT_BOUNDS) -> ManifestIndex | None:
    """Reads the index out of the header of a manifest.

    Args:
        data: the file, or as much of its beginning as holds the header.
        location: where it is, for messages.

    Returns:
        None if the manifest has none: it was written by other software.

    Raises:
        InvalidMetadataError: not an Avro file, cut off within the header, or the index is damaged.
        BoundExceededError: the index is too large.
    """
    return index_of(read_header(data, location=location, what="manifest"), location=location, bounds=bounds)


def index_of(header: AvroHeader, *, location: str, bounds: Bounds = DEFAULT_BOUNDS) -> ManifestIndex | None:
    """Reads the index out of a header; see `read_index`."""
    metadata = header.metadata
    encoded = metadata.get(INDEX_KEY)
    if encoded is None:
        return None
    contents = {name: content for content, name in CONTENT_NAMES.items()}
    try:
        data = base64.b64decode(encoded, validate=True)
        table = data[_CHECKSUM_SIZE:]
        if _checksum(table) != data[:_CHECKSUM_SIZE]:
            raise ValueError
        if stream_size(table) > bounds.manifest_index_bytes:
            raise exceeded(
                bounds, "manifest_index_bytes", f"manifest {location}", "its index has more bytes than"
            )
        entries = _read_entries(table)
        return ManifestIndex(
            contents[metadata["content"]],
            int(metadata["partition-spec-id"]),
            int(metadata["format-version"]),
            entries,
        )
    except (KeyError, ValueError, OSError, pa.ArrowException):
        raise InvalidMetadataError(f"Cannot read manifest {location}: its index is damaged") from None


def _read_entries(stream: bytes) -> pa.Table:
    with pa.ipc.open_stream(stream) as reader:
        types = {field.name: field.type for field in reader.schema}
        partition = types.pop("partition")
        if not pa.types.is_struct(partition) or {_EMPTY_VECTOR: pa.string(), **types} != _COLUMNS:
            raise ValueError
        if len(reader.schema) != len(types) + 1 or any(map(_is_unused, partition.fields)):
            raise ValueError
        entries = reader.read_all()
    entries.validate(full=True)
    return _with_empty_vectors(entries)


def _is_unused(field: pa.Field) -> bool:
    """Whether no `arrow_type` is the type of a field."""
    return not (
        pa.types.is_primitive(field.type)
        or pa.types.is_decimal128(field.type)
        or field.type in (pa.string(), pa.binary())
        or pa.types.is_fixed_size_binary(field.type)
    )


def _with_empty_vectors(entries: pa.Table) -> pa.Table:
    if _EMPTY_VECTOR in entries.column_names:
        return entries
    place = list(_COLUMNS).index(_EMPTY_VECTOR)
    return entries.add_column(place, _EMPTY_VECTOR, pa.nulls(len(entries), pa.string()))


def _checksum(table: bytes | pa.Buffer) -> bytes:
    # finds damage; who writes other files on purpose computes it too
    return blake2b(table, digest_size=_CHECKSUM_SIZE).digest()


class EntryKeys:
    """Some keys, to be looked for in any number of manifests.

    The key of a data file is its path; that of a delete file is the path of the data file that it applies to,
    or its own if those are several.
    """

    def __init__(self, keys: pa.Array | pa.ChunkedArray) -> None:
        """Takes Arrow strings without nulls."""
        self._keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        self._hashes = string_hashes(self._keys)
        self._sorted = np.unique(self._hashes)

    def chosen(self, rows: npt.NDArray[np.int64]) -> EntryKeys:
        """Some of the keys, by their place, with the hashes already computed."""
        some = copy(self)
        some._keys = self._keys.take(pa.array(rows))
        some._hashes = self._hashes[rows]
        some._sorted = np.unique(some._hashes)
        return some

    def candidates(self, hashes: npt.NDArray[np.uint64]) -> Bools:
        """The entries that may have one of the keys; see `confirm`.

        Args:
            hashes: `string_hashes` of the keys of the entries.
        """
        if not len(self._sorted):
            return np.zeros(len(hashes), np.bool_)
        places = np.searchsorted(self._sorted, hashes)
        found: Bools = self._sorted[np.minimum(places, len(self._sorted) - 1)] == hashes
        return found

    def confirm(self, entries: EntryBytes, hashes: npt.NDArray[np.uint64], candidates: Bools) -> Bools:
        """The candidates that have a key, rather than only the hash of one.

        Args:
            hashes: hashes of their keys.
            candidates: what `candidates` says of these.
        """
        confirmed = np.zeros(len(candidates), np.bool_)
        confirmed[[row for row, _, _ in self.find(entries, hashes, candidates)]] = True
        return confirmed

    def find(
        self, entries: EntryBytes, hashes: npt.NDArray[np.uint64], candidates: Bools
    ) -> Iterator[tuple[int, str, bytes]]:
        """The candidates that have a key: row, key and bytes of each; arguments as of `confirm`."""
        keys = self._encoded(hashes[candidates])
        starts = entries.starts
        for row in np.flatnonzero(candidates).tolist():
            entry = entries.data[starts[row] : starts[row] + entries.sizes[row]].tobytes()
            for key, encoded in keys[int(hashes[row])]:
                if encoded in entry:
                    yield row, key, entry
                    break

    def _encoded(self, hashes: npt.NDArray[np.uint64]) -> dict[int, list[tuple[str, bytes]]]:
        """The keys that have these hashes, by hash, each also as Avro writes it."""
        wanted = np.isin(self._hashes, hashes)
        found: dict[int, list[tuple[str, bytes]]] = {}
        keys = self._keys.filter(pa.array(wanted)).to_pylist()
        for key_hash, key in zip(self._hashes[wanted].tolist(), keys, strict=True):
            encoded = key.encode()
            found.setdefault(key_hash, []).append((key, varint(len(encoded)) + encoded))
        return found
