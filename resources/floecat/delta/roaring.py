"""64-bit Roaring bitmaps in the portable format, which hold the positions of a deletion vector.

Such a bitmap is a list of 32-bit bitmaps by the upper half of their values; these are lists of containers by
the next 16 bits. A container holds its values as an array, as 8192 bytes of bits, or as runs. Headers tell
how many values every container has, so counting needs none of them.

The bytes may come from anyone. Nothing outside of them is read, and what contradicts itself is refused:
bitmaps or containers out of order, counts that differ from the content, wrong offsets, bytes left over.

Source: RoaringFormatSpec, "General layout" and "Extension for 64-bit implementations".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from operator import lt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["BitmapError", "Extent", "bitmap_chunks", "bitmap_extent", "check_bitmap"]

_COOKIE_WITHOUT_RUNS = 12346
_COOKIE_WITH_RUNS = 12347
# With runs, bitmaps of fewer containers have no offsets.
_OFFSETS_FROM = 4
_MAX_CONTAINERS = 1 << 16
_CONTAINER_VALUES = 1 << 16
_ARRAY_VALUES = 4096
_BITS_SIZE = _CONTAINER_VALUES // 8
# The largest key that the Java readers of both formats take.
_MAX_KEY = (1 << 31) - 2
# Bounds a chunk to 2**20 values, as the largest arrays hold 2**12 each.
_ARRAYS_A_CHUNK = 256

_CONTRADICTION = "a container does not hold what its header says"

_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class BitmapError(ValueError):
    """Bytes that are not a bitmap. The message is a clause that says why, and quotes nothing of them."""


class Extent(NamedTuple):
    """How much a bitmap holds, and up to where.

    Attributes:
        cardinality: number of values, by the headers.
        largest: the last value, None without any.
    """

    cardinality: int
    largest: int | None


class _Containers(NamedTuple):
    """The containers of one 32-bit bitmap, in order."""

    starts: Sequence[int]
    """What is added to the 16-bit values of each."""
    cardinalities: Sequence[int]
    offsets: Sequence[int]
    """Of their contents, in bytes from the start of the data."""
    runs: Sequence[int | None]
    """Number of runs, None for an array or bits."""

    def is_array(self, index: int) -> bool:
        return self.form(index) == "array"

    def form(self, index: int) -> str:
        """`array`, `bits` or `runs`."""
        if self.runs[index] is not None:
            return "runs"
        return "array" if self.cardinalities[index] <= _ARRAY_VALUES else "bits"


def bitmap_extent(data: bytes) -> Extent:
    """Counts a bitmap by its headers and finds its last value. The other values are not looked at.

    Args:
        data: the whole bitmap and nothing else.

    Raises:
        BitmapError: the data is not one bitmap.
    """
    cardinality, last = 0, None
    for containers in _bitmaps(data):
        if containers.starts:
            cardinality += sum(containers.cardinalities)
            last = containers
    return Extent(cardinality, None if last is None else _last_value(data, last))


def check_bitmap(data: bytes) -> None:
    """Checks all that `bitmap_chunks` does, at a fraction of the cost: no value is written out.

    Args:
        data: the whole bitmap and nothing else.

    Raises:
        BitmapError: the data is not one bitmap.
    """
    for containers in _bitmaps(data):
        for form, group in groupby(range(len(containers.starts)), containers.form):
            indices = list(group)
            if form == "array":
                _check_arrays(data, containers, indices[0], indices[-1] + 1)
            elif form == "bits":
                _check_bits(data, containers, indices[0], indices[-1] + 1)
            else:
                for index in indices:
                    _checked_runs(data, containers, index)


def bitmap_chunks(data: bytes) -> Iterator[npt.NDArray[np.int64]]:
    """Yields all values in ascending order, in arrays of at least one value and at most 2**20.

    Args:
        data: the whole bitmap and nothing else.

    Raises:
        BitmapError: the data is not one bitmap. Values before the fault may have been yielded.
    """
    for containers in _bitmaps(data):
        index, count = 0, len(containers.starts)
        while index < count:
            begin = index
            while index < count and index < begin + _ARRAYS_A_CHUNK and containers.is_array(index):
                index += 1
            if index > begin:
                yield _array_values(data, containers, begin, index)
            elif containers.runs[index] is None:
                yield _bit_values(data, containers, index)
                index += 1
            else:
                yield _run_values(data, containers, index)
                index += 1


def _bitmaps(data: bytes) -> Iterator[_Containers]:
    try:
        (count,) = _U64.unpack_from(data)
        at, last_key = 8, -1
        for _ in range(count):
            (key,) = _U32.unpack_from(data, at)
            if not last_key < key <= _MAX_KEY:
                raise BitmapError("its bitmaps are out of order")
            containers, at = _read_bitmap(data, at + 4, key << 32)
            yield containers
            last_key = key
    except struct.error:
        raise BitmapError("it ends too early") from None
    if at != len(data):
        raise BitmapError("it is followed by other bytes")


def _read_bitmap(data: bytes, begin: int, start: int) -> tuple[_Containers, int]:
    """Returns the containers of the 32-bit bitmap that begins there, and where it ends."""
    count, run_marks, at = _read_cookie(data, begin)
    descriptors = struct.unpack_from(f"<{2 * count}H", data, at)
    at += 4 * count
    keys, cardinalities = descriptors[::2], [more + 1 for more in descriptors[1::2]]
    if not all(map(lt, keys, keys[1:])):
        raise BitmapError("its containers are out of order")
    told: tuple[int, ...] | None = None
    if not run_marks or count >= _OFFSETS_FROM:
        told = struct.unpack_from(f"<{count}I", data, at)
        at += 4 * count
    if run_marks:
        offsets, runs, at = _place_with_runs(data, at, cardinalities, run_marks)
    else:
        offsets = list(accumulate(map(_content_size, cardinalities), initial=at))
        runs, at = [None] * count, offsets.pop()
    if at > len(data):
        raise BitmapError("it ends too early")
    if told is not None and [begin + offset for offset in told] != offsets:
        raise BitmapError("the offsets of its containers are wrong")
    return _Containers([start + (key << 16) for key in keys], cardinalities, offsets, runs), at


def _read_cookie(data: bytes, begin: int) -> tuple[int, bytes, int]:
    """Returns the number of containers, a bit for each that tells if it has runs, and where that ends."""
    (cookie,) = _U32.unpack_from(data, begin)
    if cookie == _COOKIE_WITHOUT_RUNS:
        (count,) = _U32.unpack_from(data, begin + 4)
        if count > _MAX_CONTAINERS:
            raise BitmapError("it has too many containers")
        return count, b"", begin + 8
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        end = begin + 4 + (count + 7) // 8
        return count, data[begin + 4 : end], end
    raise BitmapError("a bitmap has no known cookie")


def _place_with_runs(
    data: bytes, at: int, cardinalities: Sequence[int], run_marks: bytes
) -> tuple[list[int], list[int | None], int]:
    """Returns offset and number of runs of each container, and where the last one ends."""
    offsets: list[int] = []
    runs: list[int | None] = [None] * len(cardinalities)
    for index, cardinality in enumerate(cardinalities):
        offsets.append(at)
        if run_marks[index // 8] >> index % 8 & 1:
            (runs[index],) = _U16.unpack_from(data, at)
        at += _content_size(cardinality, runs[index])
    return offsets, runs, at


def _content_size(cardinality: int, runs: int | None = None) -> int:
    if runs is not None:
        return 2 + 4 * runs
    return 2 * cardinality if cardinality <= _ARRAY_VALUES else _BITS_SIZE


def _last_value(data: bytes, containers: _Containers) -> int:
    runs = containers.runs[-1]
    offset = containers.offsets[-1]
    end = offset + _content_size(containers.cardinalities[-1], runs)
    if runs is not None:
        first, more = struct.unpack_from("<2H", data, end - 4) if runs else (0, _CONTAINER_VALUES)
        value: int = first + more
    elif containers.is_array(-1):
        (value,) = _U16.unpack_from(data, end - 2)
    else:
        value = int.from_bytes(data[offset:end], "little").bit_length() - 1
    if not 0 <= value < _CONTAINER_VALUES:
        raise BitmapError(_CONTRADICTION)
    return containers.starts[-1] + value


def _array_values(data: bytes, containers: _Containers, begin: int, end: int) -> npt.NDArray[np.int64]:
    """Values of arrays that follow each other: together they are one array of 16-bit values."""
    import numpy as np

    starts = np.array(containers.starts[begin:end], np.int64)
    values = starts.repeat(containers.cardinalities[begin:end])
    values += np.frombuffer(data, "<u2", len(values), containers.offsets[begin])
    if not (values[1:] > values[:-1]).all():
        raise BitmapError("its values are out of order")
    return values


def _bit_values(data: bytes, containers: _Containers, index: int) -> npt.NDArray[np.int64]:
    import numpy as np

    content = np.frombuffer(data, np.uint8, _BITS_SIZE, containers.offsets[index])
    bits = np.unpackbits(content, bitorder="little").view(np.bool_)
    values = bits.nonzero()[0].astype(np.int64, copy=False)
    if len(values) != containers.cardinalities[index]:
        raise BitmapError(_CONTRADICTION)
    values += containers.starts[index]
    return values


def _check_arrays(data: bytes, containers: _Containers, begin: int, end: int) -> None:
    import numpy as np

    ends = np.cumsum(containers.cardinalities[begin:end])
    values = np.frombuffer(data, "<u2", int(ends[-1]), containers.offsets[begin])
    rises = values[1:] > values[:-1]
    # from one container to the next they start anew
    rises[ends[:-1] - 1] = True
    if not rises.all():
        raise BitmapError("its values are out of order")


def _check_bits(data: bytes, containers: _Containers, begin: int, end: int) -> None:
    import numpy as np

    content = np.frombuffer(data, np.uint8, (end - begin) * _BITS_SIZE, containers.offsets[begin])
    if hasattr(np, "bitwise_count"):
        counts = np.bitwise_count(content.view(np.uint64))
    else:  # numpy 1
        counts = np.unpackbits(content)
    if not np.array_equal(
        counts.reshape(end - begin, -1).sum(axis=1, dtype=np.int64), containers.cardinalities[begin:end]
    ):
        raise BitmapError(_CONTRADICTION)


def _run_values(data: bytes, containers: _Containers, index: int) -> npt.NDArray[np.int64]:
    import numpy as np

    first, length = _checked_runs(data, containers, index)
    # Value number i of a run is i + first, and number i + (values of the runs before) of the container.
    before = length.cumsum() - length
    values = (first - before + containers.starts[index]).repeat(length)
    values += np.arange(containers.cardinalities[index])
    return values


def _checked_runs(
    data: bytes, containers: _Containers, index: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """First value and number of values of each run."""
    import numpy as np

    cardinality = containers.cardinalities[index]
    content = np.frombuffer(data, "<u2", 2 * (containers.runs[index] or 0), containers.offsets[index] + 2)
    runs = content.astype(np.int64).reshape(-1, 2)
    first, length = runs[:, 0], runs[:, 1] + 1
    end = first + length
    if length.sum() != cardinality or end[-1] > _CONTAINER_VALUES:
        raise BitmapError(_CONTRADICTION)
    if (first[1:] < end[:-1]).any():
        raise BitmapError("its runs are out of order")
    return first, length
