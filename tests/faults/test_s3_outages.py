"""S3 behind a network that hangs, breaks and loses answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlparse

import pytest

from tests.faults.answers import Answer, Sender
from tests.faults.deployment import Deployment
from tests.faults.requests import appending, creating, setting, table_path, transaction, unique_key
from tests.services.catalog import CatalogServer, s3_environment
from tests.services.cut import PUT_ANSWER, PUT_REQUEST, CutProxy
from tests.services.s3 import S3Server


class Bench(NamedTuple):
    sender: Sender
    proxy: CutProxy
    objects: Callable[[], set[str]]
    """The keys of the bucket now, seen past the proxy."""


@pytest.fixture
def bench(
    s3_server: S3Server, s3_bucket: str, tmp_path: Path, start_catalog: Callable[..., CatalogServer]
) -> Iterator[Bench]:
    """A service with short time-outs on S3 through a proxy, with the tables `t`, `u` and `v`."""
    port = urlparse(s3_server.endpoint).port
    assert port is not None
    client = s3_server.client()
    client.put_object(Bucket=s3_bucket, Key="first", Body=b"")  # for which the server makes room

    def objects() -> set[str]:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=s3_bucket)
        return {each["Key"] for page in pages for each in page.get("Contents", [])}

    with CutProxy("127.0.0.1", port) as proxy:
        environment = s3_environment(
            f"http://127.0.0.1:{proxy.port}", s3_bucket, s3_server.access_key_id, s3_server.secret_access_key
        )
        environment["FLOECAT_STORAGE_ANSWER_TIMEOUT_MS"] = "4000"
        environment["FLOECAT_STORAGE_MAX_RETRIES"] = "1"
        sender = Sender(Deployment(tmp_path / "data", start_catalog, **environment).start().base_url)
        assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
        for name in "tuv":
            assert sender.send("POST", "/namespaces/ns/tables", creating(name)).status == 200
        yield Bench(sender, proxy, objects)


def test_hanging_storage_is_answered_in_time_and_holds_up_no_reader(bench: Bench) -> None:
    before = {name: bench.sender.metadata(table_path(name)) for name in "tuv"}
    files = bench.objects()
    key = unique_key()
    bench.proxy.hang()
    requests: list[tuple[str, dict[str, Any]]] = [
        (table_path("t"), setting({"a": "1"})),
        ("/namespaces/ns/tables", creating("other")),
        ("/transactions/commit", transaction({name: setting({"a": "1"}) for name in "tuv"})),
        (
            "/namespaces/ns/register",
            {"name": "other", "metadata-location": f"{before['t']['location']}/none"},
        ),
    ]

    def send(request: tuple[str, dict[str, Any]]) -> Answer:
        path, body = request
        return bench.sender.send("POST", path, body, key=key if path == table_path("t") else None)

    began = time.monotonic()
    with ThreadPoolExecutor(len(requests)) as threads:
        answers = list(threads.map(send, requests))
    assert [answer.status for answer in answers] == [503] * len(requests), answers
    assert time.monotonic() - began < 100
    assert {name: bench.sender.metadata(table_path(name)) for name in "tuv"} == before
    names = bench.sender.send("GET", "/namespaces/ns/tables").body["identifiers"]
    assert {each["name"] for each in names} == set("tuv")
    bench.proxy.break_all()
    bench.proxy.restore()
    assert bench.sender.send("POST", table_path("t"), setting({"b": "1"})).status == 200
    assert "a" not in bench.sender.metadata(table_path("t"))["properties"]
    assert bench.sender.send("POST", table_path("t"), setting({"a": "1"}), key=key).status == 200
    assert bench.sender.metadata(table_path("t"))["properties"].items() >= {"a": "1", "b": "1"}.items()
    assert files < bench.objects()


def test_storage_that_is_away_is_503_and_comes_back(bench: Bench) -> None:
    files = bench.objects()
    bench.proxy.refuse()
    assert bench.sender.send("POST", table_path("t"), setting({"a": "1"})).status == 503
    assert bench.sender.send("POST", "/namespaces/ns/tables", creating("other")).status == 503
    assert bench.sender.send("DELETE", table_path("u"), purgeRequested="true").status == 204
    bench.proxy.restore()
    assert files - bench.objects() <= {key for key in files if "/u-" in key}
    assert bench.sender.send("POST", table_path("t"), setting({"b": "1"})).status == 200
    assert "a" not in bench.sender.metadata(table_path("t"))["properties"]


@pytest.mark.parametrize("moment", [PUT_REQUEST, PUT_ANSWER], ids=["request", "answer"])
def test_an_upload_whose_connection_breaks_is_never_a_conflict(bench: Bench, moment: object) -> None:
    for number in range(1, 6):
        body = appending(number, bench.sender.metadata(table_path("t")))
        bench.proxy.cut(moment)  # type: ignore[arg-type]
        answer = bench.sender.send("POST", table_path("t"), body)
        assert answer.fate in ("done", "not applied"), answer
        assert bench.proxy.happened == number
        bench.proxy.restore()
        if answer.fate == "not applied":
            assert bench.sender.send("POST", table_path("t"), body, key=unique_key()).status == 200
    metadata = bench.sender.metadata(table_path("t"))
    assert [each["snapshot-id"] for each in metadata["snapshots"]] == [1, 2, 3, 4, 5]
    folder = f"{urlparse(metadata['location']).path.strip('/')}/metadata/"
    written = [key for key in bench.objects() if key.startswith(folder)]
    # a try that failed for sure leaves nothing behind
    assert len(written) == 1 + len(metadata["snapshots"])
