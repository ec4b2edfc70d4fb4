"""PostgreSQL goes away and comes back, the network between hangs, and the service lives through it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.answers import Sender
from tests.faults.consistency import check_consistency
from tests.faults.deployment import Deployment
from tests.faults.history import Workload
from tests.faults.requests import creating, setting, table_path
from tests.services.catalog import CatalogServer
from tests.services.cut import CutProxy
from tests.services.postgres import PostgresServer


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize(
    "restarts", [2, pytest.param(20, marks=[pytest.mark.scale, pytest.mark.timeout(900)])]
)
def test_restarts_under_load(
    own_postgres_server: PostgresServer,
    tmp_path: Path,
    start_catalog: Callable[..., CatalogServer],
    end: str,
    restarts: int,
) -> None:
    chance = random.Random(restarts)
    url = own_postgres_server.url(own_postgres_server.create_database())
    deployment = Deployment(tmp_path / "data", start_catalog, postgres_url=url)
    server = deployment.start()
    with Workload([server.base_url]) as workload:
        for _ in range(restarts):
            workload.wait_for(15)
            time.sleep(chance.uniform(0, 0.2))
            getattr(own_postgres_server, end)()
            time.sleep(chance.uniform(0, 0.3))
            own_postgres_server.start()
        workload.wait_for(15)
    workload.check()
    check_consistency(url)
    server.stop()


def test_a_store_that_is_away_is_503_and_comes_back_without_a_restart(
    behind_proxy: Deployment, postgres_proxy: CutProxy
) -> None:
    sender = Sender(behind_proxy.start().base_url)
    assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
    assert sender.send("POST", "/namespaces/ns/tables", creating("t")).status == 200
    before = sender.metadata(table_path("t"))
    requests: list[tuple[str, str, object]] = [
        ("GET", table_path("t"), None),
        ("HEAD", table_path("t"), None),
        ("GET", "/namespaces", None),
        ("GET", "/namespaces/ns/tables", None),
        ("POST", "/namespaces", {"namespace": ["other"]}),
        ("POST", "/namespaces/ns/tables", creating("other")),
        ("POST", table_path("t"), setting({"a": "1"})),
        ("DELETE", table_path("t"), None),
    ]
    postgres_proxy.refuse()
    for method, path, body in requests:
        answer = sender.send(method, path, body)
        assert answer.status == 503, (method, path, answer)
    postgres_proxy.restore()
    assert sender.metadata(table_path("t")) == before
    assert sender.send("POST", table_path("t"), setting({"a": "1"})).status == 200
    assert sender.send("GET", "/namespaces").body["namespaces"] == [["ns"]]


def test_a_store_that_hangs_is_answered_in_time(behind_proxy: Deployment, postgres_proxy: CutProxy) -> None:
    sender = Sender(behind_proxy.start(FLOECAT_STORE_TIMEOUT_MS="2000").base_url)
    assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
    assert sender.send("POST", "/namespaces/ns/tables", creating("t")).status == 200
    postgres_proxy.hang()
    for method, body in (("GET", None), ("POST", setting({"a": "1"}))):
        began = time.monotonic()
        assert sender.send(method, table_path("t"), body).status == 503
        assert time.monotonic() - began < 55
    postgres_proxy.restore()
    postgres_proxy.break_all()
    assert sender.send("POST", table_path("t"), setting({"b": "1"})).status == 200
    assert "a" not in sender.metadata(table_path("t"))["properties"]
    check_consistency(behind_proxy.store_url)
