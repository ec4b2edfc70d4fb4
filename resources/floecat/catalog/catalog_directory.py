"""The catalogs of an account, as its principals see them and create some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress

import msgspec

from floecat.auth.actors import Actor
from floecat.auth.authorizer import Authorizer, Privilege, Securable, check_allowed
from floecat.auth.principals import Principal
from floecat.catalog.catalogs import CatalogService
from floecat.catalog.property_bounds import check_property_bytes
from floecat.credentials.authority_service import AuthorityService
from floecat.entries.calls import Catalog, Page
from floecat.errors import BadRequestError
from floecat.fileio.locations import AllowedLocations
from floecat.iceberg.values.bounds import process_bounds

__all__ = ["CatalogDirectory", "NewCatalog"]


class NewCatalog(msgspec.Struct, frozen=True):
    """The request for a new catalog."""

    name: str
    storage_location: str
    allowed_locations: Sequence[str] = ()
    properties: Mapping[str, str] = {}


class CatalogDirectory:
    """Lists and creates catalogs. Operators use `CatalogService`, which asks nobody."""

    def __init__(
        self,
        catalogs: CatalogService,
        authorizer: Authorizer,
        authorities: AuthorityService,
        *,
        addable_locations: Sequence[str],
        most_locations: int,
    ) -> None:
        """Puts the service together.

        Args:
            catalogs: makes and finds catalogs.
            authorizer: decides who may create and see which.
            authorities: make keys for what lies below their prefixes.
            addable_locations: those below which the locations of a new catalog must lie.
            most_locations: allowed locations of a catalog.
        """
        self._catalogs = catalogs
        self._authorizer = authorizer
        self._authorities = authorities
        self._addable = AllowedLocations(addable_locations)
        self._most = most_locations

    def list(self, principal: Principal, token: str | None = None, limit: int = 1000) -> Page[Catalog]:
        """The catalogs that a principal may use, by name, as many as one answer may have.

        Args:
            principal: who asks.
            token: of the page before; None or empty for the first.
            limit: most catalogs; a page has less where the principal may not use all.

        Raises:
            BadRequestError: the token is of another listing.
            WorkingMemoryError: others held the memory all the time.
        """
        found = self._catalogs.page(principal.account_id, token, limit)
        checks = [(Privilege.USE_CATALOG, Securable("catalog", catalog.name)) for catalog in found.items]
        allowed = self._authorizer.allowed(principal, checks)
        return Page(list(compress(found.items, allowed)), found.next_token)

    def create(self, principal: Principal, wanted: NewCatalog) -> Catalog:
        """Creates a catalog, once a small file could be written at its location and deleted again.

        Raises:
            BadRequestError: the name or a location is malformed, there are too many, properties are too
                large, or files cannot be written there.
            ForbiddenError: the principal may not create the catalog, or not use the storage authority of a
                location.
            LocationNotAllowedError: a location is not below those that may be added.
            AlreadyExistsError: the account has a catalog of this name.
        """
        check = (Privilege.CREATE_CATALOG, Securable("catalog", wanted.name))
        check_allowed(self._authorizer, principal, [check])
        if len(wanted.allowed_locations) > self._most:
            raise BadRequestError(
                f"A catalog may have {self._most} allowed locations (floecat.limits.catalog-locations)"
            )
        check_property_bytes(wanted.properties, process_bounds.limits.namespace_property_bytes)
        locations = (wanted.storage_location, *wanted.allowed_locations)
        for location in locations:
            self._addable.check(location)
        creator = Actor(principal, self._authorizer)
        self._authorities.check_use(creator, locations)
        return self._catalogs.create(
            principal.account_id,
            wanted.name,
            wanted.storage_location,
            allowed_locations=wanted.allowed_locations,
            properties=wanted.properties,
            try_writing=True,
            creator=creator,
        )
