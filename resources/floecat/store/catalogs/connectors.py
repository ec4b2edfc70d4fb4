"""Connectors: places outside of the catalog that are scanned for tables."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.identifiers.namespace import Namespace
from floecat.store.catalogs.connector_policies import ConnectorPolicy, decode_policy, encode_policy
from floecat.store.database.connections import Connection
from floecat.store.database.statements import (
    LIMIT,
    NO_LIMIT,
    can_exist,
    decode_properties,
    decode_texts,
    encode_properties,
    encode_texts,
)
from floecat.store.schema import id_column, integer_column, metadata, name_column, text_column

__all__ = [
    "ConnectorRow",
    "claim",
    "connectors_table",
    "count",
    "delete",
    "due",
    "find",
    "finish_scan",
    "get",
    "insert",
    "list_all",
    "replace_credentials",
    "sizes",
    "update",
    "with_credentials",
]

connectors_table: Final = sa.Table(
    "connectors",
    metadata,
    id_column(primary_key=True),
    id_column("catalog_id", sa.ForeignKey("catalogs.id", ondelete="CASCADE")),
    name_column("name"),
    text_column("kind"),
    text_column("location"),
    text_column("namespace"),
    text_column("options"),
    sa.Column("enabled", sa.Boolean(), nullable=False),
    integer_column("interval_ms"),
    integer_column("next_scan_at_ms"),
    integer_column("last_scan_at_ms", nullable=True),
    text_column("last_error", nullable=True),
    text_column("credentials", nullable=True),
    text_column("policy"),
    integer_column("created_at_ms"),
    integer_column("updated_at_ms"),
    sa.UniqueConstraint("catalog_id", "name"),
    # a schedule takes the due ones from here
    sa.Index(None, "enabled", "next_scan_at_ms"),
)

_COLUMNS: Final = (
    connectors_table.c.id,
    connectors_table.c.catalog_id,
    connectors_table.c.name,
    connectors_table.c.kind,
    connectors_table.c.location,
    connectors_table.c.namespace,
    connectors_table.c.options,
    connectors_table.c.enabled,
    connectors_table.c.interval_ms,
    connectors_table.c.next_scan_at_ms,
    connectors_table.c.created_at_ms,
    connectors_table.c.updated_at_ms,
    connectors_table.c.last_scan_at_ms,
    connectors_table.c.last_error,
    connectors_table.c.credentials,
    connectors_table.c.policy,
)
_INSERT: Final = sa.insert(connectors_table)
_GET: Final = sa.select(*_COLUMNS).where(connectors_table.c.id == sa.bindparam("id"))
_FIND: Final = sa.select(*_COLUMNS).where(
    connectors_table.c.catalog_id == sa.bindparam("catalog_id"),
    connectors_table.c.name == sa.bindparam("name"),
)
_LIST: Final = (
    sa.select(*_COLUMNS)
    .where(
        connectors_table.c.catalog_id == sa.bindparam("catalog_id"),
        connectors_table.c.name > sa.bindparam("after"),
    )
    .order_by(connectors_table.c.name)
    .limit(LIMIT)
)
_LIST_SIZES: Final = _LIST.with_only_columns(
    sa.func.length(connectors_table.c.options)
    + sa.func.length(connectors_table.c.policy)
    + sa.func.length(sa.func.coalesce(connectors_table.c.last_error, ""))
    + sa.func.length(connectors_table.c.location)
    + 1024
)
_COUNT: Final = sa.select(sa.func.count()).where(connectors_table.c.catalog_id == sa.bindparam("catalog_id"))
_place: Final = sa.func.row_number().over(
    partition_by=connectors_table.c.catalog_id, order_by=connectors_table.c.next_scan_at_ms
)
_DUE: Final = (
    sa.select(*_COLUMNS)
    .where(connectors_table.c.enabled, connectors_table.c.next_scan_at_ms <= sa.bindparam("now_ms"))
    .order_by(_place, connectors_table.c.next_scan_at_ms)
    .limit(LIMIT)
)
_OF_ID: Final = connectors_table.c.id == sa.bindparam("of_id")
_UPDATE: Final = (
    sa.update(connectors_table)
    .where(_OF_ID)
    .values(
        location=sa.bindparam("new_location"),
        namespace=sa.bindparam("new_namespace"),
        options=sa.bindparam("new_options"),
        credentials=sa.bindparam("new_credentials"),
        policy=sa.bindparam("new_policy"),
        enabled=sa.bindparam("new_enabled"),
        interval_ms=sa.bindparam("new_interval_ms"),
        next_scan_at_ms=sa.bindparam("new_next_scan_at_ms"),
        updated_at_ms=sa.bindparam("now_ms"),
    )
)
_CLAIM: Final = (
    sa.update(connectors_table)
    .where(_OF_ID, connectors_table.c.next_scan_at_ms == sa.bindparam("expected_next_scan_at_ms"))
    .values(next_scan_at_ms=sa.bindparam("new_next_scan_at_ms"))
)
_FINISH_SCAN: Final = (
    sa.update(connectors_table)
    .where(_OF_ID)
    .values(last_scan_at_ms=sa.bindparam("now_ms"), last_error=sa.bindparam("new_last_error"))
)
_WITH_CREDENTIALS: Final = sa.select(*_COLUMNS).where(connectors_table.c.credentials.is_not(None))
_REPLACE_CREDENTIALS: Final = (
    sa.update(connectors_table)
    .where(_OF_ID, connectors_table.c.credentials == sa.bindparam("old"))
    .values(credentials=sa.bindparam("new"))
)
_DELETE: Final = sa.delete(connectors_table).where(_OF_ID)


class ConnectorRow(msgspec.Struct, frozen=True):
    """A connector."""

    id: UUID
    catalog_id: UUID
    name: str
    """Unique in the catalog."""
    kind: str
    """Kind as `floecat.connectors.registry` knows it."""
    location: str
    """Root of the search, normalized."""
    namespace: Namespace
    """Namespace below which its tables go."""
    options: dict[str, str]
    """Options of its kind."""
    enabled: bool
    """Whether schedules scan it."""
    interval_ms: int
    """Time between two scheduled scans."""
    next_scan_at_ms: int
    """Time when the next scheduled scan is due."""
    created_at_ms: int
    updated_at_ms: int
    last_scan_at_ms: int | None = None
    """Time when the last scan ended, scheduled or requested."""
    last_error: str | None = None
    """Error of that scan, if any."""
    credentials: str | None = None
    """How it logs in upstream, encrypted."""
    policy: ConnectorPolicy = ConnectorPolicy()


def insert(conn: Connection, row: ConnectorRow) -> None:
    """Inserts a connector.

    Raises:
        DuplicateKeyError: the catalog has a connector of this name.
        ForeignKeyError: there is no such catalog.
    """
    values = msgspec.structs.asdict(row)
    values["namespace"] = encode_texts(row.namespace)
    values["options"] = encode_properties(row.options)
    values["policy"] = encode_policy(row.policy)
    conn.change(_INSERT, values)


def get(conn: Connection, connector_id: UUID) -> ConnectorRow | None:
    """The connector of this id."""
    row = conn.first(_GET, {"id": connector_id})
    return None if row is None else _record(row)


def find(conn: Connection, catalog_id: UUID, name: str) -> ConnectorRow | None:
    """The connector of this name."""
    if not can_exist(name):
        return None
    row = conn.first(_FIND, {"catalog_id": catalog_id, "name": name})
    return None if row is None else _record(row)


def list_all(
    conn: Connection, catalog_id: UUID, after: str | None = None, limit: int | None = None
) -> list[ConnectorRow]:
    """The connectors of a catalog, ordered by name.

    Args:
        after: last name of the page before.
        limit: most connectors; `None` for all.
    """
    return [_record(row) for row in conn.all(_LIST, _listed(catalog_id, after, limit))]


def sizes(conn: Connection, catalog_id: UUID, after: str | None, limit: int) -> list[int]:
    """The bytes of connectors, as `list_all` gives them."""
    return [row[0] for row in conn.all(_LIST_SIZES, _listed(catalog_id, after, limit))]


def _listed(catalog_id: UUID, after: str | None, limit: int | None) -> dict[str, object]:
    return {
        "catalog_id": catalog_id,
        "after": after or "",
        "limit": NO_LIMIT if limit is None else limit,
    }


def count(conn: Connection, catalog_id: UUID) -> int:
    """The number of connectors of a catalog."""
    row = conn.first(_COUNT, {"catalog_id": catalog_id})
    return 0 if row is None else row[0]


def due(conn: Connection, now_ms: int, limit: int) -> list[ConnectorRow]:
    """Enabled connectors that are due: of each catalog the one that waits longest, then the next of each."""
    return [_record(row) for row in conn.all(_DUE, {"now_ms": now_ms, "limit": limit})]


def update(conn: Connection, row: ConnectorRow, now_ms: int) -> bool:
    """Changes what a user may change: location, namespace, options, and when it is scanned.

    Args:
        conn: a transaction.
        row: the connector as it shall be.

    Returns:
        False if there is no such connector.
    """
    parameters = {
        "of_id": row.id,
        "new_location": row.location,
        "new_namespace": encode_texts(row.namespace),
        "new_options": encode_properties(row.options),
        "new_credentials": row.credentials,
        "new_policy": encode_policy(row.policy),
        "new_enabled": row.enabled,
        "new_interval_ms": row.interval_ms,
        "new_next_scan_at_ms": row.next_scan_at_ms,
        "now_ms": now_ms,
    }
    return conn.change(_UPDATE, parameters) == 1


def with_credentials(conn: Connection) -> list[ConnectorRow]:
    """The connectors of every catalog that have credentials."""
    return [_record(row) for row in conn.all(_WITH_CREDENTIALS, {})]


def replace_credentials(conn: Connection, row: ConnectorRow, credentials: str | None) -> None:
    """Writes the credentials of a row encrypted anew, unless they were changed meanwhile."""
    conn.change(_REPLACE_CREDENTIALS, {"of_id": row.id, "old": row.credentials, "new": credentials})


def claim(conn: Connection, row: ConnectorRow, next_scan_at_ms: int) -> bool:
    """Claims a scheduled scan, so that one process does it.

    Args:
        conn: a transaction.
        row: the connector as `due` gave it.
        next_scan_at_ms: when the scan after this one is due; also if this one dies.

    Returns:
        False if another process was faster.
    """
    parameters = {
        "of_id": row.id,
        "expected_next_scan_at_ms": row.next_scan_at_ms,
        "new_next_scan_at_ms": next_scan_at_ms,
    }
    return conn.change(_CLAIM, parameters) == 1


def finish_scan(conn: Connection, connector_id: UUID, now_ms: int, error: str | None) -> bool:
    """Notes that a scan ended, and what went wrong in it; `None` for nothing.

    Returns:
        False if there is no such connector any more.
    """
    return conn.change(_FINISH_SCAN, {"of_id": connector_id, "now_ms": now_ms, "new_last_error": error}) == 1


def delete(conn: Connection, connector_id: UUID) -> bool:
    """Deletes a connector; the tables that it found stay.

    Returns:
        False if there is no such connector.
    """
    return conn.change(_DELETE, {"of_id": connector_id}) == 1


def _record(row: Any) -> ConnectorRow:
    id_, catalog_id, name, kind, location, namespace, options, *rest, policy = row
    levels, given = decode_texts(namespace), decode_properties(options)
    read = ConnectorRow(id_, catalog_id, name, kind, location, levels, given, *rest)
    return msgspec.structs.replace(read, policy=decode_policy(policy))
