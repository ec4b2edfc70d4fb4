"""Encrypted keys in table metadata (table specification, "Encryption Keys")."""

from __future__ import annotations

import re

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.values.encoded_json import Fragment, RawJson, decode_json, split_array
from floecat.iceberg.values.text_limits import check_numbers

__all__ = ["EncryptedKey", "check_encryption_key", "parse_encryption_key", "parse_encryption_keys"]

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")
"""Texts that the decoder of the reference implementation accepts: base64, with or without padding."""


class EncryptedKey(msgspec.Struct, frozen=True, rename="kebab"):
    """A key, encrypted by another key or by a key management service."""

    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: dict[str, str] | None = None


def parse_encryption_key(raw: RawJson) -> EncryptedKey:
    """Reads one key.

    Raises:
        IllegalArgumentError: it is not a key.
    """
    return decode_json(raw, EncryptedKey, "encryption key")


class _ReadableKey(msgspec.Struct, frozen=True, rename="kebab"):
    encrypted_key_metadata: str
    properties: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


def check_encryption_key(raw: RawJson) -> None:
    """Refuses a key that readers cannot read although its shape is right.

    Raises:
        IllegalArgumentError: its material is not base64, `properties` is null, or a number is too long for
            readers.
    """
    check_numbers(bytes(raw), "encryption key")
    key = decode_json(raw, _ReadableKey, "encryption key")
    if _BASE64.fullmatch(key.encrypted_key_metadata) is None:
        raise IllegalArgumentError("Invalid encryption key: encrypted-key-metadata is not base64")


def parse_encryption_keys(array: Fragment) -> tuple[EncryptedKey, ...]:
    """Reads the keys of a table.

    Raises:
        IllegalArgumentError: an element is not a key.
    """
    return tuple(parse_encryption_key(element) for element in split_array(array, "encryption-keys"))
