"""Rows of Delta tables: which version of the log was read, and the state that the next refresh needs.

The entry holds the Iceberg metadata of that version. A change of the row is part of the transaction that
swaps the entry, whose compare-and-set guards both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.identifiers.namespace import Namespace, TableIdentifier
from floecat.store.database.connections import Connection
from floecat.store.database.statements import LIMIT, decode_texts
from floecat.store.schema import delta_tables as _delta
from floecat.store.schema import entries as _entries
from floecat.store.schema import namespaces as _namespaces

__all__ = [
    "DeltaTableRow",
    "FoundDeltaTable",
    "NamedDeltaTable",
    "at_location",
    "get",
    "insert",
    "list_all",
    "note_problem",
    "note_state",
    "of_connector",
    "publish",
    "set_gone",
]

_COLUMNS: Final = (
    _delta.c.entry_id,
    _delta.c.location,
    _delta.c.version,
    _delta.c.log_fingerprint,
    _delta.c.field_ids,
    _delta.c.state,
    _delta.c.generation,
    _delta.c.format_version,
    _delta.c.connector_id,
    _delta.c.problem,
    _delta.c.checked_at_ms,
    _delta.c.refreshed_at_ms,
    _delta.c.created_at_ms,
)
_named: Final = _delta.join(_entries, _entries.c.id == _delta.c.entry_id).join(
    _namespaces, _namespaces.c.id == _entries.c.namespace_id
)
_NAMED_COLUMNS: Final = (
    _delta.c.entry_id,
    _entries.c.catalog_id,
    _namespaces.c.levels,
    _entries.c.name,
    _delta.c.location,
    _delta.c.version,
    _delta.c.problem,
    _delta.c.checked_at_ms,
    _delta.c.refreshed_at_ms,
)
_INSERT: Final = sa.insert(_delta)
_GET: Final = sa.select(*_COLUMNS).where(_delta.c.entry_id == sa.bindparam("entry_id"))
_AT_LOCATION: Final = (
    sa.select(*_NAMED_COLUMNS).select_from(_named).where(_delta.c.location == sa.bindparam("location"))
)
_LIST: Final = (
    sa.select(*_NAMED_COLUMNS)
    .select_from(_named)
    .where(_entries.c.catalog_id == sa.bindparam("catalog_id"), _delta.c.entry_id > sa.bindparam("after"))
    .order_by(_delta.c.entry_id)
    .limit(LIMIT)
)
_OF_CONNECTOR: Final = (
    sa.select(
        _delta.c.entry_id,
        _namespaces.c.levels,
        _entries.c.name,
        _delta.c.location,
        _entries.c.object_uuid,
        _delta.c.gone_at_ms,
    )
    .select_from(_named)
    .where(_delta.c.connector_id == sa.bindparam("connector_id"), _delta.c.entry_id > sa.bindparam("after"))
    .order_by(_delta.c.entry_id)
    .limit(LIMIT)
)
_SET_GONE: Final = (
    sa.update(_delta)
    .where(_delta.c.entry_id == sa.bindparam("of_entry_id"))
    .values(gone_at_ms=sa.bindparam("new_gone_at_ms"))
)
_PUBLISH: Final = (
    sa.update(_delta)
    .where(_delta.c.entry_id == sa.bindparam("of_entry_id"))
    .values(
        version=sa.bindparam("new_version"),
        log_fingerprint=sa.bindparam("new_log_fingerprint"),
        field_ids=sa.bindparam("new_field_ids"),
        state=sa.bindparam("new_state"),
        generation=sa.bindparam("new_generation"),
        problem=sa.bindparam("new_problem"),
        checked_at_ms=sa.bindparam("now_ms"),
        refreshed_at_ms=sa.bindparam("now_ms"),
    )
)
_NOTE_STATE: Final = (
    sa.update(_delta)
    .where(_delta.c.entry_id == sa.bindparam("of_entry_id"), _delta.c.state == sa.bindparam("old_state"))
    .values(state=sa.bindparam("new_state"))
)
_NOTE_PROBLEM: Final = (
    sa.update(_delta)
    .where(_delta.c.entry_id == sa.bindparam("of_entry_id"))
    .values(problem=sa.bindparam("new_problem"), checked_at_ms=sa.bindparam("new_checked_at_ms"))
)
_FIRST_ID: Final = UUID(int=0)
_PAGE: Final = 1_000


class DeltaTableRow(msgspec.Struct, frozen=True):
    """A Delta table."""

    entry_id: UUID
    location: str
    """Root of the table, normalized."""
    created_at_ms: int
    version: int | None = None
    """Newest Delta version that is a snapshot of the entry; `None` before the first."""
    log_fingerprint: str | None = None
    """Identifies the newest file of the log at the time of reading."""
    field_ids: bytes = b""
    """Ids that columns were given, as `delta.translation.column_ids` encodes them; empty before the first."""
    state: bytes | None = None
    """Other state of `floecat.delta`, in its own encoding."""
    generation: int = 0
    """Number that the names of artifacts carry."""
    format_version: int | None = None
    """Iceberg format version that was asked for; `None` for that of the settings."""
    connector_id: UUID | None = None
    """The connector that found it; `None` if it was registered by hand, or the connector is gone."""
    problem: str | None = None
    """Reason why the newest version could not be read at the last try, or damage that was passed over."""
    checked_at_ms: int | None = None
    """Time of the last look at the log."""
    refreshed_at_ms: int | None = None
    """Time of the last change of the entry."""


class NamedDeltaTable(msgspec.Struct, frozen=True):
    """A Delta table under its name, without what only its materialisation needs."""

    entry_id: UUID
    catalog_id: UUID
    namespace: Namespace
    name: str
    location: str
    version: int | None
    problem: str | None
    checked_at_ms: int | None
    refreshed_at_ms: int | None


class FoundDeltaTable(NamedTuple):
    """A Delta table that a connector found."""

    entry_id: UUID
    identifier: TableIdentifier
    location: str
    object_uuid: str
    gone_at_ms: int | None
    """Time since which the connector has not found it."""


def insert(conn: Connection, row: DeltaTableRow) -> None:
    """Inserts what goes with an entry, in the transaction that inserts the entry.

    Raises:
        DuplicateKeyError: the entry has a row already.
        ForeignKeyError: there is no such entry or connector.
    """
    conn.change(_INSERT, msgspec.structs.asdict(row))


def get(conn: Connection, entry_id: UUID) -> DeltaTableRow | None:
    """The row of an entry; `None` if there is no such entry, or it is no Delta table."""
    row = conn.first(_GET, {"entry_id": entry_id})
    return None if row is None else DeltaTableRow(**_by_name(row))


def at_location(conn: Connection, location: str) -> list[NamedDeltaTable]:
    """The tables of all catalogs that are rooted at exactly this location.

    Args:
        location: a normalized location.
    """
    return [_named_table(row) for row in conn.all(_AT_LOCATION, {"location": location})]


def list_all(conn: Connection, catalog_id: UUID, after: UUID | None, limit: int) -> list[NamedDeltaTable]:
    """The tables of a catalog, ordered by entry id.

    Args:
        after: entry id of the last table of the page before.
        limit: most tables.
    """
    parameters = {"catalog_id": catalog_id, "after": after or _FIRST_ID, "limit": limit}
    return [_named_table(row) for row in conn.all(_LIST, parameters)]


def of_connector(conn: Connection, connector_id: UUID) -> list[FoundDeltaTable]:
    """The tables that a connector found, ordered by entry id, by 1,000 in a statement."""
    found: list[FoundDeltaTable] = []
    after = _FIRST_ID
    while True:
        page = conn.all(_OF_CONNECTOR, {"connector_id": connector_id, "after": after, "limit": _PAGE})
        found += [
            FoundDeltaTable(id, TableIdentifier(decode_texts(levels), name), *rest)
            for id, levels, name, *rest in page
        ]
        if len(page) < _PAGE:
            return found
        after = found[-1].entry_id


def set_gone(conn: Connection, entry_ids: Sequence[UUID], gone_at_ms: int | None) -> None:
    """Writes that a connector does not find tables any more since a time; `None` for found again."""
    conn.change_many(_SET_GONE, [{"of_entry_id": each, "new_gone_at_ms": gone_at_ms} for each in entry_ids])


def publish(
    conn: Connection,
    entry_id: UUID,
    *,
    version: int,
    log_fingerprint: str,
    field_ids: bytes,
    state: bytes,
    generation: int,
    now_ms: int,
    problem: str | None = None,
) -> bool:
    """Writes the version and state of a new entry, in the transaction that swaps the entry.

    Args:
        conn: a transaction.
        version: newest Delta version that is a snapshot now.
        log_fingerprint: identifies the file of the log that made the version.
        field_ids: ids that columns have, or had.
        state: what else has to be remembered.
        generation: number that the names of artifacts carry.
        problem: what is wrong although the table can be read; `None` if all is well.

    Returns:
        False if the table is gone.
    """
    parameters = {
        "of_entry_id": entry_id,
        "new_version": version,
        "new_log_fingerprint": log_fingerprint,
        "new_field_ids": field_ids,
        "new_state": state,
        "new_generation": generation,
        "new_problem": problem,
        "now_ms": now_ms,
    }
    return conn.change(_PUBLISH, parameters) == 1


def note_state(conn: Connection, entry_id: UUID, old: bytes, new: bytes) -> bool:
    """Changes the state, and nothing that readers see.

    Args:
        conn: a transaction.
        old: what `publish` noted.
        new: what is to be remembered.

    Returns:
        False if something else is remembered by now, or the table is gone.
    """
    parameters = {"of_entry_id": entry_id, "old_state": old, "new_state": new}
    return conn.change(_NOTE_STATE, parameters) == 1


def note_problem(conn: Connection, entry_id: UUID, problem: str | None, checked_at_ms: int) -> bool:
    """Writes that the log was checked, and the problem found, if any.

    Args:
        conn: a transaction.
        problem: one sentence for the user of the catalog; `None` if all is well.
        checked_at_ms: the time.

    Returns:
        False if the table is gone.
    """
    parameters = {"of_entry_id": entry_id, "new_problem": problem, "new_checked_at_ms": checked_at_ms}
    return conn.change(_NOTE_PROBLEM, parameters) == 1


def _by_name(row: Any) -> dict[str, Any]:
    return {column.name: value for column, value in zip(_COLUMNS, row, strict=True)}


def _named_table(row: Any) -> NamedDeltaTable:
    entry_id, catalog_id, levels, name, *rest = row
    return NamedDeltaTable(entry_id, catalog_id, decode_texts(levels), name, *rest)
