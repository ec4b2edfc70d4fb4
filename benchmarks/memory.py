"""Memory under ten parallel loads of metadata of 250 MB, and the latency of other requests meanwhile."""

from __future__ import annotations

import gzip
import json
import threading
import time
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from benchmarks.figures import figure, progress
from benchmarks.metadata import table_metadata
from benchmarks.servers import Floecat, floecat

_SNAPSHOTS = 330_000
_LOADS = 10


def main() -> None:
    """Prints the figures."""
    with TemporaryDirectory(prefix="floecat-bench-") as made, floecat(Path(made)) as service:
        with service.client() as client:
            client.post("namespaces", json={"namespace": ["bench"]}).raise_for_status()
            location, size = _write(service.warehouse / "huge")
            progress(f"registering a document of {size / 1e6:.0f} MB")
            body = {"name": "huge", "metadata-location": location}
            _drain(service, "POST", "namespaces/bench/register", body)
        latencies = _load_in_parallel(service)
        figure("memory.document", size / 1e6, "MB")
        figure("memory.peak-rss", peak_rss_mib(service.pid), "MiB", target=1536)
        figure("memory.other-requests.max", max(latencies), "s", target=1.0)


def _write(folder: Path) -> tuple[str, int]:
    document = json.dumps(table_metadata(folder.as_uri(), str(uuid.uuid4()), _SNAPSHOTS)).encode()
    file = folder / "metadata" / "00000-benchmark.gz.metadata.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(gzip.compress(document, 1))
    return file.as_uri(), len(document)


def _drain(service: Floecat, method: str, url: str, body: object = None) -> None:
    """Reads an answer and keeps nothing of it, so that the client's memory is no part of the story."""
    with service.client() as client, client.stream(method, url, json=body, timeout=300) as answer:
        answer.raise_for_status()
        for _ in answer.iter_raw():
            pass


def _load_in_parallel(service: Floecat) -> list[float]:
    url = "namespaces/bench/tables/huge"
    loads = [threading.Thread(target=_drain, args=(service, "GET", url)) for _ in range(_LOADS)]
    latencies = []
    for load in loads:
        load.start()
    with httpx.Client(base_url=service.api + "/", timeout=60) as other:
        while any(load.is_alive() for load in loads):
            begin = time.perf_counter()
            other.get("namespaces/bench").raise_for_status()
            latencies.append(time.perf_counter() - begin)
            time.sleep(0.02)
    return latencies


def peak_rss_mib(pid: int | str) -> float:
    """Most memory that a process had so far.

    Args:
        pid: its id, or `self`.
    """
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


if __name__ == "__main__":
    main()
