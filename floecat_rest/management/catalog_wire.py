"""Bodies of the routes about catalogs; the command line prints the same JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from floecat.catalog.catalog_directory import NewCatalog
from floecat.entries.calls import Catalog

__all__ = [
    "CatalogResponse",
    "CreateCatalogRequest",
    "ListCatalogsResponse",
    "UpdateCatalogRequest",
    "catalog_response",
]


class UpdateCatalogRequest(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """Changes of a catalog."""

    add_locations: tuple[str, ...] = ()
    """Further locations under which its tables may lie."""
    remove_locations: tuple[str, ...] = ()
    """Allowed locations that nothing lies in."""


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
    )
