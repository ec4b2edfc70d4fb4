from __future__ import annotations

import asyncio
import logging

import pytest
from prometheus_client import REGISTRY

from floecat_rest.http.request_log import RequestLog, assign_request_id, request_id_of
from tests.unit.rest.asgi import ask, http_scope


async def app(scope, receive, send):
    scope["path_template"] = "/v1/{prefix}/things"
    await send({"type": "http.response.start", "status": 204, "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def failing(scope, receive, send):
    raise RuntimeError("boom")


def counted(method="GET", route="/v1/{prefix}/things", status="204"):
    labels = {"method": method, "route": route, "status": status}
    return REGISTRY.get_sample_value("floecat_http_requests_total", labels) or 0.0


def test_the_answer_carries_the_id_of_the_client():
    answer = asyncio.run(ask(RequestLog(app), http_scope("/v1/x/things", x_request_id="run-7:abc")))
    assert answer.headers == {"a": "b", "x-request-id": "run-7:abc"}


@pytest.mark.parametrize("sent", ["", "a b", "x" * 129, "a\tb", "ä"])
def test_an_id_that_does_not_belong_into_a_log_is_replaced(sent):
    scope = http_scope("/", x_request_id=sent)
    assert assign_request_id(scope) != sent
    assert len(request_id_of(scope)) == 36


def test_ids_are_unique():
    assert len({assign_request_id(http_scope("/")) for _ in range(1000)}) == 1000


def test_requests_are_counted_by_route_and_not_by_path():
    before = counted()
    log = RequestLog(app)
    for name in "abc":
        asyncio.run(ask(log, http_scope(f"/v1/x/{name}")))
    assert counted() == before + 3


def test_a_request_that_fails_is_counted_too():
    before = counted(route="unmatched", status="500")
    with pytest.raises(RuntimeError):
        asyncio.run(ask(RequestLog(failing), http_scope("/")))
    assert counted(route="unmatched", status="500") == before + 1


def test_a_request_that_is_stopped_is_counted_apart():
    async def endless(scope, receive, send):
        await asyncio.Event().wait()

    async def stop():
        task = asyncio.create_task(ask(RequestLog(endless), http_scope("/")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    before = counted(route="unmatched", status="499")
    asyncio.run(stop())
    assert counted(route="unmatched", status="499") == before + 1


def test_an_invented_method_does_not_grow_the_metrics():
    before = counted(method="other")
    asyncio.run(ask(RequestLog(app), http_scope("/", "BREW")))
    assert counted(method="other") == before + 1


def test_the_log_line_has_no_secrets(caplog):
    caplog.set_level(logging.INFO, "floecat.access")
    scope = http_scope("/v1/x/things", authorization="Bearer secret") | {"query_string": b"token=secret"}
    asyncio.run(ask(RequestLog(app), scope))
    (line,) = caplog.messages
    assert line.startswith("GET /v1/x/things 204 ")
    assert "secret" not in line
