"""Tables and views that follow another catalog: which one there, and the state of it that the entry has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from floecat.identifiers.encoding import physical_name
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.catalogs.connectors import connectors_table as _connectors
from floecat.store.database.connections import Connection
from floecat.store.database.statements import can_exist, decode_texts, encode_texts
from floecat.store.schema import catalogs as _catalogs
from floecat.store.schema import delta_tables as _delta
from floecat.store.schema import entries as _entries
from floecat.store.schema import id_column, integer_column, metadata, name_column, text_column
from floecat.store.schema import namespaces as _namespaces

__all__ = [
    "FollowedEntry",
    "Upstream",
    "adopt",
    "counts",
    "followed_table",
    "name_of_uuid",
    "note_problem",
    "of_connector",
    "of_name",
    "of_no_connector",
    "put",
    "set_gone",
    "upstream_of",
]

followed_table: Final = sa.Table(
    "followed_entries",
    metadata,
    id_column("entry_id", sa.ForeignKey("entries.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("connector_id", sa.Uuid(), sa.ForeignKey("connectors.id", ondelete="SET NULL"), nullable=True),
    # levels and name there
    name_column("upstream_name"),
    # where it is there, for people
    text_column("address"),
    text_column("state"),
    # since when the connector has not found it
    integer_column("gone_at_ms", nullable=True),
    text_column("problem", nullable=True),
    # since when it differs from what is there
    integer_column("differs_at_ms", nullable=True),
    sa.Index(None, "connector_id", "entry_id"),
)

_FOLLOWED: Final = (
    sa.select(
        followed_table.c.entry_id,
        followed_table.c.upstream_name,
        followed_table.c.address,
        followed_table.c.state,
        followed_table.c.gone_at_ms,
        followed_table.c.problem,
        followed_table.c.differs_at_ms,
        _entries.c.kind,
        _entries.c.object_uuid,
        _namespaces.c.levels,
        _entries.c.name,
    )
    .select_from(
        followed_table.join(_entries, _entries.c.id == followed_table.c.entry_id).join(
            _namespaces, _namespaces.c.id == _entries.c.namespace_id
        )
    )
    .order_by(followed_table.c.entry_id)
)
_OF_CONNECTOR: Final = _FOLLOWED.where(
    followed_table.c.connector_id == sa.bindparam("connector_id"),
    followed_table.c.entry_id > sa.bindparam("after"),
).limit(sa.bindparam("limit"))
_OF_NO_CONNECTOR: Final = _FOLLOWED.where(
    followed_table.c.connector_id.is_(None), _entries.c.catalog_id == sa.bindparam("catalog_id")
)
_OF_NAME: Final = _OF_CONNECTOR.where(
    _entries.c.catalog_id == sa.bindparam("catalog_id"),
    _namespaces.c.physical_name == sa.bindparam("physical_name"),
    _entries.c.name == sa.bindparam("name"),
)
_ADOPT: Final = (
    sa.update(_entries).where(_entries.c.id == sa.bindparam("of_entry_id")).values(format="iceberg")
)
_UPSTREAM: Final = (
    sa.select(followed_table.c.address, _connectors.c.name)
    .select_from(followed_table.outerjoin(_connectors, _connectors.c.id == followed_table.c.connector_id))
    .where(followed_table.c.entry_id == sa.bindparam("entry_id"))
)
_NAME_OF_UUID: Final = (
    sa.select(_namespaces.c.levels, _entries.c.name)
    .select_from(_entries.join(_namespaces, _namespaces.c.id == _entries.c.namespace_id))
    .where(
        # some catalogs write UUIDs in capitals
        _entries.c.object_uuid.in_(
            [sa.bindparam("object_uuid"), sa.bindparam("in_lower"), sa.bindparam("in_upper")]
        ),
        _entries.c.catalog_id == sa.bindparam("catalog_id"),
    )
    .limit(1)
)
_OF_ENTRY: Final = followed_table.c.entry_id == sa.bindparam("of_entry_id")
_INSERT: Final = sa.insert(followed_table)
_DELETE: Final = sa.delete(followed_table).where(_OF_ENTRY)
_UPDATE: Final = (
    sa.update(followed_table)
    .where(_OF_ENTRY)
    .values(
        connector_id=sa.bindparam("new_connector_id"),
        upstream_name=sa.bindparam("new_upstream_name"),
        address=sa.bindparam("new_address"),
        state=sa.bindparam("new_state"),
        gone_at_ms=None,
        problem=None,
        differs_at_ms=None,
    )
)
_SET_GONE: Final = (
    sa.update(followed_table).where(_OF_ENTRY).values(gone_at_ms=sa.bindparam("new_gone_at_ms"))
)
_NOTE_PROBLEM: Final = (
    sa.update(followed_table)
    .where(_OF_ENTRY)
    .values(problem=sa.bindparam("new_problem"), differs_at_ms=sa.bindparam("new_differs_at_ms"))
)


def _number(column: sa.Column[Any]) -> sa.ScalarSelect[int]:
    of_connector = column.table.c.connector_id == _connectors.c.id
    return sa.select(sa.func.count(column)).where(of_connector).scalar_subquery()


_COUNTS: Final = (
    sa.select(
        _catalogs.c.account_id,
        _catalogs.c.name,
        _connectors.c.name,
        _connectors.c.enabled,
        _connectors.c.last_error,
        _number(followed_table.c.entry_id),
        _number(followed_table.c.problem),
        _number(followed_table.c.gone_at_ms) + _number(_delta.c.gone_at_ms),
    )
    .select_from(_connectors.join(_catalogs, _catalogs.c.id == _connectors.c.catalog_id))
    .order_by(_catalogs.c.name, _connectors.c.name)
)
_PAGE: Final = 1000
_FIRST_ID: Final = UUID(int=0)


class FollowedEntry(NamedTuple):
    """A table or view that a connector follows."""

    entry_id: UUID
    upstream: TableIdentifier
    """Its name in the other catalog."""
    address: str
    """Where it is there, for people."""
    state: str
    """The state there that the entry has, as the connector names it."""
    gone_at_ms: int | None
    """Time since which the connector has not found it."""
    problem: str | None
    """Reason why its newest state could not be taken, if so."""
    differs_at_ms: int | None
    """Time since which the entry differs from it."""
    kind: Literal["table", "view"]
    object_uuid: str
    identifier: TableIdentifier
    """Its name here."""


class Upstream(NamedTuple):
    """What an entry follows."""

    address: str
    connector: str | None
    """`None` if the connector was deleted."""


def of_connector(conn: Connection, connector_id: UUID) -> list[FollowedEntry]:
    """All that a connector follows, by 1,000 in a statement."""
    found: list[FollowedEntry] = []
    after = _FIRST_ID
    while True:
        parameters = {"connector_id": connector_id, "after": after, "limit": _PAGE}
        page = [_record(row) for row in conn.all(_OF_CONNECTOR, parameters)]
        found += page
        if len(page) < _PAGE:
            return found
        after = page[-1].entry_id


def of_no_connector(conn: Connection, catalog_id: UUID) -> list[FollowedEntry]:
    """All of a catalog whose connectors were deleted."""
    return [_record(row) for row in conn.all(_OF_NO_CONNECTOR, {"catalog_id": catalog_id})]


def of_name(
    conn: Connection, connector_id: UUID, catalog_id: UUID, identifier: TableIdentifier
) -> FollowedEntry | None:
    """The entry of a name here, if the connector follows it."""
    if not can_exist(identifier.name):
        return None
    parameters = {
        "connector_id": connector_id,
        "after": _FIRST_ID,
        "limit": 1,
        "catalog_id": catalog_id,
        "physical_name": physical_name(identifier.namespace),
        "name": identifier.name,
    }
    row = conn.first(_OF_NAME, parameters)
    return None if row is None else _record(row)


def adopt(conn: Connection, entry_id: UUID) -> None:
    """Makes an entry one of the catalog's own, in the transaction that changes its version."""
    conn.change(_ADOPT, {"of_entry_id": entry_id})
    conn.change(_DELETE, {"of_entry_id": entry_id})


