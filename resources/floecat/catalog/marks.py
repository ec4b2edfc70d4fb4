"""What is set on a thing beside its metadata: that it is protected, and with whose rights a view reads."""

from __future__ import annotations

from floecat.access.changes import whole_path
from floecat.access.paths import Path
from floecat.auth.authorizer import Privilege, Securable
from floecat.catalog.catalogs import CatalogService
from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.entries.names import check_owns_view, existing_entry, missing_view
from floecat.errors import BadRequestError
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.access import grants, places
from floecat.store.database.engine import Connection, Store
from floecat.store.entries import tables

__all__ = ["Marks"]


class Marks:
    """Sets and tells marks. A change is a line of the history of access."""

    def __init__(self, store: Store, clock: Clock, catalogs: CatalogService) -> None:
        self._store = store
        self._catalogs = catalogs
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
        account_id = call.account_id

        def work(conn: Connection) -> bool:
            grants.lock(conn, account_id)
            path = _whole(conn, call, on)
            changed = places.set_flag(conn, on.kind, path.places[-1].id, "protected", value=protected)
            if changed:
                told = f"{'protect' if protected else 'unprotect'} {path.shown(on)}"
                grants.record(conn, account_id, call.principal.name, told, self._clock.now_ms())
            return changed

        changed = self._store.run(work)
        if on.kind == "catalog":
            self._catalogs.forget(call.catalog)
        return changed

    def is_definer(self, call: Call, view: TableIdentifier) -> bool:
        """Whether a view reads with the rights of its owner (its definer), and not of who reads it.

        Raises:
            ForbiddenError: the principal may not read it.
            NoSuchViewError: it does not exist.
        """
        return existing_entry(self._store, call, "view", view, Privilege.READ_VIEW).definer

    def set_definer(self, call: Call, view: TableIdentifier, *, definer: bool) -> bool:
        """Has a view read with the rights of its owner, or of who reads it.

        Returns:
            Whether it was otherwise before.

        Raises:
            ForbiddenError: the principal may not write the view, or does not own it.
            NoSuchViewError: it does not exist.
        """
        thing = call.on_entry("view", view)
        call.check((Privilege.WRITE_VIEW, thing))
        told = f"{thing.shown(call.catalog.schema_separator)} reads with the rights of its "

        def work(conn: Connection) -> bool:
            grants.lock(conn, call.account_id)
            row = tables.find(conn, call.catalog.id, view)
            if row is None or row.kind != "view":
                raise missing_view(view)
            if row.definer == definer:
                return False
            check_owns_view(conn, call, view, row.owner_id)
            places.set_flag(conn, "view", row.id, "definer", value=definer)
            change = told + ("owner" if definer else "readers")
            grants.record(conn, call.account_id, call.principal.name, change, self._clock.now_ms())
            return True

        return self._store.run(work)


def _whole(conn: Connection, call: Call, on: Securable) -> Path:
    if on.kind == "account":
        raise BadRequestError("An account has no protection: its catalogs, namespaces, tables and views have")
    return whole_path(conn, call.account_id, on)
