"""Deletion vectors: their locations, checks of their bytes, and their positions.

A vector is a bitmap of the rows of one data file that are deleted. It is in the log itself (storage type
`i`), or in a file of one or more of them, each framed by its length and a checksum (`u`, `p`). Whatever the
storage, its *payload* is the same: a magic number and a 64-bit Roaring bitmap in the portable format, which
pyroaring reads. It validates each container but accepts bytes after the bitmap, wrong offsets and wrong
counts of run containers. These change no row: size, checksum and number of rows are compared with the log as
well.

Every fault is an `InvalidDeltaTableError` that names the data file and the file of the vector, and never
quotes content.

Source: Delta protocol, "Deletion Vectors" and "Deletion Vector Format"; RoaringFormatSpec, "Extension for
64-bit implementations"; ZeroMQ RFC 32, "Z85".
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote
from uuid import UUID

import msgspec
from pyroaring import BitMap64

from floecat.errors import InvalidDeltaTableError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "VERSION_RANGE",
    "DeletionVector",
    "check",
    "check_file_version",
    "decode_z85",
    "file_of",
    "framed_range",
    "inline_payload",
    "position_chunks",
    "unframe",
]

VERSION_RANGE: Final = (0, 1)
"""Offset and length, in bytes, of the format version in a file of vectors."""

_FILE_VERSION = b"\x01"
_MAGIC = (1681511377).to_bytes(4, "little")
# Of an earlier layout that the protocol does not describe, though its own example of an inline vector has it.
_OLD_MAGICS = ((1681511376).to_bytes(4, "little"), (1681511376).to_bytes(4, "big"))
_NOTHING_DELETED = _MAGIC + bytes(8)
_ENCODED_UUID_LENGTH = 20
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:/")
_WORD = struct.Struct(">I")
# The largest upper half of a position that the Java readers of Delta and Iceberg accept.
_MAX_KEY = (1 << 31) - 2
# Bounds a chunk: a bitmap of a few kilobytes can hold billions of positions.
_CHUNK_POSITIONS = 1 << 20

_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS: Final = bytes(_Z85.index(code) if code in _Z85 else 255 for code in range(256))
_POWERS: Final = (85**4, 85**3, 85**2, 85, 1)
_GROUPS_AT_ONCE: Final = 1 << 16


class DeletionVector(msgspec.Struct, frozen=True):
    """The descriptor of a deletion vector in an action.

    Attributes:
        storage_type: `u`, `p` or `i`.
        path_or_inline_dv: a UUID in Z85 behind an optional folder, an absolute URI, or the payload in Z85.
        offset: where the vector's frame starts in its file, in bytes; None for inline ones.
        size_bytes: size of the payload.
        cardinality: number of deleted rows.
    """

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """Distinguishes the vectors of one data file."""
        identifier = self.storage_type + self.path_or_inline_dv
        return identifier if self.offset is None else f"{identifier}@{self.offset}"

    @property
    def is_inline(self) -> bool:
        """Whether the log holds the vector itself, without a file."""
        return self.storage_type == "i"


def file_of(vector: DeletionVector, table_location: str, data_file: str) -> str:
    """Returns the location of the file that holds a vector.

    The caller checks that the location is allowed: an absolute path can be anywhere.

    Args:
        vector: one that is not inline.
        table_location: location of the table's root.
        data_file: the file whose rows it deletes, for messages.

    Raises:
        InvalidDeltaTableError: the storage type is unknown, the name is not a UUID, or the path is not
            absolute or leads out of the table.
    """
    try:
        return _location(vector, table_location)
    except ValueError as error:
        raise _fault(vector, data_file, error) from None


def framed_range(vector: DeletionVector, data_file: str) -> tuple[int, int]:
    """Returns offset and length, in bytes, of a vector's frame in its file.

    Raises:
        InvalidDeltaTableError: offset or size is negative.
    """
    offset = vector.offset or 0
    if offset < 0 or vector.size_bytes < 0:
        raise _fault(vector, data_file, "its offset or its size is negative")
    return offset, vector.size_bytes + 2 * _WORD.size


def check_file_version(data: bytes, vector: DeletionVector, data_file: str) -> None:
    """Checks the format version of a file of vectors.

    Args:
        data: the bytes at `VERSION_RANGE`.
        vector: one of those in the file.
        data_file: the file whose rows it deletes.

    Raises:
        InvalidDeltaTableError: the file has another version than 1, or is empty.
    """
    if data != _FILE_VERSION:
        raise _fault(vector, data_file, "the format version of its file is not 1")


def unframe(data: bytes, vector: DeletionVector, data_file: str) -> bytes:
    """Returns the payload out of the frame of a vector.

    Args:
        data: the bytes at `framed_range`.
        data_file: the file whose rows it deletes, for messages.

    Raises:
        InvalidDeltaTableError: the file ends too early, the frame has another size than the log says, or the
            checksum is wrong.
    """
    end = _WORD.size + vector.size_bytes
    if len(data) != end + _WORD.size:
        raise _fault(vector, data_file, "its file ends too early")
    if _WORD.unpack_from(data) != (vector.size_bytes,):
        raise _fault(vector, data_file, "its size in the file is not the one in the log")
    payload = data[_WORD.size : end]
    if _WORD.unpack_from(data, end) != (zlib.crc32(payload),):
        raise _fault(vector, data_file, "its checksum is wrong")
    return payload


def inline_payload(vector: DeletionVector, data_file: str) -> bytes:
    """Returns the payload of an inline vector.

    Raises:
        InvalidDeltaTableError: the text is not Z85, or its size is not the one in the log.
    """
    if not (vector.path_or_inline_dv or vector.size_bytes or vector.cardinality):
        return _NOTHING_DELETED  # how a vector without rows is written
    try:
        padded = decode_z85(vector.path_or_inline_dv)
    except ValueError as error:
        raise _fault(vector, data_file, error) from None
    # Z85 encodes whole words: the writer padded the last one.
    if not 0 <= len(padded) - vector.size_bytes < _WORD.size:
        raise _fault(vector, data_file, "its size is not the one in the log")
    return padded[: vector.size_bytes]


def check(payload: bytes, vector: DeletionVector, data_file: str, rows: int | None = None) -> None:
    """Checks a payload.

    A checksum proves that the payload was transported intact, not that it was right. The payload is copied to
    Iceberg, whose readers fail on a wrong one or delete other rows.

    Args:
        payload: the vector's payload.
        data_file: the file whose rows it deletes, for messages.
        rows: number of rows in the data file; None if unknown.

    Raises:
        InvalidDeltaTableError: it is not a bitmap, its number of rows is not the one in the log, or it
            deletes rows that the data file does not have.
    """
    bitmap = _bitmap(payload, vector, data_file)
    if len(bitmap) != vector.cardinality:
        raise _fault(vector, data_file, "its number of rows is not the one in the log")
    if rows is not None and bitmap and (last := bitmap.max()) >= rows:
        raise _fault(
            vector, data_file, f"it deletes row {last}, counted from 0, and the file has {rows} rows"
        )


def position_chunks(
    payload: bytes, vector: DeletionVector, data_file: str
) -> Iterator[npt.NDArray[np.int64]]:
    """Yields the positions of the deleted rows in ascending order, counted from 0, at most 2**20 at a time.

    Args:
        payload: the vector's payload.
        data_file: the file whose rows it deletes, for messages.

    Raises:
        InvalidDeltaTableError: it is not a bitmap.
    """
    import numpy as np

    bitmap = _bitmap(payload, vector, data_file)
    end, start = bitmap.max() + 1 if bitmap else 0, 0
    while start < end:
        start = bitmap.next_set_bit(start)
        chunk = bitmap & BitMap64(range(start, start + _CHUNK_POSITIONS))
        yield np.frombuffer(chunk.to_array(), np.int64)
        start += _CHUNK_POSITIONS


def _bitmap(payload: bytes, vector: DeletionVector, data_file: str) -> BitMap64:
    magic = payload[: len(_MAGIC)]
    if magic in _OLD_MAGICS:
        raise _fault(
            vector,
            data_file,
            "it has the magic number of an older format, 1681511376 instead of 1681511377",
        )
    if magic != _MAGIC:
        raise _fault(vector, data_file, "its magic number is not 1681511377")
    try:
        bitmap = BitMap64.deserialize(payload[len(_MAGIC) :])
    except (ValueError, IndexError):  # an IndexError for no bytes at all
        raise _fault(vector, data_file, "its bitmap is damaged") from None
    if bitmap and bitmap.max() >> 32 > _MAX_KEY:
        raise _fault(vector, data_file, "it deletes row numbers that readers do not support")
    return bitmap


def _location(vector: DeletionVector, table_location: str) -> str:
    match vector.storage_type:
        case "u":
            return f"{table_location.rstrip('/')}/{_relative_path(vector.path_or_inline_dv)}"
        case "p":
            return _absolute_path(vector.path_or_inline_dv)
        case _:
            raise ValueError("its storage type is not u, p or i")


def _relative_path(text: str) -> str:
    folder, name = text[:-_ENCODED_UUID_LENGTH], text[-_ENCODED_UUID_LENGTH:]
    try:
        file = f"deletion_vector_{UUID(bytes=decode_z85(name))}.bin"
    except ValueError:
        raise ValueError("the name of its file is not a UUID in Z85") from None
    if not folder:
        return file
    if any(part in ("", ".", "..") for part in folder.split("/")):
        raise ValueError("its folder is not one of the table's")
    return f"{folder}/{file}"


def _absolute_path(text: str) -> str:
    try:
        path = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("the path of its file is not UTF-8") from None
    if _ABSOLUTE.match(path) is None:
        raise ValueError("the path of its file is not absolute")
    return path


def _fault(vector: DeletionVector, data_file: str, reason: object) -> InvalidDeltaTableError:
    if vector.is_inline:
        return InvalidDeltaTableError(f"Invalid inline deletion vector of {data_file}: {reason}")
    try:
        place = f" in {_location(vector, '.')}"
    except ValueError:
        place = ""
    return InvalidDeltaTableError(f"Invalid deletion vector of {data_file}{place}: {reason}")


def decode_z85(text: str) -> bytes:
    """Reads Z85: four bytes of every five characters.

    The library of Delta's Rust kernel extends the standard: a last group that starts with `#`, invalid in
    Z85, stands for fewer than four bytes, one less per `#`. It is read too.

    Raises:
        ValueError: the length is not a multiple of five, a character is not in the alphabet, or a group of
            five exceeds its bytes. The message does not quote the text.
    """
    if len(text) % 5:
        raise ValueError("the length of the Z85 text is not a multiple of 5")
    tail = text[-5:]
    digits = tail.lstrip("#")
    missing = len(tail) - len(digits)
    try:
        filled = text[:-5] + digits.rjust(len(tail), "0")
        data = _words(filled.encode("ascii").translate(_DIGITS))
    except ValueError:
        # a UnicodeEncodeError quotes the text
        raise ValueError("the text is not Z85") from None
    if missing > 3 or any(data[-4 : missing - 4]):
        raise ValueError("the text is not Z85")
    return data[:-4] + data[missing - 4 :]


def _words(digits: bytes) -> bytes:
    """Four bytes of every five digits; some at a time, as a vector may be all of a log."""
    import numpy as np

    groups = np.frombuffer(digits, np.uint8).reshape(-1, len(_POWERS))
    found = bytearray()
    for start in range(0, len(groups), _GROUPS_AT_ONCE):
        some = groups[start : start + _GROUPS_AT_ONCE]
        words = some.astype(np.int64) @ np.array(_POWERS)
        if some.max() >= len(_Z85) or words.max() >> 32:
            raise ValueError("the text is not Z85")
        found += words.astype(">u4").tobytes()
    return bytes(found)
