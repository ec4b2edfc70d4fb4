"""Scan plans of a large table over HTTP, from the request to the last task: time, bytes, processor time.

The table is one that `benchmarks.planning --folder` left. Tasks are fetched one after the other.
"""

from __future__ import annotations

import argparse
import os
import time
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx
import msgspec

from benchmarks.figures import figure
from benchmarks.planning import filters
from benchmarks.servers import floecat

_MOST_FILES = 100_000
"""Of a plan, after which no more tasks are fetched."""


class _Fetched(NamedTuple):
    """What a client got.

    Attributes:
        files: tasks to read files.
        size: bytes of all answers.
        planned_s: until the plan was completed.
        first_s: until the first task to read a file.
        all_s: until the last one.
    """

    files: int
    size: int
    planned_s: float
    first_s: float
    all_s: float


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of `benchmarks.planning --folder`")
    parser.add_argument("--name", default="1000000-mixed", help="of the table in the folder")
    options = parser.parse_args()
    location = f"file://{options.folder}/{options.name}/00000.metadata.json"
    settings = {"FLOECAT_STORAGE_ALLOWED_LOCATIONS": f"file://{options.folder}"}
    with TemporaryDirectory() as data, floecat(Path(data), settings) as service, service.client() as client:
        client.post("namespaces", json={"namespace": ["db"]}).raise_for_status()
        registration = {"name": "large", "metadata-location": location}
        client.post("namespaces/db/register", json=registration).raise_for_status()
        for title, json in filters(int(options.name.partition("-")[0])).items():
            for kind in ("first plan", "next plan"):
                before_s = processor_s(service.pid)
                found = _fetch(client, json)
                used_s = processor_s(service.pid) - before_s
                label = f"{title}, {kind}"
                figure(f"{label}: completed", found.planned_s, "s", note=f"{found.files:,} files fetched")
                figure(f"{label}: first task", found.first_s, "s")
                figure(f"{label}: tasks fetched", found.all_s, "s")
                figure(f"{label}: answers", found.size / found.files, "bytes/file")
                figure(f"{label}: processor time of the service", used_s / found.files * 1e6, "µs/file")


def _fetch(client: httpx.Client, json: object) -> _Fetched:
    """A plan from its request to its deletion."""
    path = "namespaces/db/tables/large"
    started = time.perf_counter()
    fetched = answers(client, path, json)
    answer, body = next(fetched)
    size = len(body)
    planned_s = time.perf_counter() - started
    files = 0
    first_s = 0.0
    while True:
        files += len(answer.get("file-scan-tasks", ()))
        if files:
            first_s = first_s or time.perf_counter() - started
        if files >= _MOST_FILES:
            break
        following = next(fetched, None)
        if following is None:
            break
        answer, body = following
        size += len(body)
    all_s = time.perf_counter() - started
    fetched.close()
    return _Fetched(files, size, planned_s, first_s, all_s)


def answers(client: httpx.Client, path: str, json: object) -> Generator[tuple[Any, bytes]]:
    """Yields the completed plan and the answer of each task, decoded, and as they came."""
    headers = {"idempotency-key": str(uuid.uuid4())}
    response = client.post(f"{path}/plan", json={"filter": json}, headers=headers)
    answer = msgspec.json.decode(response.raise_for_status().content)
    plan_id = answer["plan-id"]
    while answer["status"] == "submitted":
        time.sleep(0.02)
        response = client.get(f"{path}/plan/{plan_id}")
        answer = msgspec.json.decode(response.raise_for_status().content)
    try:
        yield answer, response.content
        tasks: list[str] = answer.get("plan-tasks", [])
        while tasks:
            response = client.post(f"{path}/tasks", json={"plan-task": tasks.pop(0)}).raise_for_status()
            answer = msgspec.json.decode(response.content)
            tasks = answer.get("plan-tasks", []) + tasks
            yield answer, response.content
    finally:
        client.delete(f"{path}/plan/{plan_id}").raise_for_status()


def processor_s(pid: int) -> float:
    """Processor time of a service and its planning processes so far, in seconds."""
    ticks = sum(int(stat[11]) + int(stat[12]) for stat in _stats(pid))
    return ticks / os.sysconf("SC_CLK_TCK")


def _stats(pid: int) -> Iterator[list[str]]:
    """`/proc/PID/stat` from the state on, of a process and those that it started."""
    yield Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _stats(int(child))


if __name__ == "__main__":
    main()
