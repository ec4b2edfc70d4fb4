"""Health and metrics, without a login."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import cast

import msgspec
from litestar import Controller, get
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest, multiprocess

from floecat.errors import UnavailableError
from floecat.runtime import Kernel
from floecat_rest.http.json_responses import Answer
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


class MetricsPageController(Controller):
    """`/metrics`, in the text format of Prometheus."""

    path = "/metrics"
    tags = ["Health"]
    opt = {PUBLIC: True, WITHOUT_STORAGE: True}

    @get(operation_id="metrics")
    async def get(self, request: CatalogRequest) -> Answer:
        """Metrics of all worker processes, and gauges of jobs if the store answers."""
        services = request.services
        cast("ProcessMetrics", services.process_metrics).update()
        registry = REGISTRY
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        page = generate_latest(registry)
        with suppress(UnavailableError):
            page += generate_latest(await services.gauges.ask(partial(_gauges, request.kernel)))
        return Answer(200, page, media_type=CONTENT_TYPE_LATEST.encode())


def _gauges(kernel: Kernel) -> StoreGauges:
    return StoreGauges(kernel.jobs.count(), kernel.jobs.oldest_open_ages_ms())
