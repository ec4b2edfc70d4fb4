"""What entries of a manifest inherit from its entry in a manifest list.

(Table specification, "Sequence Number Inheritance" and "First Row ID Inheritance".)
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.iceberg.manifests.lists import ManifestFile

__all__ = ["inherit"]

_ADDED, _DELETED, _DATA = 1, 2, 0


def inherit(columns: dict[str, pa.Array], listed: ManifestFile, next_row_id: int | None) -> int | None:
    """Fills in what entries leave out.

    Args:
        columns: of the entries, by the names of the specification; changed in place.
        listed: the manifest's entry in the manifest list.
        next_row_id: first row id of the next data file without one; None if the manifest assigns none.

    Returns:
        The same after these entries.
    """
    if "snapshot_id" in columns and listed.added_snapshot_id is not None:
        columns["snapshot_id"] = columns["snapshot_id"].fill_null(listed.added_snapshot_id)
    for name in ("sequence_number", "file_sequence_number"):
        if name in columns and columns[name].null_count:
            # files of version 1 have none, and number 0 is right for all of them
            inherited = pa.scalar(listed.sequence_number, pa.int64())
            if listed.sequence_number:
                inherited = pc.if_else(
                    pc.equal(columns["status"], _ADDED), inherited, pa.scalar(None, pa.int64())
                )
            columns[name] = pc.coalesce(columns[name], inherited)
    if "first_row_id" in columns:
        columns["first_row_id"], next_row_id = _first_row_ids(columns, next_row_id)
    return next_row_id


def _first_row_ids(columns: dict[str, pa.Array], next_row_id: int | None) -> tuple[pa.Array, int | None]:
    found = columns["first_row_id"]
    if next_row_id is None:
        # ids of rows count within a table only after it has assigned them
        return pa.nulls(len(found), pa.int64()), None
    inherits = found.is_null().to_numpy(zero_copy_only=False)
    inherits &= columns["status"].to_numpy() != _DELETED
    inherits &= columns["content"].to_numpy() == _DATA
    rows = np.where(inherits, columns["record_count"].to_numpy(), 0)
    ends = np.cumsum(rows) + next_row_id
    assigned = pa.array(ends - rows, mask=~inherits)
    return pc.coalesce(found, assigned), int(ends[-1]) if len(ends) else next_row_id
