"""Namespaces.

A namespace is found by its physical name, which is unique in a catalog. Foreign keys keep a namespace from
being removed while a table, a view or a namespace is in it, also by transactions that run at the same time.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.identifiers.encoding import physical_name
from floecat.identifiers.namespace import Namespace
from floecat.store.catalogs.audits import Audit
from floecat.store.database.connections import Connection
from floecat.store.database.prepared_statements import Row
from floecat.store.database.statements import (
    LIMIT,
    NO_LIMIT,
    decode_properties,
    decode_texts,
    encode_properties,
    encode_texts,
)
from floecat.store.schema import accounts as _accounts
from floecat.store.schema import catalogs as _catalogs
from floecat.store.schema import entries as _entries
from floecat.store.schema import namespaces as _namespaces

__all__ = [
    "ContentsState",
    "NamespaceRow",
    "children",
    "content",
    "contents_state",
    "delete",
    "get",
    "get_with_kind",
    "has_content",
    "insert",
    "levels_of_all",
    "set_properties",
]

_SELECT: Final = sa.select(
    _namespaces.c.id,
    _namespaces.c.catalog_id,
    _namespaces.c.parent_id,
    _namespaces.c.physical_name,
    _namespaces.c.levels,
    _namespaces.c.properties,
    _namespaces.c.created_at_ms,
    _namespaces.c.updated_at_ms,
    _namespaces.c.owner_id,
    _namespaces.c.protected,
    _namespaces.c.created_by,
    _namespaces.c.updated_by,
)
_NAMED: Final = (
    _namespaces.c.catalog_id == sa.bindparam("catalog_id"),
    _namespaces.c.physical_name == sa.bindparam("physical_name"),
)
_GET: Final = _SELECT.where(*_NAMED)
_GET_FOR_UPDATE: Final = _GET.with_for_update()
_GET_WITH_KIND: Final = (
    _SELECT.add_columns(_entries.c.kind)
    .select_from(
        _namespaces.outerjoin(
            _entries,
            sa.and_(
                _entries.c.namespace_id == _namespaces.c.id, _entries.c.name == sa.bindparam("entry_name")
            ),
        )
    )
    .where(*_NAMED)
)
_PAGE: Final = (
    _SELECT.where(
        _namespaces.c.catalog_id == sa.bindparam("catalog_id"),
        _namespaces.c.physical_name > sa.bindparam("after"),
    )
    .order_by(_namespaces.c.physical_name)
    .limit(LIMIT)
)
_parents: Final = _namespaces.alias("parents")
_CHILDREN: Final = _PAGE.where(
    _namespaces.c.parent_id
    == sa.select(_parents.c.id)
    .where(
        _parents.c.catalog_id == sa.bindparam("catalog_id"),
        _parents.c.physical_name == sa.bindparam("parent"),
    )
    .scalar_subquery()
)
_COUNT: Final = (
    sa.select(sa.func.count())
    .select_from(_namespaces)
    .where(_namespaces.c.catalog_id == sa.bindparam("catalog_id"))
)
_ROOTS: Final = _PAGE.where(_namespaces.c.parent_id.is_(None))
_INSERT: Final = sa.insert(_namespaces)
_DELETE: Final = sa.delete(_namespaces).where(_namespaces.c.id == sa.bindparam("id"))
_SET_PROPERTIES: Final = (
    sa.update(_namespaces)
    .where(_namespaces.c.id == sa.bindparam("namespace_id"))
    .values(
        properties=sa.bindparam("properties"),
        updated_at_ms=sa.bindparam("updated_at_ms"),
        updated_by=sa.bindparam("updated_by"),
    )
)
_CHANGE_CONTENTS: Final = {
    table.name: sa.update(table)
    .where(table.c.id == sa.bindparam("changed_id"))
    .values(contents_tag=sa.bindparam("tag"))
    for table in (_namespaces, _catalogs)
}
_in_account: Final = _catalogs.join(_accounts, _accounts.c.id == _catalogs.c.account_id)
_STATE_OF_CATALOG: Final = (
    sa.select(_catalogs.c.id, _catalogs.c.contents_tag, _accounts.c.access_version)
    .select_from(_in_account)
    .where(_catalogs.c.id == sa.bindparam("catalog_id"))
)
_STATE: Final = (
    sa.select(_namespaces.c.id, _namespaces.c.contents_tag, _accounts.c.access_version)
    .select_from(_namespaces.join(_in_account, _catalogs.c.id == _namespaces.c.catalog_id))
    .where(*_NAMED)
)
_LEVELS: Final = sa.select(_namespaces.c.levels).where(_namespaces.c.catalog_id == sa.bindparam("catalog_id"))
_HAS_CONTENT: Final = sa.select(
    sa.or_(
        sa.exists().where(_entries.c.namespace_id == sa.bindparam("id")),
        sa.exists().where(_namespaces.c.parent_id == sa.bindparam("id")),
    )
)
_CONTENT: Final = (
    sa.select(_entries.c.kind, sa.func.count())
    .where(_entries.c.namespace_id == sa.bindparam("id"))
    .group_by(_entries.c.kind)
)
_COUNT_CHILDREN: Final = (
    sa.select(sa.func.count()).select_from(_namespaces).where(_namespaces.c.parent_id == sa.bindparam("id"))
)


class NamespaceRow(msgspec.Struct, frozen=True):
    """A namespace."""

    id: UUID
    catalog_id: UUID
    parent_id: UUID | None
    """`None` at the top level."""
    physical_name: str
    """`floecat.identifiers.encoding.physical_name` of the levels."""
    levels: Namespace
    properties: dict[str, str]
    created_at_ms: int
    updated_at_ms: int
    owner_id: UUID | None = None
    protected: bool = False
    """Whether it may not be removed."""
    created_by: str | None = None
    """Name of the principal."""
    updated_by: str | None = None
    """Name of the principal that set properties last."""

    @property
    def audit(self) -> Audit:
        """Who made it and changed it last."""
        return Audit(self.created_at_ms, self.updated_at_ms, self.created_by, self.updated_by)


class ContentsState(NamedTuple):
    """Names one state of what is directly in a namespace or catalog, and of who may see it."""

    id: UUID
    contents_tag: int
    access_version: int


def get(
    conn: Connection, catalog_id: UUID, namespace: Namespace, *, for_update: bool = False
) -> NamespaceRow | None:
    """The namespace of this name.

    Args:
        namespace: its levels.
        for_update: whether to lock the row until the transaction ends, for a change that depends on it.
    """
    row = conn.first(
        _GET_FOR_UPDATE if for_update else _GET,
        {"catalog_id": catalog_id, "physical_name": physical_name(namespace)},
    )
    return None if row is None else _record(row)


def get_with_kind(
    conn: Connection, catalog_id: UUID, namespace: Namespace, name: str
) -> tuple[NamespaceRow, str | None] | None:
    """The namespace of this name, and what a name in it stands for: `table`, `view` or nothing."""
    parameters = {
        "catalog_id": catalog_id,
        "physical_name": physical_name(namespace),
        "entry_name": name,
    }
    row = conn.first(_GET_WITH_KIND, parameters)
    return None if row is None else (_record(row[:-1]), row[-1])


def children(
    conn: Connection, catalog_id: UUID, parent: Namespace | None, after: str | None, limit: int | None
) -> list[NamespaceRow]:
    """Namespaces directly below another one, ordered by physical name.

    Args:
        parent: `None` for the top level. One that does not exist has no children.
        after: physical name of the last namespace of the page before.
        limit: most rows; `None` for all.
    """
    parameters = {
        "catalog_id": catalog_id,
        "after": after or "",
        "limit": NO_LIMIT if limit is None else limit,
    }
    if parent is None:
        return [_record(row) for row in conn.all(_ROOTS, parameters)]
    parameters["parent"] = physical_name(parent)
    return [_record(row) for row in conn.all(_CHILDREN, parameters)]


def count(conn: Connection, catalog_id: UUID) -> int:
    """The number of namespaces of a catalog, nested ones included."""
    row = conn.first(_COUNT, {"catalog_id": catalog_id})
    return 0 if row is None else int(row[0])


def insert(conn: Connection, row: NamespaceRow) -> None:
    """Inserts a namespace, late in a transaction: it locks the parent, or the catalog of a top-level one.

    Raises:
        DuplicateKeyError: the catalog has a namespace of this name.
        ForeignKeyError: the parent does not exist, or no longer.
    """
    values = msgspec.structs.asdict(row)
    values["levels"] = encode_texts(row.levels)
    values["properties"] = encode_properties(row.properties)
    conn.change(_INSERT, values)
    _change_parent(conn, row)


def delete(conn: Connection, row: NamespaceRow) -> bool:
    """Deletes an empty namespace.

    Returns:
        False if there is no such namespace.

    Raises:
        ForeignKeyError: a table, a view or a namespace is in it.
    """
    # the parent first: who drops that one locks it before it looks for children
    _change_parent(conn, row)
    return conn.change(_DELETE, {"id": row.id}) == 1


def contents_state(conn: Connection, catalog_id: UUID, namespace: Namespace | None) -> ContentsState | None:
    """The state of what is directly in a namespace, or with `None` at the top level of a catalog."""
    if namespace is None:
        row = conn.first(_STATE_OF_CATALOG, {"catalog_id": catalog_id})
    else:
        row = conn.first(_STATE, {"catalog_id": catalog_id, "physical_name": physical_name(namespace)})
    return None if row is None else ContentsState(*row)


def _change_parent(conn: Connection, row: NamespaceRow) -> None:
    """Gives the parent, or the catalog, another tag; see `commit_log.append`."""
    table, changed = (_catalogs, row.catalog_id) if row.parent_id is None else (_namespaces, row.parent_id)
    conn.change(_CHANGE_CONTENTS[table.name], {"changed_id": changed, "tag": secrets.randbits(63)})


def set_properties(
    conn: Connection, namespace_id: UUID, properties: Mapping[str, str], now_ms: int, by: str
) -> bool:
    """Replaces all properties. Read them `for_update` in the same transaction.

    Args:
        properties: the new ones.
        by: name of the principal.

    Returns:
        False if there is no such namespace.
    """
    values = {
        "namespace_id": namespace_id,
        "properties": encode_properties(properties),
        "updated_at_ms": now_ms,
        "updated_by": by,
    }
    return conn.change(_SET_PROPERTIES, values) == 1


def has_content(conn: Connection, namespace_id: UUID) -> bool:
    """Whether a table, a view or a namespace is in it."""
    row = conn.first(_HAS_CONTENT, {"id": namespace_id})
    return row is not None and bool(row[0])


def content(conn: Connection, namespace_id: UUID) -> dict[str, int]:
    """The numbers of namespaces, tables and views that are directly in it, without zeros."""
    row = conn.first(_COUNT_CHILDREN, {"id": namespace_id})
    counts = {} if row is None or not row[0] else {"namespace": int(row[0])}
    return counts | {kind: int(count) for kind, count in conn.all(_CONTENT, {"id": namespace_id})}


def levels_of_all(conn: Connection, catalog_id: UUID) -> Iterator[Namespace]:
    """The levels of every namespace of a catalog, in no particular order."""
    for row in conn.all(_LEVELS, {"catalog_id": catalog_id}):
        yield decode_texts(row[0])


def _record(row: Row) -> NamespaceRow:
    (id_, catalog_id, parent_id, physical, levels, properties, created, updated, *access) = row
    owner_id, protected, created_by, updated_by = access
    return NamespaceRow(
        id=id_,
        catalog_id=catalog_id,
        parent_id=parent_id,
        physical_name=physical,
        levels=decode_texts(levels),
        properties=decode_properties(properties),
        created_at_ms=created,
        updated_at_ms=updated,
        owner_id=owner_id,
        protected=protected,
        created_by=created_by,
        updated_by=updated_by,
    )
