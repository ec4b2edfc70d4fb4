"""Metadata documents as the store keeps them: compressed with zstd, in one frame or several.

A zstd body may be several frames one after the other (RFC 8878, section 3), so a document whose pieces are
mostly those of the version before is put together from frames that are still in memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock, local
from typing import Final, TypeAlias

import zstandard

__all__ = ["Piece", "compress", "compress_pieces", "decompress", "is_compressed"]

Piece: TypeAlias = bytes | memoryview
"""A part of a document; what it refers to must not change."""

_LEVEL: Final = 1
"""On metadata documents level 3 takes twice the time and saves no bytes."""

_MIN_FRAME_BYTES: Final = 64 * 1024
"""Smaller pieces share a frame: apart they would compress badly."""

_CACHE_BUDGET_BYTES: Final = 32 * 1024 * 1024
_MAGIC: Final = b"\x28\xb5\x2f\xfd"


class _Contexts(local):
    """Compression contexts, which cost more to make than to use and belong to one thread."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self.decompressor = zstandard.ZstdDecompressor()


class _Frames:
    """Frames of large pieces, least recently used out first. Thread-safe."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._size_bytes = 0
        self._frames: OrderedDict[tuple[int, int], tuple[Piece, bytes]] = OrderedDict()
        self._lock = Lock()

    def frame(self, piece: Piece) -> bytes:
        """The frame of a piece, which is found by identity, else by its content."""
        key = (hash(piece), len(piece))
        with self._lock:
            held, frame = self._frames.get(key, (None, b""))
        # two views are compared byte by byte and slowly, unlike two bytes objects
        if held is None or not (held is piece or bytes(held) == bytes(piece)):
            frame = compress(piece)
        if held is not piece:
            self._keep(key, piece, frame)
        return frame

    def _keep(self, key: tuple[int, int], piece: Piece, frame: bytes) -> None:
        with self._lock:
            for dropped in self._frames.pop(key, ()):
                self._size_bytes -= _held_bytes(dropped)
            self._frames[key] = (piece, frame)
            self._size_bytes += _held_bytes(piece) + len(frame)
            while self._size_bytes > self._budget_bytes:
                for dropped in self._frames.popitem(last=False)[1]:
                    self._size_bytes -= _held_bytes(dropped)


def _held_bytes(piece: Piece) -> int:
    # a view keeps all of what it is a part of
    return memoryview(piece.obj).nbytes if isinstance(piece, memoryview) else len(piece)


_contexts = _Contexts()
_frames = _Frames(_CACHE_BUDGET_BYTES)


def compress(document: Piece) -> bytes:
    """The document as one frame, with its size and a checksum."""
    return _contexts.compressor.compress(document)


def compress_pieces(pieces: Sequence[Piece]) -> bytes:
    """A document that comes in pieces, as frames; large pieces that were seen before cost nothing.

    Args:
        pieces: what the document is when joined. Pass the same objects again for parts that did not change.

    Returns:
        A body for `decompress`.
    """
    frames: list[bytes] = []
    small: list[Piece] = []
    for piece in pieces:
        if len(piece) < _MIN_FRAME_BYTES:
            small.append(piece)
            continue
        if small:
            frames.append(compress(b"".join(small)))
            small.clear()
        frames.append(_frames.frame(piece))
    if small or not frames:
        frames.append(compress(b"".join(small)))
    return b"".join(frames)


def decompress(body: bytes) -> bytes:
    """The document of a body that `compress` or `compress_pieces` made.

    Raises:
        ValueError: it is no such body, or damaged.
    """
    documents: list[bytes] = []
    try:
        while body or not documents:
            frame = _contexts.decompressor.decompressobj()
            documents.append(frame.decompress(body))
            if not frame.eof:
                raise ValueError("a truncated zstd body")
            body = frame.unused_data
    except zstandard.ZstdError as error:
        raise ValueError("not a zstd body, or a damaged one") from error
    return documents[0] if len(documents) == 1 else b"".join(documents)


def is_compressed(body: bytes) -> bool:
    """Whether the bytes begin like a zstd frame."""
    return body[:4] == _MAGIC
