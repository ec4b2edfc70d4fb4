"""Decompression of Avro blocks within bounds (Avro specification, "Required Codecs", "Optional Codecs").

Every codec stops as soon as a block exceeds its limit, before it takes memory for the rest.
"""

from __future__ import annotations

import binascii
import bz2
import lzma
from collections.abc import Callable

import zstandard
from isal import isal_zlib

from floecat.errors import InvalidMetadataError
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds, exceeded

__all__ = ["CODECS", "inflate_block"]

_RAW_DEFLATE = -15
_STEP = 256 * 1024
_CHECKSUM_SIZE = 4
_SNAPPY_MAX_RATIO = 64
"""A copy of 64 bytes takes at least one byte of tag; real encoders reach 22."""
_MAX_WINDOW = 128 * 1024 * 1024
"""Window of the highest level of the Zstandard library. Only the filled part of a window takes memory."""


class _TooLargeError(Exception):
    """The block exceeds its limit."""


def inflate_block(
    data: bytes | memoryview, codec: str, *, location: str, what: str, bounds: Bounds = DEFAULT_BOUNDS
) -> bytes:
    """The records of a block.

    Args:
        data: the block as it is in the file.
        codec: `avro.codec` of the file.
        location: where the file is, for messages.
        what: what the file is, for messages, e.g. "manifest".
        bounds: limits for the block.

    Raises:
        BoundExceededError: the block is larger than the bound.
        InvalidMetadataError: the codec is not supported, or the block is damaged.
    """
    inflate = CODECS.get(codec)
    if inflate is None:
        raise InvalidMetadataError(
            f"Cannot read {what} {location}: its compression codec is not supported ({codec[:20]!r})"
        )
    try:
        return inflate(data, bounds.manifest_block_bytes)
    except _TooLargeError:
        problem = "a block inflates to more bytes than"
        raise exceeded(bounds, "manifest_block_bytes", f"{what} {location}", problem) from None
    except Exception:  # noqa: BLE001 - each codec has errors of its own, some of them without a common class
        raise InvalidMetadataError(f"Cannot read {what} {location}: a block cannot be decompressed") from None


def _copy(data: bytes | memoryview, limit: int) -> bytes:
    if len(data) > limit:
        raise _TooLargeError
    return bytes(data)


def _deflate(data: bytes | memoryview, limit: int) -> bytes:
    inflater = isal_zlib.decompressobj(_RAW_DEFLATE)
    # it doubles its buffer as the output grows, so that the limit is not allocated at once
    found: bytes = inflater.decompress(data, limit + 1)
    if len(found) > limit:
        raise _TooLargeError
    if not inflater.eof:
        raise ValueError
    return found


def _snappy(data: bytes | memoryview, limit: int) -> bytes:
    import cramjam

    body, checksum = bytes(data[:-_CHECKSUM_SIZE]), bytes(data[-_CHECKSUM_SIZE:])
    size = int(cramjam.snappy.decompress_raw_len(body))
    if size > limit:
        raise _TooLargeError
    if size > _SNAPPY_MAX_RATIO * len(body):
        raise ValueError
    found = bytes(cramjam.snappy.decompress_raw(body))
    if binascii.crc32(found).to_bytes(_CHECKSUM_SIZE, "big") != checksum:
        raise ValueError
    return found


def _zstandard(data: bytes | memoryview, limit: int) -> bytes:
    declared = zstandard.frame_content_size(data)
    if declared > limit:
        raise _TooLargeError
    reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).stream_reader(
        data, read_across_frames=True
    )
    parts, size = [], 0
    while part := reader.read(_STEP):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise _TooLargeError
    if size < declared:
        raise ValueError
    return b"".join(parts)


def _bzip2(data: bytes | memoryview, limit: int) -> bytes:
    return _in_steps(bz2.BZ2Decompressor(), data, limit)


def _xz(data: bytes | memoryview, limit: int) -> bytes:
    return _in_steps(lzma.LZMADecompressor(memlimit=128 * 1024 * 1024), data, limit)


def _in_steps(
    inflater: bz2.BZ2Decompressor | lzma.LZMADecompressor, data: bytes | memoryview, limit: int
) -> bytes:
    found = inflater.decompress(data, limit + 1)
    if len(found) > limit:
        raise _TooLargeError
    if not inflater.eof:
        raise ValueError
    return found


CODECS: dict[str, Callable[[bytes | memoryview, int], bytes]] = {
    "null": _copy,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
"""Decompressors by codec: of a block, into at most so many bytes."""
