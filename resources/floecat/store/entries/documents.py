"""Metadata documents as the store keeps them: compressed with zstd, in one frame or several.

A zstd body may be several frames one after the other (RFC 8878, section 3), so a document whose pieces are
mostly those of the version before is put together from frames that are still in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import local
from typing import Final

import zstandard

from floecat.compression.pieces import Piece, PieceCompressor
from floecat.working_memory import take_memory

__all__ = [
    "compress",
    "compress_pieces",
    "decompress",
    "has_metadata",
    "is_compressed",
    "no_metadata_location",
    "stored_frames",
]

_LEVEL: Final = 1
"""Level of compression: on metadata documents level 3 takes twice the time and saves no bytes."""

_MAGIC: Final = b"\x28\xb5\x2f\xfd"

_NO_FILE: Final = "unread.metadata.json"


class _Contexts(local):
    """Compression contexts, which cost more to make than to use and belong to one thread."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self.decompressor = zstandard.ZstdDecompressor()


_contexts = _Contexts()


def compress(document: Piece) -> bytes:
    """The document as one frame, with its size and a checksum."""
    return _contexts.compressor.compress(document)


stored_frames = PieceCompressor(compress, len, budget_bytes=0)
"""Frames of all documents of the process. Keeps nothing until the composition root resizes it."""


def compress_pieces(pieces: Sequence[Piece]) -> bytes:
    """A document that comes in pieces, as frames; large pieces that were seen before cost nothing.

    Args:
        pieces: what the document is when joined; the same objects again for parts that did not change.

    Returns:
        A body for `decompress`.
    """
    return b"".join(stored_frames.parts(pieces)) or compress(b"")


def decompress(body: bytes) -> bytes:
    """The document of a body that `compress` or `compress_pieces` made.

    Raises:
        ValueError: it is no such body, or damaged.
    """
    documents: list[bytes] = []
    try:
        while body or not documents:
            take_memory(max(0, zstandard.frame_content_size(body)))
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


def no_metadata_location(folder: str) -> str:
    """The metadata location of an entry without metadata, as of a Delta table whose log was never read.

    There is no such file, and clients never see the location.

    Args:
        folder: where the metadata files of the table will be written.
    """
    return f"{folder}/{_NO_FILE}"


def has_metadata(metadata_location: str) -> bool:
    """Whether the entry with this metadata location has metadata."""
    return not metadata_location.endswith(f"/{_NO_FILE}")
