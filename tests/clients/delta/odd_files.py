"""Delta tables whose data files are of forms that few writers give them: other types, units and encodings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.clients.delta.writer import DeltaWriter

__all__ = ["FILLED", "MISREAD_BY_VECTORS", "REFUSED", "FileTable", "nanosecond_table", "ordinary_table"]

FileTable = Callable[[Path], DeltaWriter]
"""Writes a table into a folder."""

_ROWS = 40
_US = [None if at % 7 == 3 else 1_700_000_000_000_000 + 3_600_000_000 * at for at in range(_ROWS)]
_NUMBERS = [None if at % 7 == 3 else at for at in range(_ROWS)]
_TEXTS = [None if at is None else f"text-{at // 3:03}" for at in _NUMBERS]
_BYTES = [None if text is None else text.encode() for text in _TEXTS]
_ZONED, _LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
FILLED = _ROWS - _NUMBERS.count(None)
"""How many values of a column are not NULL."""


def _encoded(**encodings: str) -> dict[str, Any]:
    return {"use_dictionary": False, "column_encoding": encodings}


def _table(**columns: pa.Array) -> pa.Table:
    return pa.table({"id": pa.array(range(_ROWS), pa.int64()), **columns})


def _file_table(
    folder: Path, rows: pa.Table, in_file: pa.Schema | None = None, **options: Any
) -> DeltaWriter:
    """A table of one file, which has other types than the table says, and is written in a way of its own."""
    written = DeltaWriter(folder, rows.schema)

    def write(table: pa.Table, path: Path) -> None:
        pq.write_table(table.cast(in_file) if in_file else table, path, **options)

    written.append(rows, write=write)
    return written


def ordinary_table(folder: Path) -> DeltaWriter:
    """As writers of Delta write them; with the one newer encoding that all engines know."""
    rows = _table(t=pa.array(_US, _ZONED), i=pa.array(_NUMBERS, pa.int32()), s=pa.array(_TEXTS))
    return _file_table(folder, rows, use_dictionary=["s"], column_encoding={"id": "DELTA_BINARY_PACKED"})


def nanosecond_table(folder: Path) -> DeltaWriter:
    """A column `n` of one timestamp, a second after the epoch."""
    rows = pa.table({"n": pa.array([1_000_000], _LOCAL)})
    return _file_table(folder, rows, pa.schema([("n", pa.timestamp("ns"))]), version="2.6")


MISREAD_BY_VECTORS: dict[str, FileTable] = {
    "milliseconds": lambda folder: _file_table(
        folder,
        _table(t=pa.array(_US, _ZONED), n=pa.array(_US, _LOCAL)),
        coerce_timestamps="ms",
    ),
    "annotated integers, widened": lambda folder: _file_table(
        folder,
        _table(a=pa.array(_NUMBERS, pa.int64()), b=pa.array(_NUMBERS, pa.int64())),
        pa.schema([("id", pa.int64()), ("a", pa.int8()), ("b", pa.int16())]),
    ),
    "encodings": lambda folder: _file_table(
        folder,
        _table(
            s=pa.array(_TEXTS),
            b=pa.array(_BYTES, pa.binary()),
            f=pa.array(_NUMBERS, pa.int64()).cast(pa.float64()),
            d=pa.array(_NUMBERS, pa.int64()).cast(pa.decimal128(30, 2)),
            o=pa.array([None if at is None else at % 2 == 0 for at in _NUMBERS]),
        ),
        **_encoded(
            s="DELTA_BYTE_ARRAY", b="DELTA_LENGTH_BYTE_ARRAY", f="BYTE_STREAM_SPLIT", d="DELTA_BYTE_ARRAY"
        ),
        data_page_version="2.0",
    ),
    "booleans in runs": lambda folder: _file_table(
        folder,
        _table(o=pa.array([None if at is None else at % 2 == 0 for at in _NUMBERS])),
        data_page_version="2.0",
    ),
}
"""Tables that Spark's vectorised reader misreads or refuses."""

REFUSED: dict[tuple[str, str], FileTable] = {
    ("spark", "unsigned"): lambda folder: _file_table(
        folder,
        _table(a=pa.array(_NUMBERS, pa.int32())),
        pa.schema([("id", pa.int64()), ("a", pa.uint16())]),
    ),
    ("spark", "brotli"): lambda folder: _file_table(folder, _table(s=pa.array(_TEXTS)), compression="brotli"),
    ("spark", "text in a binary column"): lambda folder: _file_table(
        folder,
        _table(b=pa.array(_BYTES, pa.binary())),
        pa.schema([("id", pa.int64()), ("b", pa.string())]),
    ),
    ("pyiceberg", "fixed length"): lambda folder: _file_table(
        folder,
        _table(b=pa.array([b"ab"] * _ROWS, pa.binary())),
        pa.schema([("id", pa.int64()), ("b", pa.binary(2))]),
    ),
    ("duckdb", "integers in split streams"): lambda folder: _file_table(
        folder, _table(a=pa.array(_NUMBERS, pa.int64())), **_encoded(a="BYTE_STREAM_SPLIT")
    ),
    ("polars", "decimals in byte arrays that share prefixes"): lambda folder: _file_table(
        folder,
        _table(d=pa.array(_NUMBERS, pa.int64()).cast(pa.decimal128(30, 2))),
        **_encoded(d="DELTA_BYTE_ARRAY"),
    ),
}
"""Tables that one engine refuses, and all others read, by the engine and what is odd."""
