"""Avro object container files: header, blocks and sync markers (Avro specification).

The bytes depend on the input alone: even the marker between blocks, elsewhere a random number, is computed
from the content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

import numpy as np
from isal import isal_zlib

from floecat.errors import InvalidMetadataError
from floecat.iceberg.avro.columns import varint
from floecat.iceberg.avro.string_columns import Bytes, Int64s

__all__ = [
    "BLOCK_SIZE",
    "AvroHeader",
    "Block",
    "BlockWriter",
    "check_marker",
    "encode_container",
    "read_blocks",
    "read_header",
    "same_records",
]

BLOCK_SIZE = 64 * 1024
"""Bytes of records in a block before compression, the size that other writers aim at too."""

_MAGIC = b"Obj\x01"
_MARKER_SIZE = 16
_MOST_METADATA = 10_000
_RAW_DEFLATE = -15
_CHECKSUM = Struct("<qqI")


class Block(NamedTuple):
    """Some records, compressed.

    Attributes:
        rows: how many.
        data: their bytes, compressed.
    """

    rows: int
    data: bytes | memoryview


class AvroHeader(NamedTuple):
    """The header of a file.

    Attributes:
        metadata: the file's metadata, `avro.schema` and `avro.codec` among it.
        marker: what follows each block.
        size: bytes of the header, its marker included.
    """

    metadata: dict[str, bytes]
    marker: bytes
    size: int


class BlockWriter:
    """Puts records into compressed blocks of about `BLOCK_SIZE`."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._pending: list[tuple[Bytes, Int64s]] = []
        self._pending_size = 0

    def write(self, data: Bytes, sizes: Int64s) -> None:
        """Adds records.

        Args:
            data: the records, one after the other.
            sizes: bytes of each.
        """
        self._pending.append((data, sizes))
        self._pending_size += len(data)
        if self._pending_size >= BLOCK_SIZE:
            self._flush(BLOCK_SIZE)

    def copy(self, block: Block) -> None:
        """Adds a block of another file unchanged."""
        self._flush(1)
        self._blocks.append(block)

    def finish(self) -> list[Block]:
        """All blocks, in the order in which records and blocks were added."""
        self._flush(1)
        return self._blocks

    def _flush(self, least: int) -> None:
        """Makes blocks of what is pending; one of fewer bytes than `least` waits for more."""
        if not self._pending:
            return
        data = np.concatenate([np.zeros(0, np.uint8), *(data for data, _ in self._pending)])
        sizes = np.concatenate([np.zeros(0, np.int64), *(sizes for _, sizes in self._pending)])
        ends = np.cumsum(sizes)
        record = start = 0
        while record < len(ends):
            # up to the record with which the block is full, or the last one
            stop = min(int(np.searchsorted(ends, start + BLOCK_SIZE)) + 1, len(ends))
            end = int(ends[stop - 1])
            if end - start < least:
                break
            self._blocks.append(Block(stop - record, _deflate(data[start:end].data)))
            record, start = stop, end
        self._pending = [(data[start:], sizes[record:])] if record < len(sizes) else []
        self._pending_size = len(data) - start


def encode_container(metadata: Mapping[str, bytes], blocks: Iterable[Block]) -> bytes:
    """A file of blocks that a `BlockWriter` made.

    Args:
        metadata: the file's metadata, to be written in this order; `avro.codec` is added.
        blocks: its records.
    """
    entries = {**metadata, "avro.codec": b"deflate"}
    header = [_MAGIC, varint(len(entries))]
    for key, value in entries.items():
        name = key.encode()
        header += [varint(len(name)), name, varint(len(value)), value]
    header.append(b"\x00")
    blocks = list(blocks)
    marker = _marker(header, blocks)
    parts: list[bytes | memoryview] = [*header, marker]
    for block in blocks:
        parts += (varint(block.rows) + varint(len(block.data)), block.data, marker)
    return b"".join(parts)


def check_marker(
    data: bytes, header: AvroHeader, blocks: Sequence[Block], *, location: str, what: str
) -> None:
    """Compares a whole file that `encode_container` made with its marker.

    Raises:
        InvalidMetadataError: it was damaged since, in whatever byte.
    """
    head = memoryview(data)[: header.size - _MARKER_SIZE]
    if _marker([head], blocks) != header.marker:
        raise InvalidMetadataError(f"Cannot read {what} {location}: it is damaged")


