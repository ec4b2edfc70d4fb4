"""Loading tables of 2 KB, 1 MB and 10 MB; creates, commits and listings beside SeaweedFS' catalog.

Loads and `snapshots=refs` are measured as identity and as gzip, which real clients ask for. Baselines of the
same run: the same bytes, compressed or not, from a bare ASGI application under the same server, and
SeaweedFS's Iceberg REST catalog with metadata on the same S3.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from benchmarks.figures import figure, percentile, progress
from benchmarks.metadata import SCHEMA, snapshot, write_metadata
from benchmarks.servers import Floecat, bare_app, floecat, seaweed
from benchmarks.wrk import run_wrk

_SIZES = {"2KB": 1, "1MB": 1_330, "10MB": 13_300}
_CONNECTIONS = (1, 16)
_CREATES = 150


def main() -> None:
    """Prints the figures."""
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        folder = Path(made)
        with floecat(folder) as service:
            _against_bare(folder, service)
            _history(service)
            _refs_against_bare(folder, service)
        with (
            seaweed(folder) as peer,
            floecat(folder, peer.settings(), name="on-s3") as service,
            service.client() as ours,
            peer.client() as theirs,
        ):
            _beside_seaweed(ours, theirs)
            _small_tables(service, ours, peer.api, peer.token(), theirs)


def _register(service: Floecat, name: str, snapshots: int) -> str:
    with service.client() as client:
        client.post("namespaces", json={"namespace": ["bench"]})
        location = write_metadata(service.warehouse / name, str(uuid.uuid4()), snapshots)
        body = {"name": name, "metadata-location": location}
        client.post("namespaces/bench/register", json=body).raise_for_status()
    return f"{service.api}/namespaces/bench/tables/{name}"


def _against_bare(folder: Path, service: Floecat) -> None:
    for size, snapshots in _SIZES.items():
        url = _register(service, f"t{size}", snapshots)
        for encoding, label in (("identity", f"load.{size}"), ("gzip", f"load.{size}.gzip")):
            _one_size(folder, url, encoding, label, target=3.0 if size != "2KB" else None)


def _one_size(folder: Path, url: str, encoding: str, label: str, target: float | None) -> None:
    headers = {"Accept-Encoding": encoding}
    body = _raw_body(url, headers)
    progress(f"load of {len(body)} bytes")
    with bare_app(folder, body) as bare:
        for connections in _CONNECTIONS:
            run_wrk(url, connections, 1, headers)
            ours, base = run_wrk(url, connections, headers=headers), run_wrk(bare, connections)
            name = f"{label}.c{connections}"
            figure(f"{name}.p50", ours.p50_ms, "ms", baseline=base.p50_ms, target=target)
            figure(f"{name}.p99", ours.p99_ms, "ms", baseline=base.p99_ms)
            figure(f"{name}.requests", ours.requests_s, "1/s", baseline=base.requests_s, better="higher")


def _raw_body(url: str, headers: dict[str, str]) -> bytes:
    with httpx.stream("GET", url, headers=headers) as answer:
        return b"".join(answer.iter_raw())


def _history(service: Floecat) -> None:
    """`refs` and 304 must not cost more with more history."""
    small, large = (f"{service.api}/namespaces/bench/tables/t{size}" for size in ("2KB", "10MB"))
    for name, suffix, encoding in (
        ("refs", "?snapshots=refs", "identity"),
        ("refs.gzip", "?snapshots=refs", "gzip"),
        ("304", "", "identity"),
    ):
        latencies = []
        for url in (small, large):
            headers = {"Accept-Encoding": encoding}
            if name == "304":
                headers["If-None-Match"] = httpx.get(url).headers["etag"]
            run_wrk(url + suffix, 1, 1, headers)
            latencies.append(run_wrk(url + suffix, 1, 3, headers).p50_ms)
        figure(f"load.{name}.10MB-to-2KB.p50", latencies[1], "ms", baseline=latencies[0], target=1.5)


def _refs_against_bare(folder: Path, service: Floecat) -> None:
    """Whether `snapshots=refs` of a long history costs more than its bytes: the log of snapshots stays."""
    url = f"{service.api}/namespaces/bench/tables/t10MB?snapshots=refs"
    _one_size(folder, url, "identity", "load.refs.10MB", target=1.5)


def _small_tables(
    service: Floecat, ours: httpx.Client, peer_api: str, token: str, theirs: httpx.Client
) -> None:
    for client in (ours, theirs):
        client.post("namespaces/small/tables", json={"name": "t", "schema": SCHEMA}).raise_for_status()
    for connections in _CONNECTIONS:
        mine = run_wrk(f"{service.api}/namespaces/small/tables/t", connections)
        peer = run_wrk(
            f"{peer_api}/namespaces/small/tables/t", connections, headers={"Authorization": f"Bearer {token}"}
        )
        figure(
            f"load.small.c{connections}.requests-to-seaweedfs",
            mine.requests_s,
            "1/s",
            baseline=peer.requests_s,
            target=5.0,
            better="higher",
        )


def _beside_seaweed(ours: httpx.Client, theirs: httpx.Client) -> None:
    progress("create, commit and list on the same S3")
    clients = (ours, theirs)
    for client in clients:
        client.post("namespaces", json={"namespace": ["small"]}).raise_for_status()
        client.post("namespaces", json={"namespace": ["many"]}).raise_for_status()
    medians = {"create": _creates(clients)}
    for client in clients:
        medians.setdefault("list", []).append(_p50(100, lambda _, c=client: c.get("namespaces/many/tables")))
        medians.setdefault("commit", []).append(_commits(client))
    for name, (mine, peer) in medians.items():
        figure(f"{name}.p50-to-seaweedfs", mine, "ms", baseline=peer, target=1.0)


def _creates(clients: Sequence[httpx.Client]) -> list[float]:
    """The p50 of each. They take turns: a create waits for the disk, which others use now and then."""
    taken: list[list[float]] = [[] for _ in clients]
    for number in range(_CREATES):
        for client, times in zip(clients, taken, strict=True):
            times.append(_timed(lambda c=client, n=number: _create(c, n)))  # type: ignore[misc]
    return [percentile(times, 0.5) for times in taken]


def _create(client: httpx.Client, number: int) -> httpx.Response:
    return client.post("namespaces/many/tables", json={"name": f"t{number}", "schema": SCHEMA})


def _commits(client: httpx.Client) -> float:
    url = "namespaces/many/tables/t0"
    metadata = client.get(url).raise_for_status().json()["metadata"]
    parent: int | None = None

    def append(number: int) -> httpx.Response:
        nonlocal parent
        made = snapshot(metadata["location"], number + 1, parent, timestamp_ms=time.time_ns() // 1_000_000)
        body = {
            "identifier": {"namespace": ["many"], "name": "t0"},
            "requirements": [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}],
            "updates": [
                {"action": "add-snapshot", "snapshot": made},
                {
                    "action": "set-snapshot-ref",
                    "ref-name": "main",
                    "type": "branch",
                    "snapshot-id": made["snapshot-id"],
                },
            ],
        }
        parent = made["snapshot-id"]
        return client.post(url, content=json.dumps(body), headers={"content-type": "application/json"})

    return _p50(100, append)


def _p50(times: int, call: Callable[[int], httpx.Response]) -> float:
    return percentile([_timed(lambda n=number: call(n)) for number in range(times)], 0.5)  # type: ignore[misc]


def _timed(call: Callable[[], httpx.Response]) -> float:
    """How long a request that succeeds takes, in ms."""
    begin = time.perf_counter()
    answer = call()
    taken_ms = (time.perf_counter() - begin) * 1000
    answer.raise_for_status()
    return taken_ms


if __name__ == "__main__":
    main()
