"""Scan and commit reports of clients."""

from __future__ import annotations

from litestar import Controller, post
from litestar.params import RawBody

from floecat_rest.http.options import WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest, check_media_type

__all__ = ["MetricsController"]


class MetricsController(Controller):
    """Reports about one table."""

    path = "/v1/{prefix:str}/namespaces/{namespace:str}/tables/{table:str}/metrics"
    tags = ["Metrics"]

    @post(operation_id="reportMetrics", status_code=204, sync_to_thread=True, opt={WITHOUT_STORAGE: True})
    def report_metrics(self, request: CatalogRequest, body: RawBody) -> None:
        """Validates a report and keeps it."""
        check_media_type(request.header(b"content-type"))
        call = request.call()
        request.kernel.catalog.metrics.report(call, request.entry(call), body)
