"""What Gravitino's clients ask first: version, settings, metalakes and catalogs.

A metalake is an account, and a principal has one.
"""

from __future__ import annotations

from typing import Final

from litestar import Controller, get
from litestar.params import FromQuery

from floecat.entries.calls import Catalog
from floecat.errors import ForbiddenError
from floecat.identifiers.schema_names import SCHEMA_SEPARATOR
from floecat_rest.gravitino.wire import (
    CatalogAnswer,
    CatalogsAnswer,
    IdentifiersAnswer,
    MetalakeAnswer,
    MetalakesAnswer,
    VersionAnswer,
    WireCatalog,
    WireMetalake,
    WireName,
    WireVersion,
    audit,
)
from floecat_rest.http.options import PUBLIC, WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, path_name

__all__ = ["METALAKE_CONTROLLERS", "check_metalake"]

_TAGS: Final = ["Gravitino"]
_VERSION: Final = WireVersion("1.3.1", "", "")
"""Of the API: clients ask for one that is not older than their own."""
_LONGEST_SHOWN: Final = 128


class VersionController(Controller):
    """The version of the API."""

    path = "/api/version"
    tags = _TAGS

    @get(operation_id="getGravitinoVersion", sync_to_thread=False, opt={PUBLIC: True, WITHOUT_STORAGE: True})
    def get_version(self) -> VersionAnswer:
        """The version of Gravitino's API that is served."""
        return VersionAnswer(_VERSION)


class ConfigsController(Controller):
    """Settings that clients have to know."""

    path = "/configs"
    tags = _TAGS

    @get(operation_id="getGravitinoConfigs", sync_to_thread=False, opt={PUBLIC: True, WITHOUT_STORAGE: True})
    def get_configs(self, request: CatalogRequest) -> dict[str, object]:
        """The separator of schemas, and how to log in."""
        settings = request.services.settings
        is_open = settings.gateway.auth_mode == "dev"
        return {
            SCHEMA_SEPARATOR: settings.namespaces.separator,
            "gravitino.authorization.enable": not is_open,
            "gravitino.authenticators": ["simple" if is_open else "oauth"],
        }


class MetalakesController(Controller):
    """The metalakes of a principal."""

    path = "/api/metalakes"
    tags = _TAGS

    @get(operation_id="listMetalakes", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_metalakes(self, request: CatalogRequest) -> MetalakesAnswer:
        """The account of the principal."""
        return MetalakesAnswer([_metalake(*request.kernel.access.accounts.of(request.actor))])


class MetalakeController(Controller):
    """A metalake."""

    path = "/api/metalakes/{metalake:str}"
    tags = _TAGS

    @get(operation_id="loadMetalake", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_metalake(self, request: CatalogRequest) -> MetalakeAnswer:
        """The account, by its name or its id."""
        _, created_at_ms = request.kernel.access.accounts.of(request.actor)
        return MetalakeAnswer(_metalake(path_name(request, "metalake"), created_at_ms))


class MetalakeCatalogsController(Controller):
    """The catalogs of a metalake."""

    path = "/api/metalakes/{metalake:str}/catalogs"
    tags = _TAGS

    @get(operation_id="listMetalakeCatalogs", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_catalogs(
        self, request: CatalogRequest, details: FromQuery[bool] = False
    ) -> IdentifiersAnswer | CatalogsAnswer:
        """The catalogs that the principal may use, by name; at most 1,000."""
        metalake = path_name(request, "metalake")
        found = request.kernel.catalog.directory.list(request.principal).items
        if details:
            return CatalogsAnswer([_catalog(each) for each in found])
        return IdentifiersAnswer([WireName([metalake], each.name) for each in found])


class MetalakeCatalogController(Controller):
    """A catalog of a metalake."""

    path = "/api/metalakes/{metalake:str}/catalogs/{catalog:str}"
    tags = _TAGS

    @get(operation_id="loadMetalakeCatalog", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_catalog(self, request: CatalogRequest) -> CatalogAnswer:
        """The catalog."""
        return CatalogAnswer(_catalog(request.call().catalog))


METALAKE_CONTROLLERS: Final = [
    VersionController,
    ConfigsController,
    MetalakesController,
    MetalakeController,
    MetalakeCatalogsController,
    MetalakeCatalogController,
]


def check_metalake(request: CatalogRequest) -> None:
    """Refuses a path of another metalake; asked before every handler of one.

    Raises:
        ForbiddenError: it is not the account of the principal, whether or not there is such an account.
    """
    sent = path_name(request, "metalake")
    if sent != str(request.principal.account_id):
        own, _ = request.kernel.access.accounts.of(request.actor)
        if sent != own:
            raise ForbiddenError(
                f"{request.principal.name} is not in metalake {sent[:_LONGEST_SHOWN]}: its own is {own}"
            )


def _metalake(name: str, created_at_ms: int | None) -> WireMetalake:
    # no creator: whoever manages accounts may be of another one
    return WireMetalake(name, {"in-use": "true"}, audit(created_at_ms))


def _catalog(catalog: Catalog) -> WireCatalog:
    properties = {**catalog.properties, "warehouse": catalog.storage_location, "in-use": "true"}
    return WireCatalog(catalog.name, "relational", "lakehouse-iceberg", properties, audit(*catalog.audit))
