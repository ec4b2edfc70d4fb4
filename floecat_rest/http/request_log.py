"""Every request gets an id in its answer, a line in the access log, and metrics for Prometheus.

One wrapper around the application rather than three middlewares, since it is on the path of every request.
Neither the query nor a header is logged: clients put tokens into both.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import uuid_utils
from litestar.enums import ScopeType
from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["RequestLog", "assign_request_id", "request_id_of"]

_log = logging.getLogger("floecat.access")

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_requests = Counter("floecat_http_requests", "Requests answered", ("method", "route", "status"))
_seconds = Histogram(
    "floecat_http_request_seconds",
    "Time until the last byte was handed over",
    ("method", "route"),
    buckets=_BUCKETS,
)

_ID_HEADER = b"x-request-id"
_ID_KEY = "floecat.request_id"
_SANE_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_STOPPED = 499
"""Status in log and metrics of a request that was stopped: its client is gone, or the service shuts down."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})


class RequestLog:
    """ASGI wrapper that names, times, counts and logs requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._counters: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on and records its outcome."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        request_id = assign_request_id(scope)
        encoded_id = request_id.encode()
        started_s = time.perf_counter()
        status = 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (_ID_HEADER, encoded_id)]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except asyncio.CancelledError:
            status = _STOPPED
            raise
        finally:
            self._note(scope, status, time.perf_counter() - started_s, request_id)

    def _note(self, scope: Scope, status: int, elapsed_s: float, request_id: str) -> None:
        method = scope.get("method", "")
        # Labels come from closed sets: a scanner that asks for random paths must not grow the metrics.
        route = scope.get("path_template") or "unmatched"
        key = (method if method in _METHODS else "other", str(route), status)
        metrics = self._counters.get(key)
        if metrics is None:
            metrics = self._counters[key] = (
                _requests.labels(key[0], key[1], str(status)),
                _seconds.labels(*key[:2]),
            )
        metrics[0].inc()
        metrics[1].observe(elapsed_s)
        if _log.isEnabledFor(logging.INFO):
            _log.info("%s %s %d %.1f ms [%s]", method, scope["path"], status, elapsed_s * 1000, request_id)


def assign_request_id(scope: Any) -> str:
    """Puts the id into the ASGI scope: the client's own if it sends a sane one, else a new one."""
    sent = next((value for name, value in scope["headers"] if name == _ID_HEADER), b"")
    request_id = sent.decode() if _SANE_ID.fullmatch(sent) else str(uuid_utils.uuid7())
    scope[_ID_KEY] = request_id
    return request_id


def request_id_of(scope: Mapping[str, Any]) -> str:
    """The id that `assign_request_id` gave; "unknown" if it was not called."""
    return str(scope.get(_ID_KEY, "unknown"))
