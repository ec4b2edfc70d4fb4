"""Whether Spark's vectorised reader reads a column of a Parquet file correctly.

The reader of Iceberg 1.10 takes milliseconds for microseconds. It fails on annotated 32-bit integers in
columns of 64 bits, on byte arrays of a fixed length in binary columns, on decimals in byte arrays of any
length, and on encodings other than `_DECODED` (`parquet.thrift`, "Encoding"). Iceberg's other reader, which
`read.parquet.vectorization.enabled=false` chooses, reads all of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from floecat.iceberg.parquet.parquet_schema import ParquetColumn
from floecat.iceberg.parquet.thrift_compact import Fields

__all__ = ["ENCODING_FIELDS", "reads_vectorized"]

_ENCODINGS, _ENCODING_STATS = 2, 13
_PAGE_TYPE, _PAGE_ENCODING = 1, 2
ENCODING_FIELDS: Final[Fields] = {
    _ENCODINGS: None,
    _ENCODING_STATS: {_PAGE_TYPE: None, _PAGE_ENCODING: None},
}
"""Fields of `ColumnMetaData` that are used."""

_PLAIN, _RLE = 0, 3
_DATA_PAGES = frozenset({0, 3})
_DECODED = frozenset({_PLAIN, 2, _RLE, 4, 5, 8})
"""`PLAIN`, `PLAIN_DICTIONARY`, `RLE`, `BIT_PACKED` (of levels), `DELTA_BINARY_PACKED`, `RLE_DICTIONARY`."""


def reads_vectorized(column: ParquetColumn, type: str, chunks: Sequence[Mapping[int, Any]]) -> bool:
    """Whether the reader reads a column correctly. It is not used for columns in structs, lists and maps.

    Args:
        column: the column in the file.
        type: the name of its Iceberg type.
        chunks: of each row group the `ColumnMetaData`, `ENCODING_FIELDS` of it.
    """
    return _has_read_type(column, type) and all(_is_decoded(chunk, type) for chunk in chunks)


def _has_read_type(column: ParquetColumn, type: str) -> bool:
    if type in ("timestamp", "timestamptz"):
        return column.unit != "ms"
    if type == "long":
        return column.logical != "signed" or column.store != "INT32"
    unread = {"binary": "FIXED_LEN_BYTE_ARRAY", "decimal": "BYTE_ARRAY"}
    return unread.get(type) != column.store


def _is_decoded(chunk: Mapping[int, Any], type: str) -> bool:
    encodings = set(chunk.get(_ENCODINGS, ()))
    if type == "boolean" and _RLE in encodings:
        # levels have this encoding too, and are in the list with the values
        pages = chunk.get(_ENCODING_STATS, ())
        of_values = {page[_PAGE_ENCODING] for page in pages if page[_PAGE_TYPE] in _DATA_PAGES}
        return _RLE not in of_values if pages else _PLAIN in encodings
    return encodings <= _DECODED
