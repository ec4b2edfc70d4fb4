"""Queries: what a client reads under one id, pinned to the snapshots that it saw first.

A query lives until it expires, and is gone for every reader from then on, whether or not its row was removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT, insert_if_absent
from floecat.store.schema import id_column, integer_column, metadata, name_column, text_column

__all__ = [
    "PinRow",
    "QueryRow",
    "abort",
    "count_open",
    "delete_expired",
    "end",
    "get",
    "insert",
    "list_pins",
    "pin",
    "queries",
    "renew",
    "set_state",
    "touch_pin",
]

_OPEN_QUERY: Final = sa.text("ended_at_ms IS NULL")
queries: Final = sa.Table(
    "queries",
    metadata,
    id_column(primary_key=True),
    id_column("catalog_id", sa.ForeignKey("catalogs.id", ondelete="CASCADE")),
    name_column("principal"),
    text_column("state"),
    text_column("obligations"),
    integer_column("as_of_default_ms", nullable=True),
    integer_column("created_at_ms"),
    integer_column("expires_at_ms", index=True),
    integer_column("ended_at_ms", nullable=True),
    sa.CheckConstraint(
        "state IN ('submitted', 'completed', 'failed', 'ended_commit', 'ended_abort')", name="state"
    ),
    # counts those of a catalog that are open, and those of a principal
    sa.Index(None, "catalog_id", "principal", sqlite_where=_OPEN_QUERY, postgresql_where=_OPEN_QUERY),
)

_pins: Final = sa.Table(
    "query_pins",
    metadata,
    id_column("query_id", sa.ForeignKey("queries.id", ondelete="CASCADE"), primary_key=True),
    # without a foreign key: the pin of a table that was dropped stays as it was
    id_column("table_id", primary_key=True),
    text_column("kind"),
    integer_column("snapshot_id", nullable=True),
    text_column("metadata_location"),
    integer_column("schema_id"),
    integer_column("first_as_of_ms", nullable=True),
    integer_column("last_as_of_ms", nullable=True),
    integer_column("pinned_at_ms"),
    sa.CheckConstraint("kind IN ('current', 'as_of', 'snapshot_id')", name="kind"),
)


class QueryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A query. Times in ms since the epoch."""

    id: UUID
    catalog_id: UUID
    principal: str
    state: str
    """`submitted`, `completed` or `failed`; `ended_commit` or `ended_abort` once it was ended."""
    obligations: str = "[]"
    """JSON."""
    as_of_default_ms: int | None = None
    created_at_ms: int
    expires_at_ms: int
    ended_at_ms: int | None = None


