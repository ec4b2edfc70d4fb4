"""Encrypted keys in table metadata (table specification, "Encryption Keys")."""

from __future__ import annotations

import msgspec

from floecat.iceberg.json_arrays import Fragment, split_array
from floecat.iceberg.json_values import RawJson, decode_json

__all__ = ["EncryptedKey", "parse_encryption_key", "parse_encryption_keys"]


class EncryptedKey(msgspec.Struct, frozen=True, rename="kebab"):
    """A key, encrypted by another or by a key management service. Its material is not looked at."""

    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: dict[str, str] | None = None


def parse_encryption_key(raw: RawJson) -> EncryptedKey:
    """Reads one key.

    Raises:
        IllegalArgumentError: it is none.
    """
    return decode_json(raw, EncryptedKey, "encryption key")


def parse_encryption_keys(array: Fragment) -> tuple[EncryptedKey, ...]:
    """Reads the keys of a table.

    Raises:
        IllegalArgumentError: one is none.
    """
    return tuple(parse_encryption_key(element) for element in split_array(array, "encryption-keys"))
