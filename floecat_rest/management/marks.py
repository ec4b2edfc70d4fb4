"""Protection of catalogs, namespaces, tables and views from removal, and the definers of views."""

from __future__ import annotations

import msgspec
from litestar import delete, get, put

from floecat.auth.authorizer import Securable
from floecat.entries.calls import Call
from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest
from floecat_rest.management.controllers import ManagementController

__all__ = ["PROTECTIONS", "DefinerController", "DefinerResponse", "ProtectionResponse"]

_CATALOG = "/management/v1/catalogs/{catalog:str}"
_NAMESPACE = f"{_CATALOG}/namespaces/{{namespace:str}}"


class ProtectionResponse(msgspec.Struct, rename="kebab"):
    """The protection of something."""

    protected: bool
    """Whether it may not be removed, whoever asks."""


def _controller(kind: str, of: str) -> type[ManagementController]:
    """The protection of one kind of thing, whose routes differ in their path alone."""

    class ProtectionController(ManagementController):
        path = f"{of}/protection"

        @get(operation_id=f"load{kind}Protection", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
        def load_protection(self, request: CatalogRequest) -> ProtectionResponse:
            """Whether it may not be removed."""
            call = request.call()
            return ProtectionResponse(request.kernel.catalog.marks.is_protected(call, _named(request, call)))

        @put(operation_id=f"protect{kind}", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
        def protect(self, request: CatalogRequest) -> ProtectionResponse:
            """Protects it: it cannot be removed, whoever asks, until the protection is taken off."""
            call = request.call()
            request.kernel.catalog.marks.protect(call, _named(request, call), protected=True)
            return ProtectionResponse(True)

        @delete(operation_id=f"unprotect{kind}", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
        def unprotect(self, request: CatalogRequest) -> None:
            """Takes the protection off."""
            call = request.call()
            request.kernel.catalog.marks.protect(call, _named(request, call), protected=False)

    return ProtectionController


PROTECTIONS = [
    _controller("Catalog", _CATALOG),
    _controller("Namespace", _NAMESPACE),
    _controller("Table", f"{_NAMESPACE}/tables/{{table:str}}"),
    _controller("View", f"{_NAMESPACE}/views/{{view:str}}"),
]


class DefinerResponse(msgspec.Struct, rename="kebab"):
    """With whose rights a view reads."""

    definer: bool
    """Whether with those of its owner, where an engine that is trusted reads through it."""


class DefinerController(ManagementController):
    """Views that read with the rights of their owner."""

    path = f"{_NAMESPACE}/views/{{view:str}}/definer"

    @get(operation_id="loadViewDefiner", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_definer(self, request: CatalogRequest) -> DefinerResponse:
        """Whether the view reads with the rights of its owner."""
        call = request.call()
        return DefinerResponse(request.kernel.catalog.marks.is_definer(call, request.entry(call, "view")))

    @put(operation_id="setViewDefiner", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def set_definer(self, request: CatalogRequest) -> DefinerResponse:
        """Has the view read with the rights of its owner; only the owner sets that."""
        call = request.call()
        request.kernel.catalog.marks.set_definer(call, request.entry(call, "view"), definer=True)
        return DefinerResponse(True)

    @delete(operation_id="clearViewDefiner", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def clear_definer(self, request: CatalogRequest) -> None:
        """Has the view read with the rights of who reads it, which is the default."""
        call = request.call()
        request.kernel.catalog.marks.set_definer(call, request.entry(call, "view"), definer=False)


def _named(request: CatalogRequest, call: Call) -> Securable:
    """What the path names."""
    named = request.path_params
    if "table" in named:
        return call.on_entry("table", request.entry(call))
    if "view" in named:
        return call.on_entry("view", request.entry(call, "view"))
    return call.on_namespace(request.namespace(call)) if "namespace" in named else call.on_catalog()
