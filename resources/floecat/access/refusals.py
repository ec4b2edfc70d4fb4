"""Refusals: counted, recorded if that is set, and told as a missing thing if that is set."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from threading import Lock
from typing import Final
from uuid import UUID

import uuid_utils.compat as uuids

from floecat.access.changes import ACCOUNT
from floecat.auth.actors import Actor
from floecat.auth.authorizer import Authorizer, Check, FoundSecurable, Privilege, Securable
from floecat.auth.principals import Principal
from floecat.clock import Clock
from floecat.errors import (
    FloecatError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    NoSuchWarehouseError,
)
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.access import places, refusals
from floecat.store.access.places import Place
from floecat.store.access.refusals import RefusalRow
from floecat.store.database.engine import Connection, Store

__all__ = ["Refusals", "RefusingAuthorizer"]

_log = logging.getLogger(__name__)

_MOST_WAITING: Final = 1_000
_LONGEST: Final = 500
"""Characters of a name that is recorded."""
_MADE_BY: Final = frozenset(
    {
        Privilege.CREATE_CATALOG,
        Privilege.CREATE_SCHEMA,
        Privilege.CREATE_TABLE,
        Privilege.REGISTER_TABLE,
        Privilege.CREATE_VIEW,
        Privilege.REGISTER_VIEW,
    }
)
_KNOWN_BY: Final[Mapping[str, Privilege]] = {
    "catalog": Privilege.USE_CATALOG,
    "namespace": Privilege.LIST_SCHEMA,
    "table": Privilege.LIST_TABLE,
    "view": Privilege.LIST_VIEW,
}


class Refusals:
    """Counts refusals, and records them in the store a little later: a flood of them takes few rows."""

    def __init__(self, store: Store, clock: Clock, *, records: bool, most_rows: int, kept_ms: int) -> None:
        """Begins with none.

        Args:
            records: whether they are recorded.
            most_rows: of an account; the oldest go.
            kept_ms: how long they are kept.
        """
        self._store = store
        self._clock = clock
        self._records = records
        self._most_rows = most_rows
        self._kept_ms = kept_ms
        self._lock = Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._waiting: dict[tuple[UUID, str, str, Securable | str], tuple[int, int]] = {}

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """The number of refusals in this process, by privilege and kind of the thing."""
        with self._lock:
            return dict(self._counts)

    def note(self, principal: Principal, check: Check) -> None:
        """Notes a refusal, in memory."""
        privilege, securable = check
        text = _shown(str(securable))
        on = securable if text == str(securable) else text
        key = (principal.account_id, _shown(principal.name), str(privilege), on)
        with self._lock:
            self._counts[str(privilege), securable.kind] += 1
            if self._records and (key in self._waiting or len(self._waiting) < _MOST_WAITING):
                times, _ = self._waiting.get(key, (0, 0))
                self._waiting[key] = (times + 1, self._clock.now_ms())

    def flush(self) -> None:
        """Writes what waits. What the store does not take now waits on."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        if not waiting:
            return

        def insert(conn: Connection) -> None:
            catalogs: defaultdict[UUID, set[str]] = defaultdict(set)
            for account_id, _, _, on in waiting:
                catalogs[account_id].update(() if isinstance(on, str) else (on.catalog,))
            found = {id: places.catalogs(conn, id, names)[1] for id, names in catalogs.items()}
            rows = [
                RefusalRow(
                    account_id, uuids.uuid7(), principal, privilege, _told(on, found[account_id]), *counted
                )
                for (account_id, principal, privilege, on), counted in waiting.items()
            ]
            refusals.insert(conn, rows, self._most_rows)

        try:
            self._store.run(insert)
        except FloecatError as error:
            _log.warning("%d refusals are not recorded yet: %s", len(waiting), error.message)
            with self._lock:
                for key, (times, at_ms) in waiting.items():
                    more, last_ms = self._waiting.get(key, (0, at_ms))
                    self._waiting[key] = (times + more, last_ms)

    def sweep(self, conn: Connection, now_ms: int, limit: int) -> int:
        """Deletes those that are kept no longer."""
        return refusals.delete_before(conn, now_ms - self._kept_ms, limit)

    def newest(self, actor: Actor, limit: int) -> Sequence[RefusalRow]:
        """The last recorded ones of an account, the newest first.

        Raises:
            ForbiddenError: the principal may not read the access of the account.
        """
        actor.check((Privilege.READ_ACCESS, ACCOUNT))
        with self._store.read() as conn:
            return refusals.newest(conn, actor.account_id, limit)


class RefusingAuthorizer(Authorizer):
    """Asks another authorizer, and has its refusals noted."""

    def __init__(self, decides: Authorizer, noted: Refusals, *, hides: bool) -> None:
        """Takes who decides, and whether what a principal may not know of is told as missing."""
        self._decides = decides
        self._noted = noted
        self._hides = hides

    def allowed(
        self, principal: Principal, checks: Sequence[Check], found: FoundSecurable | None = None, /
    ) -> Sequence[bool]:
        """As the other one says."""
        return self._decides.allowed(principal, checks, found)

    def owner(self, conn: Connection, principal: Principal, /) -> UUID | None:
        """As the other one says."""
        return self._decides.owner(conn, principal)

    def owns(self, conn: Connection, principal: Principal, owner_id: UUID, /) -> bool:
        """As the other one says."""
        return self._decides.owns(conn, principal, owner_id)

    def as_owner(self, conn: Connection, account_id: UUID, owner_id: UUID, /) -> Principal:
        """As the other one says."""
        return self._decides.as_owner(conn, account_id, owner_id)

    def close(self) -> None:
        """Closes the other one."""
        self._decides.close()

    def kept_by(self, principal: Principal, /) -> Hashable | None:
        """As the other one says."""
        return self._decides.kept_by(principal)

    def refusal(self, principal: Principal, check: Check, /) -> FloecatError:
        """The error that says what is missing; of what the principal may not know of, that it does not exist.

        Of what is created that is asked for what it would be in: the name itself tells nothing.
        """
        self._noted.note(principal, check)
        privilege, securable = check
        subject = _parent(securable) if privilege in _MADE_BY else securable
        known = _KNOWN_BY.get(subject.kind)
        if not self._hides or known is None or self._decides.allowed(principal, [(known, subject)])[0]:
            return self._decides.refusal(principal, check)
        return _missing(subject)


def _parent(securable: Securable) -> Securable:
    if securable.kind == "catalog":
        return ACCOUNT
    levels = securable.namespace if securable.name is not None else securable.namespace[:-1]
    return Securable("namespace" if levels else "catalog", securable.catalog, levels)


def _missing(securable: Securable) -> FloecatError:
    """The error of a look-up that finds nothing, as `floecat.entries.names` words it."""
    if securable.kind == "catalog":
        return NoSuchWarehouseError(f"Warehouse does not exist: {securable.catalog}")
    if securable.name is None:
        return NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(securable.namespace)}")
    name = TableIdentifier(securable.namespace, securable.name)
    if securable.kind == "table":
        return NoSuchTableError(f"Table does not exist: {name}")
    return NoSuchViewError(f"View does not exist: {name}")


def _told(on: Securable | str, catalogs: Mapping[str, Place]) -> str:
    if isinstance(on, str):  # too long, or what cannot be printed
        return on
    return on.shown(catalogs[on.catalog].schema_separator if on.catalog in catalogs else None)


def _shown(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[:_LONGEST])
