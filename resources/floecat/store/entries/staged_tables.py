"""Staged tables: metadata of tables whose creation was begun and not committed (`stage-create`).

A staged table takes no name: several may be staged under one, and a table of that name may be created
meanwhile.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.errors import TransactionConflictError
from floecat.store.database.statements import LIMIT, insert_if_absent
from floecat.store.schema import id_column, integer_column, metadata, name_column, text_column

__all__ = ["StagedTableRow", "delete", "delete_expired", "find", "insert", "list_live"]

_staged: Final = sa.Table(
    "staged_tables",
    metadata,
    id_column(primary_key=True),
    id_column("catalog_id", sa.ForeignKey("catalogs.id", ondelete="CASCADE")),
    name_column("namespace"),
    name_column("name"),
    name_column("stage_id"),
    text_column("principal"),
    sa.Column("body", sa.LargeBinary(), nullable=False),
    integer_column("created_at_ms"),
    integer_column("expires_at_ms", index=True),
    sa.UniqueConstraint("catalog_id", "namespace", "name", "stage_id"),
)

_SELECT: Final = sa.select(
    _staged.c.id,
    _staged.c.catalog_id,
    _staged.c.namespace,
    _staged.c.name,
    _staged.c.stage_id,
    _staged.c.principal,
    _staged.c.body,
    _staged.c.created_at_ms,
    _staged.c.expires_at_ms,
)
_KEY: Final = (_staged.c.catalog_id, _staged.c.namespace, _staged.c.name, _staged.c.stage_id)
_NAMED: Final = tuple(column == sa.bindparam(f"of_{column.name}") for column in _KEY[:3])
_STAGED: Final = (*_NAMED, _staged.c.stage_id == sa.bindparam("of_stage_id"))
_LIVE: Final = _staged.c.expires_at_ms > sa.bindparam("now_ms")
_INSERT: Final = insert_if_absent(_staged, *_KEY)
_GET: Final = _SELECT.where(*_STAGED)
_FIND: Final = _SELECT.where(*_NAMED, _LIVE).order_by(_staged.c.id)
_LIST_LIVE: Final = sa.select(_staged.c.body).where(_LIVE)
_DELETE: Final = sa.delete(_staged).where(*_NAMED)
_DELETE_STAGED: Final = sa.delete(_staged).where(*_STAGED)
_DELETE_EXPIRED_ONE: Final = sa.delete(_staged).where(
    *_STAGED, _staged.c.expires_at_ms <= sa.bindparam("now_ms")
)
_doomed: Final = (
    sa.select(_staged.c.id)
    .where(_staged.c.expires_at_ms <= sa.bindparam("now_ms"))
    .order_by(_staged.c.expires_at_ms)
    .limit(LIMIT)
)
_DELETE_EXPIRED: Final = sa.delete(_staged).where(_staged.c.id.in_(_doomed))


class StagedTableRow(msgspec.Struct, frozen=True):
    """A staged table."""

    id: UUID
    catalog_id: UUID
    namespace: str
    """Physical name; the namespace may be gone when the creation is committed."""
    name: str
    stage_id: str
    principal: str
    body: bytes
    """Metadata document, compressed by `floecat.store.entries.documents`."""
    created_at_ms: int
    expires_at_ms: int


def insert(conn: Connection, row: StagedTableRow, now_ms: int) -> StagedTableRow:
    """Stages a table, unless one is staged under the same name and stage id.

    Returns:
        The row that is staged now: the given one or the earlier one. One that expired is replaced.

    Raises:
        ForeignKeyError: there is no such catalog.
        TransactionConflictError: the row went away while it was looked at; `Store.run` tries again.
    """
    values = msgspec.structs.asdict(row)
    parameters = _of(row.catalog_id, row.namespace, row.name, row.stage_id)
    if conn.change(_INSERT, values) == 1:
        return row
    if conn.change(_DELETE_EXPIRED_ONE, {**parameters, "now_ms": now_ms}) == 1 and (
        conn.change(_INSERT, values) == 1
    ):
        return row
    kept = conn.first(_GET, parameters)
    if kept is None:
        raise TransactionConflictError("The staged table was just removed")
    return StagedTableRow(*kept)


def find(conn: Connection, catalog_id: UUID, namespace: str, name: str, now_ms: int) -> list[StagedTableRow]:
    """All tables that are staged under a name and did not expire, oldest first."""
    parameters = {**_of(catalog_id, namespace, name), "now_ms": now_ms}
    return [StagedTableRow(*row) for row in conn.all(_FIND, parameters)]


def list_live(conn: Connection, now_ms: int) -> list[bytes]:
    """The compressed metadata documents of all staged tables of all catalogs that did not expire."""
    return [row[0] for row in conn.all(_LIST_LIVE, {"now_ms": now_ms})]


def delete(conn: Connection, catalog_id: UUID, namespace: str, name: str, stage_id: str | None = None) -> int:
    """Deletes the table that is staged under a name and a stage id, or all under the name.

    Returns:
        How many.
    """
    if stage_id is None:
        return conn.change(_DELETE, _of(catalog_id, namespace, name))
    return conn.change(_DELETE_STAGED, _of(catalog_id, namespace, name, stage_id))


def delete_expired(conn: Connection, now_ms: int, limit: int) -> int:
    """Deletes expired rows, oldest first.

    Returns:
        How many; fewer than `limit` when none are left.
    """
    return conn.change(_DELETE_EXPIRED, {"now_ms": now_ms, "limit": limit})


def _of(catalog_id: UUID, namespace: str, name: str, stage_id: str | None = None) -> dict[str, object]:
    parameters: dict[str, object] = {
        "of_catalog_id": catalog_id,
        "of_namespace": namespace,
        "of_name": name,
    }
    if stage_id is not None:
        parameters["of_stage_id"] = stage_id
    return parameters
