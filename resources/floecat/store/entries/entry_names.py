"""Names of entries over all catalogs, for readers that know entries by id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.identifiers.namespace import TableIdentifier
from floecat.store.database.connections import Connection
from floecat.store.database.prepared_statements import Row
from floecat.store.database.statements import LIMIT, decode_texts
from floecat.store.schema import GIVES_NAME
from floecat.store.schema import commit_log as _commit_log
from floecat.store.schema import entries as _entries
from floecat.store.schema import namespaces as _namespaces

__all__ = ["EntryName", "NameChange", "changes_of", "formats_of", "get", "scan"]


class EntryName(msgspec.Struct, frozen=True):
    """An entry under its current name."""

    entry_id: UUID
    catalog_id: UUID
    identifier: TableIdentifier
    kind: str
    """`table` or `view`."""
    format: str
    """`iceberg`, `delta`, or another one that the property `table_type` names, as `lance`."""
    location: str
    metadata_location: str
    created_at_ms: int
    created_by: str | None
    """Principal of the first commit; `None` where the log does not have it."""


class NameChange(msgspec.Struct, frozen=True):
    """A commit that gave an entry its name: a creation, a registration or a rename."""

    entry_id: UUID
    commit_version: int
    identifier: TableIdentifier
    principal: str


def scan(conn: Connection, after: UUID | None, limit: int) -> list[EntryName]:
    """Entries of both kinds, ordered by id, and so by age.

    Args:
        after: id of the last entry of the page before.
        limit: most entries.
    """
    return [_entry(row) for row in conn.all(_SCAN, {"after": after or _FIRST_ID, "limit": limit})]


def get(conn: Connection, entry_id: UUID) -> EntryName | None:
    """The entry of this id; `None` if there is none, or no longer."""
    row = conn.first(_GET, {"id": entry_id})
    return None if row is None else _entry(row)


def changes_of(conn: Connection, entry_ids: Sequence[UUID]) -> list[NameChange]:
    """The commits that gave names to some entries, live or dropped; those of an entry in their order."""
    return [
        NameChange(id_, version, TableIdentifier(decode_texts(levels), name), principal)
        for id_, version, levels, name, principal in conn.all(_CHANGES, {"ids": list(entry_ids)})
    ]


def formats_of(conn: Connection, entry_ids: Sequence[UUID]) -> dict[UUID, str]:
    """The formats of some entries; those that were dropped are left out."""
    return {row[0]: row[1] for row in conn.all(_FORMATS, {"ids": list(entry_ids)})}


def _entry(row: Row) -> EntryName:
    id_, catalog_id, levels, name, *rest = row
    return EntryName(id_, catalog_id, TableIdentifier(decode_texts(levels), name), *rest)


_FIRST_ID: Final = UUID(int=0)
_CREATOR: Final = (
    sa.select(_commit_log.c.principal)
    .where(_commit_log.c.entry_id == _entries.c.id, sa.text(GIVES_NAME))
    .order_by(_commit_log.c.commit_version)
    .limit(1)
    .correlate(_entries)
    .scalar_subquery()
)
# only what clients write has a type: that of a derived document is not kept
_FORMAT: Final = sa.func.coalesce(sa.func.nullif(_entries.c.table_type, "iceberg"), _entries.c.format)
_SELECT: Final = sa.select(
    _entries.c.id,
    _entries.c.catalog_id,
    _namespaces.c.levels,
    _entries.c.name,
    _entries.c.kind,
    _FORMAT,
    _entries.c.location,
    _entries.c.metadata_location,
    _entries.c.created_at_ms,
    _CREATOR,
).select_from(_entries.join(_namespaces, _entries.c.namespace_id == _namespaces.c.id))
_GET: Final = _SELECT.where(_entries.c.id == sa.bindparam("id"))
_SCAN: Final = _SELECT.where(_entries.c.id > sa.bindparam("after")).order_by(_entries.c.id).limit(LIMIT)
_CHANGES: Final = (
    sa.select(
        _commit_log.c.entry_id,
        _commit_log.c.commit_version,
        _commit_log.c.levels,
        _commit_log.c.name,
        _commit_log.c.principal,
    )
    .where(_commit_log.c.entry_id.in_(sa.bindparam("ids", expanding=True)), sa.text(GIVES_NAME))
    .order_by(_commit_log.c.commit_version)
)
_FORMATS: Final = sa.select(_entries.c.id, _FORMAT).where(
    _entries.c.id.in_(sa.bindparam("ids", expanding=True))
)
