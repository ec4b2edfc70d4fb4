"""Changes to the statistics files and the encrypted keys of a table."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.encryption_keys import (
    check_encryption_key,
    parse_encryption_key,
    parse_encryption_keys,
)
from floecat.iceberg.metadata.statistics_files import (
    PartitionStatisticsFile,
    StatisticsFile,
    check_statistics_file,
)
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.encoded_json import (
    EMPTY_ARRAY,
    Fragment,
    KeyedElements,
    RawJson,
    decode_json,
    split_array,
    take_json,
)

__all__ = [
    "EncryptionKeyChanges",
    "StatisticsChanges",
]


class StatisticsChanges:
    """A list of statistics files, of which there are two, with one file per snapshot."""

    def __init__(
        self,
        base: TableMetadata | None,
        name: str,
        file_type: type[StatisticsFile] | type[PartitionStatisticsFile],
    ) -> None:
        self.name = name
        self._file_type = file_type
        self._array = EMPTY_ARRAY if base is None else base.array(name)
        self._files: KeyedElements[int] | None = None
        self.changed = False

    def set_file(self, raw: RawJson, beside: int | None = None) -> None:
        """Sets the file of a snapshot, which may have been removed; an equal file is no change.

        Args:
            raw: the file.
            beside: the snapshot id that the update has beside it, if any.

        Raises:
            IllegalArgumentError: not a statistics file, or the two snapshot ids differ.
        """
        data = take_json(raw, self.name)
        snapshot_id = decode_json(data, self._file_type, self.name).snapshot_id
        if beside not in (None, snapshot_id):
            raise IllegalArgumentError(
                f"Cannot set {self.name}: snapshot-id is {beside}, and {snapshot_id} in the file"
            )
        check_statistics_file(data, self.name)
        files = self._decoded()
        existing = files.get(snapshot_id)
        if len(existing) == 1 and msgspec.json.decode(existing[0]) == msgspec.json.decode(data):
            return
        files.remove(snapshot_id)
        files.add(snapshot_id, data)
        self.changed = True

    def remove(self, snapshot_ids: Set[int]) -> None:
        """Removes the files of snapshots; those without a file are ignored."""
        files = self._decoded()
        for snapshot_id in snapshot_ids:
            self.changed |= files.remove(snapshot_id)

    def write(self, fields: dict[str, Fragment]) -> None:
        """Writes the list into the fields of the next document, if it has changed."""
        if self.changed and self._files is not None:
            fields[self.name] = self._files.array()
        else:
            fields.setdefault(self.name, EMPTY_ARRAY)

    def _decoded(self) -> KeyedElements[int]:
        if self._files is None:
            elements = split_array(self._array, self.name)
            self._files = KeyedElements(
                (decode_json(element, self._file_type, self.name).snapshot_id, memoryview(element))
                for element in elements
            )
        return self._files


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
        """Adds a key; an existing one with the same id stays.

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
        """Removes a key; an unknown id is ignored."""
        self.changed |= self._keys.remove(key_id)

    def write(self, fields: dict[str, Fragment]) -> None:
        """Writes the list into the fields of the next document, if it has changed."""
        if self.changed:
            fields[_NAME] = self._keys.array()