def upstream_of(conn: Connection, entry_id: UUID) -> Upstream | None:
    """What an entry follows; `None` if it follows nothing."""
    row = conn.first(_UPSTREAM, {"entry_id": entry_id})
    return None if row is None else Upstream(*row)


def name_of_uuid(conn: Connection, catalog_id: UUID, object_uuid: str) -> TableIdentifier | None:
    """The name of an entry of a catalog, of any kind and format, whose metadata has this UUID."""
    spellings = {"in_lower": object_uuid.lower(), "in_upper": object_uuid.upper()}
    row = conn.first(_NAME_OF_UUID, {"catalog_id": catalog_id, "object_uuid": object_uuid, **spellings})
    return None if row is None else TableIdentifier(decode_texts(row[0]), row[1])


def put(
    conn: Connection,
    entry_id: UUID,
    connector_id: UUID,
    upstream: TableIdentifier,
    address: str,
    state: str,
    *,
    is_new: bool,
) -> None:
    """Writes the state that an entry has now, in the transaction that changes the entry.

    Raises:
        ForeignKeyError: there is no such entry or connector.
    """
    name = _encoded(upstream)
    if is_new:
        conn.change(
            _INSERT,
            {
                "entry_id": entry_id,
                "connector_id": connector_id,
                "upstream_name": name,
                "address": address,
                "state": state,
            },
        )
    else:
        conn.change(
            _UPDATE,
            {
                "of_entry_id": entry_id,
                "new_connector_id": connector_id,
                "new_upstream_name": name,
                "new_address": address,
                "new_state": state,
            },
        )


def set_gone(conn: Connection, entry_ids: Sequence[UUID], gone_at_ms: int | None) -> None:
    """Writes that the connector does not find entries any more since a time; `None` for found again."""
    conn.change_many(_SET_GONE, [{"of_entry_id": each, "new_gone_at_ms": gone_at_ms} for each in entry_ids])


def note_problem(conn: Connection, entry_id: UUID, problem: str | None, differs_at_ms: int | None) -> None:
    """Writes why the newest state of an entry could not be taken, and since when; `None` for no problem."""
    parameters = {"of_entry_id": entry_id, "new_problem": problem, "new_differs_at_ms": differs_at_ms}
    conn.change(_NOTE_PROBLEM, parameters)


def counts(conn: Connection) -> list[tuple[UUID, str, str, bool, str | None, int, int, int]]:
    """Connectors of all catalogs: account, catalog, name, whether enabled, last error, numbers of entries.

    The numbers are of all, of those with a problem, and of those that are gone, registered ones among them.
    """
    return [tuple(row) for row in conn.all(_COUNTS, {})]


def _encoded(upstream: TableIdentifier) -> str:
    return encode_texts((*upstream.namespace, upstream.name))


def _record(row: Any) -> FollowedEntry:
    entry_id, upstream, address, state, gone, problem, differs, kind, object_uuid, levels, name = row
    *namespace, own_name = decode_texts(upstream)
    return FollowedEntry(
        entry_id,
        TableIdentifier(tuple(namespace), own_name),
        address,
        state,
        gone,
        problem,
        differs,
        kind,
        object_uuid,
        TableIdentifier(decode_texts(levels), name),
    )
