"""Bodies of the routes about accounts and catalogs; the command line prints the same JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec

from floecat.access.account_service import AccountInfo
from floecat.catalog.catalog_directory import NewCatalog
from floecat.entries.calls import Catalog

__all__ = [
    "AccountResponse",
    "CatalogResponse",
    "CreateAccountRequest",
    "CreateCatalogRequest",
    "DescribedAccount",
    "ListAccountsResponse",
    "ListCatalogsResponse",
    "UpdateAccountRequest",
    "UpdateCatalogRequest",
    "catalog_response",
]


class UpdateCatalogRequest(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """Changes of a catalog."""

    add_locations: tuple[str, ...] = ()
    """Further locations under which its tables may lie."""
    remove_locations: tuple[str, ...] = ()
    """Allowed locations that nothing lies in."""
    nested: bool | None = None
    """Whether names of schemas have levels, as `A:B:C`; it stays as it is by default."""


class CreateCatalogRequest(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """A new catalog."""

    name: str
    storage_location: str
    """Root of default locations; below `floecat.storage.addable-locations`, as the next."""
    allowed_locations: tuple[str, ...] = ()
    properties: dict[str, str] = {}

    def to_kernel(self) -> NewCatalog:
        """The kernel's form."""
        return NewCatalog(self.name, self.storage_location, self.allowed_locations, self.properties)


class CatalogResponse(msgspec.Struct, rename="kebab"):
    """A catalog."""

    name: str
    storage_location: str
    """Root of default locations."""
    allowed_locations: Sequence[str]
    """Further locations under which its tables may lie."""
    properties: Mapping[str, str]
    protected: bool
    """Whether it may not be removed."""
    schema_separator: str | None
    """Between the levels in names of schemas; null in a flat catalog."""


class ListCatalogsResponse(msgspec.Struct, rename="kebab"):
    """Catalogs, by name."""

    catalogs: Sequence[CatalogResponse]
    next_page_token: str | None


def catalog_response(catalog: Catalog) -> CatalogResponse:
    """Renders a catalog."""
    return CatalogResponse(
        catalog.name,
        catalog.storage_location,
        catalog.allowed_locations,
        catalog.properties,
        catalog.protected,
        catalog.schema_separator,
    )


class CreateAccountRequest(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """A new account."""

    name: str
    id: UUID | None = None
    """Id, which the tokens of its principals name. By default a new one."""


class UpdateAccountRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A change of an account."""

    disabled: bool
    """Whether nobody may do anything in it."""


class AccountResponse(msgspec.Struct, rename="kebab"):
    """An account."""

    id: UUID
    """Id, which the tokens of its principals name."""
    name: str
    disabled: bool
    created_at_ms: int

    @classmethod
    def of(cls, found: AccountInfo) -> AccountResponse:
        """Renders an account."""
        return cls(found.id, found.name, found.disabled, found.created_at_ms)


class DescribedAccount(AccountResponse, rename="kebab"):
    """An account, and how much is in it."""

    contents: Mapping[str, int]
    """Numbers of its catalogs, principals, roles and grants."""

    @classmethod
    def of(cls, found: AccountInfo) -> DescribedAccount:
        """Renders an account."""
        return cls(found.id, found.name, found.disabled, found.created_at_ms, found.contents)


class ListAccountsResponse(msgspec.Struct, rename="kebab"):
    """Accounts, by name."""

    accounts: Sequence[AccountResponse]
    next_page_token: str | None
