"""Gzip files of any writer, inflated in steps and within a bound (RFC 1952)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from floecat.errors import FloecatError, InvalidMetadataError, PayloadTooLargeError
from floecat.working_memory import take_memory

__all__ = ["gunzip", "is_gzip"]

_MAGIC: Final = b"\x1f\x8b"
_GZIP: Final = 31

_STEP_BYTES: Final = 32 * 1024
"""Bytes of the compressed file at once."""

_CONTENT_BYTES: Final = 1 << 20
"""Bytes of the content at once: other threads wait while a piece is copied."""

_MEMBER_BYTES: Final = 8 * 1024
"""The least that a member counts: each costs an inflater, and a file may consist of empty members."""


def is_gzip(data: bytes) -> bool:
    """Whether a file begins like a gzip file."""
    return data.startswith(_MAGIC)


def gunzip(data: bytes, name: str, *, max_bytes: int) -> bytes:
    """The content of all members, which may follow one another (RFC 1952 section 2.2).

    Other bytes after a member are padding, which other readers skip too.

    Args:
        name: the file in messages, e.g. "metadata file s3://b/x".
        max_bytes: `floecat.limits.inflated-file-bytes`.

    Raises:
        InvalidMetadataError: the file is broken or ends early.
        PayloadTooLargeError: the content is larger than the bound.
        UnavailableError: other requests use all of the working memory.
    """
    contents: list[bytes] = []
    counted = 0
    try:
        for content, cost in _steps(data, name):
            counted += cost
            if counted > max_bytes:
                raise PayloadTooLargeError(
                    f"Cannot read {name}: larger than {max_bytes} bytes when inflated"
                    " (floecat.limits.inflated-file-bytes)"
                )
            contents.append(content)
            take_memory(len(content))
    except FloecatError:
        # the frame lives as long as the error, in cycles of futures until the next garbage collection
        content = b""
        contents.clear()
        raise
    return contents[0] if len(contents) == 1 else b"".join(contents)


def _steps(data: bytes, name: str) -> Iterator[tuple[bytes, int]]:
    """The content piece by piece, each with what it counts."""
    view = memoryview(data)
    position = 0
    while data.startswith(_MAGIC, position):
        inflater = zlib.decompressobj(wbits=_GZIP)
        lacking = _MEMBER_BYTES
        while not inflater.eof:
            step: bytes | memoryview = inflater.unconsumed_tail
            if not step:
                step = view[position : position + _STEP_BYTES]
                position += len(step)
            try:
                content = inflater.decompress(step, _CONTENT_BYTES)
            except zlib.error:
                raise InvalidMetadataError(f"Cannot read {name}: broken gzip data") from None
            if not (step or content or inflater.eof):
                raise InvalidMetadataError(f"Cannot read {name}: gzip data ends early")
            lacking -= len(content)
            yield content, len(content) + (max(lacking, 0) if inflater.eof else 0)
        position -= len(inflater.unused_data)
