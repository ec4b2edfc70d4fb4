"""Calls: a principal, and the catalog that it names. Every front end has its calls made here."""

from __future__ import annotations

from itertools import compress
from uuid import UUID

from floecat.auth.authorizer import AllowAll, Authorizer, Check, Privilege, Securable, check_allowed
from floecat.auth.principals import Principal
from floecat.catalog.catalogs import CatalogService
from floecat.entries.calls import Call, RequestKey
from floecat.errors import NoSuchWarehouseError

__all__ = ["CallContext"]


class CallContext:
    """Makes calls."""

    def __init__(self, catalogs: CatalogService, authorizer: Authorizer) -> None:
        self._catalogs = catalogs
        self._authorizer = authorizer

    def open(self, principal: Principal, catalog: str, request: RequestKey | None = None) -> Call:
        """A call on a catalog.

        Args:
            principal: who asks.
            catalog: name of the catalog, as prefixes and warehouses are.
            request: idempotency key of a change.

        Raises:
            ForbiddenError: the principal may not use the catalog, whether or not it exists.
            NoSuchWarehouseError: the account has no such catalog.
        """
        check_allowed(self._authorizer, principal, [_use(catalog)])
        found = self._catalogs.by_prefix(principal.account_id, catalog)
        return Call(principal, found, self._authorizer, request)

    def open_warehouse(self, principal: Principal, warehouse: str) -> Call:
        """A call on the catalog that a `warehouse` names, or in whose locations a storage URI lies.

        Raises:
            ForbiddenError: the warehouse is a name, and the principal may not use that catalog.
            NoSuchWarehouseError: there is no such catalog, or none that the principal may use.
        """
        if "://" not in warehouse and not warehouse.startswith(("/", "file:")):
            return self.open(principal, warehouse)
        holding = self._catalogs.holding(principal.account_id, warehouse)
        allowed = self._authorizer.allowed(principal, [_use(catalog.name) for catalog in holding])
        for catalog in compress(holding, allowed):
            return Call(principal, catalog, self._authorizer)
        raise NoSuchWarehouseError(f"Warehouse does not exist: {warehouse}")

    def remembered(self, principal: Principal, catalog: str) -> Call | None:
        """A call for a fast look-up, if the catalog is known without asking the store.

        Whether the principal may use the catalog is asked by that look-up.
        """
        found = self._catalogs.remembered(principal.account_id, catalog)
        return None if found is None else Call(principal, found, self._authorizer)

    def open_as_operator(self, name: str, account_id: UUID, catalog: str) -> Call:
        """A call of whoever works on the store directly, and so may do everything.

        Args:
            name: what the commit log calls the operator.
            account_id: the account of the catalog.
            catalog: its name.

        Raises:
            NoSuchWarehouseError: the account has no such catalog.
        """
        found = self._catalogs.by_prefix(account_id, catalog)
        return Call(Principal(name, account_id), found, AllowAll())


def _use(catalog: str) -> Check:
    return Privilege.USE_CATALOG, Securable("catalog", catalog)
