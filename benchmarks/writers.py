"""Twenty writers on one table and on twenty tables, over SQLite and PostgreSQL.

Every commit sets a property and requires only the table's UUID, which holds; so no answer may be 409.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from benchmarks.figures import figure
from benchmarks.metadata import SCHEMA
from benchmarks.servers import Floecat, floecat, postgres

_WRITERS = 20
_SECONDS = 6.0


def main() -> None:
    """Prints the figures."""
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        _run("sqlite", Path(made), {})
        with postgres() as url:
            _run("postgresql", Path(made), {"FLOECAT_STORE_URL": url})


def _run(store: str, folder: Path, settings: Mapping[str, str]) -> None:
    with floecat(folder, settings, name=store) as service:
        rates = {}
        for tables in (1, _WRITERS):
            statuses, seconds = _write(service, tables)
            rates[tables] = statuses[200] / seconds
            others = sum(count for status, count in statuses.items() if status != 200)
            figure(f"writers.{store}.{tables}-tables.not-200", others, "answers", target=0)
        for tables, rate in rates.items():
            figure(f"writers.{store}.{tables}-tables.commits", rate, "1/s", better="higher")


def _write(service: Floecat, tables: int) -> tuple[Counter[int], float]:
    namespace = f"w{tables}"
    with service.client() as client:
        client.post("namespaces", json={"namespace": [namespace]}).raise_for_status()
        uuids = [_create(client, namespace, number) for number in range(tables)]
    statuses: Counter[int] = Counter()
    lock = threading.Lock()
    stop = time.monotonic() + _SECONDS

    def writer(number: int) -> None:
        table = number % tables
        mine: Counter[int] = Counter()
        with service.client() as client:
            while time.monotonic() < stop:
                body = {
                    "requirements": [{"type": "assert-table-uuid", "uuid": uuids[table]}],
                    "updates": [{"action": "set-properties", "updates": {f"w{number}": str(mine[200])}}],
                }
                mine[client.post(f"namespaces/{namespace}/tables/t{table}", json=body).status_code] += 1
        with lock:
            statuses.update(mine)

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(_WRITERS)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses, time.monotonic() - begin


def _create(client: httpx.Client, namespace: str, number: int) -> str:
    answer = client.post(f"namespaces/{namespace}/tables", json={"name": f"t{number}", "schema": SCHEMA})
    return str(answer.raise_for_status().json()["metadata"]["table-uuid"])


if __name__ == "__main__":
    main()
