"""Latency of small loads while scans of a large table are planned, and while two processes burn time.

The table is one that `benchmarks.planning --folder` left. The service plans in its own processes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from benchmarks.figures import figure, progress
from benchmarks.servers import Floecat, floecat
from benchmarks.wrk import run_wrk

__all__ = ["burning_processes"]

_SECONDS = 8
_CLIENTS = 4
_SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of `benchmarks.planning --folder`")
    parser.add_argument("--name", default="1000000-mixed", help="of the table in the folder")
    options = parser.parse_args()
    location = f"file://{options.folder}/{options.name}/00000.metadata.json"
    with TemporaryDirectory() as data:
        settings = {"FLOECAT_STORAGE_ALLOWED_LOCATIONS": f"file://{options.folder}"}
        with floecat(Path(data), settings) as service:
            _prepare(service, location)
            url = f"{service.api}/namespaces/db/tables/small"
            run_wrk(url, 4, 1)
            alone = run_wrk(url, 4, _SECONDS)
            with burning_processes():
                burning = run_wrk(url, 4, _SECONDS)
            with _planning(service) as plans:
                planning = run_wrk(url, 4, _SECONDS)
    note = f"{len(plans)} plans meanwhile"
    figure("small loads alone: p99", alone.p99_ms, "ms")
    figure(
        "small loads beside 4 plans: p99",
        planning.p99_ms,
        "ms",
        baseline=burning.p99_ms,
        target=3.0,
        note=note,
    )
    figure("small loads beside 4 plans: p50", planning.p50_ms, "ms", baseline=burning.p50_ms, note=note)


def _prepare(service: Floecat, location: str) -> None:
    with service.client() as client:
        client.post("namespaces", json={"namespace": ["db"]}).raise_for_status()
        client.post("namespaces/db/tables", json={"name": "small", "schema": _SCHEMA}).raise_for_status()
        registration = {"name": "large", "metadata-location": location}
        client.post("namespaces/db/register", json=registration).raise_for_status()
        progress("first plan")
        _plan(client)


def _plan(client: httpx.Client) -> None:
    """A plan from its request to its deletion."""
    path = "namespaces/db/tables/large/plan"
    headers = {"idempotency-key": str(uuid.uuid4())}
    answer = client.post(path, json={}, headers=headers).raise_for_status().json()
    plan_id = answer["plan-id"]
    while answer["status"] == "submitted":
        threading.Event().wait(0.1)
        answer = client.get(f"{path}/{plan_id}").raise_for_status().json()
    if answer["status"] != "completed":
        raise SystemExit(f"a plan is {answer['status']}: {answer}")
    client.delete(f"{path}/{plan_id}").raise_for_status()


@contextmanager
def _planning(service: Floecat) -> Iterator[list[None]]:
    done: list[None] = []
    stop = threading.Event()

    def work() -> None:
        with service.client() as client:
            while not stop.is_set():
                _plan(client)
                done.append(None)

    threads = [threading.Thread(target=work) for _ in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    yield done
    stop.set()
    for thread in threads:
        thread.join()


@contextmanager
def burning_processes() -> Iterator[None]:
    """Two processes that compute all the time."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
