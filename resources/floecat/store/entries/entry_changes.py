"""Changes of entries, each inside a transaction. A commit is a compare-and-set on `version`."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.prepared_statements import TwoChanges
from floecat.store.entries.documents import is_compressed
from floecat.store.entries.tables import EntryRow
from floecat.store.schema import entries as _entries
from floecat.store.schema import metadata_documents as _documents

__all__ = [
    "delete",
    "insert",
    "lock",
    "rename",
    "swap",
]


def insert(
    conn: Connection, row: EntryRow, document: bytes, size_bytes: int, *, table_type: str | None = None
) -> None:
    """Inserts an entry and its document.

    Args:
        conn: a transaction.
        row: the entry; its own `document` and `size_bytes` are not looked at.
        document: the metadata document, compressed by `floecat.store.entries.documents`.
        size_bytes: its size as JSON.
        table_type: of the metadata, as `floecat.iceberg.metadata.properties` reads it.

    Raises:
        DuplicateKeyError: a table or a view of the namespace has this name.
        ForeignKeyError: the namespace does not exist, or no longer.
        ValueError: the document is not compressed.
    """
    _check_compressed(document)
    values = {f"new_{name}": value for name, value in msgspec.structs.asdict(row).items()}
    values["new_table_type"] = table_type
    values["new_size_bytes"] = size_bytes
    values["new_body"] = document
    conn.change_both(_INSERT, values)


def swap(
    conn: Connection,
    entry_id: UUID,
    expected_version: int,
    *,
    metadata_location: str,
    document: bytes,
    size_bytes: int,
    location: str,
    format_version: int,
    object_uuid: str,
    table_type: str | None,
    now_ms: int,
) -> bool:
    """Makes other metadata current, if the entry is as the caller saw it.

    Args:
        conn: a transaction.
        expected_version: `version` of the row that the new metadata is based on.
        metadata_location: file of the new metadata.
        document: the new metadata, compressed by `floecat.store.entries.documents`.
        size_bytes: its size as JSON.
        location: where the table lives now.
        format_version: of the new metadata.
        object_uuid: UUID of the table or view; a registration over an entry may bring another one.
        table_type: as for `insert`.
        now_ms: time of the commit.

    Returns:
        False if the entry has been changed or removed since; nothing is changed then.

    Raises:
        ValueError: the document is not compressed.
    """
    _check_compressed(document)
    swapped = conn.change_both(
        _SWAP,
        {
            "entry_id": entry_id,
            "expected_version": expected_version,
            "new_metadata_location": metadata_location,
            "new_location": location,
            "new_object_uuid": object_uuid,
            "new_format_version": format_version,
            "new_table_type": table_type,
            "new_size_bytes": size_bytes,
            "new_body": document,
            "now_ms": now_ms,
        },
    )
    return swapped == 1


def lock(conn: Connection, entry_id: UUID, expected_version: int) -> bool:
    """Holds an entry as it is until the end of the transaction.

    Returns:
        False if it has been changed or removed since.
    """
    return conn.change(_LOCK, {"entry_id": entry_id, "expected_version": expected_version}) == 1


def rename(
    conn: Connection, entry_id: UUID, expected_version: int, namespace_id: UUID, name: str, now_ms: int
) -> bool:
    """Gives an entry another name, in the same or another namespace of its catalog.

    Returns:
        False if the entry has been changed or removed since.

    Raises:
        DuplicateKeyError: a table or a view has the new name.
        ForeignKeyError: the namespace does not exist, or no longer.
    """
    parameters = {
        "entry_id": entry_id,
        "expected_version": expected_version,
        "new_namespace_id": namespace_id,
        "new_name": name,
        "now_ms": now_ms,
    }
    return conn.change(_RENAME, parameters) == 1


def delete(conn: Connection, entry_id: UUID, expected_version: int | None) -> bool:
    """Deletes an entry with its document, snapshots and refs.

    Args:
        conn: a transaction.
        expected_version: `version` that the row must have; `None` for any.

    Returns:
        False if the entry has been changed or removed since.
    """
    if expected_version is None:
        return conn.change(_DELETE, {"entry_id": entry_id}) == 1
    parameters = {"entry_id": entry_id, "expected_version": expected_version}
    return conn.change(_DELETE_EXPECTED, parameters) == 1


def _check_compressed(document: bytes) -> None:
    if not is_compressed(document):
        raise ValueError("the document is not compressed")


_EXPECTED: Final = (
    _entries.c.id == sa.bindparam("entry_id"),
    _entries.c.version == sa.bindparam("expected_version"),
)


def _new(table: sa.Table) -> dict[str, sa.BindParameter[Any]]:
    return {column.name: sa.bindparam(f"new_{column.name}") for column in table.c}


_INSERT: Final = TwoChanges(
    sa.insert(_entries).values(_new(_entries)),
    lambda entry_id: sa.insert(_documents).values({**_new(_documents), "entry_id": entry_id}).inline(),
    key=_entries.c.id,
    parameter="new_id",
)
_SWAP: Final = TwoChanges(
    sa.update(_entries)
    .where(*_EXPECTED)
    .values(
        metadata_location=sa.bindparam("new_metadata_location"),
        location=sa.bindparam("new_location"),
        object_uuid=sa.bindparam("new_object_uuid"),
        format_version=sa.bindparam("new_format_version"),
        table_type=sa.bindparam("new_table_type"),
        version=_entries.c.version + 1,
        updated_at_ms=sa.bindparam("now_ms"),
    ),
    lambda entry_id: (
        sa.update(_documents)
        .where(_documents.c.entry_id == entry_id)
        .values(
            metadata_location=sa.bindparam("new_metadata_location"),
            size_bytes=sa.bindparam("new_size_bytes"),
            body=sa.bindparam("new_body"),
        )
    ),
    key=_entries.c.id,
    parameter="entry_id",
)
_LOCK: Final = sa.update(_entries).where(*_EXPECTED).values(version=_entries.c.version)
_RENAME: Final = (
    sa.update(_entries)
    .where(*_EXPECTED)
    .values(
        namespace_id=sa.bindparam("new_namespace_id"),
        name=sa.bindparam("new_name"),
        version=_entries.c.version + 1,
        updated_at_ms=sa.bindparam("now_ms"),
    )
)
_DELETE: Final = sa.delete(_entries).where(_entries.c.id == sa.bindparam("entry_id"))
_DELETE_EXPECTED: Final = sa.delete(_entries).where(*_EXPECTED)
