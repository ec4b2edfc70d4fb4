"""Ids and owners of what paths name, and the version of the account's access, for decisions.

Each statement reads by a unique index, however many catalogs, namespaces and tables there are.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

import sqlalchemy as sa

from floecat.store.access.grants import grants
from floecat.store.database.connections import Connection
from floecat.store.database.statements import decode_texts, in_parts
from floecat.store.schema import accounts as _accounts
from floecat.store.schema import catalogs as _catalogs
from floecat.store.schema import entries as _entries
from floecat.store.schema import namespaces as _namespaces

__all__ = [
    "Flag",
    "NamedPlace",
    "Place",
    "below",
    "catalogs",
    "flag",
    "granted_in",
    "named",
    "owned",
    "set_flag",
    "set_owner",
]

Flag: TypeAlias = Literal["protected", "definer"]
"""What is set on a thing: that it may not be removed; that a view reads with the rights of its owner."""


class Place(NamedTuple):
    """The object that a name stands for."""

    id: UUID
    owner: UUID | None
    """Id of a principal or role."""
    schema_separator: str | None = None
    """Of a catalog; none of a flat one."""


class NamedPlace(NamedTuple):
    """A catalog, namespace, table or view by its name."""

    kind: Literal["catalog", "namespace", "table", "view"]
    catalog: str
    levels: tuple[str, ...]
    """Of the namespace."""
    name: str | None
    """Of the table or view."""
    owner: UUID | None


_CATALOGS: Final = (
    sa.select(
        _accounts.c.access_version,
        _catalogs.c.name,
        _catalogs.c.id,
        _catalogs.c.owner_id,
        _catalogs.c.schema_separator,
    )
    .select_from(
        _accounts.outerjoin(
            _catalogs,
            sa.and_(
                _catalogs.c.account_id == _accounts.c.id,
                _catalogs.c.name.in_(sa.bindparam("names", expanding=True)),
            ),
        )
    )
    .where(_accounts.c.id == sa.bindparam("account_id"))
)
_BELOW: Final = (
    sa.select(
        _namespaces.c.physical_name,
        _namespaces.c.id,
        _namespaces.c.owner_id,
        _entries.c.name,
        _entries.c.id,
        _entries.c.owner_id,
    )
    .select_from(
        _namespaces.outerjoin(
            _entries,
            sa.and_(
                _entries.c.namespace_id == _namespaces.c.id,
                _entries.c.name.in_(sa.bindparam("names", expanding=True)),
            ),
        )
    )
    .where(
        _namespaces.c.catalog_id == sa.bindparam("catalog_id"),
        _namespaces.c.physical_name.in_(sa.bindparam("physical_names", expanding=True)),
    )
)
_IS_OWNED: Final = _entries.c.owner_id.in_(sa.bindparam("owners", expanding=True, type_=sa.Uuid()))
_GRANTED_IN: Final = (
    # a number, which needs no conversion in a thousand rows
    sa.select(_entries.c.name, grants.c.privilege, sa.type_coerce(_IS_OWNED, sa.Integer()).label("is_owned"))
    .select_from(
        _entries.outerjoin(
            grants,
            sa.and_(
                grants.c.securable_id == _entries.c.id,
                grants.c.grantee.in_(sa.bindparam("grantees", expanding=True)),
            ),
        )
    )
    .where(
        _entries.c.namespace_id == sa.bindparam("namespace_id"),
        _entries.c.name >= sa.bindparam("first"),
        _entries.c.name <= sa.bindparam("last"),
        sa.or_(grants.c.privilege.is_not(None), _IS_OWNED),
    )
)
_OWNED: Final = {
    "catalog": _catalogs,
    "namespace": _namespaces,
    "table": _entries,
    "view": _entries,
}
_SET_OWNER: Final = {
    kind: sa.update(table)
    .where(table.c.id == sa.bindparam("place"))
    # what another one wrote is not read with the rights of the new owner
    .values(owner_id=sa.bindparam("owner"), **({"definer": sa.false()} if table is _entries else {}))
    for kind, table in _OWNED.items()
}
_FLAG: Final = {
    kind: sa.select(
        table.c.protected, *([table.c.definer] if table is _entries else [sa.false().label("definer")])
    ).where(table.c.id == sa.bindparam("place"))
    for kind, table in _OWNED.items()
}


def _set_flag(table: sa.Table, name: Flag) -> sa.Update:
    values: dict[str, object] = {name: sa.bindparam("given")}
    if table is _entries:  # what was worked out on the row as it was is worked out again
        values["version"] = table.c.version + 1
    return (
        sa.update(table)
        .where(table.c.id == sa.bindparam("place"), table.c[name] != sa.bindparam("given"))
        .values(values)
    )


_SET_FLAG: Final[dict[tuple[str, Flag], sa.Update]] = {
    ("view", "definer"): _set_flag(_entries, "definer"),
    **{(kind, "protected"): _set_flag(table, "protected") for kind, table in _OWNED.items()},
}
_PLACES: Final = (
    sa.select(
        _catalogs.c.id,
        sa.literal_column("'catalog'"),
        _catalogs.c.name,
        sa.literal_column("'[]'"),
        sa.null(),
        _catalogs.c.owner_id,
    ),
    sa.select(
        _namespaces.c.id,
        sa.literal_column("'namespace'"),
        _catalogs.c.name,
        _namespaces.c.levels,
        sa.null(),
        _namespaces.c.owner_id,
    ).join_from(_namespaces, _catalogs, _catalogs.c.id == _namespaces.c.catalog_id),
    sa.select(
        _entries.c.id,
        _entries.c.kind,
        _catalogs.c.name,
        _namespaces.c.levels,
        _entries.c.name,
        _entries.c.owner_id,
    )
    .join_from(_entries, _namespaces, _namespaces.c.id == _entries.c.namespace_id)
    .join(_catalogs, _catalogs.c.id == _entries.c.catalog_id),
)
_NAMED: Final = tuple(
    select.where(table.c.id.in_(sa.bindparam("ids", expanding=True, type_=sa.Uuid())))
    for select, table in zip(_PLACES, (_catalogs, _namespaces, _entries), strict=True)
)
_OWNED_BY: Final = tuple(
    select.where(_catalogs.c.account_id == sa.bindparam("account_id"), table.c.owner_id.is_not(None))
    for select, table in zip(_PLACES, (_catalogs, _namespaces, _entries), strict=True)
)


def catalogs(
    conn: Connection, account_id: UUID, names: Collection[str]
) -> tuple[int | None, dict[str, Place]]:
    """The version of an account's access, None without such an account, and its catalogs of these names."""
    rows = conn.all(_CATALOGS, {"account_id": account_id, "names": sorted(names)})
    version = rows[0][0] if rows else None
    return version, {row[1]: Place(*row[2:]) for row in rows if row[1] is not None}


