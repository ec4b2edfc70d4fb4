"""A worker of plans dies at each call to the store and to storage. Another one makes the plan, as if new."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from uuid import UUID

import msgspec
import pytest
import sqlalchemy as sa

from floecat.entries.calls import Call
from floecat.fileio.local import LocalFileIO
from floecat.planning.plans.plan_requests import PlanTableScan
from floecat.planning.plans.plans import PlanClient
from floecat.runtime import Kernel
from floecat.settings import GatewaySettings, PlanningSettings, Settings
from floecat.store.documents import decompress
from floecat.store.schema import plan_tasks
from tests.behaviour.catalog.changes import change, create, table
from tests.scan_files import Appends, paths_of
from tests.services.kills import KillableFileIO, KilledError, KillSwitch, killable_store

T = table("t")
FILES = 70
"""More than a worker writes tasks of in one transaction."""


class MovedClock:
    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.ahead_ms


class KilledPlans:
    """Kernels on one store: one that clients ask, and workers that die."""

    def __init__(self, kernel: Kernel, call: Call) -> None:
        self.switch = KillSwitch()
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
        kernel.commits.commit(call, change("t", self.files.append(FILES // 2, FILES // 2)))

    def submit(self) -> UUID:
        answer = self.kernel.plans.plan(self.call, T, PlanTableScan(), PlanClient(0))
        assert answer.status == "submitted"
        return answer.plan_id

    def paths(self, plan_id: UUID) -> list[str] | None:
        """What a client reads of a plan; None while it is not made."""
        answer = self.kernel.plans.result(self.call, T, plan_id)
        if answer.status == "submitted":
            return None
        assert answer.status == "completed"
        tasks = json.loads(b"{%b}" % answer.fields)["plan-tasks"]
        assert tasks == [f"{plan_id}-task-{number}" for number in range(FILES)]
        with self.kernel.store.read() as conn:
            rows = conn.all(
                sa.select(plan_tasks.c.answer)
                .where(plan_tasks.c.query_id == plan_id)
                .order_by(plan_tasks.c.number)
            )
        return list(paths_of(json.loads(b"{%b}" % decompress(task)) for (task,) in rows))

    def die_at(self, calls: int) -> bool:
        """A worker in a process of its own takes a plan, and dies at a call; False if it was done before."""
        store = killable_store(self.settings.store_url, self.switch)
        files = KillableFileIO(LocalFileIO(fsync=False), self.switch)
        worker = Kernel(self.settings, store, files, self.clock)  # type: ignore[arg-type]
        self.switch.arm(calls)
        try:
            worker.plan_queue.drain_once()
        except KilledError:
            return True
        else:
            return False
        finally:
            self.switch.disarm()
            worker.close()

    def take_over(self) -> None:
        self.clock.ahead_ms += self.settings.planning.lease_ms + 10_000
        self.kernel.plan_queue.drain_once()


@pytest.fixture
def store_url(upgraded_store: Callable[[str], str]) -> str:
    """One store: tests of jobs ask both."""
    return upgraded_store("sqlite")


@pytest.fixture
def plans(kernel: Kernel, call: Call) -> Iterator[KilledPlans]:
    made = KilledPlans(kernel, call)
    yield made
    made.kernel.close()


def test_a_worker_that_dies_anywhere_loses_and_doubles_nothing(plans: KilledPlans) -> None:
    calls, seen = 1, set()
    while True:
        plan_id = plans.submit()
        died = plans.die_at(calls)
        seen.add(plans.kernel.plans.result(plans.call, T, plan_id).status)
        plans.take_over()
        assert plans.paths(plan_id) == plans.files.paths, f"died at call {calls}"
        if not died:
            break
        calls += 1
    # before the worker took the job, while it read and wrote, and behind its last COMMIT
    assert calls > 10
    assert seen == {"submitted", "completed"}
