"""Changes of the statistics files of a table."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from floecat.iceberg.metadata.statistics_files import (
    PartitionStatisticsFile,
    StatisticsFile,
    check_statistics_file,
)
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.json_arrays import EMPTY_ARRAY, Fragment, split_array
from floecat.iceberg.values.json_values import RawJson, decode_json, take_json
from floecat.iceberg.values.keyed_elements import KeyedElements

__all__ = ["StatisticsChanges"]


class StatisticsChanges:
    """One of the two lists of statistics files; one file for each snapshot."""

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

    def set_file(self, raw: RawJson) -> None:
        """Sets the file of a snapshot, which need not exist any more; the same file again is no change.

        Raises:
            IllegalArgumentError: no statistics file.
        """
        data = take_json(raw, self.name)
        snapshot_id = decode_json(data, self._file_type, self.name).snapshot_id
        check_statistics_file(data, self.name)
        files = self._decoded()
        existing = files.get(snapshot_id)
        if len(existing) == 1 and msgspec.json.decode(existing[0]) == msgspec.json.decode(data):
            return
        files.remove(snapshot_id)
        files.add(snapshot_id, data)
        self.changed = True

    def remove(self, snapshot_ids: Set[int]) -> None:
        """Removes the files of snapshots; those without a file do nothing."""
        files = self._decoded()
        for snapshot_id in snapshot_ids:
            self.changed |= files.remove(snapshot_id)

    def write(self, fields: dict[str, Fragment]) -> None:
        """Puts the list into the fields of the next document, if it has changed."""
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