def below(
    conn: Connection, catalog_id: UUID, physical_names: Collection[str], names: Collection[str]
) -> dict[tuple[str, str | None], Place]:
    """Namespaces of a catalog, and what names stand for in any of them.

    Args:
        physical_names: of namespaces.
        names: of tables and views.

    Returns:
        By physical name of the namespace, and name, which is None for the namespace itself.
    """
    found: dict[tuple[str, str | None], Place] = {}
    for some in in_parts(sorted(physical_names)):
        parameters = {"catalog_id": catalog_id, "physical_names": some, "names": sorted(names)}
        for levels, namespace_id, namespace_owner, name, entry_id, owner in conn.all(_BELOW, parameters):
            found[levels, None] = Place(namespace_id, namespace_owner)
            if name is not None:
                found[levels, name] = Place(entry_id, owner)
    return found


def granted_in(
    conn: Connection,
    namespace_id: UUID,
    names: Collection[str],
    grantees: Collection[str],
    owners: Collection[UUID],
) -> list[tuple[str, str | None, bool]]:
    """Tables and views of a namespace that are owned by some, or on which something is granted to some.

    Args:
        names: of the tables and views; what lies between the first and the last may be among the answers.
        grantees: as `store.access.principals` writes them.
        owners: ids of principals and roles.

    Returns:
        Name, privilege, and whether it is owned by one of them; several privileges are in several rows.
    """
    parameters = {
        "namespace_id": namespace_id,
        "first": min(names),
        "last": max(names),
        "grantees": sorted(grantees),
        "owners": sorted(owners),
    }
    return [(row[0], row[1], bool(row[2])) for row in conn.all(_GRANTED_IN, parameters)]


def named(conn: Connection, ids: Collection[UUID]) -> dict[UUID, NamedPlace]:
    """The names of catalogs, namespaces, tables and views, by id; of those that are there."""
    found: dict[UUID, NamedPlace] = {}
    for some in in_parts(sorted(ids)):
        for statement in _NAMED:
            for id, kind, catalog, levels, name, owner in conn.all(statement, {"ids": some}):
                found[id] = NamedPlace(kind, catalog, decode_texts(levels), name, owner)
    return found


def owned(conn: Connection, account_id: UUID, *, with_entries: bool) -> list[NamedPlace]:
    """Catalogs and namespaces of an account that have an owner, and tables and views if wanted."""
    found: list[NamedPlace] = []
    for statement in _OWNED_BY if with_entries else _OWNED_BY[:2]:
        for _, kind, catalog, levels, name, owner in conn.all(statement, {"account_id": account_id}):
            found.append(NamedPlace(kind, catalog, decode_texts(levels), name, owner))
    return found


def set_owner(conn: Connection, kind: str, place_id: UUID, owner: UUID) -> None:
    """Makes a principal or role the owner of a catalog, namespace, table or view."""
    conn.change(_SET_OWNER[kind], {"place": place_id, "owner": owner})


def flag(conn: Connection, kind: str, place_id: UUID, name: Flag) -> bool:
    """Whether something is set on a catalog, namespace, table or view."""
    row = conn.first(_FLAG[kind], {"place": place_id})
    return row is not None and bool(row[0 if name == "protected" else 1])


def set_flag(conn: Connection, kind: str, place_id: UUID, name: Flag, *, value: bool) -> bool:
    """Sets something on a catalog, namespace, table or view. Returns whether it was otherwise before."""
    return conn.change(_SET_FLAG[kind, name], {"place": place_id, "given": value}) == 1
