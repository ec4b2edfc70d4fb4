"""A Parquet file of a few bytes that holds more rows than can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["endless_parquet"]

_MAGIC: Final = b"PAR1"
_INT32, _INT64, _BYTES, _LIST, _STRUCT = 5, 6, 8, 9, 12


class _Wide(int):
    """A number of 64 bits."""


def endless_parquet(
    pages: int,
    *,
    page_rows: int = (1 << 31) - 1,
    path: Sequence[bytes] = (b"id",),
    size_bytes: int = 0,
    is_damaged: bool = False,
) -> bytes:
    """A file with a column of longs with field id 1, which are all 0.

    Args:
        pages: in some 25 bytes each.
        page_rows: rows of a page.
        path: of the column, through structs.
        size_bytes: of the file, if it is larger than the pages need.
        is_damaged: whether it has a histogram of levels that the column does not have. Arrow ends the process
            when Python asks it for such a column chunk.
    """
    header = {1: 2, 2: 8, 3: 8, 7: {1: 1, 2: 0}}
    dictionary = _struct(header) + bytes(8)
    run = b"\x01" + _varint(page_rows << 1) + b"\x00"
    page = _struct({1: 0, 2: len(run), 3: len(run), 5: {1: page_rows, 2: 8, 3: 3, 4: 3}}) + run
    chunk, rows = dictionary + page * pages, _Wide(pages * page_rows)

    def footer(start: int) -> bytes:
        column = {
            1: 2,
            2: [8],
            3: list(path),
            4: 0,
            5: rows,
            6: _Wide(len(chunk)),
            7: _Wide(len(chunk)),
            9: _Wide(start + len(dictionary)),
            11: _Wide(start),
            **({16: {3: [_Wide(1), _Wide(1)]}} if is_damaged else {}),
        }
        group = {1: [{2: _Wide(start), 3: column}], 2: _Wide(len(chunk)), 3: rows}
        groups = [{3: 0, 4: name, 5: 1} for name in path[:-1]]
        schema = [{4: b"root", 5: 1}, *groups, {1: 2, 3: 0, 4: path[-1], 9: 1}]
        return _struct({1: 2, 2: schema, 3: rows, 4: [group]})

    start = len(_MAGIC)
    while True:
        end = footer(start)
        lacking = size_bytes - start - len(chunk) - len(end) - 8
        if lacking == 0 or (lacking < 0 and start == len(_MAGIC)):
            return _MAGIC.ljust(start, b"\0") + chunk + end + len(end).to_bytes(4, "little") + _MAGIC
        start += lacking


def _struct(fields: Mapping[int, object]) -> bytes:
    """A struct in Thrift's compact protocol."""
    found, last = b"", 0
    for id, value in fields.items():
        found += bytes([(id - last) << 4 | _kind(value)]) + _value(value)
        last = id
    return found + b"\0"


def _kind(value: object) -> int:
    kinds = {_Wide: _INT64, int: _INT32, bytes: _BYTES, list: _LIST, dict: _STRUCT}
    return kinds[type(value)]


def _value(value: object) -> bytes:
    match value:
        case int():
            return _varint(value << 1)
        case bytes():
            return _varint(len(value)) + value
        case list():
            return bytes([len(value) << 4 | _kind(value[0])]) + b"".join(map(_value, value))
        case dict():
            return _struct(value)
    raise TypeError(value)


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])
