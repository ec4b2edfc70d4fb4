"""Commits on a table with 10 and with 10,000 snapshots: a property, and an append."""

from __future__ import annotations

import json
import time
import uuid
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from benchmarks.figures import figure, percentile
from benchmarks.metadata import snapshot, write_metadata
from benchmarks.servers import Floecat, floecat

_TIMES = 60


def main() -> None:
    """Prints the figures."""
    with (
        TemporaryDirectory(prefix="floecat-bench-") as made,
        floecat(Path(made)) as service,
        service.client() as client,
    ):
        client.post("namespaces", json={"namespace": ["bench"]}).raise_for_status()
        tables = {history: _register(service, client, history) for history in (10, 10_000)}
        for kind, commit in (("set-properties", _set_property), ("append", _append)):
            medians = {}
            for history, url in tables.items():
                taken = [commit(client, url, number) for number in range(_TIMES)]
                medians[history] = percentile(taken, 0.5)
                figure(f"commit.{kind}.{history}.p99", percentile(taken, 0.99), "ms")
            figure(f"commit.{kind}.10000-to-10.p50", medians[10_000], "ms", baseline=medians[10], target=3.0)


def _register(service: Floecat, client: httpx.Client, history: int) -> str:
    name = f"t{history}"
    location = write_metadata(service.warehouse / name, str(uuid.uuid4()), history)
    body = {"name": name, "metadata-location": location}
    client.post("namespaces/bench/register", json=body).raise_for_status()
    return f"namespaces/bench/tables/{name}"


def _set_property(client: httpx.Client, url: str, number: int) -> float:
    return _timed(client, url, {"requirements": [], "updates": [_property(number)]})


def _property(number: int) -> dict[str, Any]:
    return {"action": "set-properties", "updates": {"touched": str(number)}}


_connections: dict[int, HTTPConnection] = {}
_heads: dict[str, tuple[int, int, str]] = {}


def _append(client: httpx.Client, url: str, _: int) -> float:
    if url not in _heads:
        metadata = client.get(url).raise_for_status().json()["metadata"]
        _heads[url] = (
            metadata["last-sequence-number"],
            metadata["current-snapshot-id"],
            metadata["location"],
        )
    sequence, parent, location = _heads[url]
    made = snapshot(location, sequence + 1, parent, timestamp_ms=time.time_ns() // 1_000_000)
    _heads[url] = (sequence + 1, made["snapshot-id"], location)
    branch = {"ref-name": "main", "type": "branch", "snapshot-id": made["snapshot-id"]}
    return _timed(
        client,
        url,
        {
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}],
            "updates": [
                {"action": "add-snapshot", "snapshot": made},
                {"action": "set-snapshot-ref", **branch},
            ],
        },
    )


def _timed(client: httpx.Client, url: str, body: dict[str, Any]) -> float:
    """Milliseconds until the last byte of the answer, by a client that reads large ones fast."""
    content = json.dumps(body)
    base = client.base_url
    connection = _connections.setdefault(base.port or 80, HTTPConnection(base.host, base.port))
    begin = time.perf_counter()
    connection.request("POST", f"{base.path}{url}", content, {"content-type": "application/json"})
    answer = connection.getresponse()
    received = answer.read()
    taken = (time.perf_counter() - begin) * 1000
    if answer.status != 200:
        raise RuntimeError(f"commit answered {answer.status}: {received[:500]!r}")
    return taken


if __name__ == "__main__":
    main()
