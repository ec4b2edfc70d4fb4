"""What is set on a thing beside its metadata: that it is protected from removal."""

from __future__ import annotations

from floecat.access.paths import Path, find_paths
from floecat.auth.authorizer import Privilege, Securable
from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.errors import BadRequestError, NotFoundError
from floecat.store.access import grants, places
from floecat.store.access.places import Flag
from floecat.store.database.engine import Connection, Store

__all__ = ["Marks"]


class Marks:
    """Sets and tells marks. A change is a line of the history of access."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def is_protected(self, call: Call, on: Securable) -> bool:
        """Whether a catalog, namespace, table or view may not be removed.

        Raises:
            BadRequestError: it is the account.
            ForbiddenError: the principal may not read the access to it.
            NotFoundError: it does not exist.
        """
        call.check((Privilege.READ_ACCESS, on))
        with self._store.read() as conn:
            return places.flag(conn, on.kind, _whole(conn, call, on).places[-1].id, "protected")

    def protect(self, call: Call, on: Securable, *, protected: bool) -> bool:
        """Protects a catalog, namespace, table or view from removal, whoever asks, or takes that off.

        Returns:
            Whether it was otherwise before.

        Raises:
            BadRequestError: it is the account.
            ForbiddenError: the principal may not manage its protection.
            NotFoundError: it does not exist.
        """
        call.check((Privilege.MANAGE_PROTECTION, on))
        told = f"{'protect' if protected else 'unprotect'} {on}"
        return self._set(call, on, "protected", told, value=protected)

    def _set(self, call: Call, on: Securable, flag: Flag, told: str, *, value: bool) -> bool:
        account_id = call.catalog.account_id

        def work(conn: Connection) -> bool:
            grants.lock(conn, account_id)
            place = _whole(conn, call, on).places[-1]
            changed = places.set_flag(conn, on.kind, place.id, flag, value=value)
            if changed:
                grants.record(conn, account_id, call.principal.name, told, self._clock.now_ms())
            return changed

        return self._store.run(work)


def _whole(conn: Connection, call: Call, on: Securable) -> Path:
    if on.kind == "account":
        raise BadRequestError("An account has no protection: its catalogs, namespaces, tables and views have")
    _, (path,) = find_paths(conn, call.catalog.account_id, [on])
    if not path.is_whole:
        raise NotFoundError(f"There is no {on}")
    return path