class PinRow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a table that a query sees."""

    query_id: UUID
    table_id: UUID
    kind: str
    """Form in which it was asked for first: `current`, `as_of` or `snapshot_id`."""
    snapshot_id: int | None
    """`None` for a table without snapshots."""
    metadata_location: str
    schema_id: int
    first_as_of_ms: int | None = None
    last_as_of_ms: int | None = None
    pinned_at_ms: int


def insert(conn: Connection, row: QueryRow) -> bool:
    """Begins a query.

    Returns:
        False if there is one of this id, or was until lately.

    Raises:
        ForeignKeyError: there is no such catalog.
    """
    return conn.change(_INSERT, msgspec.structs.asdict(row)) == 1


def get(conn: Connection, query_id: UUID, now_ms: int) -> QueryRow | None:
    """The query of an id that has not expired."""
    row = conn.first(_GET, {"query_id": query_id, "now_ms": now_ms})
    return None if row is None else QueryRow(**dict(zip(_COLUMN_NAMES, row, strict=True)))


def count_open(conn: Connection, catalog_id: UUID, now_ms: int, limit: int, principal: str | None) -> int:
    """The number of open queries of a catalog, of one principal or of all; counts up to a limit."""
    parameters: dict[str, object] = {"catalog_id": catalog_id, "now_ms": now_ms, "limit": limit}
    if principal is None:
        return len(conn.all(_OPEN_OF_CATALOG, parameters))
    return len(conn.all(_OPEN_OF_PRINCIPAL, parameters | {"principal": principal}))


def renew(conn: Connection, query_id: UUID, expires_at_ms: int, now_ms: int) -> bool:
    """Moves the end of an open query to a later time; an earlier one changes nothing.

    Returns:
        False if it has expired or was ended.
    """
    parameters = {"query_id": query_id, "new_expires_at_ms": expires_at_ms, "now_ms": now_ms}
    return conn.change(_RENEW, parameters) == 1


def set_state(conn: Connection, query_id: UUID, state: str, now_ms: int) -> bool:
    """Moves a query from `submitted` to `completed` or `failed`.

    Returns:
        False if it is in another state, or has expired.
    """
    return conn.change(_SET_STATE, {"query_id": query_id, "new_state": state, "now_ms": now_ms}) == 1


def end(conn: Connection, query_id: UUID, state: str, now_ms: int, grace_ms: int) -> bool:
    """Ends an open query as `ended_commit` or `ended_abort`; it can be looked at for a grace period.

    Returns:
        False if it was ended before, or has expired.
    """
    parameters = {
        "query_id": query_id,
        "new_state": state,
        "now_ms": now_ms,
        "grace_ends_at_ms": now_ms + grace_ms,
    }
    return conn.change(_END, parameters) == 1


def abort(conn: Connection, query_id: UUID, now_ms: int, grace_ms: int) -> bool:
    """Ends a query as `ended_abort`, also one that was ended as `ended_commit`.

    Returns:
        False if it was aborted before, or has expired.
    """
    parameters = {
        "query_id": query_id,
        "new_state": "ended_abort",
        "now_ms": now_ms,
        "grace_ends_at_ms": now_ms + grace_ms,
    }
    return conn.change(_ABORT, parameters) == 1


def pin(conn: Connection, row: PinRow) -> bool:
    """Pins a table, unless the query has pinned it.

    Returns:
        Whether this pin is the first.
    """
    return conn.change(_PIN, msgspec.structs.asdict(row)) == 1


def touch_pin(conn: Connection, query_id: UUID, table_id: UUID, as_of_ms: int) -> None:
    """Notes the time by which a pinned table was asked for last."""
    conn.change(_TOUCH_PIN, {"of_query": query_id, "of_table": table_id, "as_of_ms": as_of_ms})


def list_pins(conn: Connection, query_id: UUID) -> Sequence[PinRow]:
    """The pins of a query, in the order of table ids."""
    rows = conn.all(_LIST_PINS, {"query_id": query_id})
    return [PinRow(**dict(zip(_PIN_COLUMN_NAMES, row, strict=True))) for row in rows]


def delete_expired(conn: Connection, now_ms: int, limit: int) -> int:
    """Deletes expired queries with their pins and plans, oldest first.

    Returns:
        How many; fewer than `limit` when none are left.
    """
    return conn.change(_DELETE_EXPIRED, {"now_ms": now_ms, "limit": limit})


_COLUMN_NAMES: Final = QueryRow.__struct_fields__
_PIN_COLUMN_NAMES: Final = PinRow.__struct_fields__
_IS_LIVE: Final = queries.c.expires_at_ms > sa.bindparam("now_ms")
_IS_OPEN: Final = queries.c.ended_at_ms.is_(None)
_THIS: Final = queries.c.id == sa.bindparam("query_id")
_INSERT: Final = insert_if_absent(queries, queries.c.id)
_GET: Final = sa.select(*(queries.c[name] for name in _COLUMN_NAMES)).where(_THIS, _IS_LIVE)
_OPEN_OF_CATALOG: Final = (
    sa.select(sa.literal(1))
    .where(queries.c.catalog_id == sa.bindparam("catalog_id"), _IS_OPEN, _IS_LIVE)
    .limit(LIMIT)
)
_OPEN_OF_PRINCIPAL: Final = (
    sa.select(sa.literal(1))
    .where(
        queries.c.catalog_id == sa.bindparam("catalog_id"),
        queries.c.principal == sa.bindparam("principal"),
        _IS_OPEN,
        _IS_LIVE,
    )
    .limit(LIMIT)
)
_later: Final = sa.bindparam("new_expires_at_ms", type_=sa.BigInteger())
_RENEW: Final = (
    sa.update(queries)
    .where(_THIS, _IS_OPEN, _IS_LIVE)
    .values(expires_at_ms=sa.case((queries.c.expires_at_ms < _later, _later), else_=queries.c.expires_at_ms))
)
_SET_STATE: Final = (
    sa.update(queries)
    .where(_THIS, _IS_OPEN, _IS_LIVE, queries.c.state == "submitted")
    .values(state=sa.bindparam("new_state"))
)
_grace: Final = sa.bindparam("grace_ends_at_ms", type_=sa.BigInteger())
_ended: Final = (
    sa.update(queries)
    .where(_THIS, _IS_LIVE)
    .values(
        state=sa.bindparam("new_state"),
        ended_at_ms=sa.bindparam("now_ms"),
        expires_at_ms=sa.case((queries.c.expires_at_ms > _grace, _grace), else_=queries.c.expires_at_ms),
    )
)
_END: Final = _ended.where(_IS_OPEN)
_ABORT: Final = _ended.where(queries.c.state != "ended_abort")
_PIN: Final = insert_if_absent(_pins, _pins.c.query_id, _pins.c.table_id)
_TOUCH_PIN: Final = (
    sa.update(_pins)
    .where(_pins.c.query_id == sa.bindparam("of_query"), _pins.c.table_id == sa.bindparam("of_table"))
    .values(last_as_of_ms=sa.bindparam("as_of_ms"))
)
_LIST_PINS: Final = (
    sa.select(*(_pins.c[name] for name in _PIN_COLUMN_NAMES))
    .where(_pins.c.query_id == sa.bindparam("query_id"))
    .order_by(_pins.c.table_id)
)
_doomed: Final = (
    sa.select(queries.c.id)
    .where(queries.c.expires_at_ms <= sa.bindparam("now_ms"))
    .order_by(queries.c.expires_at_ms)
    .limit(LIMIT)
)
_DELETE_EXPIRED: Final = sa.delete(queries).where(queries.c.id.in_(_doomed))
