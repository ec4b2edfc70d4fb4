"""What a discovery costs for a table more: statements, calls to storage, requests to the other catalog."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from floecat.connectors.connector_info import NewConnector
from floecat.entries.calls import Call
from floecat.runtime import Kernel, open_kernel
from floecat.settings import ConnectorSettings
from tests.services.rest_catalog import scripted_catalog

SCHEMA = Schema(NestedField(1, "id", LongType()))
FEW, MANY = 3, 13
_JOINED = 3


class Cost(NamedTuple):
    """For a table more."""

    statements: float
    storage_calls: float
    requests: float


class Upstreams:
    """Catalogs of other tables each, as many as are wanted."""

    def __init__(self, kernel: Kernel, running: ExitStack) -> None:
        self._folder = Path(kernel.settings.warehouse_location.removeprefix("file://"))
        self._running = running

    def make(self, kind: str, tables: int) -> tuple[NewConnector, Callable[[], int]]:
        """A connector to a new one, and how many requests it was sent."""
        folder = self._folder / f"{kind}-{tables}"
        folder.mkdir(parents=True)
        uri = f"sqlite:///{folder}/catalog.db"
        catalog = SqlCatalog("lake", uri=uri, warehouse=folder.as_uri())
        self._running.callback(catalog.engine.dispose)
        catalog.create_namespace("sales")
        locations = {}
        for number in range(tables):
            made = catalog.create_table(f"sales.t{number}", SCHEMA)
            locations[f"t{number}"] = made.metadata_location
        name = folder.name
        if kind == "iceberg":
            return NewConnector(name, kind, folder.as_uri()), lambda: 0
        if kind == "pyiceberg":
            options = {"type": "sql", "uri": uri}
            return NewConnector(name, kind, "pyiceberg:lake", options=options), lambda: 0
        shown = self._running.enter_context(scripted_catalog())
        shown.namespaces = {("sales",): list(locations)}

        def document(table: str) -> dict[str, Any]:
            metadata = json.loads(Path(locations[table].removeprefix("file://")).read_text())
            return {"metadata-location": locations[table], "metadata": metadata, "config": {}}

        shown.document = document  # type: ignore[method-assign]
        return NewConnector(name, kind, shown.url), lambda: len(shown.asked)


@pytest.fixture
def kernel(kernel: Kernel) -> Iterator[Kernel]:
    settings = msgspec.structs.replace(
        kernel.settings, connectors=ConnectorSettings(allowed_hosts=("127.0.0.1",))
    )
    opened = open_kernel(settings)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        # the listing of its folder and that of its metadata; the file, once
        ("iceberg", Cost(10, 3, 0), Cost(0, 2, 0)),
        # the location of its metadata comes with the listing of PyIceberg
        ("pyiceberg", Cost(10, 1, 0), Cost(0, 0, 0)),
        # a load, which is answered 304 the second time
        ("iceberg-rest", Cost(10, 0, 1), Cost(0, 0, 1)),
    ],
)
def test_costs_of_a_table(kernel: Kernel, call: Call, kind: str, first: Cost, second: Cost) -> None:
    measured: dict[tuple[int, int], Cost] = {}
    with ExitStack() as running:
        upstreams = Upstreams(kernel, running)
        for tables in (1, FEW, MANY):  # the first fills caches
            wanted, requests = upstreams.make(kind, tables)
            kernel.connectors.connectors.create(call, wanted)
            for turn in (1, 2):
                files, asked = kernel.files.counters.counts.calls, requests()
                with kernel.store.count_statements() as counter:
                    report = kernel.connectors.scans.scan(call, wanted.name)
                assert (report.summary, report.progress.tables) == (None, tables)
                calls = kernel.files.counters.counts.calls - files
                measured[turn, tables] = Cost(counter.statements, calls, requests() - asked)
    for turn, expected in ((1, first), (2, second)):
        pairs = zip(measured[turn, MANY], measured[turn, FEW], strict=True)
        more = Cost(*((many - few) / (MANY - FEW) for many, few in pairs))
        assert more._replace(statements=0) == expected._replace(statements=0)
        # PostgreSQL joins changes of several tables into one statement
        joined = 0 if kernel.settings.store_url.startswith("sqlite") else _JOINED
        assert more.statements == max(0, expected.statements - joined)
