"""Processes that make plans, or answer their tasks, are killed at each call to the store and to storage.

Others go on, and the client reads the plan that it would read without kills.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from signal import SIGKILL
from typing import Any
from uuid import UUID

import msgspec
import pytest

from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.fileio.local import LocalFileIO
from floecat.planning.plans.plan_requests import PlanTableScan
from floecat.planning.plans.plans import PlanClient
from floecat.runtime import Kernel
from floecat.settings import GatewaySettings, PlanningSettings, Settings
from tests.behaviour.catalog.changes import change, create, table
from tests.faults.answers import Sender
from tests.faults.deployment import Deployment
from tests.scan_files import Appends, paths_of
from tests.services.catalog import CatalogServer
from tests.services.kills import KillableFileIO, KillSwitch, kill_process, killable_store

T = table("t")
FILES = 140
"""More than a worker writes tasks of in two transactions, and enough for ranges of manifests."""
RANGES = 3
FETCHED = 4
"""Of so many plans one is fetched whole."""
ALL = {"type": "gt-eq", "term": "id", "value": 0}
"""A filter: its plan is made as a whole."""

_MODULES = ("floecat.planning.files.planner", "floecat.planning.plans.chunk_planning")


class MovedClock:
    def __init__(self, ahead_ms: int = 0) -> None:
        self.ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


def drain(kernel: Kernel) -> None:
    """Works on the jobs of plans."""
    kernel.planning.queue.drain_once()


def fetch(kernel: Kernel, names: list[str]) -> list[str]:
    """The paths of files, and names of tasks, that tasks answer; a path stands for itself."""
    call = kernel.catalog.calls.open(
        Principal("tester", kernel.settings.gateway.default_account_id), "floecat"
    )
    found: list[str] = []
    for name in names:
        if name.startswith("file:"):
            found.append(name)
            continue
        answer = json.loads(b"{%b}" % kernel.planning.tasks.fetch(call, T, name))
        found += (*paths_of([answer]), *answer.get("plan-tasks", ()))
    return found


def die_at(settings: Settings, ahead_ms: int, calls: int, work: Callable[[Kernel], object]) -> None:
    """Works, and is killed at a call to the store or to storage."""
    switch = KillSwitch(kill_process)
    files = KillableFileIO(LocalFileIO(fsync=False), switch)
    store = killable_store(settings.store_url, switch)
    kernel = Kernel(settings, store, files, MovedClock(ahead_ms))  # type: ignore[arg-type]
    switch.arm(calls)
    work(kernel)


def fork_processes(connection: Connection[Any, Any]) -> None:
    """Runs `die_at` in one process after the other, each with modules imported, and sends its exit code."""
    for module in _MODULES:
        importlib.import_module(module)
    with suppress(EOFError):
        while True:
            arguments = connection.recv()
            pid = os.fork()
            if not pid:
                die_at(*arguments)
                os._exit(0)
            connection.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


class KilledPlans:
    """A kernel that clients ask, on one store with processes that are killed."""

    def __init__(self, kernel: Kernel, call: Call, processes: Connection[Any, Any]) -> None:
        self._processes = processes
        self.clock = MovedClock()
        self.settings: Settings = msgspec.structs.replace(
            kernel.settings,
            gateway=GatewaySettings(plan_task_files_per_task=1),
            planning=PlanningSettings(processes=0, max_attempts=2),
        )
        self.call = call
        self.kernel = Kernel(self.settings, kernel.store, LocalFileIO(fsync=False), self.clock)
        made = create(kernel, call, "t")
        self.files = Appends(json.loads(made.metadata)["location"])
        kernel.commits.tables.commit(self.call, change("t", self.files.append(60, 60, 20)))

    def plan(self, *, budget_ms: int, **sent: Any) -> UUID:
        return self.kernel.planning.plans.plan(
            self.call, T, PlanTableScan(**sent), PlanClient(budget_ms)
        ).plan_id

    def tasks(self, plan_id: UUID) -> list[str]:
        answer = self.kernel.planning.plans.result(self.call, T, plan_id)
        assert answer.status == "completed"
        names: list[str] = json.loads(b"{%b}" % answer.fields)["plan-tasks"]
        return names

    def is_killed_at(self, calls: int, work: Callable[[Kernel], object]) -> bool:
        """Whether a process was killed; it may have done its work before."""
        self._processes.send((self.settings, self.clock.ahead_ms, calls, work))
        code = self._processes.recv()
        assert code in (0, -SIGKILL)
        return bool(code)

    def take_over(self) -> None:
        self.clock.ahead_ms += self.settings.planning.lease_ms + 10_000
        drain(self.kernel)


@pytest.fixture
def store_url(upgraded_store: Callable[[str], str]) -> str:
    """One store: tests of jobs ask both."""
    return upgraded_store("sqlite")


@pytest.fixture
def plans(kernel: Kernel, call: Call) -> Iterator[KilledPlans]:
    here, there = multiprocessing.Pipe()
    forking = multiprocessing.get_context("forkserver").Process(target=fork_processes, args=(there,))
    forking.start()
    there.close()
    made = KilledPlans(kernel, call, here)
    yield made
    made.kernel.close()
    here.close()
    forking.join()


def test_a_worker_that_dies_anywhere_loses_and_doubles_nothing(plans: KilledPlans) -> None:
    calls, seen = 1, []
    while True:
        plan_id = plans.plan(budget_ms=0, filter=ALL)
        is_killed = plans.is_killed_at(calls, drain)
        seen.append(plans.kernel.planning.plans.result(plans.call, T, plan_id).status)
        plans.take_over()
        names = plans.tasks(plan_id)
        assert names == [f"{plan_id}-task-{number}" for number in range(FILES)]
        if calls % FETCHED == 0 or not is_killed:
            assert fetch(plans.kernel, names) == plans.files.paths, f"killed at call {calls}"
        if not is_killed:
            break
        calls += 1
    # before the worker took the job, while it read manifests and wrote tasks, and behind its last COMMIT
    assert calls > 15
    assert set(seen) == {"submitted", "completed"}


def test_a_server_that_dies_while_tasks_are_fetched_loses_and_doubles_nothing(plans: KilledPlans) -> None:
    calls = 1
    while True:
        plan_id = plans.plan(budget_ms=60_000)
        ranges = plans.tasks(plan_id)
        assert ranges == [f"{plan_id}-task-{number}" for number in range(RANGES)]
        is_killed = plans.is_killed_at(calls, partial(fetch, names=ranges))
        # the client asks again for what it may have lost
        names = fetch(plans.kernel, ranges)
        assert len(set(names)) == FILES
        if calls % FETCHED == 0 or not is_killed:
            assert fetch(plans.kernel, names) == plans.files.paths, f"killed at call {calls}"
        if not is_killed:
            break
        calls += 1
    assert calls > 15


def test_a_service_that_is_killed_at_each_stage_goes_on(
    tmp_path: Path, start_catalog: Callable[..., CatalogServer]
) -> None:
    deployment = Deployment(tmp_path / "data", start_catalog)
    server = deployment.start(
        FLOECAT_GATEWAY_PLAN_SYNC_BUDGET="PT0S",
        FLOECAT_GATEWAY_PLAN_TASK_FILES_PER_TASK="10",
        FLOECAT_PLANNING_WORKERS="0",
        FLOECAT_PLANNING_IN_PROCESS_BYTES="0",
        FLOECAT_PLANNING_PROCESSES="1",
    )
    sender = Sender(server.base_url)
    assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
    made = sender.send("POST", "/namespaces/ns/tables", {"name": "t", "schema": schema}).body
    files = Appends(made["metadata"]["location"])
    path = "/namespaces/ns/tables/t"
    changes = {"requirements": [], "updates": files.append(25, 25)}
    assert sender.send("POST", path, changes).status == 200

    submitted = sender.send("POST", f"{path}/plan", {}, key="0190b0b6-5c76-7cc0-b1a6-2a3c1f0de001").body
    assert submitted["status"] == "submitted"
    server.kill()
    server.environment["FLOECAT_PLANNING_WORKERS"] = "1"
    server.start()
    plan = f"{path}/plan/{submitted['plan-id']}"
    deadline = time.monotonic() + 60
    while (answer := sender.send("GET", plan).body)["status"] == "submitted":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    server.kill()
    server.start()
    assert sender.send("GET", plan).body == answer
    answers = []
    for number, name in enumerate(answer["plan-tasks"]):
        if number == 2:
            server.kill()
            server.start()
            # the answer may not have arrived
            lost = sender.send("POST", f"{path}/tasks", {"plan-task": answer["plan-tasks"][number - 1]})
            assert lost.body == answers[-1]
        answers.append(sender.send("POST", f"{path}/tasks", {"plan-task": name}).body)
    assert list(paths_of(answers)) == files.paths
