"""JSON in encoded form: values are decoded only where needed, and arrays are kept in pieces.

A change to a document copies references, not megabytes. A fragment is one encoded JSON value in one or
more pieces; the last piece of an array holds at least its closing bracket and the character before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import msgspec

from floecat.compression.pieces import Piece
from floecat.errors import IllegalArgumentError, InvalidMetadataError

__all__ = [
    "EMPTY_ARRAY",
    "MAX_INT32",
    "NULL",
    "Fragment",
    "Int32",
    "Int64",
    "JsonObject",
    "KeyedElements",
    "Piece",
    "RawJson",
    "WithFields",
    "append_elements",
    "array_of",
    "blocks_of",
    "decode_fields",
    "decode_json",
    "describe_decode_error",
    "encode_json",
    "fragment_bytes",
    "fragment_size",
    "is_empty_array",
    "is_null",
    "split_array",
    "take_json",
]

MAX_INT32 = 2**31 - 1
"""The largest Java `int`."""

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=MAX_INT32)]
"""A Java `int`: ids of fields, schemas, specs and orders."""

Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A Java `long`: snapshot ids, sequence numbers, row ids and times."""

JsonObject: TypeAlias = dict[str, Any]
"""A decoded JSON object."""

RawJson: TypeAlias = msgspec.Raw | bytes | memoryview
"""A JSON value, encoded."""

T = TypeVar("T")


class WithFields(msgspec.Struct):
    """Fails to decode without `fields`, which a partition spec and a sort order must have."""

    fields: list[msgspec.Raw]


_encoder = msgspec.json.Encoder()
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode_json(raw: RawJson, type: type[T], what: str) -> T:
    """Decodes one JSON value into `type`.

    Args:
        raw: the encoded value.
        type: what to decode into.
        what: the name of the value in messages, e.g. "schema".

    Raises:
        IllegalArgumentError: malformed, or of another type. The message names the place, not the content.
    """
    try:
        return msgspec.json.decode(raw, type=type)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise IllegalArgumentError(f"Invalid {what}: {describe_decode_error(error)}") from None


def decode_fields(raw: RawJson, what: str) -> dict[str, msgspec.Raw]:
    """Splits a JSON object into its fields, in order; the values stay encoded.

    Raises:
        IllegalArgumentError: malformed, or not an object.
    """
    try:
        return _fields_decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise IllegalArgumentError(f"Invalid {what}: {describe_decode_error(error)}") from None


def encode_json(value: object) -> bytes:
    """Encodes a value; `msgspec.Raw` parts are copied as they are."""
    return _encoder.encode(value)


def take_json(raw: RawJson, what: str) -> bytes:
    """Copies an encoded value out of the message it came in.

    Raises:
        IllegalArgumentError: not valid UTF-8, which decoding into `msgspec.Raw` does not check.
    """
    data = bytes(raw)
    try:
        data.decode()
    except UnicodeDecodeError:
        raise IllegalArgumentError(f"Invalid {what}: not valid UTF-8") from None
    return data


def is_null(raw: RawJson) -> bool:
    """Whether the encoded value is `null`."""
    return (raw if isinstance(raw, bytes) else memoryview(raw)) == b"null"


def describe_decode_error(error: Exception) -> str:
    """The reason why decoding failed, for a message: names the place in the value, never quotes it."""
    if isinstance(error, UnicodeError):
        return "not valid UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


Fragment: TypeAlias = tuple[Piece, ...]
"""A JSON value, encoded, in pieces."""

EMPTY_ARRAY: Fragment = (b"[]",)
"""`[]`."""

NULL: Fragment = (b"null",)
"""`null`."""

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

    So the compressed form of a block, for example, serves the following documents too.
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
    # the last block holds the end of the array, which changes; it has at least two bytes
    cuts = range(0, max(len(rest) - _BLOCK_BYTES - 1, 0), _BLOCK_BYTES)
    blocks.extend(rest[cut : cut + _BLOCK_BYTES] for cut in cuts)
    blocks.append(rest[len(cuts) * _BLOCK_BYTES :])
    return tuple(blocks)


def split_array(array: Fragment, name: str) -> list[msgspec.Raw]:
    """The encoded elements of a top-level array of a document.

    Raises:
        InvalidMetadataError: it is not an array.
    """
    try:
        return _elements_decoder.decode(fragment_bytes(array))
    except (msgspec.MsgspecError, RecursionError):
        raise InvalidMetadataError(f"Invalid table metadata: cannot parse {name}") from None


K = TypeVar("K")


class KeyedElements(Generic[K]):
    """Encoded elements of an array by key, in order; several may share a key. No change costs a scan."""

    def __init__(self, elements: Iterable[tuple[K, Piece]]) -> None:
        self._next_place = count()
        self._elements: dict[int, Piece] = {}
        self._places: dict[K, list[int]] = {}
        for key, element in elements:
            self.add(key, element)

    def get(self, key: K) -> list[Piece]:
        """The elements with a key."""
        return [self._elements[place] for place in self._places.get(key, ())]

    def add(self, key: K, element: Piece) -> None:
        """Adds an element at the end."""
        place = next(self._next_place)
        self._elements[place] = element
        self._places.setdefault(key, []).append(place)

    def remove(self, key: K) -> bool:
        """Removes the elements with a key; returns whether there were any."""
        places = self._places.pop(key, [])
        for place in places:
            del self._elements[place]
        return bool(places)

    def array(self) -> Fragment:
        """All elements."""
        return array_of(self._elements.values())
