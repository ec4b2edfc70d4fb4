"""Documents in pieces; a piece that was compressed before is not compressed again.

A commit leaves most of a large document as it was, the very objects included. The compressed
form of a piece is kept, so that the next document costs as much as its new pieces.

A gzip file of such a document is one member, put together from deflated blocks (RFC 1951, RFC 1952). Each
block is deflated by itself and ends on a byte, so that it fits between any others. All are in one member,
since some readers stop after the first.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from isal import isal_zlib

from floecat.memory_budget import LruCache

__all__ = ["Piece", "PieceCompressor", "gzip_blocks", "gzip_member", "runs"]

C = TypeVar("C")

Piece: TypeAlias = bytes | memoryview
"""A part of a document; what it refers to must not change."""

_MIN_BYTES: Final = 64 * 1024
"""Smaller pieces go together: apart they would compress badly."""

_SHARE_OF_LARGEST: Final = 4

_LEVEL: Final = 3
"""Level of compression: on metadata documents level 6 takes twice the time and saves a tenth."""

_RAW_DEFLATE: Final = -15

_HEADER: Final = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
"""Header without a time and the system it was made on: the same document gives the same bytes."""

_LAST_BLOCK: Final = b"\x03\0"
_TRAILER: Final = Struct("<II")


def runs(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """The large pieces as they are, and what lies between them joined; nothing is empty."""
    if sum(map(len, pieces)) < _MIN_BYTES:
        yield from _joined(pieces)
        return
    small: list[Piece] = []
    for piece in pieces:
        if len(piece) < _MIN_BYTES:
            small.append(piece)
            continue
        yield from _joined(small)
        small.clear()
        yield piece
    yield from _joined(small)


class PieceCompressor(Generic[C]):
    """Compresses documents piece by piece, and keeps the compressed form of large ones. Thread-safe."""

    def __init__(
        self, compress: Callable[[Piece], C], size_of: Callable[[C], int], *, budget_bytes: int
    ) -> None:
        """Sets how a piece is compressed.

        Args:
            compress: makes a part of the result that stands by itself.
            size_of: length of such a part, in bytes.
            budget_bytes: of all pieces that are kept, with their compressed forms.
        """
        self._compress = compress
        self._size_of = size_of
        self._largest_bytes = budget_bytes // _SHARE_OF_LARGEST
        self._kept: LruCache[tuple[bytes, C]] = LruCache(budget_bytes)

    @property
    def kept_bytes(self) -> int:
        """The bytes that are kept, of pieces and their compressed forms."""
        return self._kept.size

    def resize(self, budget_bytes: int) -> None:
        """Changes how many bytes are kept."""
        self._largest_bytes = budget_bytes // _SHARE_OF_LARGEST
        self._kept.resize(budget_bytes)

    def parts(self, pieces: Sequence[Piece]) -> Iterator[C]:
        """The compressed parts of a document, in order.

        Args:
            pieces: what the document is when joined; the same objects again for parts that did not change.
        """
        for run in runs(pieces):
            # what is small changes every time; the largest are whole documents that were not cut
            kept = _MIN_BYTES <= len(run) <= self._largest_bytes
            yield self._part(run) if kept else self._compress(run)

    def _part(self, piece: Piece) -> C:
        """The part of a large piece, which is found by identity, else by its content."""
        key = (hash(piece), len(piece))
        held = self._kept.get(key)
        if held is not None and held[0] is piece:
            return held[1]
        # a view would keep all of what it is a part of, and is compared byte by byte and slowly
        content = bytes(piece)
        part = held[1] if held is not None and held[0] == content else self._compress(content)
        self._kept.put(key, (content, part), len(content) + self._size_of(part))
        return part


class _Deflated(NamedTuple):
    """A piece as blocks of which none is the last.

    Attributes:
        data: the blocks.
        crc32: checksum of the piece.
        size_bytes: length of the piece.
    """

    data: bytes
    crc32: int
    size_bytes: int


def gzip_member(pieces: Sequence[Piece]) -> bytes:
    """A document as a gzip file; large pieces that were seen before cost nothing.

    Args:
        pieces: what the document is when joined; the same objects again for parts that did not change.
    """
    blocks = [_HEADER]
    crc32 = size_bytes = 0
    for part in gzip_blocks.parts(pieces):
        blocks.append(part.data)
        crc32 = isal_zlib.crc32_combine(crc32, part.crc32, part.size_bytes)
        size_bytes += part.size_bytes
    return b"".join([*blocks, _LAST_BLOCK, _TRAILER.pack(crc32, size_bytes & 0xFFFFFFFF)])


def _deflate(piece: Piece) -> _Deflated:
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW_DEFLATE)
    data = deflater.compress(piece) + deflater.flush(zlib.Z_SYNC_FLUSH)
    return _Deflated(data, isal_zlib.crc32(piece), len(piece))


gzip_blocks = PieceCompressor(_deflate, lambda part: len(part.data), budget_bytes=0)
"""Blocks of all documents of the process. Keeps nothing until the composition root resizes it."""


def _joined(pieces: Sequence[Piece]) -> Sequence[Piece]:
    joined = b"".join(pieces)
    return (joined,) if joined else ()
