"""Listings of records that are as large as requests allow, asked for by many clients at once."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle
from typing import Any

import pytest

from tests.attacks.attacked_service import AttackedService

TABLE = "/management/v1/catalogs/floecat/namespaces/used0/tables/t"
VALUE = "x" * (9 << 20)
RECORDS = 15
MOST_BYTES = 20 << 20
"""Of an answer: a page of records, and one of them."""


def snapshots(now_ms: int) -> list[dict[str, Any]]:
    """Updates that add snapshots, the first of them current."""
    updates: list[dict[str, Any]] = []
    for number in range(1, RECORDS + 1):
        snapshot = {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": now_ms + number,
            "manifest-list": "file:///none.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        updates.append({"action": "add-snapshot", "snapshot": snapshot})
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    return [*updates, ref]


def statistics() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for id in range(1, RECORDS + 1):
        record = {"target": {"kind": "column", "column-id": id}, "scalar": {"properties": {"a": VALUE}}}
        yield "POST", "statistics?snapshot=1", {"records": [record]}


def index_artifacts(location: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for number in range(RECORDS):
        target = {"kind": "file", "file-path": f"s3://x/{number}"}
        artifact = {"target": target, "artifact-uri": f"{location}/{number}", "properties": {"a": VALUE}}
        yield "POST", "index-artifacts?snapshot=1", {"artifacts": [artifact]}


def constraints() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for id in range(1, RECORDS + 1):
        yield "PUT", f"constraints?snapshot={id}", {"constraints": [], "properties": {"a": VALUE}}


@pytest.mark.parametrize("what", ["statistics", "index-artifacts", "constraint-bundles"])
def test_listings_of_large_records(attacked_service: AttackedService, what: str) -> None:
    service = attacked_service
    table = "/v1/floecat/namespaces/used0/tables/t"
    metadata = json.loads(service.send("GET", table).body)["metadata"]
    location = metadata["location"]
    body = json.dumps({"requirements": [], "updates": snapshots(metadata["last-updated-ms"])}).encode()
    assert service.send("POST", table, body).status == 200
    puts = {"statistics": statistics, "constraint-bundles": constraints}
    for method, path, sent in puts[what]() if what in puts else index_artifacts(location):
        answer = service.send(method, f"{TABLE}/{path}", json.dumps(sent).encode())
        assert answer.status == 200, answer.body[:300]
    # compressing takes longer than reading
    accepted = cycle(({}, {"Accept-Encoding": "gzip"}))
    of_snapshot = "" if what == "constraint-bundles" else "?snapshot=1"

    def send() -> None:
        answer = service.send("GET", f"{TABLE}/{what}{of_snapshot}", **next(accepted))
        assert answer.status == 200 or answer.is_refusal, answer.status
        assert len(answer.body) < MOST_BYTES

    assert json.loads(service.send("GET", f"{TABLE}/{what}{of_snapshot}").body)["next-page-token"]
    service.attack(send, at_once=40)


@pytest.mark.parametrize("listing", ["purges?", "jobs?kind=purge&"])
def test_listings_of_jobs_whose_progress_is_large(attacked_service: AttackedService, listing: str) -> None:
    service, catalog = attacked_service, "/management/v1/catalogs/floecat"
    purges, listed = f"{catalog}/purges", f"{catalog}/{listing}"
    for number in range(RECORDS):
        path = f"/v1/floecat/namespaces/used{number}/tables/t?purgeRequested=true"
        assert service.send("DELETE", path).status == 204
    ends_s = time.monotonic() + 60
    while service.send("GET", f"{purges}?state=succeeded").body.count(b'"succeeded"') < RECORDS:
        assert time.monotonic() < ends_s
        time.sleep(0.2)
    with closing(sqlite3.connect(service.server.data_dir / "floecat.db", timeout=60)) as store, store:
        store.execute("UPDATE jobs SET progress = json_set(progress, '$.note', ?)", (VALUE,))

    def send() -> None:
        answer = service.send("GET", listed)
        assert answer.status == 200 or answer.is_refusal, answer.status
        assert len(answer.body) < MOST_BYTES

    found, token = 0, ""
    while token is not None:
        page = json.loads(service.send("GET", f"{listed}pageToken={token}").body)
        found, token = found + len(page[listing.partition("?")[0]]), page["next-page-token"]
    assert found == RECORDS
    service.attack(send, at_once=40)
