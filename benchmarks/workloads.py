"""Public workloads in our own code: one worker, two workers and SeaweedFS, by turns, on the same S3.

The shapes are those of Apache Polaris' benchmarks (ReadTree, ReadUpdate, Weighted) and of warp's Iceberg
benchmarks (catalog-read, catalog-commits, catalog-mixed, sustained). `--seconds` is the length of each run.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import NamedTuple

from benchmarks.appenders import appender, appends
from benchmarks.closed_and_open import Client, Loop, Request, Run, closed, opened
from benchmarks.figures import figure, percentile, progress
from benchmarks.metadata import SCHEMA
from benchmarks.servers import Seaweed, floecat, seaweed
from benchmarks.stops import Missing

_NAMESPACES = 4
_TABLES = 6
_VIEWS = 2
_CLIENTS = 16
_TURNS = 3
"""What else the machine does meets all of them."""
_MOST_P99_MS = 100.0
_STEPS = 4
_LOADS_PER_SECOND = 400.0


class Catalog(NamedTuple):
    """One of the servers, filled."""

    name: str
    connect: Callable[[], Client]
    has_views: bool


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1.5)
    seconds: float = parser.parse_args().seconds
    try:
        with _catalogs() as catalogs:
            _measure(catalogs, seconds)
            _reads_by_kind(catalogs, seconds)
            _creates(catalogs, seconds)
            appends([(each.name, each.connect) for each in catalogs], seconds * 2)
    except Missing as error:
        progress(str(error))


def _measure(catalogs: Sequence[Catalog], seconds: float) -> None:
    closed_loops: dict[str, Callable[[Catalog], list[Loop]]] = {
        "read-tree": lambda each: [_tree(each) for _ in range(_CLIENTS)],
        "weighted": lambda each: [_weighted(number, each) for number in range(_CLIENTS)],
        "catalog-read": lambda each: [_one(_reads(each)) for _ in range(_CLIENTS)],
        "catalog-commits": lambda each: [_one(_updates(each)[1:]) for _ in range(_CLIENTS)],
        "catalog-mixed": lambda each: [_one(_reads(each) + _updates(each)) for _ in range(_CLIENTS)],
    }
    for name, loops in closed_loops.items():
        progress(name)
        runs: dict[str, list[Run]] = {each.name: [] for each in catalogs}
        for _ in range(_TURNS):
            for each in catalogs:
                runs[each.name].append(closed(each.connect, loops(each), seconds / _TURNS))
        _compare(
            name,
            {key: sum(run.rate for run in turns) / _TURNS for key, turns in runs.items()},
            _failures(runs),
        )
    progress("read-update")
    _compare(
        "read-update.highest-rate",
        {each.name: _highest_rate(each, seconds) for each in catalogs},
        f"p99 below {_MOST_P99_MS:g} ms from the intended start",
    )
    progress("sustained")
    _compare("sustained.commits", {each.name: _sustained(each, seconds * 2) for each in catalogs})


def _compare(name: str, values: dict[str, float], note: str | None = None) -> None:
    peer = values["seaweedfs"]
    figure(f"workloads.{name}.seaweedfs", peer, "1/s", better="higher")
    for key, value in values.items():
        if key != "seaweedfs":
            figure(
                f"workloads.{name}.{key}", value, "1/s", baseline=peer, target=1.0, better="higher", note=note
            )


def _failures(runs: dict[str, list[Run]]) -> str | None:
    failures = {name: sum(run.failures for run in turns) for name, turns in runs.items()}
    failed = [f"{name} {number}" for name, number in failures.items() if number]
    return f"failed: {', '.join(failed)}" if failed else None


@contextmanager
def _catalogs() -> Iterator[list[Catalog]]:
    with TemporaryDirectory(prefix="floecat-bench-") as made, ExitStack() as servers:
        folder = Path(made)
        peer: Seaweed = servers.enter_context(seaweed(folder))
        found = []
        for workers in (1, 2):
            name = "one-worker" if workers == 1 else "two-workers"
            settings = {
                **peer.settings(),
                "FLOECAT_GATEWAY_DEFAULT_WAREHOUSE_PATH": f"s3://{peer.bucket}/{name}",
            }
            service = servers.enter_context(floecat(folder, settings, workers=workers, name=name))
            found.append(_filled(name, lambda api=service.api: Client(api, {})))  # type: ignore[misc]
        headers = {"authorization": f"Bearer {peer.token()}"}
        found.append(_filled("seaweedfs", lambda: Client(peer.api, headers)))
        yield found


def _filled(name: str, connect: Callable[[], Client]) -> Catalog:
    client = connect()
    has_views = True
    for space in range(_NAMESPACES):
        client.json(Request("", "POST", "namespaces", {"namespace": [f"n{space}"]}))
        path = f"namespaces/n{space}"
        for number in range(_TABLES):
            client.json(Request("", "POST", f"{path}/tables", {"name": f"t{number}", "schema": SCHEMA}))
        for number in range(_VIEWS):
            status, _ = client.send(Request("", "POST", f"{path}/views", _view(f"v{number}")))
            has_views = has_views and status == 200
    if not has_views:
        progress(f"{name} has no views: tables stand in for them")
    return Catalog(name, connect, has_views)


def _view(name: str) -> dict[str, object]:
    version = {
        "version-id": 1,
        "timestamp-ms": time.time_ns() // 1_000_000,
        "schema-id": 0,
        "summary": {"engine-name": "bench"},
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
        "default-namespace": ["n0"],
    }
    return {"name": name, "schema": SCHEMA, "view-version": version, "properties": {}}


# -- requests -----------------------------------------------------------------------------------------------


def _entry(catalog: Catalog, kind: str) -> str:
    space = f"namespaces/n{random.randrange(_NAMESPACES)}"
    if kind == "views" and catalog.has_views:
        return f"{space}/views/v{random.randrange(_VIEWS)}"
    return f"{space}/tables/t{random.randrange(_TABLES)}"


def _reads(catalog: Catalog) -> list[Callable[[], Request]]:
    """Nine kinds of reads: does it exist, what is it, and what is in its namespace or beside it."""

    def space() -> str:
        return f"namespaces/n{random.randrange(_NAMESPACES)}"

    def request(method: str, path: Callable[[], str]) -> Callable[[], Request]:
        return lambda: Request("read", method, path())

    views = "views" if catalog.has_views else "tables"
    return [
        request("GET", lambda: "namespaces"),
        request("HEAD", space),
        request("GET", space),
        request("GET", lambda: f"{space()}/tables"),
        request("HEAD", lambda: _entry(catalog, "tables")),
        request("GET", lambda: _entry(catalog, "tables")),
        request("GET", lambda: f"{space()}/{views}"),
        request("HEAD", lambda: _entry(catalog, "views")),
        request("GET", lambda: _entry(catalog, "views")),
    ]


_marks = count()


def _updates(catalog: Catalog) -> list[Callable[[], Request]]:
    """Properties of a namespace, a table, a view."""

    def of_space() -> Request:
        body = {"updates": {f"k{random.randrange(8)}": str(next(_marks))}, "removals": []}
        return Request("update", "POST", f"namespaces/n{random.randrange(_NAMESPACES)}/properties", body)

    def of_entry(kind: str) -> Callable[[], Request]:
        def made() -> Request:
            update = {"action": "set-properties", "updates": {f"k{random.randrange(8)}": str(next(_marks))}}
            return Request("update", "POST", _entry(catalog, kind), {"requirements": [], "updates": [update]})

        return made

    return [of_space, of_entry("tables"), of_entry("views")]


def _one(requests: Sequence[Callable[[], Request]]) -> Loop:
    """One of these requests, each as often as the others."""
    return lambda client, _: client.send(random.choice(requests)())[0]


def _tree(catalog: Catalog) -> Loop:
    """Walks all namespaces with all that is in them, a request each time."""

    def walk() -> Iterator[Request]:
        while True:
            for space in random.sample(range(_NAMESPACES), _NAMESPACES):
                path = f"namespaces/n{space}"
                yield Request("read", "GET", path)
                yield Request("read", "GET", f"{path}/tables")
                for number in range(_TABLES):
                    yield Request("read", "GET", f"{path}/tables/t{number}")
                for number in range(_VIEWS if catalog.has_views else 0):
                    yield Request("read", "GET", f"{path}/views/v{number}")

    requests = walk()
    return lambda client, _: client.send(next(requests))[0]


def _weighted(number: int, catalog: Catalog) -> Loop:
    """Three readers to a writer; most of them want the same few tables."""

    def path() -> str:
        place = min(_NAMESPACES * _TABLES - 1, int(abs(random.gauss(0, 0.3)) * _NAMESPACES * _TABLES))
        return f"namespaces/n{place // _TABLES}/tables/t{place % _TABLES}"

    def update() -> Request:
        change = {"action": "set-properties", "updates": {f"w{number}": str(next(_marks))}}
        return Request("update", "POST", path(), {"requirements": [], "updates": [change]})

    del catalog
    return _one([update] if number % 4 == 0 else [lambda: Request("read", "GET", path())])


def _reads_by_kind(catalogs: Sequence[Catalog], seconds: float) -> None:
    """Prints what each kind of read takes with 20 clients."""
    names = (
        "namespaces",
        "namespace-head",
        "namespace",
        "tables",
        "table-head",
        "table",
        "views",
        "view-head",
        "view",
    )
    for number, name in enumerate(names):
        progress(f"reads: {name}")
        _compare_times(
            f"reads.{name}",
            catalogs,
            lambda each, number=number: [_one([_reads(each)[number]])] * 20,
            seconds,
            0.7,
        )


def _creates(catalogs: Sequence[Catalog], seconds: float) -> None:
    """Prints what creates by 10 and 20 clients take."""
    for kind in ("tables", "views") if all(each.has_views for each in catalogs) else ("tables",):
        for clients in (10, 20):
            progress(f"{kind} made by {clients} clients")
            name = f"create-{kind}.{clients}-clients"
            _compare_times(
                name, catalogs, lambda _, kind=kind, clients=clients: [_create(kind)] * clients, seconds, 1.0
            )


def _compare_times(
    name: str,
    catalogs: Sequence[Catalog],
    loops: Callable[[Catalog], Sequence[Loop]],
    seconds: float,
    target: float,
) -> None:
    """Prints the p50 beside the peer's."""
    times_ms: dict[str, list[float]] = {each.name: [] for each in catalogs}
    for _ in range(_TURNS):
        for each in catalogs:
            times_ms[each.name] += closed(each.connect, loops(each), seconds / _TURNS).times_ms
    peer = percentile(times_ms.pop("seaweedfs"), 0.5)
    for key, taken in times_ms.items():
        figure(f"workloads.{name}.{key}.p50", percentile(taken, 0.5), "ms", baseline=peer, target=target)


