"""Live files: the newest action of each file wins (Delta protocol, "Action Reconciliation").

The key of a file is its path and its deletion vector: with another vector, a data file is another file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floecat.delta.log.commit_files import FileActions
from floecat.delta.log.file_tables import (
    REMOVES_SCHEMA,
    Rows,
    common_type,
    files_schema,
    take_column,
    take_rows,
    with_type,
)
from floecat.errors import InvalidDeltaTableError

__all__ = ["live_files", "newest_actions"]

_LARGE_BYTES: Final = 1 << 30
"""Keys of more bytes could pass 2 GiB, where the offsets of Arrow's strings end."""

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"


def live_files(
    checkpoint: Sequence[pa.Table],
    actions: Sequence[FileActions],
    partition_names: Sequence[str],
    *,
    location: str,
    large_bytes: int = _LARGE_BYTES,
) -> pa.Table:
    """The files of a state.

    Args:
        checkpoint: tables of files of the checkpoint; empty if the log starts without one.
        actions: those after it, oldest first.
        partition_names: physical names of the partition columns, of all these tables.
        location: of the table, for messages.
        large_bytes: keys of more bytes are not grouped but sorted.

    Returns:
        Columns of `floecat.delta.log.file_tables.files_schema`, unordered.

    Raises:
        InvalidDeltaTableError: a data file is live with two deletion vectors.
    """
    adds, removes = _newest(actions, partition_names, large_bytes)
    files = _concatenated([*checkpoint, adds], partition_names)
    old_files = len(files) - len(adds)
    keep = np.ones(len(files), bool)
    keep[:old_files] = _untouched(files.slice(0, old_files), [adds, removes])
    order = _by_path(files, keep, location)
    # Statistics texts may be large: avoid a copy if all files are kept.
    return files if len(order) == len(files) else take_rows(files, np.sort(order))


def newest_actions(
    actions: Sequence[FileActions],
    partition_names: Sequence[str],
    *,
    location: str,
    large_bytes: int = _LARGE_BYTES,
) -> tuple[pa.Table, pa.Table]:
    """The net adds and removes of one or several commits.

    Args:
        actions: oldest first.
        partition_names: physical names of the partition columns.
        location: of the table, for messages.
        large_bytes: keys of more bytes are not grouped but sorted.

    Returns:
        Adds, ordered by path, and removes, ordered by path and deletion vector.

    Raises:
        InvalidDeltaTableError: a data file is added with two deletion vectors.
    """
    adds, removes = _newest(actions, partition_names, large_bytes)
    return take_rows(adds, _by_path(adds, np.ones(len(adds), bool), location)), removes.sort_by(
        [("path", "ascending"), ("dv_id", "ascending")]
    )


def _newest(
    actions: Sequence[FileActions], partition_names: Sequence[str], large_bytes: int
) -> tuple[pa.Table, pa.Table]:
    adds = _concatenated([part.adds for part in actions], partition_names)
    removes = pa.concat_tables([REMOVES_SCHEMA.empty_table(), *(part.removes for part in actions)])
    starts = np.cumsum([0, *(part.rows for part in actions)])
    places = [np.zeros(0, np.int64)]
    places += [part.add_rows + start for part, start in zip(actions, starts, strict=False)]
    places += [part.remove_rows + start for part, start in zip(actions, starts, strict=False)]
    rows = np.concatenate(places)
    wins = np.zeros(int(starts[-1]), bool)
    keys = pa.concat_tables([adds.select(["path", "dv_id"]), removes]).append_column("row", pa.array(rows))
    wins[_newest_rows(keys) if keys.nbytes <= large_bytes else _newest_rows_sorted(keys)] = True
    of_adds, of_removes = wins[rows[: len(adds)]], wins[rows[len(adds) :]]
    return _kept(adds, of_adds), _kept(removes, of_removes)


def _newest_rows(keys: pa.Table) -> Rows:
    newest: Rows = keys.group_by(["path", "dv_id"]).aggregate([("row", "max")])["row_max"].to_numpy()
    return newest


def _newest_rows_sorted(keys: pa.Table) -> Rows:
    """The same, several times slower. Grouping keys of more than 2 GiB fails, or ends the process."""
    order = pc.sort_indices(keys, [(name, "ascending") for name in ("path", "dv_id", "row")]).to_numpy()
    is_last = np.ones(len(order), bool)
    same = [_is_next(pc.fill_null(keys["dv_id"], ""), order), _is_next(keys["path"], order)]
    is_last[:-1] = ~(same[0] & same[1])
    rows: Rows = keys["row"].to_numpy()[order[is_last]]
    return rows


def _is_next(column: pa.ChunkedArray, order: Rows) -> Mask:
    """Whether the next row in an order has the same value."""
    ordered = take_column(column, order)
    same: Mask = pc.equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1)).to_numpy()
    return same


def _kept(table: pa.Table, mask: Mask) -> pa.Table:
    return table if mask.all() else table.filter(pa.array(mask))


def _untouched(files: pa.Table, touched: Sequence[pa.Table]) -> Mask | bool:
    """The files of a checkpoint that no later action mentions."""
    keys = pa.chunked_array([chunk for table in touched for chunk in _keys(table).chunks], pa.large_string())
    if not len(keys):
        return True
    is_touched: Mask = pc.is_in(_keys(files), value_set=keys).to_numpy()
    return ~is_touched


def _keys(files: pa.Table) -> pa.ChunkedArray:
    path, dv_id = (files[name].cast(pa.large_string()) for name in ("path", "dv_id"))
    if dv_id.null_count == len(dv_id):
        return path
    # No path holds a null character; see `PathReader`.
    separator = pa.scalar("\0", pa.large_string())
    return pc.coalesce(pc.binary_join_element_wise(path, dv_id, separator), path)


def _concatenated(tables: Sequence[pa.Table], partition_names: Sequence[str]) -> pa.Table:
    """One table; struct statistics of any of them are a column of all."""
    type = common_type(
        [table.schema.field("stats_parsed").type for table in tables if "stats_parsed" in table.column_names]
    )
    schema = files_schema(partition_names, type)
    parts = [with_type(table, type) for table in tables]
    return pa.concat_tables([schema.empty_table(), *parts], promote_options="default").select(schema.names)


def _by_path(files: pa.Table, keep: Mask, location: str) -> Rows:
    """Row numbers of the files to keep, ordered by path."""
    order: Rows = pc.sort_indices(files["path"]).to_numpy()
    if not keep.all():
        order = order[keep[order]]
    return _without_repetitions(files.select(["path", "dv_id"]), order, location)


def _without_repetitions(keys: pa.Table, order: Rows, location: str) -> Rows:
    """Drops duplicates, for example of a checkpoint whose parts two writers wrote."""
    if len(order) < 2:
        return order
    repeated = _is_next(keys["path"], order)
    if not repeated.any():
        return order
    same = _is_next(pc.fill_null(keys["dv_id"], ""), order)
    if (repeated & ~same).any():
        twice = keys["path"][int(order[np.flatnonzero(repeated & ~same)[0]])].as_py()
        raise InvalidDeltaTableError(
            f"Delta table {location} holds the file {twice!r} with two deletion vectors at once"
        )
    first: Mask = np.concatenate([[True], ~repeated])
    return order[first]
