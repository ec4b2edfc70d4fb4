"""Rows of storage authorities. Their secrets are encrypted before they get here."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
import sqlalchemy as sa

from floecat.store.database.connections import Connection
from floecat.store.schema import flag_column, id_column, integer_column, metadata, name_column, text_column

__all__ = [
    "AuthorityRow",
    "delete",
    "insert",
    "list_all",
    "lock_prefixes",
    "of_account",
    "replace_secrets",
    "storage_authorities",
    "update",
]

storage_authorities: Final = sa.Table(
    "storage_authorities",
    metadata,
    id_column(primary_key=True),
    id_column("account_id", sa.ForeignKey("accounts.id", ondelete="RESTRICT")),
    name_column("name"),
    text_column("prefix"),
    text_column("method"),
    flag_column("enabled"),
    text_column("secrets", nullable=True),
    integer_column("version"),
    integer_column("created_at_ms"),
    integer_column("updated_at_ms"),
    sa.UniqueConstraint("account_id", "name"),
)


class AuthorityRow(msgspec.Struct, frozen=True):
    """A storage authority."""

    id: UUID
    account_id: UUID
    name: str
    prefix: str
    """Normalized location."""
    method: str
    """JSON of how keys are made."""
    enabled: bool
    secrets: str | None
    """Encrypted text."""
    version: int
    created_at_ms: int
    updated_at_ms: int


_ID: Final = storage_authorities.c.id == sa.bindparam("authority")
_INSERT: Final = sa.insert(storage_authorities)
_UPDATE: Final = (
    sa.update(storage_authorities)
    .where(_ID)
    .values(
        {
            name: sa.bindparam(f"new_{name}")
            for name in ("name", "prefix", "method", "enabled", "secrets", "updated_at_ms")
        }
        | {"version": storage_authorities.c.version + 1}
    )
)
_REPLACE_SECRETS: Final = (
    sa.update(storage_authorities)
    .where(_ID, storage_authorities.c.secrets == sa.bindparam("old"))
    .values(secrets=sa.bindparam("new"))
)
_DELETE: Final = sa.delete(storage_authorities).where(_ID)
_ALL: Final = sa.select(*storage_authorities.c).order_by(
    storage_authorities.c.account_id, storage_authorities.c.name
)
_OF_ACCOUNT: Final = (
    sa.select(*storage_authorities.c)
    .where(storage_authorities.c.account_id == sa.bindparam("account_id"))
    .order_by(storage_authorities.c.name)
)
_LOCK_PREFIXES: Final = (
    sa.select(storage_authorities.c.prefix)
    .where(
        storage_authorities.c.account_id == sa.bindparam("account_id"),
        storage_authorities.c.enabled.is_(sa.true()),
    )
    .order_by(storage_authorities.c.name)
    .with_for_update(key_share=True)
)


def insert(conn: Connection, row: AuthorityRow) -> None:
    """Inserts an authority.

    Raises:
        DuplicateKeyError: the account has one of this name.
    """
    conn.change(_INSERT, msgspec.structs.asdict(row))


def update(conn: Connection, row: AuthorityRow) -> None:
    """Changes an authority; its version is counted.

    Raises:
        DuplicateKeyError: the account has another one of this name.
    """
    new = ("name", "prefix", "method", "enabled", "secrets", "updated_at_ms")
    conn.change(_UPDATE, {"authority": row.id} | {f"new_{name}": getattr(row, name) for name in new})


def replace_secrets(conn: Connection, row: AuthorityRow, secrets: str) -> None:
    """Writes the secrets of a row encrypted anew, unless they were changed meanwhile. It is no change."""
    conn.change(_REPLACE_SECRETS, {"authority": row.id, "old": row.secrets, "new": secrets})


def delete(conn: Connection, authority_id: UUID) -> None:
    """Deletes an authority."""
    conn.change(_DELETE, {"authority": authority_id})


def of_account(conn: Connection, account_id: UUID) -> list[AuthorityRow]:
    """The authorities of an account, by name."""
    return [AuthorityRow(*row) for row in conn.all(_OF_ACCOUNT, {"account_id": account_id})]


def list_all(conn: Connection) -> list[AuthorityRow]:
    """The authorities of every account."""
    return [AuthorityRow(*row) for row in conn.all(_ALL, {})]


def lock_prefixes(conn: Connection, account_id: UUID) -> list[str]:
    """The prefixes of the enabled authorities of an account, which stay so until the transaction ends.

    Transactions that ask for them take turns.
    """
    return [row[0] for row in conn.all(_LOCK_PREFIXES, {"account_id": account_id})]
