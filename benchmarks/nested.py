"""Schemas of Gravitino's shape beside the same requests on the Iceberg side: lists, chains and drops."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import httpx

from benchmarks.figures import figure, progress
from benchmarks.servers import floecat, postgres
from benchmarks.wrk import run_wrk

_NAMES = 10_000
_LEVELS = 10
_CHAINS = 100
_TURNS = 5
_SECONDS = 2
_TARGET = 1.2


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", action="store_true", help="on PostgreSQL instead of SQLite")
    parser.add_argument(
        "--names", type=int, default=_NAMES, help="schemas in all, a tenth in each of ten levels"
    )
    parser.add_argument("--chains", type=int, default=_CHAINS, help="chains of ten that are made and dropped")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="floecat-bench-") as made:
        if arguments.postgresql:
            with postgres() as url, floecat(Path(made), {"FLOECAT_STORE_URL": url}) as service:
                _measure(service.api, arguments.names // _LEVELS, arguments.chains)
        else:
            with floecat(Path(made)) as service:
                _measure(service.api, arguments.names // _LEVELS, arguments.chains)


def _measure(api: str, width: int, chains: int) -> None:
    root, _, catalog = api.rpartition("/v1/")
    with httpx.Client(timeout=60) as client:
        metalake = client.get(f"{root}/api/metalakes").raise_for_status().json()["metalakes"][0]["name"]
        schemas = f"{root}/api/metalakes/{metalake}/catalogs/{catalog}/schemas"
        progress(f"{width * _LEVELS} schemas in {_LEVELS} levels")
        # each level is in the first schema of the level above
        for depth in range(_LEVELS):
            above = ["n0000"] * depth
            for number in range(width):
                client.post(
                    f"{api}/namespaces", json={"namespace": [*above, f"n{number:04}"]}
                ).raise_for_status()
        for depth in (0, _LEVELS // 2, _LEVELS - 1):
            _lists(schemas, f"{api}/namespaces", ["n0000"] * depth)
        _chains(client, schemas, api, chains)


def _lists(schemas: str, namespaces: str, parent: list[str]) -> None:
    if parent:
        schemas += f"?parentSchema={'%3A'.join(parent)}"
        namespaces += f"?parent={'%1F'.join(parent)}"
    ours, theirs = [], []
    for _ in range(_TURNS):
        theirs.append(run_wrk(namespaces, 1, _SECONDS).p50_ms)
        ours.append(run_wrk(schemas, 1, _SECONDS).p50_ms)
    figure(f"nested.list.level{len(parent)}", median(ours), "ms", baseline=median(theirs), target=_TARGET)


def _chains(client: httpx.Client, schemas: str, api: str, chains: int) -> None:
    """Makes and drops chains, on one side and the other in turn: the store grows for both."""
    below = [f"l{depth}" for depth in range(1, _LEVELS)]
    took: dict[str, list[float]] = {"create": [], "drop": [], "create.iceberg": [], "drop.iceberg": []}
    for number in range(chains):
        ours, theirs = [f"s{number:05}", *below], [f"i{number:05}", *below]
        for what, method, url, body in (
            ("create", "POST", schemas, {"name": ":".join(ours)}),
            ("create.iceberg", "POST", f"{api}/namespaces", {"namespace": theirs}),
            ("drop", "DELETE", f"{schemas}/{'%3A'.join(ours)}", None),
            ("drop.iceberg", "DELETE", f"{api}/namespaces/{'%1F'.join(theirs)}", None),
        ):
            started = time.perf_counter()
            client.request(method, url, json=body).raise_for_status()
            took[what].append((time.perf_counter() - started) * 1000)
    for what in ("create", "drop"):
        figure(
            f"nested.{what}.chain-of-{_LEVELS}" if what == "create" else "nested.drop",
            median(took[what]),
            "ms",
            baseline=median(took[f"{what}.iceberg"]),
            target=_TARGET,
        )


if __name__ == "__main__":
    main()
