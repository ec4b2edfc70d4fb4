"""Parquet data files, column chunk by column chunk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from floecat.errors import InvalidDeltaTableError
from floecat.fileio.base import FileIO
from floecat.iceberg.parquet.column_chunks import ColumnChunk, read_row_groups
from floecat.iceberg.parquet.decoded_pages import largest_page, meter_column
from floecat.iceberg.parquet.field_ids import FooterSchema, fields_of, footer_schema
from floecat.iceberg.parquet.footers import TAIL_LENGTH, footer_length
from floecat.iceberg.parquet.parquet_schema import SchemaNode
from floecat.iceberg.parquet.thrift_compact import ThriftError, read_struct
from floecat.iceberg.values.bounds import Bounds
from floecat.statistics.files.sources import (
    InputFile,
    NameMapping,
    NeedsProcessError,
    UnreadableFileError,
    check_bound,
    check_memory,
    reading,
)

__all__ = ["ParquetSource"]

_GUESSED_FOOTER: Final = 64 << 10
_SMALL_FILE: Final = 4 << 20
_MOST_ROWS: Final = 1 << 17
_FEWEST_ROWS: Final = 1 << 10
_MOST_OVERSHOT: Final = 4
"""Most times that the memory of decoded rows may exceed what their stored bytes tell."""

_LARGEST_WINDOW: Final = 8 << 20
_OF_ANY_LENGTH: Final = frozenset({"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"})
_TEXTS_SHARE: Final = 16
"""Divisor of the allowed decoded bytes that gives the bound of a column of such values: they are held several
times while they are counted, and numbers are decoded batch by batch."""

_DICTIONARY_WIDTH: Final = 3
"""Bytes of a value below which strings are places in a dictionary; some may be in it more than once."""

_WITHOUT_DICTIONARY: Final = frozenset({5, 6, 7, 9})
"""DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY, BYTE_STREAM_SPLIT: Arrow makes no
dictionary of pages in these (Apache Parquet, `parquet.thrift`, "Encoding")."""


class ParquetSource:
    """A Parquet file. Columns are found by field id, else by name mapping, else by position.

    Attributes:
        location: where it is.
        metadata: its footer.
        row_groups: of the footer.
        row_count: number of rows.
        bounds: limits for the file.
    """

    reads_single_columns = True

    def __init__(
        self,
        files: FileIO,
        location: str,
        size_bytes: int,
        *,
        names: NameMapping | None = None,
        memory_bytes: int,
        most_decoded_bytes: int | None = None,
        bounds: Bounds,
    ) -> None:
        """Reads the footer.

        Args:
            files: where the file is read.
            location: where it is.
            names: ids of columns of files that have none.
            memory_bytes: bounds the values of a column that are decoded at a time; a page, a dictionary and a
                single value are read as a whole.
            most_decoded_bytes: bounds what the columns that are read decode to, together, and a part of it
                what each column of texts or bytes does. That is known before for small files only; None for
                any number.

        Raises:
            NeedsProcessError: it is not known what the file decodes to.
            UnreadableFileError: the footer is damaged, or longer than its bound.
        """
        self._files = files
        self.location = location
        self._size = size_bytes
        self._memory_bytes = memory_bytes
        self.bounds = bounds
        # One request instead of several for each column.
        is_small = size_bytes <= min(_SMALL_FILE, memory_bytes)
        if most_decoded_bytes is not None and not is_small:
            raise NeedsProcessError
        self._may_decode = most_decoded_bytes
        self._most_texts = (most_decoded_bytes or 0) // _TEXTS_SHARE
        self._metered = Lock()
        self._whole = files.read_range(location, 0, size_bytes) if is_small else None
        footer, root = self._read_footer()
        self._leaves = _leaves_by_id(root, names)
        with reading(location):
            self.metadata = pq.read_metadata(self._open())
        self.row_count: int = self.metadata.num_rows
        with self._checking():
            self.row_groups = read_row_groups(footer, self.metadata.num_columns)

    def _read_footer(self) -> FooterSchema:
        with self._checking():
            tail = self._tail(_GUESSED_FOOTER)
            length = footer_length(tail, self.location)
            # what is longer than the file is damage
            footer = min(length, self._size)
            problem = "its footer has more bytes than"
            check_bound(self.bounds, "data_file_footer_bytes", self.location, footer, problem)
            if length > len(tail):
                tail = self._tail(length)
            found = footer_schema(tail, self.location)
            # Arrow can crash on a footer whose structure is damaged.
            read_struct(found.metadata, {})
            return found

    @contextmanager
    def _checking(self) -> Iterator[None]:
        try:
            yield
        except InvalidDeltaTableError as error:
            raise UnreadableFileError(self.location, error.message.rpartition(": ")[2]) from None
        except ThriftError:
            raise UnreadableFileError(self.location, "its footer is damaged") from None

    def _tail(self, length: int) -> bytes:
        start = max(self._size - max(length, TAIL_LENGTH), 0)
        return self.read_bytes(start, self._size - start)

    def _open(self) -> pa.NativeFile:
        if self._whole is not None:
            return pa.BufferReader(self._whole)
        return pa.PythonFile(InputFile(self._files, self.location, self._size), "r")

    def has(self, field_id: int) -> bool:
        """Whether the file has a column of a primitive type."""
        return field_id in self._leaves

    def hides(self, _field_id: int) -> bool:
        """See `Source`."""
        return False

    def struct_path(self, _field_id: int) -> tuple[int, ...]:
        """See `Source`; structs come with one child, the way to the column."""
        return ()

    def _chunks(self, leaf: int) -> Iterator[ColumnChunk]:
        return (group.columns[leaf] for group in self.row_groups)

    def read(self, field_ids: Sequence[int]) -> Iterator[Mapping[int, pa.Array]]:
        """Reads as `Source` does; strings may be in a dictionary. Several columns must not share a struct.

        Raises:
            NeedsProcessError: columns decode to more than their bound, or it is not known to what.
        """
        ids = sorted(field_ids, key=self._leaves.__getitem__)
        leaves = [self._leaves[id] for id in ids]
        for leaf in leaves:
            self._check_decoded(leaf)
        sizes = [self._stored(id) for id in ids]
        width = sum(max(size // max(count, 1), 8) for size, count in sizes)
        rows = min(max(self._memory_bytes // (4 * width), _FEWEST_ROWS), _MOST_ROWS)
        if any(self._repeats_strings(id) for id in ids):
            rows = _FEWEST_ROWS
        with reading(self.location):
            file = pq.ParquetFile(
                self._open(),
                metadata=self.metadata,
                read_dictionary=[path for id in ids for path in self._dictionary(id)],
                buffer_size=min(max(self._memory_bytes // 4, 1 << 20), _LARGEST_WINDOW),
                coerce_int96_timestamp_unit="us",
            )
            groups = list(range(len(self.row_groups)))
            batches = file.reader.iter_batches(rows, groups, leaves, use_threads=False)
        while True:
            with reading(self.location):
                batch = next(batches, None)
            if batch is None:
                return
            check_memory(self.location, batch.nbytes, _MOST_OVERSHOT * self._memory_bytes)
            yield dict(zip(ids, batch.columns, strict=True))

    def _check_decoded(self, leaf: int) -> None:
        if self._whole is None:
            return
        if self._may_decode is None:
            with suppress(ThriftError):  # Arrow tells what is damaged
                for chunk in self._chunks(leaf):
                    largest = largest_page(self._whole, chunk)
                    check_memory(self.location, largest, _MOST_OVERSHOT * self._memory_bytes)
            return

        has_texts = self.metadata.schema.column(leaf).physical_type in _OF_ANY_LENGTH
        left = self._most_texts if has_texts else self._may_decode

        def count(size_bytes: int) -> None:
            nonlocal left
            self._may_decode = (self._may_decode or 0) - size_bytes
            left -= size_bytes
            if min(self._may_decode, left) < 0:
                raise NeedsProcessError

        try:
            with self._metered:
                for chunk in self._chunks(leaf):
                    meter_column(self._whole, chunk, count)
        except ThriftError:
            raise NeedsProcessError from None

    def read_chunk(self, group: int, leaf: int) -> pa.ChunkedArray:
        """The values of a column chunk outside lists and maps, by position of the column.

        Raises:
            UnreadableFileError: it is damaged.
        """
        with reading(self.location):
            file = pq.ParquetFile(self._open(), metadata=self.metadata, coerce_int96_timestamp_unit="us")
            values = file.reader.read_row_group(group, column_indices=[leaf], use_threads=False).column(0)
            while pa.types.is_struct(values.type):
                [values] = values.flatten()
            return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values

    def read_bytes(self, offset: int, length: int) -> bytes:
        """Bytes of the file, fewer at its end."""
        if self._whole is not None:
            return self._whole[offset : offset + length]
        return self._files.read_range(self.location, offset, length)

    def _stored(self, field_id: int) -> tuple[int, int]:
        """Bytes of the values of a column, encoded and not compressed, and how many values these are."""
        chunks = list(self._chunks(self._leaves[field_id]))
        return sum(chunk.total_uncompressed_size for chunk in chunks), sum(
            chunk.num_values for chunk in chunks
        )

    def _repeats_strings(self, field_id: int) -> bool:
        """Whether few stored bytes may be many strings, in lists of them."""
        column = self.metadata.schema.column(self._leaves[field_id])
        size, count = self._stored(field_id)
        return (
            column.physical_type == "BYTE_ARRAY"
            and column.max_repetition_level > 0
            and size < _DICTIONARY_WIDTH * count
        )

    def _dictionary(self, field_id: int) -> list[str]:
        """The path of a column of strings, if it is read faster as the dictionary that it is stored with."""
        column = self.metadata.schema.column(self._leaves[field_id])
        if column.physical_type != "BYTE_ARRAY" or column.max_repetition_level:
            return []
        chunks = list(self._chunks(self._leaves[field_id]))
        if any(chunk.encodings & _WITHOUT_DICTIONARY for chunk in chunks):
            return []
        size, count = self._stored(field_id)
        return [column.path] if size < _DICTIONARY_WIDTH * count else []


def _leaves_by_id(root: SchemaNode, names: NameMapping | None) -> dict[int, int]:
    """Positions of leaf columns by field id."""
    positions = {id(node): place for place, node in enumerate(_leaves(root))}
    fields = list(fields_of(root))
    if any(node.field_id is not None for _, node in fields):
        found = ((node.field_id, node) for _, node in fields)
    elif names is not None:
        found = ((names.find(path), node) for path, node in fields)
    else:
        found = ((place, node) for place, node in enumerate(root.children, start=1))
    return {
        field_id: positions[id(node)]
        for field_id, node in found
        if field_id is not None and id(node) in positions
    }


def _leaves(group: SchemaNode) -> Iterator[SchemaNode]:
    for node in group.children:
        if node.is_group:
            yield from _leaves(node)
        else:
            yield node
