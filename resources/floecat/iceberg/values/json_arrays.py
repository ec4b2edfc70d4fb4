"""JSON arrays and documents as pieces of bytes, so that a change copies references and not megabytes.

A fragment is one encoded JSON value in one or more pieces. The last piece of an array holds at least its
closing bracket and the character before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from floecat.compression.pieces import Piece
from floecat.errors import InvalidMetadataError

__all__ = [
    "EMPTY_ARRAY",
    "Fragment",
    "Piece",
    "append_elements",
    "array_of",
    "blocks_of",
    "fragment_bytes",
    "fragment_size",
    "is_empty_array",
    "split_array",
]

Fragment: TypeAlias = tuple[Piece, ...]
"""One encoded JSON value."""

EMPTY_ARRAY: Fragment = (b"[]",)
"""`[]`."""

_BLOCK_BYTES = 128 * 1024

_WHITESPACE = b" \t\r\n"

_elements_decoder = msgspec.json.Decoder(list[msgspec.Raw])


def fragment_size(fragment: Sequence[Piece]) -> int:
    """Length in bytes."""
    return sum(map(len, fragment))


def fragment_bytes(fragment: Fragment) -> Piece:
    """The value in one piece; copies only if there are several."""
    return fragment[0] if len(fragment) == 1 else b"".join(fragment)


def array_of(elements: Iterable[Piece]) -> Fragment:
    """An array of encoded elements."""
    return (b"[" + b",".join(elements) + b"]",)


def is_empty_array(array: Fragment) -> bool:
    """Whether an array has no elements."""
    tail = array[-1]
    end = len(tail) - 2
    while end > 0 and tail[end] in _WHITESPACE:
        end -= 1
    return len(array) == 1 and tail[end] == ord("[")


def append_elements(array: Fragment, elements: Iterable[Piece]) -> Fragment:
    """The array with encoded elements at its end. Shares all its pieces but the last."""
    added = b",".join(elements)
    if not added:
        return array
    comma = b"" if is_empty_array(array) else b","
    return (*array[:-1], memoryview(array[-1])[:-1], comma + added + b"]")


def blocks_of(array: Fragment) -> Fragment | None:
    """A large array as blocks that stay the same objects while elements are appended; None for a small one.

    What was worked out for a block, its compressed form for one, so serves the documents that follow.
    """
    if fragment_size(array) < 2 * _BLOCK_BYTES:
        return None
    blocks: list[Piece] = []
    loose: list[Piece] = []
    for piece in array[:-1]:
        if isinstance(piece, bytes) and len(piece) == _BLOCK_BYTES and not loose:
            blocks.append(piece)
        else:
            loose.append(piece)
    rest = b"".join([*loose, array[-1]])
    # the last block holds the end of the array, which changes, and is never less than two bytes
    cuts = range(0, max(len(rest) - _BLOCK_BYTES - 1, 0), _BLOCK_BYTES)
    blocks.extend(rest[cut : cut + _BLOCK_BYTES] for cut in cuts)
    blocks.append(rest[len(cuts) * _BLOCK_BYTES :])
    return tuple(blocks)


def split_array(array: Fragment, name: str) -> list[msgspec.Raw]:
    """The encoded elements of a top-level array of a document.

    Raises:
        InvalidMetadataError: it is no array.
    """
    try:
        return _elements_decoder.decode(fragment_bytes(array))
    except (msgspec.MsgspecError, RecursionError):
        raise InvalidMetadataError(f"Invalid table metadata: cannot parse {name}") from None
