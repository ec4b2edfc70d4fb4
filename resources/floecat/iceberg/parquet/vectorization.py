"""Whether Spark's vectorised reader reads a Parquet file right, by its footer.

The reader of Iceberg 1.10 takes milliseconds for microseconds. It fails on annotated 32-bit integers in
columns of 64 bits, on byte arrays of a fixed length in binary columns, on decimals in byte arrays of any
length, and on encodings beside `_DECODED` (`parquet.thrift`, "Encoding"). Iceberg's other reader, which
`read.parquet.vectorization.enabled=false` chooses, reads all of these. Only columns in no struct, list or map
are read by vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from floecat.errors import InvalidDeltaTableError
from floecat.iceberg.parquet.footers import FooterColumn, column_places, read_file_metadata
from floecat.iceberg.parquet.schema import SCHEMA_FIELDS, ParquetColumn, leaf_columns
from floecat.iceberg.parquet.thrift_compact import Fields, ThriftError

__all__ = ["reads_vectorized"]

_SCHEMA, _ROW_GROUPS, _COLUMNS, _METADATA, _ENCODINGS, _ENCODING_STATS = 2, 4, 1, 3, 2, 13
_PAGE_TYPE, _PAGE_ENCODING = 1, 2
_FIELDS: Final[Fields] = {
    _SCHEMA: SCHEMA_FIELDS,
    _ROW_GROUPS: {
        _COLUMNS: {
            _METADATA: {_ENCODINGS: None, _ENCODING_STATS: {_PAGE_TYPE: None, _PAGE_ENCODING: None}},
        },
    },
}

_PLAIN, _RLE = 0, 3
_DATA_PAGES = frozenset({0, 3})
_DECODED = frozenset({_PLAIN, 2, _RLE, 4, 5, 8})
"""`PLAIN`, `PLAIN_DICTIONARY`, `RLE`, `BIT_PACKED` (of levels), `DELTA_BINARY_PACKED`, `RLE_DICTIONARY`."""


def reads_vectorized(tail: bytes, columns: Sequence[FooterColumn], location: str) -> bool:
    """Whether the vectorised reader reads the columns of a file right.

    Args:
        tail: the end of the file, its whole footer or more.
        columns: those that readers of the table read.
        location: where the file is, for messages.

    Raises:
        InvalidDeltaTableError: the footer is damaged, or longer than `tail`.
    """
    flat = [column for column in columns if len(column.physical_path) == 1]
    try:
        file = read_file_metadata(tail, _FIELDS, location)
        leaves = leaf_columns(file[_SCHEMA])
        return all(
            _has_read_type(leaves[place], column.type.name)
            and all(_is_decoded(chunk, column.type.name) for chunk in _chunks(file, place))
            for column, place in column_places(file[_SCHEMA], leaves, flat)
        )
    except (ThriftError, KeyError, TypeError, AttributeError, ValueError, IndexError):
        raise InvalidDeltaTableError(
            f"Cannot read {location} as a Parquet file: its footer is damaged"
        ) from None


def _has_read_type(column: ParquetColumn, type: str) -> bool:
    if type in ("timestamp", "timestamptz"):
        return column.unit != "ms"
    if type == "long":
        return column.logical != "signed" or column.store != "INT32"
    unread = {"binary": "FIXED_LEN_BYTE_ARRAY", "decimal": "BYTE_ARRAY"}
    return unread.get(type) != column.store


def _chunks(file: Mapping[int, Any], place: int) -> Iterator[Mapping[int, Any]]:
    return (group[_COLUMNS][place][_METADATA] for group in file.get(_ROW_GROUPS, []))


def _is_decoded(chunk: Mapping[int, Any], type: str) -> bool:
    encodings = set(chunk.get(_ENCODINGS, ()))
    if type == "boolean" and _RLE in encodings:
        # levels have this encoding too, and are in the list with the values
        pages = chunk.get(_ENCODING_STATS, [])
        of_values = {page[_PAGE_ENCODING] for page in pages if page[_PAGE_TYPE] in _DATA_PAGES}
        return _RLE not in of_values if pages else _PLAIN in encodings
    return encodings <= _DECODED
