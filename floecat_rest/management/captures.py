"""Captures of the statistics of snapshots."""

from __future__ import annotations

from uuid import UUID

from litestar import delete, get, post, put
from litestar.params import RawBody

from floecat.errors import BadRequestError
from floecat.statistics.capture.descriptions import CaptureInfo
from floecat.statistics.capture.policies import CapturePolicy, PolicyChange
from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, PageSize, PageToken
from floecat_rest.management.controllers import (
    ManagementController,
    StateFilter,
    TableFilter,
    listed_size,
    path_id,
)
from floecat_rest.management.job_wire import CaptureResponse, ListCapturesResponse, kind_response
from floecat_rest.management.statistics import TABLE
from floecat_rest.management.statistics_wire import CapturedSnapshotsResponse, CaptureRequest

__all__ = [
    "CancelCaptureController",
    "CaptureController",
    "CapturePolicyController",
    "CapturesController",
    "CatalogCapturePolicyController",
    "TableCapturesController",
]

_CAPTURES = "/management/v1/catalogs/{catalog:str}/captures"
_CAPTURE = f"{_CAPTURES}/{{capture:str}}"


class TableCapturesController(ManagementController):
    """The captures of a table."""

    path = f"{TABLE}/captures"

    @get(operation_id="listCapturedSnapshots", sync_to_thread=True)
    def list_snapshots(
        self, request: CatalogRequest, page_token: PageToken = None, page_size: PageSize = None
    ) -> CapturedSnapshotsResponse:
        """Captured snapshots, with the time and the number of data files that were read; at most 1,000."""
        call, captures = request.call(), request.kernel.statistics.captures
        found = captures.snapshot_page(call, request.entry(call), page_token, listed_size(page_size))
        return CapturedSnapshotsResponse(found.items, found.next_token)

    @post(operation_id="captureStatistics", status_code=200, sync_to_thread=True)
    def capture(self, request: CatalogRequest, body: RawBody) -> ListCapturesResponse:
        """Captures a snapshot now and waits for it, or asks for the capture of all snapshots."""
        sent = request.read(body or b"{}", CaptureRequest)
        call, captures = request.call(), request.kernel.statistics.captures
        if sent.all_snapshots:
            if sent != CaptureRequest(all_snapshots=True):
                raise BadRequestError("Invalid all-snapshots: it goes with no other field")
            backfilled = captures.backfill(call, request.entry(call))
            return ListCapturesResponse([_rendered(each) for each in backfilled])
        made = captures.capture(
            call,
            request.entry(call),
            None if sent.snapshot is None else str(sent.snapshot),
            full=sent.full,
            # refused from a minute on; the largest numbers have no milliseconds
            wait_ms=round(max(-1.0, min(sent.wait_seconds, 1e6)) * 1000),
        )
        return ListCapturesResponse([_rendered(made)])


class CatalogCapturePolicyController(ManagementController):
    """The capture policy of a catalog: for its tables that set nothing else."""

    path = "/management/v1/catalogs/{catalog:str}/capture-policy"

    @get(operation_id="loadCatalogCapturePolicy", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_policy(self, request: CatalogRequest) -> CapturePolicy:
        """The capture policy of a catalog: by its properties, then by the settings."""
        return request.kernel.statistics.policies.get(request.call(), None)

    @put(operation_id="replaceCatalogCapturePolicy", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def replace_policy(self, request: CatalogRequest, body: RawBody) -> CapturePolicy:
        """Replaces what the catalog sets by itself, as properties. Other processes see it within 5 s."""
        sent = request.read(body, PolicyChange)
        return request.kernel.statistics.policies.change(request.mutation(body), None, sent)

    @delete(
        operation_id="deleteCatalogCapturePolicy",
        status_code=200,
        sync_to_thread=True,
        opt={WITHOUT_STORAGE: True},
    )
    def delete_policy(self, request: CatalogRequest) -> CapturePolicy:
        """Deletes what the catalog sets by itself; the answer is what it inherits."""
        return request.kernel.statistics.policies.change(request.mutation(), None, PolicyChange())


class CapturePolicyController(ManagementController):
    """The capture policy of a table."""

    path = f"{TABLE}/capture-policy"

    @get(operation_id="loadCapturePolicy", sync_to_thread=True)
    def load_policy(self, request: CatalogRequest) -> CapturePolicy:
        """The capture policy of a table: by its properties, then those of its catalog, then the settings."""
        call = request.call()
        return request.kernel.statistics.policies.get(call, request.entry(call))

    @put(operation_id="replaceCapturePolicy", sync_to_thread=True)
    def replace_policy(self, request: CatalogRequest, body: RawBody) -> CapturePolicy:
        """Replaces what the table sets by itself, as properties, by a commit."""
        sent = request.read(body, PolicyChange)
        call = request.mutation(body)
        return request.kernel.statistics.policies.change(call, request.entry(call), sent)

    @delete(operation_id="deleteCapturePolicy", status_code=200, sync_to_thread=True)
    def delete_policy(self, request: CatalogRequest) -> CapturePolicy:
        """Deletes what the table sets by itself, by a commit; the answer is what it inherits."""
        call = request.mutation()
        return request.kernel.statistics.policies.change(call, request.entry(call), PolicyChange())


class CapturesController(ManagementController):
    """The captures of a catalog."""

    path = _CAPTURES

    @get(operation_id="listCaptures", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def list_captures(
        self,
        request: CatalogRequest,
        states: StateFilter = None,
        table: TableFilter = None,
        page_token: PageToken = None,
        page_size: PageSize = None,
    ) -> ListCapturesResponse:
        """Captures, oldest first; at most 1,000."""
        found = request.kernel.statistics.captures.page(
            request.call(), states or (), table, page_token, listed_size(page_size)
        )
        return ListCapturesResponse([_rendered(each) for each in found.items], found.next_token)


class CaptureController(ManagementController):
    """A capture."""

    path = _CAPTURE

    @get(operation_id="loadCapture", sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def load_capture(self, request: CatalogRequest) -> CaptureResponse:
        """The capture, how far it is, and its groups of files."""
        return _rendered(request.kernel.statistics.captures.get(request.call(), _capture_id(request)))


class CancelCaptureController(ManagementController):
    """Captures that are not wanted after all."""

    path = f"{_CAPTURE}/cancel"

    @post(operation_id="cancelCapture", status_code=200, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def cancel_capture(self, request: CatalogRequest) -> CaptureResponse:
        """Cancels a capture with its groups; one that runs stops before its next file."""
        return _rendered(request.kernel.statistics.captures.cancel(request.call(), _capture_id(request)))


def _capture_id(request: CatalogRequest) -> UUID:
    return path_id(request, "capture", "Capture")


def _rendered(capture: CaptureInfo) -> CaptureResponse:
    return kind_response(capture, CaptureResponse)
