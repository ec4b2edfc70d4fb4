"""Avro's binary encoding of many records at once, column by column.

A record is a row of bytes, a field a group of columns of them. Every field is encoded for all rows into
`Cells`, a matrix as wide as the longest value, and which of its bytes count. Laid side by side and squeezed,
the cells are the records, one after the other. No value becomes a Python object.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.iceberg.avro.string_columns import Bools, Bytes, Int64s, StringColumn

__all__ = [
    "Cells",
    "constant",
    "lay_out",
    "optional",
    "ragged",
    "strings",
    "varint",
    "varint_lengths",
    "varints",
    "where",
    "zigzag",
]


class Cells(NamedTuple):
    """Fields of some records, one or more, encoded.

    Attributes:
        data: bytes, of shape (rows, width); (1, width) if all rows have the same.
        keep: which bytes count, of the same shape or (rows, 1); None if all do.
    """

    data: Bytes
    keep: Bools | None = None

    @property
    def width(self) -> int:
        """Bytes of the longest row, or more."""
        return int(self.data.shape[1])


def constant(data: bytes) -> Cells:
    """The same bytes in each row."""
    return Cells(np.frombuffer(data, np.uint8)[np.newaxis])


def zigzag(values: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.uint64]:
    """Avro's mapping of integers to natural numbers: small ones of either sign stay small."""
    wide = values.astype(np.int64, copy=False)
    return ((wide << 1) ^ (wide >> 63)).view(np.uint64)


def varint_lengths(naturals: npt.NDArray[np.unsignedinteger[Any]]) -> npt.NDArray[np.uint8]:
    """Bytes that each number takes, 7 bits in a byte."""
    lengths = np.ones(naturals.shape, np.uint8)
    for bits in range(7, 64, 7):
        longer = naturals >= np.uint64(1 << bits)
        if not longer.any():
            break
        lengths += longer
    return lengths


def varint(value: int) -> bytes:
    """An integer, encoded."""
    natural = (value << 1) ^ (value >> 63)
    septets = bytearray()
    while natural > 0x7F:
        septets.append(natural & 0x7F | 0x80)
        natural >>= 7
    septets.append(natural)
    return bytes(septets)


def varints(values: npt.NDArray[np.integer[Any]]) -> Cells:
    """Integers, encoded.

    Args:
        values: of any shape; the cells have one axis more.
    """
    naturals: npt.NDArray[np.unsignedinteger[Any]] = zigzag(values)
    lengths = varint_lengths(naturals)
    width = int(lengths.max(initial=1))
    if width <= 4:
        naturals = naturals.astype(np.uint32)  # half the memory to pass over
    data = np.empty((*values.shape, width), np.uint8)
    for index in range(width):
        septet = (naturals >> naturals.dtype.type(7 * index)).astype(np.uint8)
        if index < width - 1:
            septet &= np.uint8(0x7F)
            septet |= (lengths > index + 1).view(np.uint8) << np.uint8(7)
        data[..., index] = septet
    if width == 1 or int(lengths.min(initial=width)) == width:
        return Cells(data)
    return Cells(data, np.arange(width, dtype=np.uint8) < lengths[..., np.newaxis])


def ragged(data: Bytes, lengths: Int64s) -> Cells:
    """Rows of different length.

    Args:
        data: all rows, one after the other.
        lengths: of each row.
    """
    width = int(lengths.max(initial=0))
    if int(lengths.min(initial=width)) == width:
        return Cells(data.reshape(len(lengths), width))
    keep = np.arange(width) < lengths[:, np.newaxis]
    matrix = np.zeros(keep.shape, np.uint8)
    matrix[keep] = data
    return Cells(matrix, keep)


def strings(column: StringColumn) -> list[Cells]:
    """Strings or bytes, each after its length. Null is as empty; see `optional`."""
    lengths = column.lengths
    data = column.data[column.offsets[0] : column.offsets[-1]]
    return [varints(lengths), ragged(data, lengths)]


def optional(cells: Sequence[Cells], valid: Bools | None) -> list[Cells]:
    """A union of null and a type, null first.

    Args:
        cells: the values. Those of null rows are left out.
        valid: which rows are not null; None for all.
    """
    if valid is None:
        return [constant(b"\x02"), *cells]
    branch = Cells(np.where(valid, np.uint8(2), np.uint8(0))[:, np.newaxis])
    return [branch, *where(cells, valid)]


def where(cells: Sequence[Cells], rows: Bools) -> list[Cells]:
    """Fields that only some rows have."""
    mask = rows[:, np.newaxis]
    return [Cells(cell.data, mask if cell.keep is None else cell.keep & mask) for cell in cells]


def lay_out(cells: Sequence[Cells], rows: int) -> tuple[Bytes, Int64s]:
    """Concatenates fields into records.

    Args:
        cells: the fields, in order.
        rows: how many records.

    Returns:
        The records one after the other, and the bytes of each.
    """
    cells = [cell for cell in cells if cell.width]
    width = sum(cell.width for cell in cells)
    placed = list(zip(cells, accumulate((cell.width for cell in cells), initial=0), strict=False))
    # what is the same in all rows is written once, and with the first row copied to the others
    first = np.zeros(width, np.uint8)
    for cell, start in placed:
        if len(cell.data) == 1:
            first[start : start + cell.width] = cell.data[0]
    data = np.empty((rows, width), np.uint8)
    data[:] = first
    for cell, start in placed:
        if len(cell.data) > 1:
            _place(cell.data, data[:, start : start + cell.width])
    if all(cell.keep is None for cell in cells):
        return data.reshape(-1), np.full(rows, width, np.int64)
    keep = np.ones((rows, width), np.bool_)
    sizes = np.full(rows, width, np.int64)
    for cell, start in placed:
        if cell.keep is not None:
            sizes -= cell.width - _place_mask(cell.keep, keep[:, start : start + cell.width])
    return _squeeze(data, keep), sizes


def _place(cell: Bytes, target: Bytes) -> None:
    width = cell.shape[1]
    if width > 1 and cell.strides[1] == 1:
        # row by row rather than byte by byte, which takes a third of the time
        row = np.dtype((np.void, width))
        target.view(row)[:] = cell.view(row)
    else:
        target[:] = cell


def _place_mask(mask: Bools, target: Bools) -> Int64s:
    """Copies a mask into the one of all fields.

    Returns:
        How many bytes of each row it keeps.
    """
    width = target.shape[1]
    if mask.shape[1] == width:
        target[:] = mask
        kept: Int64s = np.count_nonzero(mask, axis=1)
        return kept
    whole: Bools = mask[:, 0]
    nothing_or_all = np.array([[False] * width, [True] * width]).view(np.dtype((np.void, width)))
    target.view(nothing_or_all.dtype)[:] = nothing_or_all[whole.view(np.uint8)]
    return np.where(whole, np.int64(width), np.int64(0))


def _squeeze(data: Bytes, keep: Bools) -> Bytes:
    # Arrow's filter takes half the time of NumPy's where the mask changes often.
    bits = pa.py_buffer(np.packbits(keep.reshape(-1), bitorder="little"))
    mask = pa.BooleanArray.from_buffers(pa.bool_(), keep.size, [None, bits])
    kept: Bytes = pa.array(data.reshape(-1)).filter(mask).to_numpy()
    return kept
