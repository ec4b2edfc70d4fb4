"""Changes of the encrypted keys of a table."""

from __future__ import annotations

from floecat.iceberg.encryption_keys import parse_encryption_key, parse_encryption_keys
from floecat.iceberg.json_arrays import EMPTY_ARRAY, Fragment, append_elements, array_of, split_array
from floecat.iceberg.json_values import RawJson, take_json
from floecat.iceberg.metadata import TableMetadata

__all__ = ["EncryptionKeyChanges"]

_NAME = "encryption-keys"


class EncryptionKeyChanges:
    """Encrypted keys by id."""

    def __init__(self, base: TableMetadata | None) -> None:
        self._array = EMPTY_ARRAY if base is None else base.array(_NAME)
        self.changed = False

    def _ids(self) -> list[str]:
        return [key.key_id for key in parse_encryption_keys(self._array)]

    def add(self, raw: RawJson) -> None:
        """Adds a key; one with the same id stays as it is.

        Raises:
            IllegalArgumentError: not a key.
        """
        data = take_json(raw, "encryption key")
        if parse_encryption_key(data).key_id not in self._ids():
            self._array = append_elements(self._array, [data])
            self.changed = True

    def remove(self, key_id: str) -> None:
        """Removes a key; an unknown one does nothing."""
        ids = self._ids()
        if key_id in ids:
            elements = zip(ids, split_array(self._array, _NAME), strict=True)
            self._array = array_of([memoryview(raw) for existing, raw in elements if existing != key_id])
            self.changed = True

    def write(self, fields: dict[str, Fragment]) -> None:
        """Puts the list into the fields of the next document, if it has changed."""
        if self.changed:
            fields[_NAME] = self._array
