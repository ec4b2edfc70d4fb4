"""Puffin files: blobs of any kind, uncompressed, and deletion vectors (Puffin specification).

A blob of the type `deletion-vector-v1` is a vector framed by its length and a checksum, as in Delta's own
files of vectors: writing one copies the bytes of the bitmap without decoding it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

__all__ = ["CREATED_BY", "DeletionVectorBlob", "PuffinBlob", "PuffinFile", "write_blobs", "write_puffin"]

CREATED_BY = "Floecat"
"""Writer named in the file, without a version: the same blobs must always give the same bytes."""

_MAGIC = b"PFA1"
_BITMAP_MAGIC = b"\xd1\xd3\x39\x64"
_NO_FLAGS = bytes(4)
_WORD_SIZE = 4
# Readers keep sizes in a signed 32-bit integer.
_MAX_BLOB_SIZE = (1 << 31) - 1
_POSITION_ID = 2147483645
# snapshot id and sequence number are inherited from the snapshot that adds the file
_INHERITED = -1


class PuffinBlob(msgspec.Struct, frozen=True):
    """A blob to write.

    Attributes:
        type: of the blob, as the specification names it.
        parts: its bytes, in pieces.
        fields: ids of the columns that it is about.
        snapshot_id: of which snapshot; -1 is inherited from the snapshot that adds the file.
        sequence_number: of the snapshot; -1 as above.
        properties: of the blob.
    """

    type: str
    parts: tuple[bytes, ...]
    fields: tuple[int, ...]
    snapshot_id: int = _INHERITED
    sequence_number: int = _INHERITED
    properties: dict[str, str] = {}


class DeletionVectorBlob(msgspec.Struct, frozen=True):
    """A deletion vector to write.

    Attributes:
        payload: magic number and 64-bit Roaring bitmap.
        referenced_data_file: location of the data file, exactly as in its manifest entry.
        cardinality: number of deleted rows.
    """

    payload: bytes
    referenced_data_file: str
    cardinality: int


@dataclass(frozen=True)
class PuffinFile:
    """A Puffin file.

    Attributes:
        data: the whole file.
        blobs: offset and size of each blob in bytes, in the order given: `content_offset` and
            `content_size_in_bytes` of a vector's manifest entry.
        footer_size: bytes of the footer, its first magic number included.
    """

    data: bytes
    blobs: tuple[tuple[int, int], ...]
    footer_size: int


class _BlobMetadata(msgspec.Struct, frozen=True, rename="kebab"):
    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    properties: dict[str, str]


class _FileMetadata(msgspec.Struct, frozen=True):
    blobs: list[_BlobMetadata]
    properties: dict[str, str]


def write_puffin(vectors: Sequence[DeletionVectorBlob]) -> PuffinFile:
    """Writes vectors into one file, uncompressed. The same vectors always give the same bytes.

    Several vectors in a file are legal and usual, but DuckDB (1.5.5 at least) then applies the first to all
    of their data files. It reads a table correctly only with one file per vector.

    Raises:
        ValueError: a payload does not start with the magic number of vectors, or is larger than 2 GB.
    """
    return write_blobs(
        [
            PuffinBlob(
                type="deletion-vector-v1",
                parts=_frame(vector.payload),
                fields=(_POSITION_ID,),
                properties={
                    "referenced-data-file": vector.referenced_data_file,
                    "cardinality": str(vector.cardinality),
                },
            )
            for vector in vectors
        ]
    )


def write_blobs(blobs: Sequence[PuffinBlob]) -> PuffinFile:
    """Writes blobs into one file, uncompressed. The same blobs always give the same bytes."""
    parts = [_MAGIC]
    described: list[_BlobMetadata] = []
    offset = len(_MAGIC)
    for blob in blobs:
        size = sum(map(len, blob.parts))
        parts += blob.parts
        described.append(
            _BlobMetadata(
                type=blob.type,
                fields=blob.fields,
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                offset=offset,
                length=size,
                properties=blob.properties,
            )
        )
        offset += size
    payload = msgspec.json.encode(_FileMetadata(described, {"created-by": CREATED_BY}))
    footer = [_MAGIC, payload, len(payload).to_bytes(_WORD_SIZE, "little", signed=True), _NO_FLAGS, _MAGIC]
    return PuffinFile(
        b"".join(parts + footer),
        tuple((each.offset, each.length) for each in described),
        sum(map(len, footer)),
    )


def _frame(payload: bytes) -> tuple[bytes, bytes, bytes]:
    if not payload.startswith(_BITMAP_MAGIC):
        raise ValueError("The payload is not a deletion vector")
    if len(payload) + 2 * _WORD_SIZE > _MAX_BLOB_SIZE:
        raise ValueError("The deletion vector is too large for a Puffin file")
    length, checksum = len(payload), zlib.crc32(payload)
    return length.to_bytes(_WORD_SIZE, "big"), payload, checksum.to_bytes(_WORD_SIZE, "big")
