"""Connectors: discovery, a slow catalog, the time from a commit there until it is here, loads beside a scan.

Tables are small: those of one folder, of one SQL catalog on SQLite, and of `benchmarks.other_catalog`.
Nothing changes between the first scan and the second. A listing of the REST catalog is a page for its
namespaces, one for those in each and one for the tables of each; a table costs a load, which is answered 304
where nothing changed. A table of a folder costs two listings: its folder, and its metadata.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from benchmarks.closed_and_open import Client, Request, Run, opened
from benchmarks.figures import figure, percentile, progress
from benchmarks.other_catalog import IN_A_NAMESPACE, other_catalog, table_name
from benchmarks.planning_beside_loads import burning_processes
from benchmarks.servers import Floecat, floecat
from floecat.connectors.connector_info import NewConnector
from floecat.entries.calls import Call
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import load_settings

_SIZES = (1_000, 10_000)
_SLOW_TABLES = 400
_SLOW_MS = 50
_COMMITS = 30
_TABLES_OF_COMMITS = 100
_LOADS_S = 100.0
"""Loads a second, beside a scan and without."""
_MOST_SLOWER = 3.0
_SCHEMA = Schema(NestedField(1, "id", LongType()))
_MANAGED = "management/v1/catalogs/floecat/connectors"


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=_SIZES, metavar="N", help="tables")
    parser.add_argument("--only", choices=["discovery", "slow", "commits", "loads"])
    given = parser.parse_args()
    parts: dict[str, Callable[[Path], None]] = {"slow": _slow, "commits": _commits}
    for size in given.sizes:
        if given.only in (None, "discovery"):
            with TemporaryDirectory(prefix="floecat-bench-") as made:
                _discover(Path(made), size)
    for name, measure in parts.items():
        if given.only in (None, name):
            with TemporaryDirectory(prefix="floecat-bench-") as made:
                measure(Path(made))
    if given.only in (None, "loads"):
        with TemporaryDirectory(prefix="floecat-bench-") as made:
            _loads(Path(made), max(given.sizes))


def _discover(folder: Path, size: int) -> None:
    lake = folder / "lake"
    lake.mkdir()
    with other_catalog(folder, lake, size) as other:
        _scan_twice(folder / "rest", lake, NewConnector("up", "iceberg-rest", other.url), size, other.calls)
    progress(f"{size} tables upstream")
    catalog = SqlCatalog("upstream", uri=f"sqlite:///{lake}/catalog.db", warehouse=lake.as_uri())
    for number in range(size):
        namespace, name = table_name(number)
        if number % IN_A_NAMESPACE == 0:
            catalog.create_namespace(namespace)
        catalog.create_table((namespace, name), _SCHEMA)
    catalog.engine.dispose()
    uri = f"sqlite:///{lake}/catalog.db"
    _scan_twice(folder / "iceberg", lake, NewConnector("up", "iceberg", lake.as_uri()), size)
    by_sql = NewConnector("up", "pyiceberg", "pyiceberg:upstream", options={"type": "sql", "uri": uri})
    _scan_twice(folder / "pyiceberg", lake, by_sql, size)


def _scan_twice(
    data: Path, lake: Path, wanted: NewConnector, size: int, asked: Callable[[], int] | None = None
) -> None:
    with _kernel(data, lake) as (kernel, call):
        kernel.connectors.connectors.create(call, wanted)
        for turn in ("first", "second"):
            name = f"connectors.{wanted.kind}.{size}.{turn}"
            progress(name)
            files, asked_before = kernel.files.counters.counts, asked() if asked else 0
            with kernel.store.count_statements() as counter:
                took_s = _scan(kernel, call, size)
            figure(f"{name}.time", took_s, "s")
            figure(f"{name}.statements", counter.statements / size, "statements a table")
            calls = (kernel.files.counters.counts - files).calls
            figure(f"{name}.storage-calls", calls / size, "calls a table")
            if asked:
                figure(f"{name}.upstream-calls", (asked() - asked_before) / size, "calls a table")


def _slow(folder: Path) -> None:
    """A catalog that takes its time, asked for one table at a time, and for four."""
    lake = folder / "lake"
    lake.mkdir()
    took_s: dict[int, float] = {}
    with other_catalog(folder, lake, _SLOW_TABLES, _SLOW_MS) as other:
        for at_once in (1, 4):
            progress(f"{_SLOW_TABLES} tables that take {_SLOW_MS} ms each, {at_once} at once")
            with _kernel(folder / f"at-once-{at_once}", lake) as (kernel, call):
                policy = {"max-parallel": at_once}
                wanted = NewConnector("up", "iceberg-rest", other.url, policy=policy)
                kernel.connectors.connectors.create(call, wanted)
                took_s[at_once] = _scan(kernel, call, _SLOW_TABLES)
    note = f"{_SLOW_TABLES} tables, {_SLOW_MS} ms a load; the baseline is one at a time"
    figure("connectors.slow.4-at-once", took_s[4], "s", baseline=took_s[1], target=0.3, note=note)


def _commits(folder: Path) -> None:
    """From a commit there until the table here is the new one, by a scan that begins at once."""
    lake = folder / "lake"
    lake.mkdir()
    times_s = []
    with (
        other_catalog(folder, lake, _TABLES_OF_COMMITS) as other,
        _kernel(folder / "here", lake) as (kernel, call),
    ):
        kernel.connectors.connectors.create(call, NewConnector("up", "iceberg-rest", other.url))
        _scan(kernel, call, _TABLES_OF_COMMITS)
        for number in range(_COMMITS):
            namespace, name = table_name(number)
            began_s = time.perf_counter()
            location = other.commit(number)
            _scan(kernel, call, _TABLES_OF_COMMITS)
            here = kernel.catalog.tables.load(call, TableIdentifier(("up", namespace), name))
            times_s.append(time.perf_counter() - began_s)
            if here.metadata_location != location:
                raise RuntimeError(f"{name} is at {here.metadata_location}, and not at {location}")
    note = f"a catalog of {_TABLES_OF_COMMITS} tables; the interval of scans comes on top"
    figure("connectors.commit-until-readable", percentile(times_s, 0.5) * 1000, "ms", note=note)


def _loads(folder: Path, size: int) -> None:
    """Loads of a service while a full discovery runs, in it by request or beside it by schedule."""
    lake = folder / "lake"
    lake.mkdir()
    settings = {
        "FLOECAT_CONNECTORS_ALLOWED_HOSTS": "127.0.0.1",
        "FLOECAT_STORAGE_ALLOWED_LOCATIONS": lake.as_uri(),
        "FLOECAT_LIMITS_CONNECTOR_REPORT_BYTES": str(1 << 30),
    }
    with floecat(folder, settings) as service:
        client = Client(service.base, {})
        client.json(Request("", "POST", "v1/floecat/namespaces", {"namespace": ["db"]}))
        table = {"name": "t", "schema": {"type": "struct", "fields": []}}
        client.json(Request("", "POST", "v1/floecat/namespaces/db/tables", table))
        progress("loads alone")
        _at_rate(service, 2)
        alone = _at_rate(service, 10)
        with burning_processes():
            _compare("connectors.loads-beside-2-busy-processes", alone, _at_rate(service, 10), 0)
        scans: dict[str, Callable[[], None]] = {
            "by-request": lambda: _scan_by_request(service, "by-request"),
            "by-process": lambda: _scan_by_process(folder, settings, "by-process"),
        }
        for name, scan in scans.items():
            # tables of other UUIDs, as the catalog has those of the first scan
            with other_catalog(folder, lake / name, size) as other:
                wanted = {"name": name, "kind": "iceberg-rest", "location": other.url, "enabled": False}
                client.json(Request("", "POST", _MANAGED, wanted))
                progress(f"loads beside a scan {name}")
                beside = _beside(service, scan)
            _compare(f"connectors.loads-beside-discovery.{name}", alone, beside, size)


def _compare(name: str, alone: Run, beside: Run, size: int) -> None:
    note = f"{size} tables; {_LOADS_S:g} loads a second; the baseline is loads alone"
    for share, target in ((0.5, None), (0.99, _MOST_SLOWER)):
        figure(
            f"{name}.p{share * 100:g}",
            percentile(beside.times_ms, share),
            "ms",
            baseline=percentile(alone.times_ms, share),
            target=target,
            note=note,
        )


def _at_rate(service: Floecat, seconds: float) -> Run:
    load = Request("load", "GET", "namespaces/db/tables/t")
    return opened(
        lambda: Client(service.api, {}), lambda client, _: client.send(load)[0], _LOADS_S, seconds, 8
    )


def _beside(service: Floecat, scan: Callable[[], None]) -> Run:
    thread = threading.Thread(target=scan)
    thread.start()
    runs: list[Run] = []
    while thread.is_alive():
        runs.append(_at_rate(service, 2))
    thread.join()
    whole = runs[:-1] or runs
    times_ms = [each for run in whole for each in run.times_ms]
    statuses = sum((run.statuses for run in whole), start=type(whole[0].statuses)())
    if statuses.keys() != {200}:
        raise RuntimeError(f"Loads were answered {dict(statuses)}")
    return Run(statuses, sum(run.seconds for run in whole), times_ms)


def _scan_by_request(service: Floecat, connector: str) -> None:
    began_s = time.perf_counter()
    answer: Any = Client(service.base, {}).json(Request("", "POST", f"{_MANAGED}/{connector}/scan"))
    progress(f"{len(answer['registered'])} in {time.perf_counter() - began_s:.1f} s, {answer['problem']}")


def _scan_by_process(folder: Path, settings: dict[str, str], connector: str) -> None:
    environment = {**os.environ, **settings, "FLOECAT_DATA_DIR": str(folder / "floecat")}
    command = [sys.executable, "-m", "floecat_rest", "connector", "scan", connector]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    progress(done.stdout.strip()[-200:])


@contextmanager
def _kernel(data: Path, lake: Path) -> Iterator[tuple[Kernel, Call]]:
    environment = {
        "FLOECAT_DATA_DIR": str(data),
        "FLOECAT_GATEWAY_DEFAULT_WAREHOUSE_PATH": lake.as_uri(),
        "FLOECAT_LIMITS_CONNECTOR_REPORT_BYTES": str(1 << 30),
        "FLOECAT_CONNECTORS_ALLOWED_HOSTS": "127.0.0.1",
    }
    settings = load_settings(environ=environment)
    prepare_store(settings)
    kernel = open_kernel(settings)
    try:
        account, prefix = settings.gateway.default_account_id, settings.gateway.default_prefix
        yield kernel, kernel.catalog.calls.open_as_operator("benchmark", account, prefix)
    finally:
        kernel.close()


def _scan(kernel: Kernel, call: Call, size: int) -> float:
    """Seconds that a scan takes which finds so many tables."""
    began_s = time.perf_counter()
    report = kernel.connectors.scans.scan(call, "up")
    took_s = time.perf_counter() - began_s
    found = len(report.registered) + len(report.skipped) + len(report.changed)
    if report.summary is not None or found != size:
        raise RuntimeError(f"The scan did not find {size} tables: {report.summary}")
    return took_s


if __name__ == "__main__":
    main()