def same_records(found: bytes, made: bytes) -> bool:
    """Whether a file that is there has the metadata and records of one that was made, however compressed.

    Another processor, or another version of the library, may compress the same records in another way.

    Args:
        found: the existing file; no more of it is inflated than the other file has.
        made: what `encode_container` gave.
    """
    if found == made:
        return True
    try:
        header, blocks = _opened(found)
    except InvalidMetadataError:
        return False
    own_header, own = _opened(made)
    return (
        header.metadata == own_header.metadata
        and len(blocks) == len(own)
        and all(map(_same_block, blocks, own))
    )


def _opened(data: bytes) -> tuple[AvroHeader, list[Block]]:
    header = read_header(data, location="", what="file")
    blocks = list(read_blocks(data, header, location="", what="file"))
    check_marker(data, header, blocks, location="", what="file")
    return header, blocks


def _same_block(found: Block, made: Block) -> bool:
    if found.rows != made.rows:
        return False
    records = isal_zlib.decompress(made.data, _RAW_DEFLATE)
    inflating = isal_zlib.decompressobj(_RAW_DEFLATE)
    try:
        return bool(inflating.decompress(found.data, len(records) + 1) == records and inflating.eof)
    except isal_zlib.error:  # type: ignore[misc]  # its stubs do not tell that it is an exception
        return False


def _marker(head: Iterable[bytes | memoryview], blocks: Iterable[Block]) -> bytes:
    """A digest of the header, and of checksums of the blocks, which are most of it by far."""
    digest = blake2b(b"".join(head), digest_size=_MARKER_SIZE)
    for block in blocks:
        digest.update(_CHECKSUM.pack(block.rows, len(block.data), isal_zlib.crc32(block.data)))
    return digest.digest()


def read_header(data: bytes, *, location: str, what: str) -> AvroHeader:
    """Reads the header of a file.

    Args:
        data: the file, or as much of its beginning as holds the header.
        location: where the file is, for messages.
        what: what the file is, for messages, e.g. "manifest".

    Raises:
        InvalidMetadataError: no Avro file, or cut off.
    """
    if data[: len(_MAGIC)] != _MAGIC:
        raise _invalid(what, location)
    at = len(_MAGIC)
    metadata: dict[str, bytes] = {}
    left = _MOST_METADATA
    try:
        count, at = _read_varint(data, at)
        while count:
            left -= abs(count)  # a key may come again and again
            if left < 0:
                raise _invalid(what, location)
            if count < 0:
                # the form of a block that states its size
                _, at = _read_varint(data, at)
            for _ in range(abs(count)):
                key, at = _read_bytes(data, at)
                metadata[key.decode()], at = _read_bytes(data, at)
            count, at = _read_varint(data, at)
    except (IndexError, UnicodeDecodeError):
        raise _invalid(what, location) from None
    size = at + _MARKER_SIZE
    if len(data) < size:
        raise _invalid(what, location)
    return AvroHeader(metadata, data[at:size], size)


def read_blocks(data: bytes, header: AvroHeader, *, location: str, what: str) -> Iterator[Block]:
    """Yields the blocks of a whole file, without copying.

    Raises:
        InvalidMetadataError: the file is damaged or cut off.
    """
    view = memoryview(data)
    at = header.size
    while at < len(data):
        try:
            count, at = _read_varint(data, at)
            size, at = _read_varint(data, at)
        except IndexError:
            raise _invalid(what, location) from None
        end = at + size
        if count < 0 or size < 0 or data[end : end + _MARKER_SIZE] != header.marker:
            raise _invalid(what, location)
        yield Block(count, view[at:end])
        at = end + _MARKER_SIZE


def _deflate(data: memoryview) -> bytes:
    # At levels 1 and 2 ISA-L hashes the third byte's place from a register that holds an address on the
    # stack, so what it gives differs between threads and processes. Level 3 has other code, and is still
    # four times as fast as zlib.
    compressed: bytes = isal_zlib.compress(data, 3, _RAW_DEFLATE)
    return compressed


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    natural = shift = 0
    while True:
        byte = data[at]
        at += 1
        natural |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (natural >> 1) ^ -(natural & 1), at
        shift += 7
        if shift > 63:
            raise IndexError


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _read_varint(data, at)
    if size < 0 or at + size > len(data):
        raise IndexError
    return data[at : at + size], at + size


def _invalid(what: str, location: str) -> InvalidMetadataError:
    return InvalidMetadataError(f"Cannot read {what} {location}: not a valid Avro file, or cut off")
