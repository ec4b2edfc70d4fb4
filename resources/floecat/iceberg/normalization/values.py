"""Rewrites encoded JSON values field by field; unchanged values keep their bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.values.encoded_json import (
    RawJson,
    array_of,
    decode_fields,
    decode_json,
    encode_json,
    is_null,
)

__all__ = [
    "Rewrite",
    "each",
    "each_value",
    "encode_object",
    "integer",
    "is_string",
    "keep",
    "lower",
    "object_of",
    "renamed",
    "rewritten",
    "text",
]

Rewrite: TypeAlias = Callable[[RawJson], RawJson]
"""Returns a value in the form that readers expect: the same object if it already is."""

_WHOLE = re.compile(rb'"?(-?(?:0|[1-9][0-9]*))(?:\.0+)?"?')


def keep(raw: RawJson) -> RawJson:
    """A value that is dropped only if it is null."""
    return raw


def integer(raw: RawJson) -> RawJson:
    """An integer, also one written as text or with a fraction of zeros."""
    match = _WHOLE.fullmatch(raw)
    return raw if match is None or len(match[1]) == len(memoryview(raw)) else match[1]


def text(raw: RawJson) -> RawJson:
    """A string; a number or boolean becomes its text."""
    data = bytes(raw)
    return raw if data[:1] in (b'"', b"{", b"[") else b'"' + data + b'"'


def lower(raw: RawJson) -> RawJson:
    """A string in lower case."""
    return renamed(raw, str.lower)


def is_string(raw: RawJson) -> bool:
    """Whether the encoded value is a string."""
    return bytes(memoryview(raw)[:1]) == b'"'


def renamed(raw: RawJson, change: Callable[[str], str]) -> RawJson:
    """A string with its text changed; other values are left for the parser to refuse."""
    if not is_string(raw):
        return raw
    before = decode_json(raw, str, "string")
    after = change(before)
    return raw if after == before else encode_json(after)


def object_of(shape: Mapping[str, Rewrite]) -> Rewrite:
    """An object with these fields; nulls among them are dropped. Other fields stay as they are."""

    def rewrite(raw: RawJson) -> RawJson:
        fields = decode_fields(raw, "object")
        made = rewritten(fields, shape)
        return raw if made is fields else encode_object(made)

    return rewrite


def encode_object(fields: Mapping[str, RawJson]) -> bytes:
    """An object of encoded values."""
    return encode_json({name: msgspec.Raw(value) for name, value in fields.items()})


def rewritten(
    fields: Mapping[str, RawJson], shape: Mapping[str, Rewrite], nullable: str = ""
) -> Mapping[str, RawJson]:
    """The fields of an object, see `object_of`; the same mapping if nothing changes.

    Args:
        fields: in order.
        shape: the rewrite of each known field.
        nullable: a field whose null has a meaning.

    Raises:
        IllegalArgumentError: a field cannot be rewritten; the message begins with its name.
    """
    made: dict[str, RawJson] = {}
    for name, value in fields.items():
        if name not in shape or (name == nullable and is_null(value)):
            made[name] = value
        elif not is_null(value):
            try:
                made[name] = shape[name](value)
            except IllegalArgumentError as error:
                raise IllegalArgumentError(f"{name}: {error.message}") from None
    return fields if _same(made, fields) else made


def _same(made: Mapping[str, RawJson], fields: Mapping[str, RawJson]) -> bool:
    return len(made) == len(fields) and all(value is fields[name] for name, value in made.items())


def each(rewrite: Rewrite) -> Rewrite:
    """An array whose elements are rewritten."""

    def rewrite_all(raw: RawJson) -> RawJson:
        elements = decode_json(raw, list[msgspec.Raw], "array")
        made = [rewrite(element) for element in elements]
        if all(new is old for new, old in zip(made, elements, strict=True)):
            return raw
        return array_of(bytes(element) for element in made)[0]

    return rewrite_all


def each_value(rewrite: Rewrite) -> Rewrite:
    """An object with any keys whose values are rewritten; nulls are dropped."""

    def rewrite_all(raw: RawJson) -> RawJson:
        fields = decode_fields(raw, "object")
        made = {name: rewrite(value) for name, value in fields.items() if not is_null(value)}
        return raw if _same(made, fields) else encode_object(made)

    return rewrite_all
