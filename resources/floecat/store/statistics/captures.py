"""Captures of each snapshot, and how far the commit log was searched for snapshots to capture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.identifiers.written_names import written
from floecat.store.catalogs.connector_policies import ConnectorPolicy, decode_policy
from floecat.store.catalogs.connectors import connectors_table as _connectors
from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT, decode_texts, insert_if_absent, upsert
from floecat.store.entries.followed_entries import followed_table as _followed
from floecat.store.schema import catalogs as _catalogs
from floecat.store.schema import delta_tables as _delta
from floecat.store.schema import entries as _entries
from floecat.store.schema import jobs as _jobs
from floecat.store.schema import namespaces as _namespaces
from floecat.store.schema import refs as _refs
from floecat.store.schema import snapshots as _snapshots
from floecat.store.statistics.schema import capture_positions as _positions
from floecat.store.statistics.schema import snapshot_captures as _captures

__all__ = [
    "CaptureRow",
    "NamedTable",
    "NewestSnapshot",
    "behind",
    "delete",
    "expired",
    "finalize",
    "forget",
    "get",
    "list_all",
    "mark_published",
    "move_position",
    "named",
    "newest",
    "newest_finalized",
    "of_catalog",
    "of_connector",
    "request",
    "sizes",
    "uncaptured",
]


class CaptureRow(msgspec.Struct, frozen=True, kw_only=True):
    """The capture of a snapshot. Times in ms since the epoch."""

    snapshot_id: int
    generation: int = 0
    """Counts finalized captures."""
    status: str = "pending"
    """`pending` or `finalized`."""
    job_id: UUID | None = None
    """The capture that was asked for last, or that was finalized."""
    columns: str = "{}"
    """JSON: type by field id, as they were captured."""
    coverage: str = "{}"
    """JSON, as the capture reports it."""
    problem: str | None = None
    """Reason why the capture is partial."""
    statistics_file: str | None = None
    """Location of the Iceberg statistics file that the snapshot has in its table."""
    requested_at_ms: int
    finalized_at_ms: int | None = None
    published_at_ms: int | None = None
    """Time when that was set, or seen."""


class NamedTable(msgspec.Struct, frozen=True):
    """A table by name."""

    entry_id: UUID
    catalog_id: UUID
    account_id: UUID
    catalog: str
    schema_separator: str | None
    namespace: Namespace
    name: str
    snapshot_id: int | None
    """Snapshot of the branch `main`."""
    captured: bool
    """Whether that snapshot is captured, or noted to be."""
    is_followed: bool = False
    """Whether a connector keeps it as it is in another catalog."""
    policy: ConnectorPolicy | None = None
    """Policy of the connector that found it; `None` for a table of the catalog's own."""

    @property
    def identifier(self) -> TableIdentifier:
        """The name in the catalog."""
        return TableIdentifier(self.namespace, self.name)

    @property
    def logical_name(self) -> str:
        """The name for people: `A:B.orders`."""
        return written(self.identifier, self.schema_separator)


class NewestSnapshot(NamedTuple):
    """One of the newest snapshots of a table."""

    snapshot_id: int
    captured: bool
    """Whether it is captured, or an open job captures it."""


def request(conn: Connection, entry_id: UUID, rows: Sequence[CaptureRow]) -> None:
    """Notes that snapshots are to be captured; those that were noted before stay as they are.

    Raises:
        ForeignKeyError: the entry does not exist.
    """
    conn.change_many(_REQUEST, [_values(entry_id, row) for row in rows])


def get(conn: Connection, entry_id: UUID, snapshot_id: int) -> CaptureRow | None:
    """The capture of a snapshot."""
    row = conn.first(_GET, {"of_entry": entry_id, "of_snapshot": snapshot_id})
    return None if row is None else _row(row)


def named(conn: Connection, entry_ids: Sequence[UUID]) -> list[NamedTable]:
    """Tables with what jobs about them say, and their current snapshots; those that are gone are left out."""
    return [_named(row) for row in conn.all(_NAMED, {"ids": list(entry_ids)})]


