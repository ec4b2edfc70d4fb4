"""JSON in text columns: levels of a namespace, lists, properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from floecat.errors import BadRequestError

__all__ = ["decode_properties", "decode_texts", "encode_properties", "encode_rows", "encode_texts"]

_texts = msgspec.json.Decoder(tuple[str, ...])
_properties = msgspec.json.Decoder(dict[str, str])
_encoder = msgspec.json.Encoder()


def encode_texts(texts: Sequence[str]) -> str:
    """A list of texts as a JSON array.

    Raises:
        BadRequestError: a text is not valid Unicode.
    """
    return _encode(texts)


def decode_texts(column: str) -> tuple[str, ...]:
    """The list that `encode_texts` wrote."""
    return _texts.decode(column)


def encode_properties(properties: Mapping[str, str]) -> str:
    """Properties as a JSON object, in their order.

    Raises:
        BadRequestError: a key or a value is not valid Unicode.
    """
    return _encode(properties)


def decode_properties(column: str) -> dict[str, str]:
    """The properties that `encode_properties` wrote."""
    return _properties.decode(column)


def encode_rows(rows: Sequence[Sequence[str | None]]) -> str:
    """Rows of texts as a JSON array of arrays, for a statement that takes them as one parameter.

    Raises:
        BadRequestError: a text is not valid Unicode.
    """
    return _encode(rows)


def _encode(value: object) -> str:
    try:
        return _encoder.encode(value).decode()
    except UnicodeError:
        raise BadRequestError("A value cannot be stored: it is not valid Unicode text") from None
