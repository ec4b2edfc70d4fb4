"""Authorizers by name: those that are built in, and those of other packages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import Final, cast
from uuid import UUID

from floecat.access.opa import OpaAuthorizer
from floecat.access.stored_authorizer import StoredAuthorizer
from floecat.auth.authorizer import Authorizer, Check, FoundSecurable
from floecat.auth.principals import Principal
from floecat.errors import SettingsError
from floecat.settings import Settings
from floecat.settings.imports import imported
from floecat.store.database.engine import Connection, Store

__all__ = ["ENTRY_POINTS", "OutsideAuthorizer", "chosen_authorizer"]

ENTRY_POINTS: Final = "floecat.authorizers"
"""Group of entry points of other packages: a function of the `Settings` that returns an `Authorizer`."""

_SETTING: Final = "floecat.auth.authorizer"


class OutsideAuthorizer(Authorizer):
    """Asks an authorizer that knows no principals of the store, and whose answers are waited for.

    Who is disabled may do nothing, and who is an operator everything, before it is asked.
    """

    def __init__(self, store: Store, stored: StoredAuthorizer, decides: Authorizer) -> None:
        self._store = store
        self._stored = stored
        self._decides = decides

    def allowed(
        self, principal: Principal, checks: Sequence[Check], found: FoundSecurable | None = None, /
    ) -> Sequence[bool]:
        """As the other one says.

        Raises:
            StoreUnavailableError: this thread is an event loop's, which nothing may hold up.
        """
        self._store.check_may_wait()
        allowed = self._stored.allowed(principal, checks, found)
        if not checks or self._stored.is_operator(principal):
            return allowed
        return self._decides.allowed(principal, checks)

    def owner(self, conn: Connection, principal: Principal, /) -> UUID | None:
        """The principal."""
        return self._stored.owner(conn, principal)

    def owns(self, conn: Connection, principal: Principal, owner_id: UUID, /) -> bool:
        """As the other one says."""
        return self._stored.owns(conn, principal, owner_id)

    def as_owner(self, conn: Connection, account_id: UUID, owner_id: UUID, /) -> Principal:
        """As the other one says."""
        return self._stored.as_owner(conn, account_id, owner_id)

    def close(self) -> None:
        """Closes the other one."""
        self._decides.close()


def chosen_authorizer(settings: Settings, store: Store, stored: StoredAuthorizer) -> Authorizer:
    """The authorizer that the settings name.

    Raises:
        SettingsError: there is none of this name, or it cannot be made.
    """
    name = settings.auth.authorizer
    if name in ("allow-all", "grants"):
        return stored
    if name == "opa":
        return OutsideAuthorizer(store, stored, OpaAuthorizer(settings.auth.opa))
    places = [point.value for point in entry_points(group=ENTRY_POINTS, name=name)]
    if not places:
        raise SettingsError(
            f"{_SETTING}: {name!r} is not allow-all, grants, opa, or an entry point of {ENTRY_POINTS}"
        )
    make = imported(_SETTING, places[0])
    if not callable(make):
        raise SettingsError(f"{_SETTING}: {places[0]} is no function of the settings")
    return OutsideAuthorizer(store, stored, _made(make, settings, places[0]))


def _made(make: Callable[[Settings], object], settings: Settings, place: str) -> Authorizer:
    try:
        made = make(settings)
    except SettingsError:
        raise
    except Exception as error:  # of another package, which may raise anything
        raise SettingsError(f"{_SETTING}: {place} cannot be made: {type(error).__name__}") from error
    if Authorizer not in type(made).__mro__:
        raise SettingsError(f"{_SETTING}: {place} makes no Authorizer: it has to inherit it")
    return cast("Authorizer", made)
