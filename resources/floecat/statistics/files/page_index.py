"""Page-index sidecars: where the pages of a Parquet data file are, and what is in each.

A sidecar is a Parquet file without compression, with a row for each data page (`IndexArtifactRecord` of the
RPC contract, format `parquet`, version 1). Bounds are computed from the values, so that files without a page
index of their own have them too. Columns in lists and maps, and those of types without bounds, have no rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from floecat.iceberg.parquet.column_chunks import ColumnChunk
from floecat.iceberg.parquet.thrift_compact import Fields, ThriftError, field_places, read_struct
from floecat.iceberg.values.floats import extremes
from floecat.statistics.files.deleted_rows import Rows
from floecat.statistics.files.parquet_source import ParquetSource
from floecat.statistics.files.sources import UnreadableFileError, check_bound, reading

__all__ = ["PageIndex", "write_page_index"]

_DATA_FILE_KEY: Final = "sidecar.data_file_path"


def _field(name: str, type: pa.DataType, *, required: bool = False) -> pa.Field:
    return pa.field(name, type, nullable=not required)


_BOUND_TYPES: Final[Mapping[str, pa.DataType]] = {
    "i32": pa.int32(),
    "i64": pa.int64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "bool": pa.bool_(),
    "utf8": pa.string(),
}
_DECIMAL_TYPES: Final[Mapping[str, pa.DataType]] = {
    "decimal128_unscaled": pa.decimal128(38, 0),
    "decimal256_unscaled": pa.decimal256(76, 0),
}


def _bound_fields(types: Mapping[str, pa.DataType]) -> list[pa.Field]:
    return [_field(f"{end}_{name}", type) for name, type in types.items() for end in ("min", "max")]


_SCHEMA: Final = pa.schema(
    [
        _field("column_name", pa.string(), required=True),
        _field("row_group", pa.uint32(), required=True),
        _field("page_ordinal", pa.uint32(), required=True),
        _field("first_row_index", pa.int64(), required=True),
        _field("row_count", pa.uint32(), required=True),
        _field("live_row_count", pa.uint32(), required=True),
        _field("page_header_offset", pa.int64()),
        _field("page_total_compressed_size", pa.int32(), required=True),
        _field("dictionary_page_header_offset", pa.int64()),
        _field("dictionary_page_total_compressed_size", pa.int32()),
        _field("requires_dictionary_page", pa.bool_(), required=True),
        _field("parquet_physical_type", pa.string(), required=True),
        _field("parquet_compression", pa.string(), required=True),
        _field("parquet_max_def_level", pa.int16(), required=True),
        _field("parquet_max_rep_level", pa.int16(), required=True),
        *_bound_fields(_BOUND_TYPES),
        _field("decimal_precision", pa.uint8()),
        _field("decimal_scale", pa.int8()),
        _field("decimal_bits", pa.int16()),
        *_bound_fields(_DECIMAL_TYPES),
    ]
)

_PHYSICAL_NAMES: Final = {"BYTE_ARRAY": "BINARY"}
_CODEC_NAMES: Final = {"ZSTD": "ZSTD(ZstdLevel(1))"}
"""Codecs as readers of such sidecars spell them."""

_KINDS: Final = {"INT32": "i32", "INT64": "i64", "FLOAT": "f32", "DOUBLE": "f64", "BOOLEAN": "bool"}
_WIDTHS: Final = {"INT32": 32, "INT64": 64}
_DECIMAL_STORES: Final = frozenset({"INT32", "INT64", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"})
_SMALL_DECIMAL: Final = 38

# parquet.thrift, "PageHeader"
_TYPE, _COMPRESSED_SIZE, _V1, _V2 = 1, 3, 5, 8
_VALUES, _V1_ENCODING, _ROWS, _V2_ENCODING = 1, 2, 3, 4
_HEADER: Final[Fields] = {
    _TYPE: None,
    _COMPRESSED_SIZE: None,
    _V1: {_VALUES: None, _V1_ENCODING: None},
    _V2: {_ROWS: None, _V2_ENCODING: None},
}
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = range(4)
_DICTIONARY_ENCODINGS: Final = frozenset({2, 8})
"""PLAIN_DICTIONARY and RLE_DICTIONARY."""


class PageIndex(msgspec.Struct, frozen=True):
    """A sidecar, and what it covers.

    Attributes:
        data: the Parquet file. The same data file and deletes always give the same bytes.
        sha256: of `data`.
        rows: of the data file, deleted ones included.
        live_rows: those that are not deleted.
        pages: rows of the sidecar.
        row_groups: of the data file.
        columns: names of the columns with pages, in the order of the data file.
    """

    data: bytes
    sha256: bytes
    rows: int
    live_rows: int
    pages: int
    row_groups: int
    columns: tuple[str, ...]


class _Page(NamedTuple):
    offset: int
    size: int
    rows: int
    uses_dictionary: bool


class _Chunk(NamedTuple):
    """The pages of a column chunk, and place and size of its dictionary page."""

    pages: list[_Page]
    dictionary: tuple[int, int] | None


def write_page_index(source: ParquetSource, live: Rows | None = None) -> PageIndex:
    """Makes the sidecar of a data file. One column chunk is in memory at a time.

    Args:
        source: the data file.
        live: rows that are not deleted; None for all.

    Raises:
        UnreadableFileError: the file is damaged, or a column chunk exceeds its bound.
        FloecatError: it cannot be read, as of `FileIO.read_range`.
    """
    rows: list[dict[str, Any]] = []
    metadata = source.metadata
    names: list[str] = []
    for leaf in range(metadata.num_columns):
        column = metadata.schema.column(leaf)
        kind = _kind(column)
        if kind is None:
            continue
        names.append(column.path)
        first = 0
        for place, group in enumerate(source.row_groups):
            of_group = None if live is None else live[first : first + group.num_rows]
            rows += _chunk_rows(source, place, leaf, kind, of_group)
            first += group.num_rows
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, _SCHEMA, compression="none", store_schema=False) as writer:
        writer.add_key_value_metadata({_DATA_FILE_KEY: source.location})
        writer.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA))
    data = sink.getvalue().to_pybytes()
    return PageIndex(
        data=data,
        sha256=hashlib.sha256(data).digest(),
        rows=metadata.num_rows,
        live_rows=metadata.num_rows if live is None else int(np.count_nonzero(live)),
        pages=len(rows),
        row_groups=len(source.row_groups),
        columns=tuple(names),
    )


def _kind(column: pq.ColumnSchema) -> str | None:
    """The kind of bounds that a column has; None for none."""
    if column.max_repetition_level:
        return None
    logical = column.logical_type.type
    if logical == "STRING":
        return "utf8" if column.physical_type == "BYTE_ARRAY" else None
    if logical == "DECIMAL" and column.physical_type in _DECIMAL_STORES:
        return "decimal128_unscaled" if column.precision <= _SMALL_DECIMAL else "decimal256_unscaled"
    return _KINDS.get(column.physical_type)


def _chunk_rows(
    source: ParquetSource, group: int, leaf: int, kind: str, live: Rows | None
) -> Iterator[dict[str, Any]]:
    column = source.metadata.schema.column(leaf)
    facts = source.row_groups[group].columns[leaf]
    described = {
        "column_name": column.path,
        "row_group": group,
        "parquet_physical_type": _PHYSICAL_NAMES.get(column.physical_type, column.physical_type),
        "parquet_compression": _CODEC_NAMES.get(facts.compression, facts.compression),
        "parquet_max_def_level": column.max_definition_level,
        "parquet_max_rep_level": column.max_repetition_level,
    }
    if kind in _DECIMAL_TYPES:
        width = 8 * column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else None
        described["decimal_precision"], described["decimal_scale"] = column.precision, column.scale
        described["decimal_bits"] = _WIDTHS.get(column.physical_type, width)
    largest = max(facts.total_compressed_size, facts.total_uncompressed_size)
    problem = "a column chunk of it has more bytes than"
    check_bound(source.bounds, "inflated_file_bytes", source.location, largest, problem)
    chunk = _pages(source, facts)
    values = source.read_chunk(group, leaf)
    if sum(page.rows for page in chunk.pages) != len(values):
        raise UnreadableFileError(source.location, "its pages have other rows than its row groups")
    first = 0
    for ordinal, page in enumerate(chunk.pages):
        place, size = chunk.dictionary or (None, None)
        with reading(source.location):
            low, high = _bounds(values.slice(first, page.rows), kind)
        yield described | {
            "page_ordinal": ordinal,
            "first_row_index": first,
            "row_count": page.rows,
            "live_row_count": page.rows
            if live is None
            else int(np.count_nonzero(live[first : first + page.rows])),
            "page_header_offset": page.offset,
            "page_total_compressed_size": page.size,
            "dictionary_page_header_offset": place,
            "dictionary_page_total_compressed_size": size,
            "requires_dictionary_page": page.uses_dictionary,
            f"min_{kind}": low,
            f"max_{kind}": high,
        }
        first += page.rows


def _pages(source: ParquetSource, facts: ColumnChunk) -> _Chunk:
    """Walks through the headers of the pages of a column chunk."""
    start = facts.data_page_offset
    if facts.dictionary_page_offset is not None and 0 < facts.dictionary_page_offset < start:
        start = facts.dictionary_page_offset
    if start < 0 or facts.total_compressed_size < 0:
        raise UnreadableFileError(source.location, "its footer is damaged")
    data = source.read_bytes(start, facts.total_compressed_size)
    pages: list[_Page] = []
    dictionary = None
    place = 0
    try:
        while place < len(data):
            *_, end = field_places(data, place)
            header = read_struct(data, _HEADER, place)
            size = end.value - place + max(int(header[_COMPRESSED_SIZE]), 0)
            if header[_TYPE] == _DICTIONARY_PAGE:
                dictionary = (start + place, size)
            elif header[_TYPE] == _DATA_PAGE:
                uses_dictionary = header[_V1][_V1_ENCODING] in _DICTIONARY_ENCODINGS
                pages.append(_Page(start + place, size, header[_V1][_VALUES], uses_dictionary))
            elif header[_TYPE] == _DATA_PAGE_V2:
                uses_dictionary = header[_V2][_V2_ENCODING] in _DICTIONARY_ENCODINGS
                pages.append(_Page(start + place, size, header[_V2][_ROWS], uses_dictionary))
            place += size
    except (ThriftError, KeyError, TypeError, ValueError):
        raise UnreadableFileError(source.location, "a page of it is damaged") from None
    return _Chunk(pages, dictionary)


def _bounds(values: pa.ChunkedArray, kind: str) -> tuple[Any, Any]:
    """Least and greatest value as the sidecar has them; NaN is passed over, None without values."""
    ends = extremes(values)
    if kind in _DECIMAL_TYPES:
        unscaled = pa.Array.from_buffers(
            pa.decimal256(76, 0) if pa.types.is_decimal256(ends.type) else pa.decimal128(38, 0),
            len(ends),
            ends.buffers(),
        )
        low, high = unscaled.cast(_DECIMAL_TYPES[kind]).to_pylist()
        return low, high
    wanted = _BOUND_TYPES[kind]
    if pa.types.is_temporal(ends.type) or ends.type in (pa.uint32(), pa.uint64()):
        ends = ends.view(wanted)
    low, high = ends.cast(wanted).to_pylist()
    return low, high
