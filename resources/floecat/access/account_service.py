"""Accounts, as the operators of a service manage them: without a look at what is in them."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.auth.actors import Actor
from floecat.clock import Clock
from floecat.errors import AlreadyExistsError, BadRequestError, ConflictError, NotFoundError
from floecat.store import page_tokens
from floecat.store.access import grants, principals
from floecat.store.catalogs import accounts
from floecat.store.catalogs.accounts import AccountRow
from floecat.store.database.engine import Connection, Store
from floecat.store.database.errors import ForeignKeyError
from floecat.store.record_pages import page_of

__all__ = ["AccountInfo", "AccountService"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_SCOPE: Final = "accounts"
_BY: Final = "service operator"
"""Name in the history of an account: who manages accounts may be of another one, which is not named here."""
_log = logging.getLogger(__name__)


class AccountInfo(msgspec.Struct, frozen=True):
    """An account."""

    id: UUID
    """Id, which the tokens of its principals name."""
    name: str
    disabled: bool
    created_at_ms: int
    contents: Mapping[str, int] = {}
    """Numbers of its catalogs, principals, roles and grants; empty where it is not described."""


class AccountService:
    """Creates, lists, disables and deletes accounts. Each is found by its name or its id."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def create(self, name: str, account_id: UUID | None = None) -> AccountInfo:
        """Creates an account.

        Args:
            name: letters, digits, `_`, `-` and `.`; no UUID, as those are ids.
            account_id: by default a new one.

        Raises:
            BadRequestError: the name is malformed.
            AlreadyExistsError: there is an account of this name or id.
        """
        if not _NAME.fullmatch(name) or _as_id(name) is not None:
            raise BadRequestError(f"Invalid name of an account: {name[:128]!r}")
        made = AccountRow(account_id or uuids.uuid7(), name, False, self._clock.now_ms())

        def work(conn: Connection) -> None:
            if not accounts.ensure(conn, made.id, made.created_at_ms, name):
                raise AlreadyExistsError(f"Account already exists: {name}, or one of the id {made.id}")
            grants.record(conn, made.id, _BY, f"create account {name}", made.created_at_ms)

        self._store.run(work)
        return _info(made)

    def of(self, actor: Actor) -> tuple[str, int | None]:
        """The name of the account of who asks, and when it was made; its id alone where it has no row yet.

        Raises:
            ForbiddenError: the actor or the account is disabled.
        """
        actor.allowed(())
        with self._store.read() as conn:
            row = accounts.get(conn, actor.account_id)
        return (str(actor.account_id), None) if row is None else (row.name, row.created_at_ms)

    def page(self, token: str | None, limit: int) -> tuple[Sequence[AccountInfo], str | None]:
        """A page of the accounts, by name, and the token of the next one.

        Raises:
            BadRequestError: the token is of another listing.
        """
        after = page_tokens.decode(token, _SCOPE) if token else ""
        with self._store.read() as conn:
            found = page_of(accounts.page(conn, after, limit + 1), limit, _SCOPE, lambda row: row.name)
        return [_info(row) for row in found.items], found.next_token

    def describe(self, name: str) -> AccountInfo:
        """An account, with the numbers of what is in it.

        Raises:
            NotFoundError: there is none of this name or id.
        """
        with self._store.read() as conn:
            row = _find(conn, name)
            return _info(row, principals.contents(conn, row.id))

    def set_disabled(self, name: str, *, disabled: bool) -> AccountInfo:
        """Disables an account, in which nobody may do anything from the next request on, or enables it.

        Raises:
            NotFoundError: there is none of this name or id.
        """

        def work(conn: Connection) -> AccountRow:
            row = _find(conn, name)
            if row.disabled != disabled:
                accounts.set_disabled(conn, row.id, disabled=disabled)
                change = f"{'disable' if disabled else 'enable'} the account"
                grants.record(conn, row.id, _BY, change, self._clock.now_ms())
            return msgspec.structs.replace(row, disabled=disabled)

        return _info(self._store.run(work))

    def delete(self, name: str) -> None:
        """Deletes an account that is empty, with its history.

        Raises:
            NotFoundError: there is none of this name or id.
            ConflictError: something is in it; the message has the numbers.
        """

        def work(conn: Connection) -> AccountRow:
            row = _find(conn, name)
            grants.lock(conn, row.id)
            if not principals.contents(conn, row.id)["catalogs"]:
                grants.delete_in_catalogs(conn, row.id)
            found = {what: count for what, count in principals.contents(conn, row.id).items() if count}
            if found:
                counts = ", ".join(f"{what}: {count}" for what, count in found.items())
                raise ConflictError(f"Account {row.name} is not empty ({counts})")
            accounts.delete(conn, row.id)
            return row

        try:
            row = self._store.run(work)
        except ForeignKeyError:
            raise ConflictError(
                f"Account {name} is not empty: something was created in it meanwhile"
            ) from None
        _log.info("Account %s (%s) was deleted", row.name, row.id)


def _info(row: AccountRow, contents: Mapping[str, int] = MappingProxyType({})) -> AccountInfo:
    return AccountInfo(row.id, row.name, row.disabled, row.created_at_ms, contents)


def _find(conn: Connection, name: str) -> AccountRow:
    account_id = _as_id(name)
    row = accounts.by_name(conn, name) if account_id is None else accounts.get(conn, account_id)
    if row is None:
        raise NotFoundError(f"Account does not exist: {name[:128]}")
    return row


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
