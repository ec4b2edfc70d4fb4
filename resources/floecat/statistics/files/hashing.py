"""Hashes of values, as theta sketches of Iceberg tables hold them.

The Puffin specification ("Blob types") feeds a sketch with the single-value bytes of each value (table
specification, Appendix D). Apache DataSketches hashes them with MurmurHash3 x64_128 under the seed 9001, and
keeps the upper 63 bits of the first half. It passes over empty values, and so does this.

Values are hashed in chunks that stay in the processor's cache, with NumPy. Arithmetic wraps at 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.schemas.single_values import encode
from floecat.iceberg.schemas.types import PrimitiveType

__all__ = ["SEED", "Hashes", "hash_seed", "hash_values"]

Hashes: TypeAlias = npt.NDArray[np.uint64]
_Int64s: TypeAlias = npt.NDArray[np.int64]

SEED: Final = 9001
"""Seed of DataSketches, unless a sketch is made with another one."""

_CHUNK: Final = 1 << 14
_LONGEST: Final = 128
"""Bytes of a value that is hashed with others; longer ones are hashed one by one."""

_MOST_BLOCKS: Final = np.uint8(_LONGEST // 16)
_WORD: Final = 8

_C1: Final = np.uint64(0x87C37B91114253D5)
_C2: Final = np.uint64(0x4CF5AD432745937F)
_FIVE, _ADD1, _ADD2 = np.uint64(5), np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_FMIX: Final = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))
_SHIFT: Final = np.uint64(33)
_ONE: Final = np.uint64(1)
_MASKS: Final = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)

_FOUR_BYTES = frozenset({"int", "date", "float"})
_EIGHT_BYTES = frozenset(
    {"long", "double", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
)


def hash_values(values: pa.Array, type: PrimitiveType) -> Hashes:
    """Hashes values; nulls and empty values are left out.

    Args:
        values: of the type that `encode` of `floecat.iceberg.schemas.single_values` takes, without a
            dictionary.
        type: the Iceberg type, one with a binary form.

    Returns:
        63-bit numbers, in any order.
    """
    values = values.drop_null() if values.null_count else values
    if type.name == "boolean":
        words = values.cast(pa.uint8()).to_numpy().astype(np.uint64)
        return _in_chunks(len(words), lambda part: _hash_short(words[part].copy(), _ONE))
    if type.name in _FOUR_BYTES:
        narrow = _words(values, "u4")
        return _in_chunks(len(narrow), lambda part: _hash_short(narrow[part].astype(np.uint64), np.uint64(4)))
    if type.name in _EIGHT_BYTES:
        wide = _words(values, "u8")
        return _in_chunks(len(wide), lambda part: _hash_short(wide[part].copy(), np.uint64(8)))
    if type.name == "decimal":
        return _hash_decimals(values, type)
    return _hash_binary(values.cast(pa.binary()))


def hash_seed(seed: int) -> int:
    """16 bits by which DataSketches recognises the seed of a sketch."""
    lower: int = mmh3.hash64(seed.to_bytes(8, "little"), 0, True, signed=False)[0]
    return lower & 0xFFFF


def _words(values: pa.Array, dtype: str) -> npt.NDArray[Any]:
    data = np.frombuffer(values.buffers()[1] or b"", dtype)
    return data[values.offset : values.offset + len(values)]


def _in_chunks(count: int, hash_part: Callable[[slice], Hashes]) -> Hashes:
    parts = [hash_part(slice(start, start + _CHUNK)) for start in range(0, count, _CHUNK)]
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def _hash_decimals(values: pa.Array, type: PrimitiveType) -> Hashes:
    words = np.frombuffer(values.buffers()[1] or b"", np.int64)
    words = words[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    if (high != low >> 63).any():
        return _hash_binary(encode(values, type))
    return _in_chunks(len(low), lambda part: _hash_small_decimals(low[part]))


def _hash_small_decimals(unscaled: npt.NDArray[np.int64]) -> Hashes:
    """Hashes decimals whose minimal two's complement, big-endian, fits eight bytes."""
    magnitudes = unscaled ^ (unscaled >> 63)
    lengths = np.ones(len(unscaled), np.uint64)
    for bits in range(7, 63, 8):
        lengths += magnitudes >= 1 << bits
    shifted = unscaled.astype(np.uint64) << ((np.uint64(8) - lengths) << np.uint64(3))
    return _hash_short(shifted.byteswap(), lengths)


def _hash_short(words: Hashes, lengths: Hashes | np.uint64) -> Hashes:
    """Hashes values of at most eight bytes.

    Args:
        words: the bytes, the first as the lowest, zeros above; overwritten.
        lengths: how many bytes each value has, or all have.
    """
    h1 = _mix(words, _C1, 31, _C2)
    h1 ^= np.uint64(SEED)
    return _finish(h1, np.full(len(words), SEED, np.uint64), lengths)


