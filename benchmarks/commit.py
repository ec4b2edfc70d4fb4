"""Commits on a table with 10 and with 10,000 snapshots: a property, and an append.

By a client that takes the answer as it is, and by one that takes it compressed, as Java's and PyIceberg do.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import httpx

from benchmarks.figures import figure, percentile
from benchmarks.metadata import snapshot, write_metadata
from benchmarks.servers import Floecat, floecat

_TIMES = 60

_Commit: TypeAlias = Callable[[httpx.Client, str, int, str], float]


def main() -> None:
    """Prints the figures."""
    with (
        TemporaryDirectory(prefix="floecat-bench-") as made,
        floecat(Path(made)) as service,
        service.client() as client,
    ):
        client.post("namespaces", json={"namespace": ["bench"]}).raise_for_status()
        tables = {history: _register(service, client, history) for history in (10, 10_000)}
        for coding in ("identity", "gzip"):
            for kind, commit in (("set-properties", _set_property), ("append", _append)):
                _measure(
                    client, tables, f"commit.{kind}" + (".gzip" if coding == "gzip" else ""), commit, coding
                )


def _measure(client: httpx.Client, tables: dict[int, str], name: str, commit: _Commit, coding: str) -> None:
    taken: dict[int, list[float]] = {history: [] for history in tables}
    # in turns, so that what else the machine does meets both
    for number in range(_TIMES):
        for history, url in tables.items():
            taken[history].append(commit(client, url, number, coding))
    for history, times in taken.items():
        figure(f"{name}.{history}.p99", percentile(times, 0.99), "ms")
    medians = {history: percentile(times, 0.5) for history, times in taken.items()}
    figure(f"{name}.10000-to-10.p50", medians[10_000], "ms", baseline=medians[10], target=3.0)


def _register(service: Floecat, client: httpx.Client, history: int) -> str:
    name = f"t{history}"
    location = write_metadata(service.warehouse / name, str(uuid.uuid4()), history)
    body = {"name": name, "metadata-location": location}
    client.post("namespaces/bench/register", json=body).raise_for_status()
    return f"namespaces/bench/tables/{name}"


def _set_property(client: httpx.Client, url: str, number: int, coding: str) -> float:
    return _timed(client, url, {"requirements": [], "updates": [_property(number, coding)]}, coding)


def _property(number: int, coding: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": {"touched": f"{coding}-{number}"}}


_connections: dict[int, HTTPConnection] = {}
_heads: dict[str, tuple[int, int, str]] = {}


def _append(client: httpx.Client, url: str, _: int, coding: str) -> float:
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
        coding,
    )


def _timed(client: httpx.Client, url: str, body: dict[str, Any], coding: str) -> float:
    """Milliseconds until the last byte of the answer, by a client that reads large ones fast."""
    headers = {"content-type": "application/json", "accept-encoding": coding}
    content = json.dumps(body)
    base = client.base_url
    connection = _connections.setdefault(base.port or 80, HTTPConnection(base.host, base.port))
    begin = time.perf_counter()
    connection.request("POST", f"{base.path}{url}", content, headers)
    answer = connection.getresponse()
    received = answer.read()
    taken = (time.perf_counter() - begin) * 1000
    if answer.status != 200:
        raise RuntimeError(f"commit answered {answer.status}: {received[:500]!r}")
    return taken


if __name__ == "__main__":
    main()
