"""JSON as this package handles it: decoded where it must be looked at, carried as bytes where not."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from floecat.errors import IllegalArgumentError

__all__ = [
    "MAX_INT32",
    "Int32",
    "Int64",
    "JsonObject",
    "RawJson",
    "WithFields",
    "decode_fields",
    "decode_json",
    "describe_decode_error",
    "encode_json",
    "is_null",
    "take_json",
]

MAX_INT32 = 2**31 - 1
"""The highest id that a Java `int` holds."""

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=MAX_INT32)]
"""Ids of fields, schemas, specs and orders: what a Java `int` holds."""

Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Snapshot ids, sequence numbers, row ids and times: what a Java `long` holds."""

JsonObject: TypeAlias = dict[str, Any]
"""A decoded JSON object."""

RawJson: TypeAlias = msgspec.Raw | bytes | memoryview
"""One JSON value, encoded."""

T = TypeVar("T")


class WithFields(msgspec.Struct):
    """What a partition spec and a sort order must hold, though their absence has a plain meaning."""

    fields: list[msgspec.Raw]


_encoder = msgspec.json.Encoder()
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode_json(raw: RawJson, type: type[T], what: str) -> T:
    """Decodes one JSON value into `type`.

    Args:
        raw: the encoded value.
        type: what to decode into.
        what: how a message calls the value, e.g. "schema".

    Raises:
        IllegalArgumentError: malformed, or of another shape. The message names the place, not the content.
    """
    try:
        return msgspec.json.decode(raw, type=type)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise IllegalArgumentError(f"Invalid {what}: {describe_decode_error(error)}") from None


def decode_fields(raw: RawJson, what: str) -> dict[str, msgspec.Raw]:
    """Splits a JSON object into its fields, in order; the values stay encoded.

    Raises:
        IllegalArgumentError: malformed, or no object.
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
    view = memoryview(raw)
    return len(view) == 4 and bytes(view) == b"null"


def describe_decode_error(error: Exception) -> str:
    """Why a value could not be decoded, for a message: names the place in it, never quotes it."""
    if isinstance(error, UnicodeError):
        return "not valid UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
