"""Storage authorities of an account: each change in one transaction with its line of history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.access.changes import ACCOUNT, AccessChanges
from floecat.auth.actors import Actor
from floecat.auth.authorizer import Privilege
from floecat.credentials.authorities import HiddenSecrets, KeyMethod, Secrets, StorageAuthority
from floecat.credentials.authority_rules import BorrowedPower, check_authority, check_secrets
from floecat.credentials.authority_secrets import AuthoritySecrets
from floecat.credentials.keys import AuthorityError
from floecat.credentials.known_authorities import read_authority
from floecat.errors import AlreadyExistsError, ConflictError, NotFoundError
from floecat.fileio.locations import normalize_location
from floecat.store import page_tokens
from floecat.store.catalogs import storage_authorities
from floecat.store.catalogs.storage_authorities import AuthorityRow
from floecat.store.database.engine import Connection
from floecat.store.record_pages import Page, page_of

__all__ = ["AuthorityService", "AuthorityUpdate", "NewAuthority"]


class NewAuthority(HiddenSecrets, frozen=True):
    """The request for a new authority."""

    name: str
    prefix: str
    method: KeyMethod
    secrets: Secrets = {}
    enabled: bool = True


class AuthorityUpdate(HiddenSecrets, frozen=True):
    """Changes of an authority; what is None stays."""

    name: str | None = None
    prefix: str | None = None
    method: KeyMethod | None = None
    secrets: Secrets = {}
    """A new one, in place of that it has."""
    enabled: bool | None = None


class AuthorityService:
    """Changes and lists authorities. A change holds from the next request on, in every process."""

    def __init__(self, changes: AccessChanges, secrets: AuthoritySecrets, borrowed: BorrowedPower) -> None:
        self._changes = changes
        self._secrets = secrets
        self._borrowed = borrowed

    def page(self, actor: Actor, token: str | None = None, limit: int = 1000) -> Page[StorageAuthority]:
        """A page of the authorities of the account, by name.

        Raises:
            ForbiddenError: the actor may not read them.
            BadRequestError: the token is of another listing.
        """
        actor.check((Privilege.READ_AUTHORITIES, ACCOUNT))
        scope = f"authorities {actor.account_id}"
        after = page_tokens.decode(token, scope) if token else ""
        with self._changes.store.read() as conn:
            found = _of_account(conn, actor.account_id)
        return page_of([each for each in found if each.name > after], limit, scope, lambda each: each.name)

    def get(self, actor: Actor, name: str) -> StorageAuthority:
        """An authority.

        Raises:
            ForbiddenError: the actor may not read them.
            NotFoundError: there is none of this name.
        """
        actor.check((Privilege.READ_AUTHORITIES, ACCOUNT))
        with self._changes.store.read() as conn:
            return read_authority(_find(conn, actor.account_id, name))

    def create(self, actor: Actor, wanted: NewAuthority, *, anywhere: bool = False) -> StorageAuthority:
        """Creates an authority.

        Args:
            actor: who creates it.
            wanted: what it is.
            anywhere: whether it may have any role and endpoint, as those of an operator.

        Raises:
            ForbiddenError: the actor may not manage authorities, or the settings do not lend what it borrows.
            BadRequestError: it is malformed.
            AlreadyExistsError: the account has one of this name, or an enabled one of this prefix.
            ConflictError: the account has too many.
            SecretsError: there is no key to encrypt its secret with.
        """
        actor.check((Privilege.MANAGE_AUTHORITIES, ACCOUNT))
        prefix = normalize_location(wanted.prefix)
        check_authority(wanted.name, prefix, wanted.method)
        check_secrets(wanted.method, wanted.secrets)
        if not anywhere:
            self._borrowed.check(actor.account_id, prefix, wanted.method)
        id, now_ms = uuids.uuid7(), self._changes.clock.now_ms()
        row = AuthorityRow(
            id,
            actor.account_id,
            wanted.name,
            str(prefix),
            _json(wanted.method),
            wanted.enabled,
            self._secrets.encrypt(id, wanted.secrets),
            1,
            now_ms,
            now_ms,
        )

        def work(conn: Connection) -> Iterable[str]:
            others = storage_authorities.of_account(conn, row.account_id)
            if len(others) >= (most := self._changes.limits.storage_authorities):
                raise ConflictError(
                    f"An account has at most {most} storage authorities (floecat.limits.storage-authorities)"
                )
            _check_alone(row, others)
            storage_authorities.insert(conn, row)
            return [f"create storage authority {row.name} for {row.prefix}"]

        self._changes.run(actor, work)
        return read_authority(row)

    def update(
        self, actor: Actor, name: str, wanted: AuthorityUpdate, *, anywhere: bool = False
    ) -> StorageAuthority:
        """Changes an authority. What is made with its keys meanwhile may still be of before.

        Args:
            actor: who changes it.
            name: of the authority.
            wanted: the changes.
            anywhere: as for `create`. Without, an authority that borrows what the settings do not lend keeps
                its prefix and method.

        Raises:
            ForbiddenError: the actor may not manage authorities, or the settings do not lend what it borrows.
            NotFoundError: there is none of this name.
            BadRequestError: it would be malformed.
            AlreadyExistsError: the account has one of the new name, or an enabled one of its prefix.
            SecretsError: there is no key to encrypt a new secret with.
        """
        actor.check((Privilege.MANAGE_AUTHORITIES, ACCOUNT))
        changed: list[AuthorityRow] = []

        def work(conn: Connection) -> Iterable[str]:
            old = _find(conn, actor.account_id, name)
            found = read_authority(old)
            method = wanted.method or found.method
            prefix = found.prefix if wanted.prefix is None else normalize_location(wanted.prefix)
            row = msgspec.structs.replace(
                old,
                name=wanted.name or old.name,
                prefix=str(prefix),
                method=_json(method),
                enabled=old.enabled if wanted.enabled is None else wanted.enabled,
                version=old.version + 1,
                updated_at_ms=self._changes.clock.now_ms(),
            )
            check_authority(row.name, prefix, method)
            if not anywhere and (prefix, method) != (found.prefix, found.method):
                self._borrowed.check(actor.account_id, prefix, method)
            if wanted.secrets or method.secret != found.method.secret:
                check_secrets(method, wanted.secrets)
                row = msgspec.structs.replace(row, secrets=self._secrets.encrypt(row.id, wanted.secrets))
            _check_alone(row, storage_authorities.of_account(conn, row.account_id))
            storage_authorities.update(conn, row)
            changed[:] = [row]
            return [f"change storage authority {name}: {_differences(old, row, wanted.secrets)}"]

        self._changes.run(actor, work)
        return read_authority(changed[0])

    def delete(self, actor: Actor, name: str) -> None:
        """Deletes an authority. Keys that it made open files until they lapse.

        Raises:
            ForbiddenError: the actor may not manage authorities.
            NotFoundError: there is none of this name.
        """
        actor.check((Privilege.MANAGE_AUTHORITIES, ACCOUNT))

        def work(conn: Connection) -> Iterable[str]:
            storage_authorities.delete(conn, _find(conn, actor.account_id, name).id)
            return [f"delete storage authority {name}"]

        self._changes.run(actor, work)

    def encrypt_anew(self) -> tuple[int, Sequence[str]]:
        """Encrypts the secrets of every account with the key that encrypts now.

        Returns:
            How many were not before, and a sentence for each that no key decrypts.
        """
        with self._changes.store.read() as conn:
            rows = storage_authorities.list_all(conn)
        count, lost = 0, []
        for row in rows:
            try:
                new = self._secrets.encrypted_anew(read_authority(row))
            except AuthorityError as error:
                lost.append(error.message)
                continue
            if new is not None:
                self._changes.store.run(partial(storage_authorities.replace_secrets, row=row, secrets=new))
                count += 1
        return count, lost

    def check_use(self, actor: Actor, locations: Iterable[str]) -> None:
        """Refuses a catalog locations for which an authority of its account would make keys.

        Args:
            actor: who gives them to the catalog.
            locations: below the prefix of an authority, or above it.

        Raises:
            ForbiddenError: the actor may not use authorities.
        """
        places = [normalize_location(each) for each in locations]
        with self._changes.store.read() as conn:
            prefixes = [each.prefix for each in _of_account(conn, actor.account_id)]
        if any(one.contains(other) or other.contains(one) for one in prefixes for other in places):
            actor.check((Privilege.USE_AUTHORITY, ACCOUNT))


def _of_account(conn: Connection, account_id: UUID) -> list[StorageAuthority]:
    return [read_authority(row) for row in storage_authorities.of_account(conn, account_id)]


def _find(conn: Connection, account_id: UUID, name: str) -> AuthorityRow:
    for each in storage_authorities.of_account(conn, account_id):
        if each.name == name:
            return each
    raise NotFoundError(f"There is no storage authority {name[:255]}")


def _check_alone(row: AuthorityRow, others: Sequence[AuthorityRow]) -> None:
    for other in others:
        if other.id == row.id:
            continue
        if other.name == row.name:
            raise AlreadyExistsError(f"Storage authority already exists: {row.name}")
        if other.prefix == row.prefix and other.enabled and row.enabled:
            raise AlreadyExistsError(f"Storage authority {other.name} is enabled for {row.prefix} already")


def _json(method: KeyMethod) -> str:
    return msgspec.json.encode(method).decode()


def _differences(old: AuthorityRow, new: AuthorityRow, secrets: Secrets) -> str:
    before, after = (
        {
            "name": each.name,
            "prefix": each.prefix,
            "enabled": each.enabled,
            **msgspec.json.decode(each.method),
        }
        for each in (old, new)
    )
    changed = [f"{key}={value}" for key, value in after.items() if before.get(key) != value]
    return ", ".join([*changed, *(f"new {name}" for name in sorted(secrets))]) or "nothing"
