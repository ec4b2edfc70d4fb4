"""Records of captured data files, made of sidecars when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import msgspec

from floecat.errors import FileMissingError, InvalidMetadataError
from floecat.iceberg.values.bounds import process_bounds
from floecat.statistics.capture.reading import counting
from floecat.statistics.capture.reading.captured_files import FileSearch
from floecat.statistics.capture.reading.files_with_deletes import LiveFile
from floecat.statistics.capture.reading.sidecars import Sidecar, file_places, read_places
from floecat.statistics.capture.reading.tables import CapturedTable, find_table
from floecat.statistics.files.summaries import FileSummary
from floecat.statistics.records import StatisticsRecord
from floecat.store.record_pages import fitting
from floecat.store.statistics import files as file_rows
from floecat.store.statistics.files import SidecarRow
from floecat.working_memory import take_memory

if TYPE_CHECKING:
    from floecat.entries.open_entries import EntryParts

__all__ = ["FileRecords"]


class FileRecords:
    """Lists them. Safe to share between threads."""

    def __init__(self, parts: EntryParts, search: FileSearch) -> None:
        self._parts = parts
        self._store = parts.store
        self._search = search

    def page(
        self, entry_id: UUID, snapshot_id: int, after: str, limit: int
    ) -> tuple[list[StatisticsRecord], bool]:
        """Records of captured data files of a snapshot, in order of storage ids, within the bound of a page.

        Args:
            after: storage id before the first one.
            limit: most records.

        Returns:
            The records, and whether there are more.

        Raises:
            FloecatError: a manifest cannot be read, or storage or the store fails.
        """
        table = find_table(self._parts, entry_id)
        if table is None:
            return [], False
        summaries: dict[str, FileSummary] | None = None
        while summaries is None:
            found = self._search.stored_after(table, snapshot_id, after, limit + 1)
            summaries = self._read_stored(table, found[:limit])
        schema = table.schema_of(snapshot_id)
        records, left_bytes = list[StatisticsRecord](), process_bounds.limits.record_page_bytes
        for live, _ in found:
            if live.key not in summaries or (records and left_bytes < 0):
                return records, True
            records.append(counting.file_record(live.file, summaries[live.key], schema))
            left_bytes -= len(msgspec.json.encode(records[-1]))
        return records, False

    def _read_stored(
        self, table: CapturedTable, found: Sequence[tuple[LiveFile, SidecarRow]]
    ) -> dict[str, FileSummary] | None:
        """The first files, by key, as many as a page may have.

        None if a sidecar is lost, whose files do not count as stored any more.
        """
        sidecars = {row.path: Sidecar(row.path, row.size_bytes) for _, row in found}
        places: dict[str, Mapping[str, tuple[int, int]]] = {}
        summaries: dict[str, FileSummary] = {}
        for path, sidecar in sidecars.items():
            try:
                places[path] = file_places(table.storage, sidecar)
                if any(live.key not in places[path] for live, row in found if row.path == path):
                    raise InvalidMetadataError(f"Sidecar {path} lacks a file")
            except (FileMissingError, InvalidMetadataError):
                self._forget(table, path)
                return None
        sizes = [places[row.path][live.key][1] for live, row in found]
        count = fitting(sizes, process_bounds.limits.record_page_bytes)
        take_memory(sum(sizes[:count]))
        for path, sidecar in sidecars.items():
            wanted = {live.key: places[path][live.key] for live, row in found[:count] if row.path == path}
            try:
                summaries |= read_places(table.storage, sidecar, wanted)
            except (FileMissingError, InvalidMetadataError):
                self._forget(table, path)
                return None
        return summaries

    def _forget(self, table: CapturedTable, path: str) -> None:
        self._store.run(partial(file_rows.forget, entry_id=table.row.id, paths=[path]))
