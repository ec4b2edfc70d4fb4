"""Catalogs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.catalogs.audits import Audit
from floecat.store.database.connections import Connection
from floecat.store.database.prepared_statements import Row
from floecat.store.database.statements import (
    LIMIT,
    can_exist,
    decode_properties,
    decode_texts,
    encode_properties,
    encode_texts,
)
from floecat.store.schema import catalogs as _catalogs

__all__ = [
    "CatalogRow",
    "by_name",
    "delete",
    "get",
    "insert",
    "list_all",
    "list_all_accounts",
    "page",
    "page_sizes",
    "separator",
    "set_allowed_locations",
    "set_properties",
    "set_separator",
]

_SELECT: Final = sa.select(
    _catalogs.c.id,
    _catalogs.c.account_id,
    _catalogs.c.name,
    _catalogs.c.storage_location,
    _catalogs.c.allowed_locations,
    _catalogs.c.properties,
    _catalogs.c.commit_version,
    _catalogs.c.created_at_ms,
    _catalogs.c.updated_at_ms,
    _catalogs.c.owner_id,
    _catalogs.c.protected,
    _catalogs.c.schema_separator,
    _catalogs.c.created_by,
    _catalogs.c.updated_by,
)
_INSERT: Final = sa.insert(_catalogs)
_GET: Final = _SELECT.where(_catalogs.c.id == sa.bindparam("id"))
_GET_FOR_UPDATE: Final = _GET.with_for_update()
_DELETE: Final = sa.delete(_catalogs).where(_catalogs.c.id == sa.bindparam("id"))
_UPDATED: Final[Mapping[str, sa.BindParameter[Any]]] = {
    "updated_at_ms": sa.bindparam("now_ms"),
    "updated_by": sa.bindparam("by"),
}
_SET_ALLOWED: Final = (
    sa.update(_catalogs)
    .where(_catalogs.c.id == sa.bindparam("catalog_id"))
    .values(allowed_locations=sa.bindparam("locations"), **_UPDATED)
)
_SET_PROPERTIES: Final = (
    sa.update(_catalogs)
    .where(_catalogs.c.id == sa.bindparam("catalog_id"))
    .values(properties=sa.bindparam("given"), **_UPDATED)
)
_SET_SEPARATOR: Final = (
    sa.update(_catalogs)
    .where(_catalogs.c.id == sa.bindparam("catalog_id"))
    .values(schema_separator=sa.bindparam("separator"), **_UPDATED)
)
_BY_NAME: Final = _SELECT.where(
    _catalogs.c.account_id == sa.bindparam("account_id"), _catalogs.c.name == sa.bindparam("name")
)
_LIST: Final = _SELECT.where(_catalogs.c.account_id == sa.bindparam("account_id")).order_by(_catalogs.c.name)
_PAGE: Final = _LIST.where(_catalogs.c.name > sa.bindparam("after")).limit(LIMIT)
_PAGE_SIZES: Final = _PAGE.with_only_columns(
    sa.func.length(_catalogs.c.allowed_locations) + sa.func.length(_catalogs.c.properties) + 1024
)
_LIST_ALL_ACCOUNTS: Final = _SELECT.order_by(_catalogs.c.id)
_SEPARATOR: Final = sa.select(_catalogs.c.schema_separator).where(_catalogs.c.id == sa.bindparam("id"))
_COMMIT_VERSIONS: Final = sa.select(_catalogs.c.id, _catalogs.c.commit_version)


class CatalogRow(msgspec.Struct, frozen=True):
    """A catalog."""

    id: UUID
    account_id: UUID
    name: str
    storage_location: str
    """Root of default locations."""
    allowed_locations: tuple[str, ...]
    """Further roots under which tables may lie."""
    properties: dict[str, str]
    commit_version: int
    """Number of the last commit, 0 before the first."""
    created_at_ms: int
    updated_at_ms: int
    owner_id: UUID | None = None
    protected: bool = False
    """Whether it may not be removed."""
    schema_separator: str | None = None
    """Between the levels of its namespaces, where they are written as one text; None in a flat catalog."""
    created_by: str | None = None
    """Name of the principal; None where the service made it."""
    updated_by: str | None = None
    """Name of the principal that changed it last."""

    @property
    def audit(self) -> Audit:
        """Who made it and changed it last."""
        return Audit(self.created_at_ms, self.updated_at_ms, self.created_by, self.updated_by)


def insert(conn: Connection, record: CatalogRow) -> None:
    """Inserts a catalog.

    Raises:
        DuplicateKeyError: the account has a catalog of this name.
        ForeignKeyError: the account does not exist.
    """
    values = msgspec.structs.asdict(record)
    values["allowed_locations"] = encode_texts(record.allowed_locations)
    values["properties"] = encode_properties(record.properties)
    conn.change(_INSERT, values)


def set_allowed_locations(
    conn: Connection, catalog_id: UUID, locations: tuple[str, ...], now_ms: int, by: str
) -> None:
    """Replaces the allowed locations. Read the row `for_update` in the same transaction."""
    values = {"catalog_id": catalog_id, "locations": encode_texts(locations), "now_ms": now_ms, "by": by}
    conn.change(_SET_ALLOWED, values)


def set_properties(
    conn: Connection, catalog_id: UUID, properties: Mapping[str, str], now_ms: int, by: str
) -> None:
    """Replaces the properties. Read the row `for_update` in the same transaction.

    Raises:
        BadRequestError: a key or a value is not valid Unicode.
    """
    values = {"catalog_id": catalog_id, "given": encode_properties(properties), "now_ms": now_ms, "by": by}
    conn.change(_SET_PROPERTIES, values)


def separator(conn: Connection, catalog_id: UUID) -> str | None:
    """The separator of schemas.

    After something was inserted into the catalog, it is the one that holds for this: who changes it waits for
    the lock of the insertion, or the insertion waits for the change.
    """
    row = conn.first(_SEPARATOR, {"id": catalog_id})
    return None if row is None else row[0]


def set_separator(
    conn: Connection, catalog_id: UUID, separator: str | None, now_ms: int, by: str | None
) -> None:
    """Sets the separator of schemas. Read the row `for_update` in the same transaction."""
    values = {"catalog_id": catalog_id, "separator": separator, "now_ms": now_ms, "by": by}
    conn.change(_SET_SEPARATOR, values)


def delete(conn: Connection, catalog_id: UUID) -> None:
    """Deletes a catalog with its commit log, connectors, queries and staged tables.

    Raises:
        ForeignKeyError: a namespace is in it.
    """
    conn.change(_DELETE, {"id": catalog_id})


def get(conn: Connection, catalog_id: UUID, *, for_update: bool = False) -> CatalogRow | None:
    """The catalog of this id.

    Args:
        for_update: whether to lock the row until the transaction ends: nothing is created in the catalog
            meanwhile.
    """
    row = conn.first(_GET_FOR_UPDATE if for_update else _GET, {"id": catalog_id})
    return None if row is None else _record(row)


def by_name(conn: Connection, account_id: UUID, name: str) -> CatalogRow | None:
    """The catalog of this name."""
    if not can_exist(name):
        return None
    row = conn.first(_BY_NAME, {"account_id": account_id, "name": name})
    return None if row is None else _record(row)


def list_all(conn: Connection, account_id: UUID) -> list[CatalogRow]:
    """All catalogs of an account, ordered by name."""
    return [_record(row) for row in conn.all(_LIST, {"account_id": account_id})]


def page(conn: Connection, account_id: UUID, after: str, limit: int) -> list[CatalogRow]:
    """A page of catalogs of an account behind a name, ordered by name."""
    parameters = {"account_id": account_id, "after": after, "limit": limit}
    return [_record(row) for row in conn.all(_PAGE, parameters)]


def page_sizes(conn: Connection, account_id: UUID, after: str, limit: int) -> list[int]:
    """The bytes of catalogs, as `page` gives them."""
    parameters = {"account_id": account_id, "after": after, "limit": limit}
    return [row[0] for row in conn.all(_PAGE_SIZES, parameters)]


def list_all_accounts(conn: Connection) -> list[CatalogRow]:
    """All catalogs of all accounts, ordered by id."""
    return [_record(row) for row in conn.all(_LIST_ALL_ACCOUNTS, {})]


def commit_versions(conn: Connection) -> dict[UUID, int]:
    """The number of the last commit of every catalog of every account."""
    return {row[0]: row[1] for row in conn.all(_COMMIT_VERSIONS)}


def _record(row: Row) -> CatalogRow:
    (id_, account_id, name, storage_location, allowed, properties, version, created, updated, *access) = row
    owner_id, protected, schema_separator, created_by, updated_by = access
    return CatalogRow(
        id=id_,
        account_id=account_id,
        name=name,
        storage_location=storage_location,
        allowed_locations=decode_texts(allowed),
        properties=decode_properties(properties),
        commit_version=version,
        created_at_ms=created,
        updated_at_ms=updated,
        owner_id=owner_id,
        protected=protected,
        schema_separator=schema_separator,
        created_by=created_by,
        updated_by=updated_by,
    )
