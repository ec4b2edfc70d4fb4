"""Places of the column chunks of a Parquet file (Apache Parquet, `parquet.thrift`, "RowGroup").

Arrow ends the process on some damaged column chunks when Python asks for them one by one; reading their
values raises errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from floecat.iceberg.parquet.thrift_compact import Fields, ThriftError, read_struct

__all__ = ["ColumnChunk", "RowGroup", "read_row_groups"]

_ROW_GROUPS, _COLUMNS, _ROWS, _METADATA = 4, 1, 3, 3
_TYPE, _ENCODINGS, _CODEC, _VALUES, _UNCOMPRESSED, _COMPRESSED = 1, 2, 4, 5, 6, 7
_DATA_PAGE, _DICTIONARY_PAGE = 9, 11
_CHUNK: Final[Fields] = dict.fromkeys(
    (_TYPE, _ENCODINGS, _CODEC, _VALUES, _UNCOMPRESSED, _COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE)
)
_FIELDS: Final[Fields] = {_ROW_GROUPS: {_COLUMNS: {_METADATA: _CHUNK}, _ROWS: None}}
_TYPES: Final = (
    "BOOLEAN",
    "INT32",
    "INT64",
    "INT96",
    "FLOAT",
    "DOUBLE",
    "BYTE_ARRAY",
    "FIXED_LEN_BYTE_ARRAY",
)
_CODECS: Final = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4")
"""Codecs as Arrow names them, which has one name for both kinds of LZ4."""


class ColumnChunk(NamedTuple):
    """A column of a row group. Sizes are in bytes, offsets are from the start of the file."""

    physical_type: str
    compression: str
    num_values: int
    total_uncompressed_size: int
    total_compressed_size: int
    data_page_offset: int
    dictionary_page_offset: int | None
    encodings: frozenset[int] = frozenset()
    """Encodings of its pages, and of levels."""


class RowGroup(NamedTuple):
    """A row group, with its columns in the order of the leaves of the schema."""

    num_rows: int
    columns: Sequence[ColumnChunk]


def read_row_groups(metadata: bytes, columns: int) -> list[RowGroup]:
    """Reads the row groups of a footer.

    Args:
        metadata: the footer without length and magic number, `FileMetaData`.
        columns: leaves of the schema.

    Raises:
        ThriftError: it is damaged.
    """
    try:
        groups = [
            RowGroup(_number(group, _ROWS), [_chunk(column[_METADATA]) for column in group[_COLUMNS]])
            for group in read_struct(metadata, _FIELDS).get(_ROW_GROUPS, [])
        ]
    except (KeyError, TypeError, AttributeError, IndexError):
        # fields are missing, or are of other types than the format gives them
        raise ThriftError("a row group is damaged") from None
    if any(len(group.columns) != columns for group in groups):
        raise ThriftError("a row group has other columns than the schema")
    return groups


def _chunk(found: Mapping[int, Any]) -> ColumnChunk:
    kind, codec = _number(found, _TYPE), _number(found, _CODEC)
    if kind < 0 or codec < 0:
        raise ThriftError("a column has no valid type or codec")
    return ColumnChunk(
        _TYPES[kind],
        _CODECS[codec],
        _number(found, _VALUES),
        _number(found, _UNCOMPRESSED),
        _number(found, _COMPRESSED),
        _number(found, _DATA_PAGE),
        _number(found, _DICTIONARY_PAGE) if _DICTIONARY_PAGE in found else None,
        frozenset(found.get(_ENCODINGS, ())),
    )


def _number(found: Mapping[int, Any], id: int) -> int:
    number = found[id]
    if type(number) is not int:
        raise ThriftError("a field of a row group is no number")
    return number
