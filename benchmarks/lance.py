"""A namespace of 1,000 Lance tables through `floecat.clients.lance`: declared, described, listed.

The baseline of the list is what it costs where a catalog does not tell Lance tables from others: a load of
each, eight at a time. That of the others is a plain request with httpx, for an Iceberg table.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from lance_namespace import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DescribeTableRequest,
    ListTablesRequest,
)

from benchmarks.figures import figure, percentile, progress
from benchmarks.metadata import SCHEMA
from benchmarks.servers import floecat
from floecat.clients.lance import IcebergRestNamespace

_TABLES = 1_000
_EVERY = 10
_REPETITIONS = 5
_PARALLEL = 8
_NAMESPACE = ["floecat", "bench"]


def main() -> None:
    """Prints the figures."""
    with (
        TemporaryDirectory(prefix="floecat-bench-") as made,
        floecat(Path(made)) as service,
        service.client() as plain,
    ):
        namespace = IcebergRestNamespace(endpoint=service.base, root=f"file://{service.warehouse}")
        namespace.create_namespace(CreateNamespaceRequest(id=_NAMESPACE))
        tables = [[*_NAMESPACE, f"t{number:04}"] for number in range(_TABLES)]
        progress(f"{_TABLES} Lance tables and {_TABLES // _EVERY} Iceberg tables")
        _alternate(
            "declare",
            tables,
            lambda id: namespace.declare_table(DeclareTableRequest(id=id)),
            lambda name: plain.post("namespaces/bench/tables", json={"name": name, "schema": SCHEMA}),
        )
        _alternate(
            "describe",
            tables,
            lambda id: namespace.describe_table(DescribeTableRequest(id=id)),
            lambda name: plain.get(f"namespaces/bench/tables/{name}"),
        )
        _lists(namespace, tables)


def _alternate(
    name: str,
    tables: list[list[str]],
    ours: Callable[[list[str]], object],
    plain: Callable[[str], httpx.Response],
) -> None:
    """The p50 of an operation, and of the one request to the catalog that it stands for."""
    taken: list[float] = []
    plainly: list[float] = []
    for number, id in enumerate(tables):
        taken.append(_timed(lambda id=id: ours(id)))  # type: ignore[misc]
        if number % _EVERY == 0:
            plainly.append(_timed(lambda n=number: plain(f"iceberg{n}").raise_for_status()))  # type: ignore[misc]
    baseline = percentile(plainly, 0.5) * 1000
    figure(f"lance.{name}.p50", percentile(taken, 0.5) * 1000, "ms", baseline=baseline)


def _lists(namespace: IcebergRestNamespace, tables: list[list[str]]) -> None:
    request = ListTablesRequest(id=_NAMESPACE)
    with _counted_requests() as count:
        listed = namespace.list_tables(request).tables
    if listed != [id[-1] for id in tables]:
        raise RuntimeError("The list is not the tables that were declared")
    seconds = percentile([_timed(lambda: namespace.list_tables(request)) for _ in range(_REPETITIONS)], 0.5)
    with ThreadPoolExecutor(_PARALLEL) as pool:
        loads = _timed(
            lambda: list(pool.map(lambda id: namespace.describe_table(DescribeTableRequest(id=id)), tables))
        )
    figure(f"lance.list.{_TABLES}.requests", count(), "requests", baseline=1 + _TABLES + _TABLES // _EVERY)
    figure(f"lance.list.{_TABLES}", seconds, "s", baseline=loads)


@contextmanager
def _counted_requests() -> Iterator[Callable[[], int]]:
    """Counts requests of the block by the log of the HTTP library."""
    seen: list[logging.LogRecord] = []

    class Counter(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "HTTP/1.1" in record.getMessage():
                seen.append(record)

    logger, handler = logging.getLogger("urllib3.connectionpool"), Counter()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield lambda: len(seen)
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def _timed(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
