"""Refusals that were recorded."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from litestar import get

from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize
from floecat_rest.management.controllers import ManagementController, listed_size

__all__ = ["ListRefusalsResponse", "RefusalResponse", "RefusalsController"]


class RefusalResponse(msgspec.Struct, rename="kebab"):
    """The refusals of one question to one principal within a few seconds."""

    principal: str
    privilege: str
    """The one that was missing."""
    securable: str
    """What it was asked for."""
    times: int
    refused_at_ms: int
    """Time of the last one."""


class ListRefusalsResponse(msgspec.Struct, rename="kebab"):
    """Refusals, the newest first."""

    refusals: Sequence[RefusalResponse]


class RefusalsController(ManagementController):
    """The refusals of an account."""

    path = "/management/v1/refusals"

    @get(operation_id="listRefusals", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_refusals(self, request: CatalogRequest, page_size: PageSize = None) -> ListRefusalsResponse:
        """The last refusals, at most 1,000, with `floecat.auth.record-refusals`; needs `read_access`."""
        found = request.kernel.access.refusals.newest(request.actor, listed_size(page_size))
        return ListRefusalsResponse(
            [
                RefusalResponse(
                    each.principal, each.privilege, each.securable, each.times, each.refused_at_ms
                )
                for each in found
            ]
        )
