"""Compact theta sketches, byte for byte as Apache DataSketches reads and writes them.

A sketch keeps the least hashes of the values that were added, at most `NOMINAL_ENTRIES`, and the threshold
`theta` that they are below (DataSketches documentation, "Theta Sketch Framework"). Hashes are spread evenly
over 63 bits, so their number divided by the share of numbers below theta estimates the distinct values.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from floecat.errors import InvalidMetadataError
from floecat.statistics.files.hashing import SEED, Hashes, hash_seed

__all__ = ["NOMINAL_ENTRIES", "SketchBuilder", "ThetaSketch", "union"]

NOMINAL_ENTRIES: Final = 4096
"""Hashes that a sketch keeps; the relative standard error is 1.6 %."""

_EVERYTHING: Final = (1 << 63) - 1
_BUFFERED: Final = 4 * NOMINAL_ENTRIES

_PREAMBLE: Final = struct.Struct("<BBBBBBH")
_COUNT: Final = struct.Struct("<If")
_WORD: Final = 8
_SERIAL_VERSION: Final = 3
_COMPACT_FAMILY: Final = 3
_READ_ONLY, _EMPTY, _COMPACT, _ORDERED, _SINGLE = 2, 4, 8, 16, 32
_BIG_ENDIAN: Final = 1
_MOST_ENTRIES: Final = 1 << 26
_SEED_HASH: Final = hash_seed(SEED)


@dataclass(frozen=True, eq=False)
class ThetaSketch:
    """A compact sketch.

    Attributes:
        hashes: 63-bit numbers, ascending, all below `theta`.
        theta: from 1 to 2**63 - 1; the latter if every distinct hash was kept.
    """

    hashes: Hashes
    theta: int = _EVERYTHING

    @property
    def is_exact(self) -> bool:
        """Whether the sketch holds every distinct hash."""
        return self.theta == _EVERYTHING

    @property
    def estimate(self) -> float:
        """Number of distinct values."""
        return len(self.hashes) / self._share

    @property
    def relative_standard_error(self) -> float:
        """The standard error of the estimate; 0 if it is exact."""
        return math.sqrt((1 - self._share) / max(len(self.hashes), 1)) if not self.is_exact else 0.0

    def bounds(self, standard_deviations: int = 2) -> tuple[float, float]:
        """Bounds of the number of distinct values (normal approximation of the binomial distribution).

        Args:
            standard_deviations: 1, 2 or 3, for a confidence of 68 %, 95 % or 99.7 %.
        """
        if self.is_exact:
            return self.estimate, self.estimate
        width = standard_deviations * math.sqrt((1 - self._share) / self._share)
        lower, upper = (
            around + width / 2 * (width + side * math.sqrt(width * width + 4 * around))
            for side in (-1, 1)
            for around in [(len(self.hashes) + side * 0.5) / self._share]
        )
        return max(lower, len(self.hashes)), upper

    @property
    def _share(self) -> float:
        return self.theta / _EVERYTHING

    def to_bytes(self) -> bytes:
        """The sketch as `CompactSketch.toByteArray` of Java writes it (serial version 3)."""
        count = len(self.hashes)
        flags = _READ_ONLY | _COMPACT | _ORDERED
        words = 1 if count <= 1 else 2
        if self.is_exact:
            flags |= {0: _EMPTY, 1: _SINGLE}.get(count, 0)
        else:
            words = 3
        seed_hash = 0 if flags & _EMPTY else _SEED_HASH
        head = _PREAMBLE.pack(words, _SERIAL_VERSION, _COMPACT_FAMILY, 0, 0, flags, seed_hash)
        if words > 1:
            head += _COUNT.pack(count, 1.0)
        if words > 2:
            head += self.theta.to_bytes(_WORD, "little")
        return head + self.hashes.astype("<u8", copy=False).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> ThetaSketch:
        """Reads a compact sketch, ours or one of DataSketches, ordered or not.

        Raises:
            InvalidMetadataError: it is not one, is damaged, compressed, or has another seed.
        """
        if len(data) < _PREAMBLE.size:
            raise _fault("it ends too early")
        first, version, family, _, _, flags, seed_hash = _PREAMBLE.unpack_from(data)
        words = first & 0x3F
        if (version, family) != (_SERIAL_VERSION, _COMPACT_FAMILY) or flags & _BIG_ENDIAN:
            raise _fault("it has another format than the compact one of version 3")
        if flags & _EMPTY:
            return cls(np.zeros(0, np.uint64))
        if seed_hash != _SEED_HASH:
            raise _fault("it was made with another seed")
        if not 1 <= words <= 3 or len(data) < words * _WORD:
            raise _fault("its preamble is damaged")
        count = _COUNT.unpack_from(data, _WORD)[0] if words > 1 else 1
        theta = int.from_bytes(data[2 * _WORD : 3 * _WORD], "little") if words > 2 else _EVERYTHING
        if count > _MOST_ENTRIES or len(data) < (words + count) * _WORD:
            raise _fault("it ends too early")
        hashes = np.frombuffer(data, "<u8", count, words * _WORD).astype(np.uint64)
        if not flags & _ORDERED:
            hashes.sort()
        if not 0 < theta <= _EVERYTHING or (count and not 0 < hashes[0] <= hashes[-1] < theta):
            raise _fault("its numbers are out of range")
        if (hashes[1:] <= hashes[:-1]).any():
            raise _fault("its numbers are not in order")
        return cls(hashes, theta)


class SketchBuilder:
    """Makes a sketch out of hashes, in memory that does not grow with their number."""

    def __init__(self) -> None:
        self._theta = _EVERYTHING
        self._held: list[Hashes] = []
        self._count = 0

    @property
    def is_exact(self) -> bool:
        """Whether every distinct hash is held so far."""
        return self._theta == _EVERYTHING

    def add(self, hashes: Hashes) -> None:
        """Adds hashes of values; repeated ones do not matter."""
        below = hashes[hashes < np.uint64(self._theta)]
        self._held.append(below)
        self._count += len(below)
        if self._count > _BUFFERED:
            self._shrink()

    def add_sketch(self, sketch: ThetaSketch) -> None:
        """Adds what another sketch holds."""
        self._theta = min(self._theta, sketch.theta)
        self.add(sketch.hashes)

    def build(self) -> ThetaSketch:
        """The sketch of what was added so far."""
        self._shrink()
        return ThetaSketch(self._held[0], self._theta)

    def _shrink(self) -> None:
        # Sorting is faster here than the hash table of `numpy.unique`.
        held = np.sort(np.concatenate([np.zeros(0, np.uint64), *self._held]))
        # DataSketches has no hash of 0.
        distinct = held[np.flatnonzero(np.diff(held, prepend=np.uint64(0)))]
        kept = int(np.searchsorted(distinct, np.uint64(self._theta)))
        if kept > NOMINAL_ENTRIES:
            kept = NOMINAL_ENTRIES
            self._theta = int(distinct[kept])
        self._held, self._count = [distinct[:kept].copy()], kept


def union(sketches: Iterable[ThetaSketch]) -> ThetaSketch:
    """The sketch of all values of several sketches together."""
    builder = SketchBuilder()
    for sketch in sketches:
        builder.add_sketch(sketch)
    return builder.build()


def _fault(reason: str) -> InvalidMetadataError:
    return InvalidMetadataError(f"Cannot read a theta sketch: {reason}")
