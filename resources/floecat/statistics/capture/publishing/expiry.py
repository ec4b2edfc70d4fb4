"""Removal of the statistics of snapshots that a table has no more, a page of rows at a time."""

from __future__ import annotations

from functools import partial
from typing import Final
from uuid import UUID

from floecat.entries.entry_files import is_entry_file
from floecat.iceberg.values.bounds import process_bounds
from floecat.statistics.index_artifacts import artifact_of
from floecat.store.database.engine import Connection, Store
from floecat.store.record_pages import fitting
from floecat.store.statistics import artifact_files, captures
from floecat.store.statistics import files as file_rows
from floecat.store.statistics.snapshot_records import CONSTRAINTS, INDEX_ARTIFACTS, TARGETS

__all__ = ["delete_expired"]

_PAGE: Final = 1_000


def delete_expired(store: Store, entry_id: UUID, now_ms: int) -> None:
    """Deletes captures, statistics, constraints and index artifacts of expired snapshots.

    An artifact of another writer stays until the purge of the table, which finds its file by it, unless a
    snapshot that the table has shares the file. Files of the catalog go later, as unused sidecars.

    Raises:
        StoreUnavailableError: the store does not answer.
    """
    with store.read() as conn:
        expired = captures.expired(conn, entry_id)
    for snapshot_id in expired:
        after: str | None = ""
        while after is not None:
            after = store.run(partial(_delete_page, entry_id, snapshot_id, after, now_ms))
        store.run(partial(_delete, entry_id, snapshot_id))


def _delete_page(entry_id: UUID, snapshot_id: int, after: str, now_ms: int, conn: Connection) -> str | None:
    """Deletes a page of index artifacts; returns its last storage id if there may be another one."""
    sizes = INDEX_ARTIFACTS.sizes(conn, entry_id, snapshot_id, "", after, _PAGE)
    count = fitting(sizes, process_bounds.limits.record_page_bytes)
    rows = INDEX_ARTIFACTS.page(conn, entry_id, snapshot_id, "", after, count)
    if not rows:
        return None
    files = {row.storage_id: artifact_of(row.body).artifact_uri for row in rows}
    bodies = artifact_files.retained(conn, entry_id, list(files))
    retained = {artifact_of(body).artifact_uri for body in bodies}
    own = {file for file in files.values() if is_entry_file(file, entry_id)}
    gone = [id for id, file in files.items() if file in own or file in retained]
    INDEX_ARTIFACTS.delete(conn, entry_id, snapshot_id, gone)
    file_rows.put_unused(conn, entry_id, sorted(own - retained), now_ms)
    return rows[-1].storage_id if count < len(sizes) or count == _PAGE else None


def _delete(entry_id: UUID, snapshot_id: int, conn: Connection) -> None:
    for records in (TARGETS, CONSTRAINTS):
        records.delete_kind(conn, entry_id, snapshot_id, "")
    captures.delete(conn, entry_id, snapshot_id)
