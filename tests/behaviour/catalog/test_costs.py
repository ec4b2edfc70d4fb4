"""What each operation costs in SQL and in calls to storage. `docs/costs.md` is this table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from floecat.catalog.calls import Call, PageRequest
from floecat.runtime import Kernel
from tests.behaviour.catalog.changes import append, change, create, set_property, table
from tests.behaviour.catalog.conftest import with_key


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
    "load, cold": Cost(1, 0, 0),
    "load, refs": Cost(1, 0, 0),
    "load, 304": Cost(1, 0, 0),
    "exists": Cost(1, 0, 0),
    "list of 3 tables": Cost(2, 0, 0),
    "list of 60 tables": Cost(2, 0, 0),
    "create": Cost(7, 1, 3),
    "commit of properties": Cost(5, 1, 1),
    "commit of an append": Cost(8, 1, 1),
    "commit without effect": Cost(1, 0, 0),
    "commit of properties with an idempotency key": Cost(7, 2, 1),
    "replay of a commit": Cost(2, 1, 0),
    "transaction over 3 tables": Cost(9, 1, 3),
    "rename": Cost(6, 1, 0),
    "drop": Cost(4, 1, 0),
}


@pytest.fixture
def costs(kernel: Kernel, call: Call) -> dict[str, Cost]:
    """Every operation once."""
    measured: dict[str, Cost] = {}

    def measure(name: str, work: Callable[[], object]) -> None:
        measured[name] = cost_of(kernel, work)

    measure("create", lambda: create(kernel, call, "a"))
    for name in ("b", "c"):
        create(kernel, call, name)
    location = json.loads(kernel.tables.load(call, table("a")).metadata)["location"]
    measure("load, warm", lambda: kernel.tables.load(call, table("a")))
    measure("exists", lambda: kernel.tables.exists(call, table("a")))
    measure("commit of properties", lambda: kernel.commits.commit(call, set_property("a", "x", "1")))
    measure("commit without effect", lambda: kernel.commits.commit(call, set_property("a", "x", "1")))
    measure("commit of an append", lambda: kernel.commits.commit(call, append("a", 1, None, location)))
    measure("load, refs", lambda: kernel.tables.load(call, table("a"), "refs"))
    etag = kernel.tables.load(call, table("a")).etag
    measure("load, 304", lambda: kernel.tables.load(call, table("a"), if_none_match=etag))
    keyed = with_key(call, "0190a1b2-0000-7000-8000-000000000001")
    for name in ("commit of properties with an idempotency key", "replay of a commit"):
        measure(name, lambda: kernel.commits.commit(keyed, set_property("a", "x", "2")))
    changes = [change(name, [{"action": "set-properties", "updates": {"y": "1"}}]) for name in "abc"]
    measure("transaction over 3 tables", lambda: kernel.commits.commit_transaction(call, changes))
    measure("list of 3 tables", lambda: kernel.tables.list(call, ("ns",), PageRequest()))
    for number in range(57):
        create(kernel, call, f"t{number}")
    measure("list of 60 tables", lambda: kernel.tables.list(call, ("ns",), PageRequest()))
    measure("rename", lambda: kernel.tables.rename(call, table("a"), table("z")))
    measure("drop", lambda: kernel.drops.drop(call, table("z"), purge=False))
    measured["load, cold"] = _cold_load(kernel, call)
    return measured


def _cold_load(kernel: Kernel, call: Call) -> Cost:
    """A second process over the same store and storage, whose memory is empty."""
    other = Kernel(kernel.settings, kernel.store, kernel.files, kernel.clock)
    return cost_of(other, lambda: other.tables.load(call, table("b")))


def test_every_operation_costs_what_the_documentation_says(costs: dict[str, Cost]) -> None:
    assert costs == EXPECTED


def test_the_table_in_the_documentation_is_this_one() -> None:
    text = (Path(__file__).parents[3] / "docs" / "costs.md").read_text()
    rows = re.findall(r"^\| (.+?) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    assert {name: Cost(int(a), int(b), int(c)) for name, a, b, c in rows} == EXPECTED
