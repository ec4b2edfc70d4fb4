"""1,000 tables beside 100,000 in 1,000 namespaces: list, load, create; bytes of the store.

`--tables` sets a smaller number for a short run.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from benchmarks.figures import figure, percentile, progress
from benchmarks.metadata import SCHEMA
from benchmarks.servers import Floecat, floecat

_PER_NAMESPACE = 100
_SAMPLES = 300


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100_000)
    wanted = parser.parse_args().tables
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        settings = {"FLOECAT_STORAGE_FSYNC": "false"}
        with floecat(Path(made), settings, workers=1) as service, service.client() as client:
            _fill(service, 0, 1_000)
            small = _measure(client, 1_000)
            _fill(service, 1_000, wanted)
            large = _measure(client, wanted)
            for name, latencies in large.items():
                for share in (0.5, 0.99):
                    figure(
                        f"churn.{name}.{wanted}-to-1000.p{share * 100:.0f}",
                        percentile(latencies, share),
                        "ms",
                        baseline=percentile(small[name], share),
                        target=1.5,
                    )
            store = sum(file.stat().st_size for file in (Path(made) / "floecat").glob("floecat.db*"))
            figure("churn.store-bytes-per-table", store / wanted, "B")


def _fill(service: Floecat, begin: int, end: int) -> None:
    progress(f"creating tables {begin} to {end}")
    with service.client() as client:
        for number in range(begin // _PER_NAMESPACE, end // _PER_NAMESPACE):
            client.post("namespaces", json={"namespace": [f"n{number}"]}).raise_for_status()

    def create(numbers: range) -> None:
        with service.client() as client:
            for number in numbers:
                _create(client, number).raise_for_status()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, [range(begin + part, end, 4) for part in range(4)]))


def _create(client: httpx.Client, number: int) -> httpx.Response:
    body = {"name": f"t{number}", "schema": SCHEMA}
    return client.post(f"namespaces/n{number // _PER_NAMESPACE}/tables", json=body)


def _measure(client: httpx.Client, tables: int) -> dict[str, list[float]]:
    picks = random.Random(7)

    def any_table(_: int) -> httpx.Response:
        number = picks.randrange(tables)
        return client.get(f"namespaces/n{number // _PER_NAMESPACE}/tables/t{number}")

    def any_listing(_: int) -> httpx.Response:
        return client.get(f"namespaces/n{picks.randrange(tables // _PER_NAMESPACE)}/tables")

    def one_more(number: int) -> httpx.Response:
        body = {"name": f"more{tables}-{number}", "schema": SCHEMA}
        return client.post(f"namespaces/n{picks.randrange(tables // _PER_NAMESPACE)}/tables", json=body)

    return {"load": _times(any_table), "list": _times(any_listing), "create": _times(one_more)}


def _times(call: Callable[[int], httpx.Response]) -> list[float]:
    taken = []
    for number in range(_SAMPLES):
        begin = time.perf_counter()
        answer = call(number)
        taken.append((time.perf_counter() - begin) * 1000)
        answer.raise_for_status()
    return taken


if __name__ == "__main__":
    main()
