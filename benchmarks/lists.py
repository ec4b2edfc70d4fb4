"""Lists of tables, views and namespaces beside a load of a small table, and while names come."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import httpx

from benchmarks.figures import figure, progress
from benchmarks.metadata import SCHEMA
from benchmarks.servers import Floecat, floecat, postgres
from benchmarks.wrk import Load, run_wrk

_SIZES = (20, 200, 1_000)
_CONNECTIONS = (1, 16)
_TURNS = 5
_SECONDS = 2
_VIEW = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {},
    "default-namespace": ["bench"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", action="store_true", help="on PostgreSQL instead of SQLite")
    parser.add_argument("--sizes", type=int, nargs="+", default=_SIZES, metavar="N", help="names in a list")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        if arguments.postgresql:
            with (
                postgres() as url,
                floecat(Path(made), {"FLOECAT_STORE_URL": url}) as service,
            ):
                _measure(service, arguments.sizes)
        else:
            with floecat(Path(made)) as service:
                _measure(service, arguments.sizes)


def _measure(service: Floecat, sizes: list[int]) -> None:
    lists: dict[str, str] = {}
    with httpx.Client(base_url=service.api, timeout=60) as client:
        _post(client, "namespaces", {"namespace": ["bench"]})
        _post(client, "namespaces/bench/tables", {"name": "t", "schema": SCHEMA})
        for size in sizes:
            progress(f"{size} tables, views and namespaces")
            levels = f"n{size}"
            _post(client, "namespaces", {"namespace": [levels]})
            for number in range(size):
                name = f"name{number:04}"
                _post(client, f"namespaces/{levels}/tables", {"name": name, "schema": SCHEMA})
                view = {"name": f"v{name}", "schema": SCHEMA, "view-version": _VIEW, "properties": {}}
                _post(client, f"namespaces/{levels}/views", view)
                _post(client, "namespaces", {"namespace": [levels, name]})
            for kind in ("tables", "views"):
                lists[f"{kind}.{size}"] = f"namespaces/{levels}/{kind}"
            lists[f"namespaces.{size}"] = f"namespaces?parent={levels}"
        first = client.get(f"namespaces/n{sizes[-1]}/tables?pageSize=10&pageToken=").json()
        token = first["next-page-token"]
        lists["tables.later-page"] = f"namespaces/n{sizes[-1]}/tables?pageSize=100&pageToken={token}"
    load = f"{service.api}/namespaces/bench/tables/t"
    for connections in _CONNECTIONS:
        for name, path in lists.items():
            _compare(name, f"{service.api}/{path}", load, connections)
    _while_names_come(service, sizes[0])


def _compare(name: str, url: str, load: str, connections: int) -> None:
    loads: list[Load] = []
    lists: list[Load] = []
    httpx.get(url).raise_for_status()
    httpx.get(load).raise_for_status()
    for _ in range(_TURNS):
        loads.append(run_wrk(load, connections, _SECONDS))
        lists.append(run_wrk(url, connections, _SECONDS))
    for part in ("p50_ms", "p99_ms"):
        figure(
            f"lists.{name}.c{connections}.{part.removesuffix('_ms')}",
            median(getattr(each, part) for each in lists),
            "ms",
            baseline=median(getattr(each, part) for each in loads),
            target=2,
        )


def _while_names_come(service: Floecat, size: int) -> None:
    """Lists a namespace while one client makes tables in it; each list names all that were made."""
    url, over = f"{service.api}/namespaces/n{size}/tables", threading.Event()
    made: list[str] = []

    def create() -> None:
        with httpx.Client(timeout=60) as client:
            while not over.is_set():
                name = f"later{len(made):06}"
                client.post(url, json={"name": name, "schema": SCHEMA}).raise_for_status()
                made.append(name)

    writer = threading.Thread(target=create)
    writer.start()
    lists = stale = 0
    try:
        with httpx.Client(timeout=60) as client:
            while len(made) < 500:
                known = set(made)
                listed = {each["name"] for each in client.get(url).json()["identifiers"]}
                lists, stale = lists + 1, stale + (not known <= listed)
    finally:
        over.set()
        writer.join()
    figure("lists.while-names-come.stale", stale, "lists", target=0, note=f"of {lists}, beside 500 creations")


def _post(client: httpx.Client, path: str, body: object) -> None:
    client.post(path, json=body).raise_for_status()


if __name__ == "__main__":
    main()
