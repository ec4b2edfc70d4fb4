"""Plans that are made in other processes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from floecat.errors import FileMissingError, PlanStoppedError, UnavailableError
from floecat.gate import name_account
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import Bounds, process_bounds
from floecat.planning.files.planner import Planner, open_planner
from floecat.planning.files.scans import ScanPlan, ScanRequest
from floecat.planning.filters.expression_json import parse_filter
from tests.storages import storage_at
from tests.unit.planning.planned_files import PlannedFile, new_planner, plan_table, planned_files
from tests.unit.planning.random_filters import random_filter
from tests.unit.planning.random_tables import RandomTable, random_table
from tests.unit.planning.small_tables import SmallTable, data_file

T = TypeVar("T")


@pytest.fixture(scope="module")
def planner() -> Iterator[Planner]:
    opened = open_planner(local_bytes=1 << 20, processes=1, memory_bytes=64 << 20, in_process_bytes=0)
    yield opened
    opened.close()


@pytest.fixture
def table(tmp_path: Path) -> RandomTable:
    return random_table(Random(5), tmp_path)


def files_of(plan: ScanPlan) -> Iterator[PlannedFile]:
    yield from planned_files(plan)


def process_of(plan: ScanPlan) -> Iterator[int]:
    yield from (os.getpid() for _ in plan)


def bounds_of(plan: ScanPlan) -> Iterator[Bounds]:
    yield process_bounds.limits


def kill_first(plan: ScanPlan) -> Iterator[str]:
    yield "before"
    os.kill(os.getpid(), signal.SIGKILL)


def endless(plan: ScanPlan) -> Iterator[int]:
    while True:
        yield os.getpid()


def failing(plan: ScanPlan) -> Iterator[int]:
    raise ZeroDivisionError
    yield 0


def run(planner: Planner, table: RandomTable, work=files_of, json: object = None, **options):  # type: ignore[no-untyped-def]
    request = ScanRequest(filter=parse_filter(json))
    return planner.run(
        storage_at(["file:///"]), TableMetadata.parse(table.metadata), request, work, **options
    )


def test_another_process_gives_the_same_plan(planner: Planner, table: RandomTable) -> None:
    source = Random(1)
    for _ in range(5):
        json = random_filter(source, table.columns).json
        assert list(run(planner, table, json=json)) == plan_table(new_planner(), table.metadata, json)
    (process,) = set(run(planner, table, process_of))
    assert process != os.getpid()


def test_the_bounds_of_the_settings_hold_in_another_process(table: RandomTable) -> None:
    # what reads locations and schemas takes no bounds as an argument
    bounds = Bounds(location_bytes=9_000, schema_name_bytes=90_000)
    planner = open_planner(
        local_bytes=1 << 20, processes=1, memory_bytes=64 << 20, in_process_bytes=0, bounds=bounds
    )
    assert list(run(planner, table, bounds_of)) == [bounds]
    planner.close()


def test_small_plans_stay_in_this_process(table: RandomTable) -> None:
    planner = open_planner(local_bytes=1 << 20, processes=1, memory_bytes=1 << 20, in_process_bytes=1 << 20)
    assert set(run(planner, table, process_of)) == {os.getpid()}
    planner.close()


def test_small_incremental_plans_stay_here_too(tmp_path: Path) -> None:
    appended = SmallTable(tmp_path, [{1: ("id", "long")}])
    for name in ("a", "b", "c"):
        appended.add(data_file(name))
    planner = open_planner(local_bytes=1 << 20, processes=1, memory_bytes=1 << 20, in_process_bytes=4 << 10)
    metadata = TableMetadata.parse(appended.metadata())
    request = ScanRequest(start_snapshot_id=2, end_snapshot_id=3)
    assert list(planner.run(storage_at(["file:///"]), metadata, request, process_of)) == [os.getpid()]
    planner.close()


def test_errors_of_the_catalog_come_back(planner: Planner, table: RandomTable, tmp_path: Path) -> None:
    (tmp_path / "m1.avro").unlink()
    with pytest.raises(
        FileMissingError, match=r"Cannot plan the scan: manifest file://.*/m1.avro is missing"
    ):
        list(run(planner, table))


def test_other_errors_name_no_content(planner: Planner, table: RandomTable) -> None:
    with pytest.raises(UnavailableError, match=r"^internal error: ZeroDivisionError$"):
        list(run(planner, table, failing))


def test_a_killed_process_is_replaced(planner: Planner, table: RandomTable) -> None:
    with pytest.raises(UnavailableError, match="The planning process ended"):
        list(run(planner, table, kill_first))
    assert list(run(planner, table)) == plan_table(new_planner(), table.metadata)


def test_a_process_that_cannot_be_started_takes_no_place(
    table: RandomTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = open_planner(local_bytes=1 << 20, processes=1, memory_bytes=64 << 20, in_process_bytes=0)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(UnavailableError, match="A planning process cannot be started: No such file"):
            list(run(opened, table))
    assert list(run(opened, table)) == plan_table(new_planner(), table.metadata)
    opened.close()


def test_a_plan_that_is_given_up_frees_its_process(planner: Planner, table: RandomTable) -> None:
    results = run(planner, table, endless)
    process = next(results)
    results.close()
    assert set(run(planner, table, process_of)) == {process}


def test_a_stopped_plan_frees_its_process(planner: Planner, table: RandomTable) -> None:
    stop = threading.Event()
    results = run(planner, table, endless, stop=stop.is_set)
    process = next(results)
    stop.set()
    with pytest.raises(PlanStoppedError):
        list(results)
    assert set(run(planner, table, process_of)) == {process}


def test_plans_wait_for_a_process(planner: Planner, table: RandomTable) -> None:
    holding = run(planner, table, endless)
    next(holding)
    found: list[PlannedFile] = []
    waiting = threading.Thread(target=lambda: found.extend(run(planner, table)))
    waiting.start()
    stopped = run(planner, table, stop=lambda: True)
    with pytest.raises(PlanStoppedError):
        list(stopped)
    assert not found
    holding.close()
    waiting.join(120)
    assert found == plan_table(new_planner(), table.metadata)


def test_accounts_take_turns(planner: Planner, table: RandomTable) -> None:
    holding = run(planner, table, endless)
    next(holding)
    order: list[str] = []

    def plan(account: str, waits: threading.Event) -> None:
        name_account(account)
        plans = run(planner, table, endless, stop=waits.set)
        next(plans)
        order.append(account)
        plans.close()

    threads = []
    for account in "aaab":
        waits = threading.Event()
        threads.append(threading.Thread(target=plan, args=(account, waits)))
        threads[-1].start()
        assert waits.wait(120)
    holding.close()
    for thread in threads:
        thread.join(120)
    assert order == list("abaa")


@pytest.fixture(scope="module")
def two() -> Iterator[Planner]:
    opened = open_planner(local_bytes=1 << 20, processes=2, memory_bytes=64 << 20, in_process_bytes=0)
    yield opened
    opened.close()


def many_manifests(folder: Path) -> SmallTable:
    table = SmallTable(folder, [{1: ("a", "long")}])
    for number in range(60):
        table.add(*(data_file(f"file:///{number}-{file}", lower_bounds={1: b"\0" * 8}) for file in range(50)))
    return table


def paths_and_decoded(plan: ScanPlan) -> Iterator[object]:
    yield [path for batch in plan for path in batch.files.table["file_path"].to_pylist()]
    yield plan.counters.manifests_decoded


def test_a_free_process_helps_to_decode(two: Planner, tmp_path: Path) -> None:
    table = many_manifests(tmp_path)
    expected = [f"file:///{number}-{file}" for number in range(60) for file in range(50)]
    json = {"type": "lt", "term": "a", "value": 5}
    for _ in range(100):  # how far the other process gets is up to the machine
        document = table.metadata().replace(b"c9b1f1c3", uuid.uuid4().hex[:8].encode())
        request = ScanRequest(filter=parse_filter(json))
        paths, decoded = two.run(
            storage_at(["file:///"]), TableMetadata.parse(document), request, paths_and_decoded
        )
        assert paths == expected
        if decoded < 60:
            return
    pytest.fail("no process helped")


def kill_at_third(plan: ScanPlan, others: set[int]) -> Iterator[str]:
    for number, batch in enumerate(plan):
        if number == 2:
            for process in others - {os.getpid()}:
                os.kill(process, signal.SIGKILL)
        yield from batch.files.table["file_path"].to_pylist()


def test_a_process_that_helps_may_die_and_is_there_for_other_plans(two: Planner, tmp_path: Path) -> None:
    table = many_manifests(tmp_path)

    def run_all(work: Callable[[ScanPlan], Iterator[T]]) -> Iterator[T]:
        metadata = TableMetadata.parse(table.metadata().replace(b"c9b1f1c3", uuid.uuid4().hex[:8].encode()))
        return two.run(storage_at(["file:///"]), metadata, ScanRequest(), work)

    plans = [run_all(process_of), run_all(process_of)]
    processes = {next(plan) for plan in plans}
    assert len(processes) == 2
    assert all(list(plan) for plan in plans)
    assert len(set(run_all(partial(kill_at_third, others=processes)))) == 3000
    plans = [run_all(process_of), run_all(process_of)]
    assert next(plans[0]) != next(plans[1])
    assert all(list(plan) for plan in plans)


def silent(plan: ScanPlan, pipe: Path) -> Iterator[int]:
    """Yields nothing after the third batch until somebody writes to the pipe."""
    for number, _ in enumerate(plan):
        if number < 3:
            yield number
        elif number == 3:
            pipe.read_bytes()


def test_a_process_that_helps_goes_to_the_next_plan(two: Planner, tmp_path: Path) -> None:
    metadata = TableMetadata.parse(many_manifests(tmp_path).metadata())
    storage, pipe = storage_at(["file:///"]), tmp_path / "pipe"
    os.mkfifo(pipe)
    helped = threading.Thread(
        target=lambda: list(two.run(storage, metadata, ScanRequest(), partial(silent, pipe=pipe)))
    )
    helped.start()
    with pipe.open("wb"):  # there as soon as the plan has come to its third batch
        assert len(list(two.run(storage, metadata, ScanRequest(), process_of))) == 60
    helped.join(120)
    assert not helped.is_alive()


def test_a_plan_fails_when_the_service_stops(table: RandomTable) -> None:
    planner = open_planner(local_bytes=1 << 20, processes=1, memory_bytes=64 << 20, in_process_bytes=0)
    results = run(planner, table, endless)
    next(results)
    planner.close()
    with pytest.raises(UnavailableError, match="The service is stopping"):
        list(results)


def test_too_many_plans_are_refused(table: RandomTable) -> None:
    planner = open_planner(local_bytes=1 << 20, processes=1, in_process_bytes=0, most_waiting=0)
    holding = run(planner, table, endless)
    next(holding)
    with pytest.raises(UnavailableError, match=r"process: 0 \(floecat\.planning\.most-waiting\)"):
        list(run(planner, table))
    holding.close()
    assert list(run(planner, table)) == plan_table(new_planner(), table.metadata)
    planner.close()
