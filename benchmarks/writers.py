"""Writers on one table and on as many tables as there are writers, over SQLite and PostgreSQL.

Every commit sets a property and requires only the table's UUID, which holds; so no answer may be 409.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.closed_and_open import Client, Loop, Request, Run, closed
from benchmarks.figures import figure, percentile
from benchmarks.metadata import SCHEMA
from benchmarks.servers import Floecat, floecat, postgres

_WRITERS = 20
_CLIENTS = 16
_SECONDS = 6.0


class _Run(NamedTuple):
    answers: Run
    processor_ms: float
    """Of the service for one commit, user and system."""


def main() -> None:
    """Prints the figures."""
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        folder = Path(made)
        one_worker = _measure("sqlite", folder, {})
        with floecat(folder, workers=2, name="two-workers") as service:
            run = _write(service, _CLIENTS, _CLIENTS)
            figure(
                f"writers.sqlite.two-workers.{_CLIENTS}-clients.p99",
                percentile(run.answers.times_ms, 0.99),
                "ms",
                baseline=percentile(one_worker.answers.times_ms, 0.99),
                target=2.0,
            )
        with postgres() as url:
            _measure("postgresql", folder, {"FLOECAT_STORE_URL": url})


def _measure(store: str, folder: Path, settings: Mapping[str, str]) -> _Run:
    with floecat(folder, settings, name=store) as service:
        for tables in (1, _WRITERS):
            run = _write(service, _WRITERS, tables)
            figure(f"writers.{store}.{tables}-tables.not-200", run.answers.failures, "answers", target=0)
            figure(f"writers.{store}.{tables}-tables.commits", run.answers.rate, "1/s", better="higher")
        one, many = _write(service, 1, _CLIENTS), _write(service, _CLIENTS, _CLIENTS)
    name = f"writers.{store}.{_CLIENTS}-clients"
    figure(
        f"{name}.commits", many.answers.rate, "1/s", baseline=one.answers.rate, target=2.0, better="higher"
    )
    p50, p99 = (percentile(many.answers.times_ms, share) for share in (0.5, 0.99))
    figure(f"{name}.p99", p99, "ms", baseline=p50, target=5.0, note="compared with the p50")
    figure(f"{name}.processor-time", many.processor_ms, "ms", target=1.5, note="of the service, for a commit")
    return many


def _write(service: Floecat, clients: int, tables: int) -> _Run:
    namespace = f"w{clients}-{tables}"
    path = f"namespaces/{namespace}/tables"
    client = Client(service.api, {})
    client.json(Request("", "POST", "namespaces", {"namespace": [namespace]}))
    uuids = [
        client.json(Request("", "POST", path, {"name": f"t{number}", "schema": SCHEMA}))["metadata"][
            "table-uuid"
        ]
        for number in range(tables)
    ]

    def writer(number: int) -> Loop:
        values = count()
        requirements = [{"type": "assert-table-uuid", "uuid": uuids[number % tables]}]

        def write(client: Client, _: int) -> int:
            update = {"action": "set-properties", "updates": {f"w{number}": str(next(values))}}
            body = {"requirements": requirements, "updates": [update]}
            return client.send(Request("commit", "POST", f"{path}/t{number % tables}", body))[0]

        return write

    before_ms = _processor_ms(service.pid)
    run = closed(lambda: Client(service.api, {}), [writer(number) for number in range(clients)], _SECONDS)
    return _Run(run, (_processor_ms(service.pid) - before_ms) / len(run.times_ms))


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
