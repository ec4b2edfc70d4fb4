"""Purges: the jobs that delete the files of dropped tables, under names of their own."""

from __future__ import annotations

from uuid import UUID

from litestar import get, post
from litestar.params import FromQuery

from floecat.purge.purge_jobs import PurgeInfo
from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken
from floecat_rest.management.controllers import (
    ManagementController,
    StateFilter,
    TableFilter,
    listed_size,
    path_id,
)
from floecat_rest.management.job_wire import ListPurgesResponse, PurgeResponse, kind_response

__all__ = ["CancelPurgeController", "PurgeController", "PurgesController", "RetryPurgeController"]

_PURGES = "/management/v1/catalogs/{catalog:str}/purges"
_PURGE = f"{_PURGES}/{{purge:str}}"


class PurgesController(ManagementController):
    """The purges of a catalog."""

    path = _PURGES

    @get(operation_id="listPurges", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_purges(
        self,
        request: CatalogRequest,
        states: StateFilter = None,
        table: TableFilter = None,
        page_token: PageToken = None,
        page_size: PageSize = None,
    ) -> ListPurgesResponse:
        """Purges, oldest first, at most 1,000; those that failed for good are in the state `failed`."""
        found = request.kernel.purge.operations.page(
            request.call(), states or (), table, page_token, listed_size(page_size)
        )
        return ListPurgesResponse([_rendered(each) for each in found.items], found.next_token)


class PurgeController(ManagementController):
    """A purge."""

    path = _PURGE

    @get(operation_id="loadPurge", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_purge(self, request: CatalogRequest) -> PurgeResponse:
        """The purge, how far it is, and the files that could not be deleted."""
        return _rendered(request.kernel.purge.operations.get(request.call(), _purge_id(request)))


class RetryPurgeController(ManagementController):
    """Purges that are worked on again."""

    path = f"{_PURGE}/retry"

    @post(operation_id="retryPurge", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def retry_purge(self, request: CatalogRequest) -> PurgeResponse:
        """Makes a purge due now that failed for good or was cancelled."""
        return _rendered(request.kernel.purge.operations.retry(request.call(), _purge_id(request)))


class CancelPurgeController(ManagementController):
    """Purges that are not wanted after all."""

    path = f"{_PURGE}/cancel"

    @post(operation_id="cancelPurge", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def cancel_purge(self, request: CatalogRequest, force: FromQuery[bool] = False) -> PurgeResponse:
        """Cancels a purge that has not begun; with `force` one that has, which then stops halfway."""
        return _rendered(
            request.kernel.purge.operations.cancel(request.call(), _purge_id(request), force=force)
        )


def _purge_id(request: CatalogRequest) -> UUID:
    return path_id(request, "purge", "Job")


def _rendered(purge: PurgeInfo) -> PurgeResponse:
    return kind_response(purge, PurgeResponse)
