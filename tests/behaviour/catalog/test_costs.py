"""What each operation costs in SQL and in calls to storage. `docs/costs.md` is this table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest
from msgspec import Raw

from floecat.commits.commit import CreateTable
from floecat.commits.view_commits import CreateView
from floecat.entries.calls import Call, PageRequest
from floecat.planning.plans.plan_answers import PlanAnswer
from floecat.planning.plans.plan_requests import PlanTableScan
from floecat.planning.plans.plans import PlanClient
from floecat.runtime import Kernel
from tests.behaviour.catalog.changes import SCHEMA, append, change, create, set_property, table
from tests.behaviour.catalog.conftest import with_key
from tests.delta_tables import writable_copy
from tests.scan_files import Appends
from tests.updates import decode_view_updates
from tests.view_documents import view_version


class Cost(NamedTuple):
    """Statements without BEGIN and COMMIT, transactions, and calls to storage."""

    statements: int
    transactions: int
    storage_calls: int


def cost_of(kernel: Kernel, work: Callable[[], object]) -> Cost:
    """The cost of a piece of work."""
    before = kernel.files.counters.counts.calls
    with kernel.store.count_statements() as counter:
        work()
    return Cost(counter.statements, counter.transactions, kernel.files.counters.counts.calls - before)


EXPECTED = {
    "load, warm": Cost(1, 0, 0),
    "load, cold": Cost(2, 0, 0),
    "load, refs": Cost(1, 0, 0),
    "load, 304": Cost(1, 0, 0),
    "exists": Cost(1, 0, 0),
    "list of 3 tables": Cost(1, 0, 0),
    "list of 60 tables": Cost(1, 0, 0),
    "create": Cost(6, 1, 3),
    "commit of properties": Cost(5, 1, 1),
    "commit of an append": Cost(8, 1, 1),
    "commit that deletes a metadata file": Cost(6, 1, 2),
    "commit without effect": Cost(1, 0, 0),
    "commit of properties with an idempotency key": Cost(7, 2, 1),
    "replay of a commit": Cost(2, 1, 0),
    "transaction over 3 tables": Cost(9, 1, 3),
    "rename": Cost(7, 1, 0),
    # one asks whether the catalog wrote files about the table, which go by a job
    "drop": Cost(7, 1, 0),
    "stage a table": Cost(3, 1, 2),
    "register": Cost(8, 1, 1),
    "look for a purge, none due": Cost(1, 0, 0),
    "drop with purge": Cost(10, 1, 0),
    "load of a Delta table, warm": Cost(1, 0, 0),
    "load of a Delta table, with a look at its log": Cost(4, 0, 2),
    "scan plan of 100 files, manifests not in memory": Cost(6, 1, 2),
    "scan plan of 100 files": Cost(6, 1, 0),
    "scan plan of 3,000 files": Cost(7, 1, 0),
    "first of 2 plan tasks": Cost(6, 1, 0),
    "last of 2 plan tasks": Cost(7, 1, 0),
    "look at a plan": Cost(3, 0, 0),
    "create a view": Cost(6, 1, 1),
    "load a view": Cost(1, 0, 0),
    "commit of a view": Cost(5, 1, 1),
    "drop a view": Cost(6, 1, 0),
    "create a namespace": Cost(4, 1, 0),
    "load a namespace": Cost(1, 0, 0),
    "list namespaces": Cost(1, 0, 0),
    "set properties": Cost(3, 1, 0),
    "drop a namespace": Cost(6, 1, 0),
}
"""On SQLite."""

JOINED = {
    "create": 3,
    "commit of properties": 2,
    "commit of an append": 2,
    "commit that deletes a metadata file": 2,
    "commit of properties with an idempotency key": 2,
    "transaction over 3 tables": 4,
    "rename": 2,
    "drop": 2,
    "register": 3,
    "drop with purge": 2,
    "create a view": 3,
    "commit of a view": 2,
    "drop a view": 2,
}
"""How many statements fewer PostgreSQL gets, where it joins changes of several tables into one."""


@pytest.fixture
def costs(kernel: Kernel, call: Call) -> dict[str, Cost]:
    """Every operation once."""
    measured: dict[str, Cost] = {}

    def measure(name: str, work: Callable[[], object]) -> None:
        measured[name] = cost_of(kernel, work)

    create(kernel, call, "first")
    measure("create", lambda: create(kernel, call, "a"))
    for name in ("b", "c"):
        create(kernel, call, name)
    location = json.loads(kernel.catalog.tables.load(call, table("a")).metadata)["location"]
    measure("load, warm", lambda: kernel.catalog.tables.load(call, table("a")))
    measure("exists", lambda: kernel.catalog.tables.exists(call, table("a")))
    measure("commit of properties", lambda: kernel.commits.tables.commit(call, set_property("a", "x", "1")))
    measure("commit without effect", lambda: kernel.commits.tables.commit(call, set_property("a", "x", "1")))
    measure("commit of an append", lambda: kernel.commits.tables.commit(call, append("a", 1, None, location)))
    measure("load, refs", lambda: kernel.catalog.tables.load(call, table("a"), "refs"))
    etag = kernel.catalog.tables.load(call, table("a")).etag
    measure("load, 304", lambda: kernel.catalog.tables.load(call, table("a"), if_none_match=etag))
    keyed = with_key(call, "0190a1b2-0000-7000-8000-000000000001")
    for name in ("commit of properties with an idempotency key", "replay of a commit"):
        measure(name, lambda: kernel.commits.tables.commit(keyed, set_property("a", "x", "2")))
    changes = [change(name, [{"action": "set-properties", "updates": {"y": "1"}}]) for name in "abc"]
    measure("transaction over 3 tables", lambda: kernel.commits.tables.commit_transaction(call, changes))
    measure("list of 3 tables", lambda: kernel.catalog.tables.list(call, ("ns",), PageRequest()))
    for number in range(57):
        create(kernel, call, f"t{number}")
    measure("list of 60 tables", lambda: kernel.catalog.tables.list(call, ("ns",), PageRequest()))
    measure("rename", lambda: kernel.catalog.tables.rename(call, table("a"), table("z")))
    measure("drop", lambda: kernel.purge.drops.drop(call, table("z"), purge=False))
    measured["load, cold"] = _cold_load(kernel, call)
    _measure_deletion(kernel, call, measure)
    _measure_registrations(kernel, call, measure)
    _measure_delta_tables(kernel, call, measure)
    _measure_plans(kernel, call, measure)
    _measure_views(kernel, call, measure)
    _measure_namespaces(kernel, call, measure)
    return measured


Measure: TypeAlias = Callable[[str, Callable[[], object]], None]


def _measure_deletion(kernel: Kernel, call: Call, measure: Measure) -> None:
    deleting = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    create(kernel, call, "tidy", properties=deleting)
    kernel.commits.tables.commit(call, set_property("tidy", "x", "1"))
    commit = set_property("tidy", "x", "2")
    measure("commit that deletes a metadata file", lambda: kernel.commits.tables.commit(call, commit))


def _measure_registrations(kernel: Kernel, call: Call, measure: Measure) -> None:
    request = CreateTable(name="staged", schema=SCHEMA)
    measure("stage a table", lambda: kernel.commits.tables.stage_table(call, ("ns",), request, None))
    last = kernel.catalog.tables.unregister(call, table("b")).metadata_location or ""
    measure("register", lambda: kernel.commits.registration.register_table(call, ("ns",), "r", last))
    measure("look for a purge, none due", kernel.purge.queue.claim)
    measure("drop with purge", lambda: kernel.purge.drops.drop(call, table("r"), purge=True))


def _measure_delta_tables(kernel: Kernel, call: Call, measure: Measure) -> None:
    folder = kernel.settings.data_path / "warehouse" / "delta"
    writable_copy("kernel-rs/table-with-dv-small", folder)
    kernel.delta.registration.register(call, ("ns",), "d", folder.as_uri())
    kernel.catalog.tables.load(call, table("d"))
    measure("load of a Delta table, warm", lambda: kernel.catalog.tables.load(call, table("d")))
    assert kernel.delta.refresh_service is not None
    kernel.delta.refresh_service._looks.clear()  # as when the time has come
    measure(
        "load of a Delta table, with a look at its log", lambda: kernel.catalog.tables.load(call, table("d"))
    )


def _measure_plans(kernel: Kernel, call: Call, measure: Measure) -> None:
    files = Appends(json.loads(create(kernel, call, "scanned").metadata)["location"])
    kernel.commits.tables.commit(call, change("scanned", files.append(100)))

    def plan() -> PlanAnswer:
        return kernel.planning.plans.plan(call, table("scanned"), PlanTableScan(), PlanClient(60_000))

    measure("scan plan of 100 files, manifests not in memory", plan)
    measure("scan plan of 100 files", plan)
    kernel.commits.tables.commit(call, change("scanned", files.append(2900)))
    plan()
    measure("scan plan of 3,000 files", plan)
    answer = plan()
    first, last = json.loads(b"{%b}" % answer.fields)["plan-tasks"]
    for name, task in (("first of 2 plan tasks", first), ("last of 2 plan tasks", last)):
        measure(name, lambda: kernel.planning.tasks.fetch(call, table("scanned"), task))  # noqa: B023
    measure("look at a plan", lambda: kernel.planning.plans.result(call, table("scanned"), answer.plan_id))


def _measure_views(kernel: Kernel, call: Call, measure: Measure) -> None:
    request = CreateView("v", SCHEMA, Raw(json.dumps(view_version()).encode()))
    measure("create a view", lambda: kernel.commits.views.create(call, ("ns",), request))
    measure("load a view", lambda: kernel.catalog.views.load(call, table("v")))
    updates = decode_view_updates(b'[{"action": "set-properties", "updates": {"a": "b"}}]')
    measure("commit of a view", lambda: kernel.commits.views.replace(call, table("v"), [], updates))
    measure("drop a view", lambda: kernel.catalog.views.drop(call, table("v")))


def _measure_namespaces(kernel: Kernel, call: Call, measure: Measure) -> None:
    measure("create a namespace", lambda: kernel.catalog.namespaces.create(call, ("one",), {}))
    measure("load a namespace", lambda: kernel.catalog.namespaces.load(call, ("one",)))
    measure("list namespaces", lambda: kernel.catalog.namespaces.list(call, None, PageRequest()))
    measure(
        "set properties", lambda: kernel.catalog.namespaces.update_properties(call, ("one",), [], {"a": "b"})
    )
    measure("drop a namespace", lambda: kernel.catalog.namespaces.drop(call, ("one",)))


def _cold_load(kernel: Kernel, call: Call) -> Cost:
    """A second process over the same store and storage, whose memory is empty."""
    other = Kernel(kernel.settings, kernel.store, kernel.files, kernel.clock)
    return cost_of(other, lambda: other.catalog.tables.load(call, table("b")))


def test_every_operation_costs_what_the_documentation_says(costs: dict[str, Cost], store_url: str) -> None:
    joined = {} if store_url.startswith("sqlite") else JOINED
    assert costs == {
        name: cost._replace(statements=cost.statements - joined.get(name, 0))
        for name, cost in EXPECTED.items()
    }


def test_the_table_in_the_documentation_is_this_one() -> None:
    text = (Path(__file__).parents[3] / "docs" / "costs.md").read_text()
    rows = re.findall(r"^\| (.+?) \| (\d+)(?: / (\d+))? \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert {name: Cost(int(a), int(b), int(c)) for name, a, _, b, c in rows} == EXPECTED
    assert {name: int(a) - int(joined) for name, a, joined, _, _ in rows if joined} == JOINED
