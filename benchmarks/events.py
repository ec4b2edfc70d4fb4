"""How long after its commit a change is an event in Dagster, with everything that `floecat up` starts."""

from __future__ import annotations

import random
import sys
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from benchmarks.figures import figure, percentile, progress
from benchmarks.servers import free_port, process, wait_for

_SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
_QUERY = """{ assetOrError(assetKey: {path: ["catalog", "tables"]}) { ... on Asset {
  assetMaterializations(limit: 1000) {
    timestamp metadataEntries { label ... on TimestampMetadataEntry { timestamp } } } } } }"""
_QUIET_S = 45.0
"""Until sensors have run once, and tables were defined."""


class Up:
    """A running `floecat up`."""

    def __init__(self, rest: str, dagster: str) -> None:
        self._api = httpx.Client(base_url=f"{rest}/v1/floecat", timeout=60)
        self._dagster = httpx.Client(base_url=dagster, timeout=60)
        self.commits = 0

    def create(self, name: str) -> None:
        """Creates a table."""
        body = {"name": name, "schema": _SCHEMA}
        self._api.post("/namespaces/bench/tables", json=body).raise_for_status()
        self.commits += 1

    def commit(self, name: str) -> None:
        """Commits to a table."""
        updates = [{"action": "set-properties", "updates": {"at": str(time.time())}}]
        body = {"requirements": [], "updates": updates}
        self._api.post(f"/namespaces/bench/tables/{name}", json=body).raise_for_status()
        self.commits += 1

    def namespace(self) -> None:
        """Creates the namespace of the tables."""
        self._api.post("/namespaces", json={"namespace": ["bench"]}).raise_for_status()

    def delays(self, after_s: float, count: int) -> list[float]:
        """From commit to event, in seconds, of the commits after a time; waits until all are events."""
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            answer = self._dagster.post("/graphql", json={"query": _QUERY}).raise_for_status().json()
            events = (answer["data"]["assetOrError"] or {}).get("assetMaterializations", ())
            delays = [delay for committed_s, delay in map(_delay, events) if committed_s >= after_s]
            if len(delays) >= count:
                return delays
            time.sleep(1)
        raise RuntimeError(f"{count} commits did not become events")


def main(arguments: Sequence[str] = ()) -> None:
    """Prints the figures."""
    options = ArgumentParser()
    options.add_argument("--commits", type=int, default=80)
    chosen = options.parse_args(arguments)
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        folder, rest, dagster = Path(made), free_port(), free_port()
        command = [
            sys.executable,
            "-m",
            "floecat_rest",
            "up",
            "--no-demo",
            "--data-dir",
            str(folder / "data"),
        ]
        command += ["--rest-port", str(rest), "--dagster-port", str(dagster)]
        log = folder / "up.log"
        with process(command, log, {"FLOECAT_LOG_LEVEL": "warning"}) as started:
            wait_for(f"http://127.0.0.1:{dagster}/server_info", started, log, timeout_s=180)
            up = Up(f"http://127.0.0.1:{rest}", f"http://127.0.0.1:{dagster}")
            _measure(up, chosen.commits)


def _measure(up: Up, commits: int) -> None:
    up.namespace()
    up.create("t0")
    time.sleep(_QUIET_S)
    progress("commits, now and then")
    chance = random.Random(7)
    begin = time.time()
    for number in range(commits):
        if number % 8 == 0:
            up.create(f"now{number}")
        else:
            up.commit("t0")
        time.sleep(chance.uniform(0.3, 1.7))
    _report("events.commit-to-event", up.delays(begin, commits), target=(5.0, 10.0))
    progress("a burst of commits")
    begin = time.time()
    for number in range(200):
        up.create(f"burst{number}")
    _report("events.burst-of-200-creates", up.delays(begin, 200))


def _report(name: str, delays: list[float], target: tuple[float, float] | None = None) -> None:
    for share, limit in ((0.5, 0), (0.95, 1)):
        value = percentile(delays, share)
        figure(f"{name}.p{share * 100:.0f}", value, "s", target=target[limit] if target else None)


def _delay(event: Mapping[str, Any]) -> tuple[float, float]:
    """When it was committed, and how much later Dagster had the event, in seconds."""
    values = {entry["label"]: entry.get("timestamp") for entry in event["metadataEntries"]}
    committed_s = float(values.get("floecat/committed_at") or 0)
    return committed_s, int(event["timestamp"]) / 1000 - committed_s


if __name__ == "__main__":
    main(sys.argv[1:])
