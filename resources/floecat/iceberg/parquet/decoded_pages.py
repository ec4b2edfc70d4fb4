"""Decoded sizes of columns of a Parquet file by its page headers (Apache Parquet, `parquet.thrift`).

Footers are not enough: they need not agree with the pages, and count a dictionary once, however often its
values are repeated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa

from floecat.iceberg.parquet.column_chunks import ColumnChunk
from floecat.iceberg.parquet.thrift_compact import Fields, ThriftError, field_places, read_struct

__all__ = ["largest_page", "meter_column"]

_TYPE, _UNCOMPRESSED, _COMPRESSED = 1, 2, 3
_DATA, _DICTIONARY, _DATA_V2 = 5, 7, 8
_VALUES, _ENCODING, _ENCODING_V2 = 1, 2, 4
_PAGE_FIELDS: Final[Fields] = {
    _TYPE: None,
    _UNCOMPRESSED: None,
    _COMPRESSED: None,
    _DATA: {_VALUES: None, _ENCODING: None},
    _DICTIONARY: {_VALUES: None},
    _DATA_V2: {_VALUES: None, _ENCODING_V2: None},
}
_DICTIONARY_ENCODINGS: Final = (2, 8)
_PREFIXES: Final = 7
_CODECS: Final = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd"}

_VALUE_BYTES: Final = 16
"""Most bytes of a value beside its text: the offset, the validity and its part of lists and structs."""

_PAGE_BYTES: Final = 4096
"""Bytes counted for a column and for a page on top: a file of empty ones takes time, not memory."""

_SMALL_BYTES: Final = 1 << 20
_MOST_ENTRIES: Final = 1 << 20


class _Page(NamedTuple):
    place: int
    header: dict[int, Any]


def meter_column(data: bytes, chunk: ColumnChunk, count: Callable[[int], None]) -> None:
    """Counts the decoded bytes of a column of a row group, or more, before anything is decoded.

    Args:
        chunk: the column, as the footer describes it.
        count: is called with numbers of bytes; what it raises is raised.

    Raises:
        ThriftError: the pages are damaged.
    """
    try:
        _meter_column(data, chunk, count)
    except (KeyError, TypeError, AttributeError):
        # fields are missing, or are of other types than the format gives them
        raise ThriftError("a page has no valid header") from None


def largest_page(data: bytes, chunk: ColumnChunk) -> int:
    """Bytes of the largest page of a column of a row group, once it is inflated.

    Args:
        chunk: the column, as the footer describes it.

    Raises:
        ThriftError: the pages are damaged.
    """
    return max((page.header[_UNCOMPRESSED] for page in _pages(data, chunk)), default=0)


def _meter_column(data: bytes, chunk: ColumnChunk, count: Callable[[int], None]) -> None:
    count(_PAGE_BYTES)
    repeated = 0
    dictionary: _Page | None = None
    for page in _pages(data, chunk):
        header = page.header
        count(_PAGE_BYTES + header[_UNCOMPRESSED])
        if _DICTIONARY in header:
            dictionary = page
            continue
        details = header.get(_DATA) or header.get(_DATA_V2) or {}
        values = max(0, details.get(_VALUES, 0))
        encoding = details.get(_ENCODING, details.get(_ENCODING_V2))
        count(_VALUE_BYTES * values)
        if encoding in _DICTIONARY_ENCODINGS:
            repeated += values
        elif encoding == _PREFIXES:
            # each text may be as long as all suffixes together
            count(header[_UNCOMPRESSED] * values)
    if dictionary is None or chunk.physical_type not in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        return
    longest = dictionary.header[_UNCOMPRESSED]
    if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
        longest //= max(1, dictionary.header[_DICTIONARY].get(_VALUES, 0))
    elif longest * repeated > _SMALL_BYTES:
        longest = _longest_entry(data, dictionary, chunk.compression)
    count(longest * repeated)


def _pages(data: bytes, chunk: ColumnChunk) -> Iterator[_Page]:
    place = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)), default=0)
    end = place + chunk.total_compressed_size
    if place < 0 or end > len(data):
        raise ThriftError("a column is outside the file")
    while place < end:
        header = read_struct(data, _PAGE_FIELDS, place)
        *_, stop = field_places(data, place)
        sizes = header.get(_UNCOMPRESSED, -1), header.get(_COMPRESSED, -1)
        if not all(type(size) is int and size >= 0 for size in sizes):
            raise ThriftError("a page has no size")
        yield _Page(stop.value, header)
        place = stop.value + header[_COMPRESSED]


def _longest_entry(data: bytes, page: _Page, compression: str) -> int:
    """Length of the longest text of a dictionary; that of the dictionary where it cannot be read."""
    size = page.header[_UNCOMPRESSED]
    entries = page.header[_DICTIONARY].get(_VALUES, 0)
    packed = memoryview(data)[page.place : page.place + page.header[_COMPRESSED]]
    if entries > _MOST_ENTRIES:
        return int(size)
    try:
        if compression == "UNCOMPRESSED":
            texts = packed
        else:
            texts = memoryview(pa.Codec(_CODECS[compression]).decompress(packed, size))
        longest = place = 0
        for _ in range(entries):
            (length,) = struct.unpack_from("<I", texts, place)
            longest, place = max(longest, length), place + 4 + length
    except (KeyError, pa.ArrowException, OSError, ValueError, struct.error):
        return int(size)
    return longest
