"""The cost of `snapshots=refs` and of 304 does not grow with the history (case O26). Counts, no times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import Raw

from floecat.auth.principals import Principal
from floecat.commits.commit import CreateTable
from floecat.commits.table_changes import TableChange
from floecat.entries.calls import Call, PageRequest
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, kernel, prepare_store
from floecat.settings import Settings, StorageSettings
from tests.contract.answers import etag_of
from tests.contract.client import Catalog, Namespace, Table
from tests.contract.documents import ID_AND_DATA, snapshot
from tests.contract.updates import add_snapshot, set_ref
from tests.updates import decode_updates

SHORT, LONG = 10, 2000


def history(count: int) -> list[Any]:
    """Appends of one commit, the last of which is the head of main. All ids have as many digits."""
    first = 100_001
    parents = [None, *range(first, first + count - 1)]
    made = [
        add_snapshot(snapshot(first + number, 10_000 + number, parent))
        for number, parent in enumerate(parents)
    ]
    return [*made, set_ref(first + count - 1)]


@pytest.fixture
def tables(catalog: Catalog, namespace: Namespace) -> tuple[Table, Table]:
    """A table with a short and one with a long history."""
    short, long = (catalog.create_table(namespace, name) for name in ("table_a", "table_b"))
    short.committed(history(SHORT))
    long.committed(history(LONG))
    return short, long


def test_refs_is_as_short_as_without_the_history(tables: tuple[Table, Table]):
    sizes = {}
    for snapshots in ("refs", "all"):
        answers = [each.catalog.get(each.path, params={"snapshots": snapshots}) for each in tables]
        sizes[snapshots] = [len(answer.content) for answer in answers]
    assert abs(sizes["refs"][1] - sizes["refs"][0]) <= 16
    assert sizes["all"][1] - sizes["all"][0] > (LONG - SHORT) * 100


def test_304_has_no_body_and_no_longer_headers(tables: tuple[Table, Table]):
    headers = []
    for each in tables:
        tag = etag_of(each.catalog.get(each.path))
        answer = each.catalog.get(each.path, headers={"if-none-match": tag})
        assert (answer.status_code, answer.content) == (304, b"")
        headers.append({name: len(value) for name, value in answer.headers.items() if name != "date"})
    assert headers[0] == headers[1]


class Opened(NamedTuple):
    """A kernel of this process, whose statements and calls to storage can be counted."""

    kernel: Kernel
    call: Call

    def costs(self, work: Any) -> tuple[int, int, int]:
        before = self.kernel.files.counters.counts.calls
        with self.kernel.store.count_statements() as counter:
            work()
        return counter.statements, counter.transactions, self.kernel.files.counters.counts.calls - before

    def create(self, name: str, count: int) -> TableIdentifier:
        schema = Raw(msgspec.json.encode(ID_AND_DATA))
        self.kernel.commits.tables.create_table(self.call, ("ns",), CreateTable(name=name, schema=schema))
        identifier = TableIdentifier(("ns",), name)
        updates = decode_updates(Raw(msgspec.json.encode(history(count))))
        self.kernel.commits.tables.commit(self.call, TableChange(identifier, (), updates))
        return identifier


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    settings = Settings(data_dir=str(tmp_path), storage=StorageSettings(fsync=False))
    prepare_store(settings)
    with kernel(settings) as made:
        account = settings.gateway.default_account_id
        call = made.catalog.calls.open(Principal("tester", account), "floecat")
        made.catalog.namespaces.create(call, ("ns",), {})
        yield Opened(made, call)


def test_loads_take_one_statement_and_no_file_whatever_the_history(opened: Opened):
    tables = opened.kernel.catalog.tables
    for count in (SHORT, LONG):
        table = opened.create(f"t{count}", count)
        etag = tables.load(opened.call, table).etag
        loads = [
            lambda table=table: tables.load(opened.call, table, "refs"),
            lambda table=table: tables.load(opened.call, table, "all"),
            lambda table=table, etag=etag: tables.load(opened.call, table, if_none_match=etag),
        ]
        assert [opened.costs(load) for load in loads] == [(1, 0, 0)] * 3


def test_listing_takes_as_many_statements_for_more_tables(opened: Opened):
    counts = set()
    schema = Raw(msgspec.json.encode(ID_AND_DATA))
    for number in range(60):
        opened.kernel.commits.tables.create_table(
            opened.call, ("ns",), CreateTable(name=f"t{number}", schema=schema)
        )
        if number in (9, 59):
            counts.add(
                opened.costs(lambda: opened.kernel.catalog.tables.list(opened.call, ("ns",), PageRequest()))
            )
    assert counts == {(1, 0, 0)}
