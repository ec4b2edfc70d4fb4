"""Copies of data files that have the field ids which their writers left out.

Delta's column mapping writes ids for columns and fields of structs, and none for what is in lists and maps,
and readers of Iceberg find nothing there then (`floecat.iceberg.parquet_field_ids`). A copy has the data of
its original, byte for byte, and another footer; rows keep their positions, so that deletes mean the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.compat.artifacts import ArtifactFiles
from floecat.compat.chunk_context import ChunkContext
from floecat.compat.footers import read_footer
from floecat.delta.field_ids import FieldIds, PhysicalPath
from floecat.delta.translation.schema import TranslatedSchema
from floecat.errors import InvalidDeltaTableError, UnsupportedDeltaTableError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.parquet_field_ids import FieldNumbers, NumberedFooter, number_fields

__all__ = ["MAX_COPIED_BYTES", "ByteBudget", "NumberedFiles", "field_numbers"]

MAX_COPIED_BYTES = 4 << 30
"""Larger files are not copied: they would have to be in memory, and in one request to an object store."""

_HELD_BYTES = 512 << 20


class ByteBudget:
    """Keeps threads from holding more bytes at once than there is room for. What is larger is held alone."""

    def __init__(self, total: int) -> None:
        """Takes how many bytes there is room for."""
        self._total = total
        self._free = total
        self._changed = Condition()

    @contextmanager
    def holding(self, count: int) -> Iterator[None]:
        """Waits until there is room for so many bytes, and takes it."""
        taken = min(count, self._total)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= taken)
            self._free -= taken
        try:
            yield
        finally:
            with self._changed:
                self._free += taken
                self._changed.notify_all()


_BUDGET = ByteBudget(_HELD_BYTES)


def field_numbers(translated: TranslatedSchema, ids: FieldIds) -> FieldNumbers | None:
    """The ids that the fields of data files must have, if their writers may have left some out.

    A copy is of all snapshots that hold its file, and files have columns that some of these have no more: all
    ids that the table ever had are given, so that the copy is the same whoever makes it first.

    Args:
        translated: the schema of a version.
        ids: the ids of the table.
    """
    if not translated.unnumbered:
        return None
    ever = {**ids.own, **ids.mapped}
    known = {msgspec.json.decode(key, type=PhysicalPath): id for key, id in ever.items()}
    current = {path: id for id, path in translated.physical_paths.items()}
    for path in current:
        known.pop(path, None)
    return FieldNumbers(known | current, translated.schema, by_id=translated.mapping_mode == "id")


class NumberedFiles:
    """Looks for missing ids in the data files of a version, and makes copies."""

    def __init__(
        self,
        context: ChunkContext,
        storage: FileIO,
        artifacts: ArtifactFiles,
        allowed: AllowedLocations,
        *,
        budget: ByteBudget = _BUDGET,
    ) -> None:
        """Takes what the version is, where files are read and written, and how much of them is held."""
        self._context = context
        self._storage = storage
        self._artifacts = artifacts
        self._allowed = allowed
        self._budget = budget

    def replace(
        self, locations: pa.StringArray, sizes: npt.NDArray[np.int64]
    ) -> tuple[pa.StringArray, npt.NDArray[np.int64]]:
        """The files that readers are to read.

        Args:
            locations: data files.
            sizes: their bytes.

        Returns:
            The same, with copies in place of files that lack ids.

        Raises:
            InvalidDeltaTableError: a file is no Parquet file, or damaged.
            UnsupportedDeltaTableError: a file lacks ids and copies are not wanted, or it cannot be copied.
            FileMissingError: a file is gone.
            LocationNotAllowedError: a file lies outside the allowed locations.
            NameTakenError: another file has the name of a copy.
        """
        numbers = self._context.numbers
        if numbers is None:
            return locations, sizes

        def look(item: tuple[str, int]) -> tuple[str, int]:
            location, size = item
            tail = read_footer(self._storage, self._allowed, location, size)
            footer = number_fields(tail, numbers, location)
            return item if footer is None else self._copy(location, size, footer)

        found = self._artifacts.each(look, list(zip(locations.to_pylist(), sizes.tolist(), strict=True)))
        paths = pa.array([location for location, _ in found], pa.string())
        return paths, np.array([size for _, size in found], np.int64)

    def _copy(self, location: str, size: int, footer: NumberedFooter) -> tuple[str, int]:
        if not self._context.copies_unnumbered:
            raise UnsupportedDeltaTableError(
                f"Column {footer.columns[0]} cannot be read: {location} has Parquet field ids for columns and"
                " none for what is in lists and maps, where readers of Iceberg find nothing then. Enable"
                " icebergCompatV2 for the table and have its files rewritten, or allow copies of them"
                " (floecat.gateway.delta-compat.unnumbered-collections=copy)"
            )
        if size > MAX_COPIED_BYTES:
            raise UnsupportedDeltaTableError(
                f"Column {footer.columns[0]} cannot be read: {location} lacks field ids in lists and maps,"
                f" and with {size} bytes it is too large to be copied"
            )
        length = size - footer.replaced

        def make() -> bytes:
            data = self._storage.read_range(location, 0, length)
            if len(data) != length:
                raise InvalidDeltaTableError(f"Cannot read {location}: it is shorter than the log says")
            return data + footer.data

        copy = self._context.paths.numbered_file(location)
        # what is read and what is written are both in memory
        with self._budget.holding(2 * size):
            self._artifacts.write_large(self._allowed, copy, make, offset=length, tail=footer.data)
        return copy, length + len(footer.data)
