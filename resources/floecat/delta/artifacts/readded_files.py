"""Data files that a commit adds again with another deletion vector, and otherwise unchanged.

Their entries in manifests stay, and with them the ids of their rows; only delete files are written for them.
Two columns in the table of a commit's files mark them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from floecat.delta.log.file_tables import take_rows

__all__ = ["ReaddedFile", "SplitFiles", "split_readded", "with_readded"]

_LOCATION = "readded location"
_RECORDS = "readded records"


class ReaddedFile(NamedTuple):
    """The entry of a readded file.

    Attributes:
        location: its location there, that of a copy if the file was copied.
        record_count: its rows.
    """

    location: str
    record_count: int


class SplitFiles:
    """The files of a chunk, with those apart that get new entries.

    Attributes:
        own: files that get new entries.
        rows: their rows among all files; None if they are all files.
    """

    def __init__(
        self, own: pa.Table, rows: npt.NDArray[np.int64] | None, locations: Any = None, records: Any = None
    ) -> None:
        self.own = own
        self.rows = rows
        self._locations = locations
        self._records = records

    def of_own(self, values: Any) -> Any:
        """Selects the values of the own files from an Arrow or NumPy array with those of all."""
        if self.rows is None:
            return values
        return values[self.rows] if isinstance(values, np.ndarray) else values.take(pa.array(self.rows))

    def joined(
        self, locations: pa.StringArray, record_counts: pa.Int64Array
    ) -> tuple[pa.StringArray, pa.Int64Array]:
        """Locations and row counts of all files.

        Args:
            locations: of the own files.
            record_counts: of the own files.
        """
        if self.rows is None:
            return locations, record_counts
        all_locations, all_records = self._locations.copy(), self._records.copy()
        all_locations[self.rows] = np.array(locations.to_pylist(), object)
        all_records[self.rows] = record_counts.to_numpy()
        return pa.array(all_locations.tolist(), pa.string()), pa.array(all_records, pa.int64())


def with_readded(files: pa.Table, readded: dict[int, ReaddedFile]) -> pa.Table:
    """Files with the columns that mark readded ones.

    Args:
        files: files that a commit adds.
        readded: readded ones, by their row.
    """
    if not readded:
        return files
    found = [readded.get(row) for row in range(len(files))]
    locations = [file.location if file else None for file in found]
    records = [file.record_count if file else None for file in found]
    return files.append_column(_LOCATION, pa.array(locations, pa.string())).append_column(
        _RECORDS, pa.array(records, pa.int64())
    )


def split_readded(files: pa.Table) -> SplitFiles:
    """Separates the files of a chunk, which may have the columns of `with_readded`."""
    if _LOCATION not in files.column_names:
        return SplitFiles(files, None)
    is_own = files[_LOCATION].is_null().to_numpy()
    plain = files.drop_columns([_LOCATION, _RECORDS])
    if is_own.all():
        return SplitFiles(plain, None)
    rows = np.flatnonzero(is_own)
    locations = np.array(files[_LOCATION].to_pylist(), object)
    records = files[_RECORDS].fill_null(0).to_numpy().copy()
    return SplitFiles(take_rows(plain, rows), rows, locations, records)