def _hash_binary(values: pa.BinaryArray) -> Hashes:
    is_long = pc.greater(pc.binary_length(values), _LONGEST)
    if not pc.any(is_long).as_py():
        return _hash_short_binary(values)
    short = _hash_short_binary(values.filter(pc.invert(is_long)))
    if pc.all(is_long).as_py():
        return _hash_long(values)
    return np.concatenate([short, _hash_long(values.filter(is_long))])


def _hash_short_binary(values: pa.BinaryArray) -> Hashes:
    ends = np.frombuffer(values.buffers()[1] or bytes(4), np.int32)
    offsets = ends[values.offset : values.offset + len(values) + 1].astype(np.int64)
    first, end = int(offsets[0]), int(offsets[-1])
    # Three words are read where a value ends, whatever follows.
    data = np.zeros((end - first) // _WORD * _WORD + 4 * _WORD, np.uint8)
    data[: end - first] = np.frombuffer(values.buffers()[2] or b"", np.uint8)[first:end]
    starts = offsets[:-1] - first
    lengths = np.diff(offsets)
    is_empty = lengths == 0
    if is_empty.any():
        starts, lengths = starts[~is_empty], lengths[~is_empty]
    words = data.view(np.uint64)
    return _in_chunks(len(starts), lambda part: _hash_bytes(words, starts[part], lengths[part]))


def _hash_long(values: pa.BinaryArray) -> Hashes:
    """Hashes values one by one: each may be most of what memory holds."""
    hashes = (mmh3.hash64(value.as_py(), SEED, True, signed=False)[0] >> 1 for value in values)
    return np.fromiter(hashes, np.uint64, len(values))


def _hash_bytes(words: Hashes, starts: _Int64s, lengths: _Int64s) -> Hashes:
    """Hashes values of a chunk, in any order; `starts` count bytes."""
    # Those with more blocks come first, so that the values that have a block are a prefix.
    blocks = (lengths >> 4).astype(np.uint8)
    order = np.argsort(_MOST_BLOCKS - blocks, kind="stable")
    starts, lengths = starts.take(order), lengths.take(order)
    counts = len(blocks) - np.cumsum(np.bincount(blocks))[:-1]
    h1 = np.full(len(starts), SEED, np.uint64)
    h2 = h1.copy()
    for block, count in enumerate(counts.tolist()):
        k1, k2 = _load(words, starts[:count] + (block << 4))
        _add_block(h1[:count], h2[:count], k1, k2)
    tails = lengths & 15
    k1, k2 = _load(words, starts + (lengths & ~15))
    k1 &= _MASKS.take(np.minimum(tails, 8))
    k2 &= _MASKS.take(np.maximum(tails - 8, 0))
    h1 ^= _mix(k1, _C1, 31, _C2)
    h2 ^= _mix(k2, _C2, 33, _C1)
    return _finish(h1, h2, lengths.astype(np.uint64))


def _load(words: Hashes, at: _Int64s) -> tuple[Hashes, Hashes]:
    """Two words from each byte position, out of the three aligned ones that they lie in."""
    index = at >> 3
    right = ((at & 7) << 3).astype(np.uint64)
    left = np.uint64(64) - right
    # Shifting by 64 gives 0.
    low, middle, high = words.take(index), words.take(index + 1), words.take(index + 2)
    return (low >> right) | (middle << left), (middle >> right) | (high << left)


def _add_block(h1: Hashes, h2: Hashes, k1: Hashes, k2: Hashes) -> None:
    h1 ^= _mix(k1, _C1, 31, _C2)
    _rotate(h1, 27)
    h1 += h2
    h1 *= _FIVE
    h1 += _ADD1
    h2 ^= _mix(k2, _C2, 33, _C1)
    _rotate(h2, 31)
    h2 += h1
    h2 *= _FIVE
    h2 += _ADD2


def _mix(k: Hashes, before: np.uint64, bits: int, after: np.uint64) -> Hashes:
    k *= before
    _rotate(k, bits)
    k *= after
    return k


def _rotate(x: Hashes, bits: int) -> None:
    high = x >> np.uint64(64 - bits)
    x <<= np.uint64(bits)
    x |= high


def _finish(h1: Hashes, h2: Hashes, lengths: Hashes | np.uint64) -> Hashes:
    h1 ^= lengths
    h2 ^= lengths
    h1 += h2
    h2 += h1
    _avalanche(h1)
    _avalanche(h2)
    h1 += h2
    h1 >>= _ONE
    return h1


def _avalanche(h: Hashes) -> None:
    for factor in _FMIX:
        h ^= h >> _SHIFT
        h *= factor
    h ^= h >> _SHIFT
