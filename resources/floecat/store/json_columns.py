"""JSON in text columns: levels of a namespace, lists, properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

__all__ = ["decode_properties", "decode_texts", "encode_properties", "encode_texts"]

_texts = msgspec.json.Decoder(tuple[str, ...])
_properties = msgspec.json.Decoder(dict[str, str])
_encoder = msgspec.json.Encoder()


def encode_texts(texts: Sequence[str]) -> str:
    """A list of texts as a JSON array."""
    return _encoder.encode(texts).decode()


def decode_texts(column: str) -> tuple[str, ...]:
    """The list that `encode_texts` wrote."""
    return _texts.decode(column)


def encode_properties(properties: Mapping[str, str]) -> str:
    """Properties as a JSON object, in their order."""
    return _encoder.encode(properties).decode()


def decode_properties(column: str) -> dict[str, str]:
    """The properties that `encode_properties` wrote."""
    return _properties.decode(column)
