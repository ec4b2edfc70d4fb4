"""The data step of an upgrade: documents of earlier versions are brought into the form of this one.

Only entries of an older form are read, one after the other; those that need nothing are marked in batches.
So the step can be stopped and repeated, and a service may run beside it: a changed document is swapped as a
commit swaps it, and the version of its row tells other processes that theirs is old.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from floecat.errors import FloecatError
from floecat.iceberg.metadata.integrity import check_integrity
from floecat.iceberg.metadata.properties import table_type
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.normalization import read_foreign_table
from floecat.iceberg.views.normalization import normalize_view
from floecat.iceberg.views.view_integrity import check_view_integrity
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.store import documents, entry_changes, snapshots
from floecat.store.database.connections import Connection
from floecat.store.database.engine import Store
from floecat.store.database.prepared_statements import Parameters
from floecat.store.database.statements import LIMIT
from floecat.store.schema import DOCUMENT_FORM, OLDER_FORM
from floecat.store.schema import entries as _entries
from floecat.store.schema import metadata_documents as _documents
from floecat.store.schema import namespaces as _namespaces
from floecat.store.snapshots import RefRow, row_of

__all__ = ["NORMALIZERS", "normalize_documents"]

_log = logging.getLogger(__name__)

_BATCH: Final = 100
_REPORT_EVERY_S: Final = 5.0
_FIRST_ID: Final = UUID(int=0)


def _normalize_table(data: bytes) -> bytes:
    metadata = read_foreign_table(data)
    check_integrity(metadata)
    return metadata.to_bytes()


def _normalize_view(data: bytes) -> bytes:
    made = normalize_view(data)
    check_view_integrity(ViewMetadata.parse(made))
    return made


NORMALIZERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "table": _normalize_table,
    "view": _normalize_view,
}
"""What brings a document into form, by the kind of its entry."""

_OLDER: Final = (sa.text(OLDER_FORM), _entries.c.kind.in_(sorted(NORMALIZERS)))
_PAGE: Final = (
    sa.select(_entries.c.id)
    .where(*_OLDER, _entries.c.id > sa.bindparam("after"))
    .order_by(_entries.c.id)
    .limit(LIMIT)
)
_FIND: Final = (
    sa.select(
        _entries.c.version,
        _entries.c.kind,
        _entries.c.format,
        _entries.c.metadata_location,
        _entries.c.location,
        _entries.c.object_uuid,
        _entries.c.format_version,
        _entries.c.updated_at_ms,
        _entries.c.name,
        _namespaces.c.physical_name,
        _documents.c.body,
    )
    .select_from(
        _entries.join(_namespaces, _entries.c.namespace_id == _namespaces.c.id).join(
            _documents, _documents.c.entry_id == _entries.c.id
        )
    )
    .where(_entries.c.id == sa.bindparam("id"))
)
_MARK: Final = (
    sa.update(_entries)
    .where(_entries.c.id == sa.bindparam("entry_id"), _entries.c.version == sa.bindparam("expected_version"))
    .values(document_form=DOCUMENT_FORM, table_type=sa.bindparam("new_table_type"))
)


class _Stored(NamedTuple):
    version: int
    kind: str
    format: str
    metadata_location: str
    location: str
    object_uuid: str
    format_version: int
    updated_at_ms: int
    name: str
    physical_name: str
    body: bytes


def normalize_documents(store: Store, report: Callable[[str], None] = _log.info) -> None:
    """Converts every document of an older form; costs one statement where there are none.

    A document that has no form which every reader reads is logged with its name, and stays as it is. So does
    one that is changed meanwhile; the next upgrade looks at both again.

    Args:
        store: of the schema of this version.
        report: takes a line now and then while there is a lot to do.

    Raises:
        StoreUnavailableError: the store is away or locked; what was done so far stays done.
    """
    after, done, reported_at = _FIRST_ID, 0, time.monotonic()
    while True:
        with store.read() as conn:
            ids = [row[0] for row in conn.all(_PAGE, {"after": after, "limit": _BATCH})]
        if not ids:
            return
        marks = [mark for entry_id in ids if (mark := _normalize(store, entry_id)) is not None]
        if marks:
            store.run(partial(_mark, marks))
        after, done = ids[-1], done + len(ids)
        if time.monotonic() - reported_at > _REPORT_EVERY_S:
            reported_at = time.monotonic()
            report(f"Looked at {done} metadata documents")


def _mark(marks: Sequence[Parameters], conn: Connection) -> None:
    conn.change_many(_MARK, marks)


def _normalize(store: Store, entry_id: UUID) -> Parameters | None:
    """Brings the document of an entry into form.

    Returns:
        What marks the row that has it; None if it is gone, or cannot be brought into form.
    """
    with store.read() as conn:
        row = conn.first(_FIND, {"id": entry_id})
    if row is None:
        return None
    stored = _Stored(*row)
    if stored.format == "delta":
        return _mark_of(entry_id, stored.version, None)  # made here
    data = documents.decompress(stored.body)
    try:
        made = NORMALIZERS[stored.kind](data)
    except FloecatError as error:
        _log.warning(
            "%s %s.%s is left as it is: not every reader can read its metadata: %s",
            stored.kind,
            stored.physical_name,
            stored.name,
            error.message,
        )
        return None
    metadata = TableMetadata.parse(made) if stored.kind == "table" else None
    type_ = None if metadata is None else table_type(metadata.properties)
    if made == data:
        return _mark_of(entry_id, stored.version, type_)
    if not store.run(lambda conn: _swap(conn, entry_id, stored, made, metadata, type_)):
        return None
    return _mark_of(entry_id, stored.version + 1, type_)


def _mark_of(entry_id: UUID, version: int, type_: str | None) -> Parameters:
    return {"entry_id": entry_id, "expected_version": version, "new_table_type": type_}


def _swap(
    conn: Connection,
    entry_id: UUID,
    stored: _Stored,
    made: bytes,
    metadata: TableMetadata | None,
    type_: str | None,
) -> bool:
    swapped = entry_changes.swap(
        conn,
        entry_id,
        stored.version,
        metadata_location=stored.metadata_location,
        document=documents.compress(made),
        size_bytes=len(made),
        location=stored.location,
        format_version=stored.format_version,
        object_uuid=stored.object_uuid if metadata is None else metadata.table_uuid,
        table_type=type_,
        now_ms=stored.updated_at_ms,
    )
    if swapped and metadata is not None:
        known = [row.snapshot_id for row in snapshots.list_all(conn, entry_id)]
        snapshots.delete_many(conn, entry_id, known)
        snapshots.insert_many(conn, entry_id, [row_of(snapshot) for snapshot in metadata.snapshots])
        refs = [RefRow(name, ref.type, ref.snapshot_id) for name, ref in metadata.refs.items()]
        snapshots.replace_refs(conn, entry_id, refs)
    return swapped
