"""Arrow's strings and bytes as NumPy sees them: one run of bytes, and where each value begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Bools", "Bytes", "Int64s", "StringColumn"]

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StringColumn:
    """Strings or bytes as Arrow keeps them; nulls are empty.

    Attributes:
        offsets: where each one begins and ends in `data`; one more than there are rows.
        data: all of them, one after the other.
        valid: which are not null; None if all are.
    """

    offsets: Int64s
    data: Bytes
    valid: Bools | None = None

    @classmethod
    def of(cls, array: pa.Array | pa.ChunkedArray) -> StringColumn:
        """From Arrow strings or bytes."""
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        valid = None
        if array.null_count:
            valid = array.is_valid().to_numpy(zero_copy_only=False)
            # Arrow lets nulls have bytes
            array = array.fill_null(b"" if pa.types.is_binary(array.type) else "")
        wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        _, offsets, data = array.buffers()
        if not len(array):
            return cls(np.zeros(1, np.int64), np.zeros(0, np.uint8), valid)
        numbers = np.frombuffer(offsets, np.int64 if wide else np.int32)
        numbers = numbers[array.offset : array.offset + len(array) + 1]
        return cls(numbers.astype(np.int64), np.frombuffer(data or b"", np.uint8), valid)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int64s:
        """Bytes of each, 0 for null."""
        return np.diff(self.offsets)

    def slice(self, start: int, stop: int) -> StringColumn:
        """Some of the rows, without copying."""
        valid = None if self.valid is None else self.valid[start:stop]
        return StringColumn(self.offsets[start : stop + 1], self.data, valid)
