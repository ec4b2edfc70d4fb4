from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
import weakref

import pytest

from floecat_rest.http import dispatch
from floecat_rest.http.requests import CatalogRequest
from tests.unit.rest.asgi import ask, http_scope


def test_long_paths_leave_memory_with_their_requests(client, caplog):
    # pytest keeps what is logged
    caplog.set_level(logging.CRITICAL, "floecat.access")

    async def answers(count: int) -> None:
        for number in range(count):
            path = f"/schema/{'a' * 60_000}{number}"
            assert (await ask(client.app, http_scope(path, host="127.0.0.1"))).status == 404

    asyncio.run(answers(1))
    tracemalloc.start()
    try:
        asyncio.run(answers(200))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("path", ["/v1/namespaces?pageSize=", "/v1/namespaces/none?number="])
def test_a_request_leaves_memory_without_the_garbage_collector(client, monkeypatch, path):
    made = []

    class Watched(CatalogRequest):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(weakref.ref(self))

    monkeypatch.setattr(dispatch, "CatalogRequest", Watched)
    gc.disable()
    try:
        for number in range(1, 4):  # a list that was answered before needs no request
            client.get(f"{path}{number}")
        assert [each() for each in made[:-1]] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize(("method", "status"), [("GET", 405), ("POST", 400)])
def test_names_of_headers_are_in_lower_case(client, method, status):
    scope = http_scope("/v1/floecat/tables/rename", method, host="127.0.0.1")
    answer = asyncio.run(ask(client.app, scope))
    assert answer.status == status
    assert [name for name in answer.headers if name != name.lower()] == []
