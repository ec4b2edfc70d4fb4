"""Writers on one table and on as many tables as there are writers, over SQLite and PostgreSQL.

Every commit sets a property and requires only the table's UUID, which holds; so no answer may be 409.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from benchmarks.figures import figure, percentile
from benchmarks.metadata import SCHEMA
from benchmarks.servers import Floecat, floecat, postgres

_WRITERS = 20
_CLIENTS = 16
_SECONDS = 6.0
_HEADERS = {"content-type": "application/json", "accept-encoding": "identity"}


class _Run(NamedTuple):
    statuses: Counter[int]
    seconds: float
    times_ms: list[float]
    processor_ms: float
    """Of the service for one commit, user and system."""

    @property
    def rate(self) -> float:
        return self.statuses[200] / self.seconds


def main() -> None:
    """Prints the figures."""
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        folder = Path(made)
        one_worker = _measure("sqlite", folder, {})
        with floecat(folder, workers=2, name="two-workers") as service:
            run = _write(service, _CLIENTS, _CLIENTS)
            figure(
                f"writers.sqlite.two-workers.{_CLIENTS}-clients.p99",
                percentile(run.times_ms, 0.99),
                "ms",
                baseline=percentile(one_worker.times_ms, 0.99),
                target=2.0,
            )
        with postgres() as url:
            _measure("postgresql", folder, {"FLOECAT_STORE_URL": url})


def _measure(store: str, folder: Path, settings: Mapping[str, str]) -> _Run:
    with floecat(folder, settings, name=store) as service:
        for tables in (1, _WRITERS):
            run = _write(service, _WRITERS, tables)
            others = sum(count for status, count in run.statuses.items() if status != 200)
            figure(f"writers.{store}.{tables}-tables.not-200", others, "answers", target=0)
            figure(f"writers.{store}.{tables}-tables.commits", run.rate, "1/s", better="higher")
        one, many = _write(service, 1, _CLIENTS), _write(service, _CLIENTS, _CLIENTS)
    name = f"writers.{store}.{_CLIENTS}-clients"
    figure(f"{name}.commits", many.rate, "1/s", baseline=one.rate, target=2.0, better="higher")
    p50, p99 = (percentile(many.times_ms, share) for share in (0.5, 0.99))
    figure(f"{name}.p99", p99, "ms", baseline=p50, target=5.0, note="compared with the p50")
    figure(f"{name}.processor-time", many.processor_ms, "ms", target=1.5, note="of the service, for a commit")
    return many


def _write(service: Floecat, clients: int, tables: int) -> _Run:
    namespace = f"w{clients}-{tables}"
    with service.client() as client:
        client.post("namespaces", json={"namespace": [namespace]}).raise_for_status()
        uuids = [_create(client, namespace, number) for number in range(tables)]
    address = urlsplit(service.api)
    statuses: Counter[int] = Counter()
    times_ms: list[float] = []
    lock = threading.Lock()
    stop = time.monotonic() + _SECONDS

    def writer(number: int) -> None:
        table = number % tables
        url = f"{address.path}/namespaces/{namespace}/tables/t{table}"
        requirements = [{"type": "assert-table-uuid", "uuid": uuids[table]}]
        mine: Counter[int] = Counter()
        taken_ms = []
        connection = HTTPConnection(address.netloc, timeout=120)
        while time.monotonic() < stop:
            update = {"action": "set-properties", "updates": {f"w{number}": str(mine[200])}}
            body = json.dumps({"requirements": requirements, "updates": [update]})
            begin = time.perf_counter()
            connection.request("POST", url, body, _HEADERS)
            answer = connection.getresponse()
            answer.read()
            taken_ms.append((time.perf_counter() - begin) * 1000)
            mine[answer.status] += 1
        connection.close()
        with lock:
            statuses.update(mine)
            times_ms.extend(taken_ms)

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(clients)]
    before_ms, begin = _processor_ms(service.pid), time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    processor_ms = _processor_ms(service.pid) - before_ms
    return _Run(statuses, time.monotonic() - begin, times_ms, processor_ms / len(times_ms))


def _create(client: httpx.Client, namespace: str, number: int) -> str:
    answer = client.post(f"namespaces/{namespace}/tables", json={"name": f"t{number}", "schema": SCHEMA})
    return str(answer.raise_for_status().json()["metadata"]["table-uuid"])


def _processor_ms(group: int) -> float:
    """Processor time of all processes of a process group so far."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return ticks * 1000 / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