def of_connector(
    conn: Connection, connector_id: UUID, after: UUID, limit: int, *, captured: bool
) -> list[NamedTable]:
    """Tables that a connector found and that have a current snapshot, in the order of their ids.

    Args:
        after: id of the last one of the page before.
        limit: most tables of each form, those that it follows and those that it registered.
        captured: whether those are wanted, too, whose current snapshot is captured, or was to be.
    """
    parameters = {"connector_id": connector_id, "after": after, "limit": limit, "captured": captured}
    found = [_named(row) for each in (_OF_FOLLOWED, _OF_DELTA) for row in conn.all(each, parameters)]
    return sorted(found, key=lambda table: table.entry_id)[:limit]


def of_catalog(
    conn: Connection, catalog_id: UUID, connector_id: UUID, after: UUID, limit: int, *, captured: bool
) -> list[NamedTable]:
    """The same of a catalog: its own tables, and those of one connector."""
    parameters = {
        "catalog_id": catalog_id,
        "connector_id": connector_id,
        "after": after,
        "limit": limit,
        "captured": captured,
    }
    return [_named(row) for row in conn.all(_OF_CATALOG, parameters)]


def list_all(conn: Connection, entry_id: UUID, after: int, limit: int) -> list[CaptureRow]:
    """Captures of a table, in order of snapshot ids above one, without their columns, which may be many."""
    return [_row(row) for row in conn.all(_LIST, {"of_entry": entry_id, "after": after, "limit": limit})]


def sizes(conn: Connection, entry_id: UUID, after: int, limit: int) -> list[int]:
    """The bytes of captures, as `list_all` gives them."""
    parameters = {"of_entry": entry_id, "after": after, "limit": limit}
    return [row[0] for row in conn.all(_LIST_SIZES, parameters)]


def newest_finalized(conn: Connection, entry_id: UUID) -> CaptureRow | None:
    """The capture of the newest snapshot of a table that is captured."""
    row = conn.first(_NEWEST, {"of_entry": entry_id})
    return None if row is None else _row(row)


def newest(conn: Connection, entry_id: UUID, limit: int) -> list[NewestSnapshot]:
    """The newest snapshots of a table, newest first."""
    rows = conn.all(_NEWEST_SNAPSHOTS, {"of_entry": entry_id, "limit": limit})
    return [NewestSnapshot(row[0], bool(row[1])) for row in rows]


def uncaptured(conn: Connection, entry_id: UUID, limit: int) -> list[int]:
    """Snapshots of a table that are not captured, and no open capture was asked for, newest first."""
    return [row[0] for row in conn.all(_UNCAPTURED, {"of_entry": entry_id, "limit": limit})]


def finalize(conn: Connection, entry_id: UUID, row: CaptureRow) -> None:
    """Makes a row the capture of its snapshot.

    Raises:
        ForeignKeyError: the entry does not exist.
    """
    conn.change(_PUT, _values(entry_id, row))


def forget(conn: Connection, entry_id: UUID, snapshot_id: int) -> None:
    """Forgets that a snapshot was to be captured; what is finalized stays."""
    conn.change(_FORGET, {"of_entry": entry_id, "of_snapshot": snapshot_id})


def mark_published(conn: Connection, entry_id: UUID, snapshot_id: int, path: str, now_ms: int) -> None:
    """Notes the statistics file that a snapshot has in the table."""
    parameters = {"of_entry": entry_id, "of_snapshot": snapshot_id, "path": path, "now_ms": now_ms}
    conn.change(_PUBLISHED, parameters)


def expired(conn: Connection, entry_id: UUID) -> list[int]:
    """Snapshots that were captured, or were to be, and that the table has no more."""
    return [row[0] for row in conn.all(_EXPIRED, {"of_entry": entry_id})]


def delete(conn: Connection, entry_id: UUID, snapshot_id: int) -> None:
    """Deletes the capture of a snapshot."""
    conn.change(_DELETE, {"of_entry": entry_id, "of_snapshot": snapshot_id})


