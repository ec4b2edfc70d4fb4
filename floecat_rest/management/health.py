"""Health and metrics, without a login."""

from __future__ import annotations

from functools import partial
from typing import cast

import msgspec
from litestar import Controller, Response, get
from litestar.plugins.prometheus import PrometheusController
from prometheus_client import generate_latest

from floecat.errors import UnavailableError
from floecat.runtime import Kernel
from floecat_rest.http.options import PUBLIC, WITHOUT_STORAGE
from floecat_rest.http.requests import CatalogRequest
from floecat_rest.management.job_metrics import StoreGauges
from floecat_rest.process.process_metrics import ProcessMetrics

__all__ = ["Health", "HealthController", "MetricsPageController"]


class Health(msgspec.Struct):
    """The answer of a healthy service."""

    status: str


class HealthController(Controller):
    """Probes."""

    path = "/health"
    tags = ["Health"]
    opt = {PUBLIC: True}

    @get("/live", operation_id="live", sync_to_thread=False)
    def live(self) -> Health:
        """The process answers."""
        return Health("live")

    @get("/ready", operation_id="ready")
    async def ready(self, request: CatalogRequest) -> Health:
        """The store answers too; 503 if it does not within `floecat.store.timeout-ms`.

        With logins, 503 as well until the keys of the issuer were fetched once.
        """
        services = request.services
        await services.readiness.check(request.kernel.store)
        await services.authenticator.check()
        return Health("ready")


class MetricsPageController(PrometheusController):
    """`/metrics`, in the text format of Prometheus."""

    tags = ["Health"]
    opt = {PUBLIC: True, WITHOUT_STORAGE: True}

    @get(operation_id="metrics")
    async def get(self, request: CatalogRequest) -> Response[bytes]:
        """Metrics of all worker processes, and gauges of jobs if the store answers."""
        cast("ProcessMetrics", request.services.process_metrics).update()
        answer = cast("Response[bytes]", await PrometheusController.get.fn(self))
        try:
            gauges = await request.services.gauges.ask(partial(_gauges, request.kernel))
        except UnavailableError:
            return answer
        answer.content += generate_latest(gauges)
        return answer


def _gauges(kernel: Kernel) -> StoreGauges:
    return StoreGauges(kernel.jobs.count(), kernel.jobs.oldest_open_ages_ms())