def _create(kind: str) -> Loop:
    def create(client: Client, _: int) -> int:
        name = f"made{next(_marks)}"
        body = _view(name) if kind == "views" else {"name": name, "schema": SCHEMA}
        return client.send(Request("create", "POST", f"namespaces/n0/{kind}", body))[0]

    return create


# -- open loops ---------------------------------------------------------------------------------------------


def _highest_rate(catalog: Catalog, seconds: float) -> float:
    """The highest rate, to 6 %, whose p99 stays below the bound: half reads, half updates."""
    reads, updates = _one(_reads(catalog)), _one(_updates(catalog))

    def loop(client: Client, number: int) -> int:
        return (reads if number % 2 else updates)(client, number)

    def holds(rate: float) -> bool:
        run = opened(catalog.connect, loop, rate, seconds)
        return percentile(run.times_ms, 0.99) < _MOST_P99_MS and run.failures <= len(run.times_ms) / 100

    low, high = 0.0, 100.0
    while holds(high) and high < 6400:
        low, high = high, high * 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _sustained(catalog: Catalog, seconds: float) -> float:
    """Commits a second of four appenders, each on a table of its own, beside loads at a fixed rate."""
    loads = Thread(
        target=opened,
        args=(
            catalog.connect,
            lambda client, _: client.send(Request("read", "GET", _entry(catalog, "tables")))[0],
            _LOADS_PER_SECOND,
            seconds,
        ),
    )
    loads.start()
    loops = [appender(f"namespaces/n{number}/tables/t0") for number in range(_NAMESPACES)]
    run = closed(catalog.connect, loops, seconds)
    loads.join()
    return run.rate


if __name__ == "__main__":
    main()
