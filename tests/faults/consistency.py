"""What must be true of a store and its files at any moment: after a crash, and in the middle of the work.

All rows are read in one snapshot of the database. Documents are parsed as plain JSON, not by the kernel.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import sqlalchemy as sa

from floecat.store import schema
from floecat.store.entries.documents import decompress

__all__ = ["check_consistency", "local_path"]

_TABLES = {
    table.name: table
    for table in (
        schema.catalogs,
        schema.namespaces,
        schema.entries,
        schema.metadata_documents,
        schema.snapshots,
        schema.refs,
        schema.commit_log,
        schema.metadata.tables["idempotency_records"],
    )
}
_LEAVING = {"drop", "unregister"}

Rows = Sequence[sa.Row[Any]]


def check_consistency(store_url: str) -> int:
    """Checks entries, documents, snapshots, refs, files and the commit log against each other.

    Returns:
        How many commits the log holds.
    """
    rows = _read_all(store_url)
    documents = {row.entry_id: row for row in rows["metadata_documents"]}
    snapshots, refs = _by_entry(rows["snapshots"]), _by_entry(rows["refs"])
    assert documents.keys() == {entry.id for entry in rows["entries"]}
    for entry in rows["entries"]:
        document = documents[entry.id]
        body = decompress(document.body)
        assert document.metadata_location == entry.metadata_location
        assert document.size_bytes == len(body)
        metadata = json.loads(body)
        _check_entry(entry, metadata)
        if entry.kind == "table":
            _check_history(metadata, snapshots[entry.id], refs[entry.id])
            _check_files(metadata)
        assert local_path(entry.metadata_location).read_bytes() == body, entry.metadata_location
    for catalog in rows["catalogs"]:
        log = [row for row in rows["commit_log"] if row.catalog_id == catalog.id]
        _check_log(
            catalog.commit_version, log, [row for row in rows["entries"] if row.catalog_id == catalog.id]
        )
    return len(rows["commit_log"])


def local_path(location: str) -> Path:
    """The file of a `file://` location."""
    return Path(unquote(urlparse(location).path))


def _read_all(store_url: str) -> dict[str, Rows]:
    engine = sa.create_engine(store_url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    sqlite = engine.dialect.name == "sqlite"
    with engine.connect() as connection:
        if not sqlite:
            connection.exec_driver_sql("SET search_path TO floecat")
        connection.exec_driver_sql("BEGIN" if sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ")
        rows = {name: connection.execute(sa.select(table)).all() for name, table in _TABLES.items()}
        connection.exec_driver_sql("COMMIT")
    return rows


def _by_entry(rows: Rows) -> dict[Any, list[sa.Row[Any]]]:
    found: dict[Any, list[sa.Row[Any]]] = defaultdict(list)
    for row in rows:
        found[row.entry_id].append(row)
    return found


def _check_entry(entry: sa.Row[Any], metadata: dict[str, Any]) -> None:
    assert metadata[f"{entry.kind}-uuid"] == entry.object_uuid
    assert metadata["location"] == entry.location
    assert metadata["format-version"] == entry.format_version


def _check_history(metadata: dict[str, Any], snapshots: Rows, refs: Rows) -> None:
    assert {(row.snapshot_id, row.parent_snapshot_id, row.sequence_number) for row in snapshots} == {
        (each["snapshot-id"], each.get("parent-snapshot-id"), each.get("sequence-number", 0))
        for each in metadata.get("snapshots", [])
    }
    assert {(row.name, row.type, row.snapshot_id) for row in refs} == {
        (name, ref["type"], ref["snapshot-id"]) for name, ref in metadata.get("refs", {}).items()
    }


def _check_files(metadata: dict[str, Any]) -> None:
    for logged in metadata.get("metadata-log", []):
        assert local_path(logged["metadata-file"]).is_file(), logged


def _check_log(last: int, log: Rows, entries: Rows) -> None:
    """Numbers without a gap; each row follows the one before of its entry; pointers are the last rows."""
    ordered = sorted(log, key=lambda row: row.commit_version)
    assert [row.commit_version for row in ordered] == list(range(1, last + 1))
    current: dict[Any, str | None] = {}
    for row in ordered:
        assert row.previous_metadata_location == current.get(row.entry_id), row
        if row.operation in _LEAVING:
            del current[row.entry_id]
        else:
            current[row.entry_id] = row.metadata_location
    assert current == {entry.id: entry.metadata_location for entry in entries}
