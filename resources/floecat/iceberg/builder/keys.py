"""Changes of the encrypted keys of a table."""

from __future__ import annotations

from floecat.iceberg.metadata.encryption_keys import (
    check_encryption_key,
    parse_encryption_key,
    parse_encryption_keys,
)
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.json_arrays import EMPTY_ARRAY, Fragment, split_array
from floecat.iceberg.values.json_values import RawJson, take_json
from floecat.iceberg.values.keyed_elements import KeyedElements

__all__ = ["EncryptionKeyChanges"]

_NAME = "encryption-keys"


class EncryptionKeyChanges:
    """Encrypted keys by id."""

    def __init__(self, base: TableMetadata | None) -> None:
        self._array = EMPTY_ARRAY if base is None else base.array(_NAME)
        self._decoded: KeyedElements[str] | None = None
        self.changed = False

    @property
    def _keys(self) -> KeyedElements[str]:
        if self._decoded is None:
            ids = [key.key_id for key in parse_encryption_keys(self._array)]
            elements = split_array(self._array, _NAME)
            self._decoded = KeyedElements(zip(ids, (memoryview(raw) for raw in elements), strict=True))
        return self._decoded

    def add(self, raw: RawJson) -> None:
        """Adds a key; one with the same id stays as it is.

        Raises:
            IllegalArgumentError: not a key.
        """
        data = take_json(raw, "encryption key")
        key_id = parse_encryption_key(data).key_id
        check_encryption_key(data)
        if not self._keys.get(key_id):
            self._keys.add(key_id, data)
            self.changed = True

    def remove(self, key_id: str) -> None:
        """Removes a key; an unknown one does nothing."""
        self.changed |= self._keys.remove(key_id)

    def write(self, fields: dict[str, Fragment]) -> None:
        """Puts the list into the fields of the next document, if it has changed."""
        if self.changed:
            fields[_NAME] = self._keys.array()