def behind(conn: Connection) -> list[tuple[UUID, int]]:
    """Ids of catalogs with commits that were not searched, and the last version that was."""
    return [(row[0], row[1]) for row in conn.all(_BEHIND)]


def move_position(conn: Connection, catalog_id: UUID, seen: int, version: int) -> bool:
    """Notes up to which version the log of a catalog was searched; False if another process was faster."""
    if seen == 0 and conn.change(_FIRST_POSITION, {"catalog_id": catalog_id, "commit_version": version}):
        return True
    return conn.change(_MOVE, {"of_catalog": catalog_id, "seen": seen, "version": version}) == 1


def _named(row: Any) -> NamedTable:
    id, catalog_id, account_id, catalog, separator, levels, name, at, captured, followed, policy = row
    return NamedTable(
        id,
        catalog_id,
        account_id,
        catalog,
        separator,
        decode_texts(levels),
        name,
        at,
        bool(captured),
        bool(followed),
        None if policy is None else decode_policy(policy),
    )


def _values(entry_id: UUID, row: CaptureRow) -> dict[str, object]:
    return {"entry_id": entry_id, **msgspec.structs.asdict(row)}


def _row(row: Sequence[object]) -> CaptureRow:
    return CaptureRow(**dict(zip(CaptureRow.__struct_fields__, row, strict=True)))  # type: ignore[arg-type]


_COLUMNS: Final = tuple(_captures.c[name] for name in CaptureRow.__struct_fields__)
_OF_ENTRY: Final = _captures.c.entry_id == sa.bindparam("of_entry")
_THIS: Final = (_OF_ENTRY, _captures.c.snapshot_id == sa.bindparam("of_snapshot"))
_REQUEST: Final = insert_if_absent(_captures, _captures.c.entry_id, _captures.c.snapshot_id)
_PUT: Final = upsert(_captures, _captures.c.entry_id, _captures.c.snapshot_id)
_GET: Final = sa.select(*_COLUMNS).where(*_THIS)
_connector_id: Final = sa.func.coalesce(_followed.c.connector_id, _delta.c.connector_id)


def _tables() -> sa.Select[Any]:
    return (
        sa.select(
            _entries.c.id,
            _catalogs.c.id,
            _catalogs.c.account_id,
            _catalogs.c.name,
            _catalogs.c.schema_separator,
            _namespaces.c.levels,
            _entries.c.name,
            _refs.c.snapshot_id,
            _captures.c.status.is_not(None),
            _followed.c.connector_id.is_not(None),
            _connectors.c.policy,
        )
        .join(_catalogs, _catalogs.c.id == _entries.c.catalog_id)
        .join(_namespaces, _namespaces.c.id == _entries.c.namespace_id)
        .join(_refs, sa.and_(_refs.c.entry_id == _entries.c.id, _refs.c.name == "main"), isouter=True)
        .join(
            _captures,
            sa.and_(_captures.c.entry_id == _entries.c.id, _captures.c.snapshot_id == _refs.c.snapshot_id),
            isouter=True,
        )
        .join(_followed, _followed.c.entry_id == _entries.c.id, isouter=True)
        .join(_delta, _delta.c.entry_id == _entries.c.id, isouter=True)
        .join(_connectors, _connectors.c.id == _connector_id, isouter=True)
        .where(_entries.c.kind == "table")
    )


_NAMED: Final = _tables().where(_entries.c.id.in_(sa.bindparam("ids", expanding=True)))
_AFTER: Final = (
    _tables()
    .where(
        _entries.c.id > sa.bindparam("after"),
        _refs.c.snapshot_id.is_not(None),
        sa.or_(_captures.c.status.is_(None), sa.bindparam("captured", type_=sa.Boolean())),
    )
    .order_by(_entries.c.id)
    .limit(LIMIT)
)


def _of(table: sa.Table) -> sa.Select[Any]:
    """Pages of the tables of a connector, by an index that has them in their order."""
    wanted = (
        sa.select(table.c.entry_id)
        .where(table.c.connector_id == sa.bindparam("connector_id"), table.c.entry_id > sa.bindparam("after"))
        .order_by(table.c.entry_id)
    )
    return _AFTER.where(_entries.c.id.in_(wanted))


_OF_FOLLOWED: Final = _of(_followed)
_OF_DELTA: Final = _of(_delta)
_OF_CATALOG: Final = _AFTER.where(
    _entries.c.catalog_id == sa.bindparam("catalog_id"),
    sa.or_(_connector_id.is_(None), _connector_id == sa.bindparam("connector_id")),
)
_LIST: Final = (
    sa.select(*(sa.literal("{}") if column.name == "columns" else column for column in _COLUMNS))
    .where(_OF_ENTRY, _captures.c.snapshot_id > sa.bindparam("after"))
    .order_by(_captures.c.snapshot_id)
    .limit(LIMIT)
)
_LIST_SIZES: Final = _LIST.with_only_columns(
    sa.func.length(sa.func.coalesce(_captures.c.problem, ""))
    + sa.func.length(sa.func.coalesce(_captures.c.statistics_file, ""))
    + 512
)
_NEWEST: Final = (
    sa.select(*_COLUMNS)
    .join(
        _snapshots,
        sa.and_(
            _snapshots.c.entry_id == _captures.c.entry_id, _snapshots.c.snapshot_id == _captures.c.snapshot_id
        ),
    )
    .where(_OF_ENTRY, _captures.c.status == "finalized")
    .order_by(_snapshots.c.sequence_number.desc(), _snapshots.c.timestamp_ms.desc())
    .limit(1)
)
_IS_CAPTURED: Final = sa.exists().where(
    _captures.c.entry_id == _snapshots.c.entry_id,
    _captures.c.snapshot_id == _snapshots.c.snapshot_id,
    # one that was cancelled, or failed for good, is not asked for any more
    sa.or_(
        _captures.c.status == "finalized",
        sa.exists().where(_jobs.c.id == _captures.c.job_id, _jobs.c.finished_at_ms.is_(None)),
    ),
)
_NEWEST_SNAPSHOTS: Final = (
    sa.select(_snapshots.c.snapshot_id, _IS_CAPTURED)
    .where(_snapshots.c.entry_id == sa.bindparam("of_entry"))
    .order_by(_snapshots.c.timestamp_ms.desc())
    .limit(LIMIT)
)
_UNCAPTURED: Final = (
    sa.select(_snapshots.c.snapshot_id)
    .where(_snapshots.c.entry_id == sa.bindparam("of_entry"), ~_IS_CAPTURED)
    .order_by(_snapshots.c.timestamp_ms.desc())
    .limit(LIMIT)
)
_FORGET: Final = sa.delete(_captures).where(*_THIS, _captures.c.status == "pending")
_PUBLISHED: Final = (
    sa.update(_captures)
    .where(*_THIS)
    .values(statistics_file=sa.bindparam("path"), published_at_ms=sa.bindparam("now_ms"))
)
_EXPIRED: Final = sa.select(_captures.c.snapshot_id).where(
    _OF_ENTRY,
    _captures.c.snapshot_id.not_in(
        sa.select(_snapshots.c.snapshot_id).where(_snapshots.c.entry_id == sa.bindparam("of_entry"))
    ),
)
_DELETE: Final = sa.delete(_captures).where(*_THIS)
_searched: Final = sa.func.coalesce(_positions.c.commit_version, 0)
_BEHIND: Final = (
    sa.select(_catalogs.c.id, _searched)
    .join(_positions, _positions.c.catalog_id == _catalogs.c.id, isouter=True)
    .where(_catalogs.c.commit_version > _searched)
)
_FIRST_POSITION: Final = insert_if_absent(_positions, _positions.c.catalog_id)
_MOVE: Final = (
    sa.update(_positions)
    .where(
        _positions.c.catalog_id == sa.bindparam("of_catalog"),
        _positions.c.commit_version == sa.bindparam("seen"),
    )
    .values(commit_version=sa.bindparam("version"))
)
