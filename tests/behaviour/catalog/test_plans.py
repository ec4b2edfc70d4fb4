"""Scan plans: made while the client waits or as jobs, in tasks that are answered once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any
from uuid import UUID

import msgspec
import pytest
import sqlalchemy as sa
import uuid_utils.compat as uuids

from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.errors import (
    BadRequestError,
    FileMissingError,
    IdempotencyConflictError,
    NoSuchPlanIdError,
    NoSuchPlanTaskError,
    UnavailableError,
)
from floecat.fileio.local import LocalFileIO
from floecat.jobs.expiry import Expiry
from floecat.planning.plans.plan_answers import PlanAnswer
from floecat.planning.plans.plan_requests import PlanTableScan
from floecat.planning.plans.plans import PlanClient
from floecat.runtime import Kernel
from floecat.settings import GatewaySettings, PlanningSettings
from floecat.settings.limits import LimitSettings
from floecat.store.all_tables import metadata
from floecat.store.jobs import job_claims
from floecat.store.planning import plans
from floecat.store.planning.plans import TaskRow
from tests.behaviour.catalog.changes import change, create, table
from tests.behaviour.catalog.conftest import with_key
from tests.clocks import SetClock
from tests.scan_files import Appends, paths_of

PATIENT = PlanClient(60_000)
HURRIED = PlanClient(0)
T = table("t")
EVERYTHING = PlanTableScan()
MINUTE_MS = 60_000
_QUERIES, _PLANS, _PLAN_TASKS = (metadata.tables[name] for name in ("queries", "plans", "plan_tasks"))


class Disk(LocalFileIO):
    """Something happens when the manifest of a number is read."""

    def __init__(self) -> None:
        super().__init__(fsync=False)
        self.at_manifest: tuple[int, Callable[[], None]] = (-1, lambda: None)

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        number, happens = self.at_manifest
        if location.endswith(f"-m{number}.avro"):
            happens()
        return super().read(location, max_bytes=max_bytes)


class Scans:
    """A kernel that answers four files in a task, and a table."""

    def __init__(
        self,
        kernel: Kernel,
        call: Call,
        *,
        planning: PlanningSettings = PlanningSettings(processes=0),  # noqa: B008 - immutable
        limits: LimitSettings = LimitSettings(open_queries=3, open_queries_per_principal=2),  # noqa: B008
        **gateway: Any,
    ) -> None:
        settings = msgspec.structs.replace(
            kernel.settings,
            gateway=GatewaySettings(plan_task_files_per_task=4, **gateway),
            limits=limits,
            planning=planning,
        )
        self.clock = SetClock()
        self.disk = Disk()
        self.kernel = Kernel(settings, kernel.store, self.disk, self.clock)
        self.call = self.call_of("anna", call)
        made = create(kernel, call, "t")
        self.files = Appends(json.loads(made.metadata)["location"])

    @property
    def expiry(self) -> Expiry:
        return Expiry(self.kernel.store, self.clock, self.kernel.background.sweeps, Event(), lease_ms=1)

    def call_of(self, name: str, call: Call) -> Call:
        return self.kernel.catalog.calls.open(Principal(name, call.principal.account_id), "floecat")

    def append(self, *manifests: int) -> None:
        self.kernel.commits.tables.commit(self.call, change("t", self.files.append(*manifests)))

    def plan(
        self, sent: PlanTableScan = EVERYTHING, patience: PlanClient = PATIENT, call: Call | None = None
    ) -> PlanAnswer:
        return self.kernel.planning.plans.plan(call or self.call, T, sent, patience)

    def result(self, plan_id: UUID) -> PlanAnswer:
        return self.kernel.planning.plans.result(self.call, T, plan_id)

    def cancel(self, plan_id: UUID) -> None:
        self.kernel.planning.plans.cancel(self.call, T, plan_id)

    def fetch(self, task: str, call: Call | None = None) -> Any:
        return json.loads(b"{%b}" % self.kernel.planning.tasks.fetch(call or self.call, T, task))

    def all_paths(self, answer: PlanAnswer) -> list[str]:
        fields = tasks_of(answer)
        return list(paths_of([fields, *(self.fetch(task) for task in fields.get("plan-tasks", ()))]))

    def all_tasks(self, answer: PlanAnswer) -> Iterator[Any]:
        fields = tasks_of(answer)
        for each in (fields, *(self.fetch(task) for task in fields.get("plan-tasks", ()))):
            yield from each.get("file-scan-tasks", ())

    def rows(self) -> int:
        with self.kernel.store.read() as conn:
            return sum(len(conn.all(sa.select(table))) for table in (_QUERIES, _PLANS, _PLAN_TASKS))


def tasks_of(answer: PlanAnswer) -> Any:
    assert answer.status == "completed"
    return json.loads(b"{%b}" % answer.fields)


@pytest.fixture
def store_url(upgraded_store: Callable[[str], str]) -> str:
    """One store: its own tests ask both."""
    return upgraded_store("sqlite")


@pytest.fixture
def scans(kernel: Kernel, call: Call) -> Iterator[Scans]:
    made = Scans(kernel, call)
    yield made
    made.kernel.close()


class TestAnswers:
    def test_a_plan_that_fits_one_answer_is_answered_inline(self, scans: Scans) -> None:
        scans.append(4)
        answer = scans.plan()
        assert list(paths_of([tasks_of(answer)])) == scans.files.paths
        assert "plan-tasks" not in tasks_of(answer)
        assert scans.result(answer.plan_id) == answer

    def test_a_larger_plan_is_answered_by_its_tasks(self, scans: Scans) -> None:
        scans.append(3, 6)
        answer = scans.plan()
        assert tasks_of(answer) == {"plan-tasks": [f"{answer.plan_id}-task-{n}" for n in range(3)]}
        answers = [scans.fetch(task) for task in tasks_of(answer)["plan-tasks"]]
        assert [len(list(paths_of([each]))) for each in answers] == [4, 4, 1]
        assert list(paths_of(answers)) == scans.files.paths

    def test_the_tasks_of_a_very_large_plan_are_a_tree(self, scans: Scans) -> None:
        # 64 tasks of four files make a range
        scans.append(200, 56, 3, 400, 1, 1)
        answer = scans.plan()
        ranges = tasks_of(answer)["plan-tasks"]
        assert ranges == [f"{answer.plan_id}-task-{n}" for n in range(4)]
        found: list[str] = []
        for task in ranges:
            made = scans.fetch(task)
            assert scans.fetch(task) == made
            found += paths_of([made, *(scans.fetch(each) for each in made.get("plan-tasks", ()))])
        assert found == scans.files.paths
        scans.clock.ms += MINUTE_MS
        with pytest.raises(NoSuchPlanIdError):
            scans.result(answer.plan_id)

    def test_a_very_large_plan_with_a_filter_is_made_as_a_whole(self, scans: Scans) -> None:
        scans.append(300, 300)
        answer = scans.plan(PlanTableScan(filter={"type": "lt", "term": "id", "value": 30}))
        assert list(paths_of([tasks_of(answer)])) == scans.files.paths[:3]

    def test_a_range_whose_manifest_is_gone_is_an_error_and_no_answer(self, scans: Scans) -> None:
        scans.append(300, 300)
        ranges = tasks_of(scans.plan())["plan-tasks"]
        scans.files.manifest_paths[1].rename(away := scans.files.manifest_paths[1].with_suffix(".away"))
        with pytest.raises(FileMissingError, match=r"1-m1\.avro"):
            scans.fetch(ranges[1])
        away.rename(scans.files.manifest_paths[1])
        made = scans.fetch(ranges[1])
        assert (len(made["file-scan-tasks"]), len(made["plan-tasks"])) == (4, 74)

    def test_an_empty_table(self, scans: Scans) -> None:
        assert tasks_of(scans.plan()) == {"file-scan-tasks": []}
        late = scans.plan(patience=HURRIED)
        assert tasks_of(late) == {"file-scan-tasks": []}

    def test_a_filter_and_a_snapshot(self, scans: Scans) -> None:
        scans.append(6)
        scans.append(6)
        sent = PlanTableScan(snapshot_id=1, filter={"type": "gt-eq", "term": "id", "value": 40})
        assert scans.all_paths(scans.plan(sent)) == scans.files.paths[4:6]

    def test_an_incremental_scan_reads_what_came_after_its_start(self, scans: Scans) -> None:
        for _ in range(3):
            scans.append(2)
        answer = scans.plan(PlanTableScan(start_snapshot_id=1, end_snapshot_id=2))
        assert scans.all_paths(answer) == scans.files.paths[2:4]

    @pytest.mark.parametrize(
        ("sent", "message"),
        [
            (PlanTableScan(snapshot_id=9), "no snapshot 9"),
            (PlanTableScan(snapshot_id=1, start_snapshot_id=1, end_snapshot_id=1), "snapshot-id"),
            (PlanTableScan(filter={"type": "eq", "term": "x", "value": 1}), "x"),
            (PlanTableScan(filter={"type": "and", "left": True, "right": {"type": "?"}}), "filter.right"),
            (PlanTableScan(stats_fields=("x",)), "x"),
        ],
    )
    def test_bad_requests(self, scans: Scans, sent: PlanTableScan, message: str) -> None:
        scans.append(1)
        for patience in (PATIENT, HURRIED):
            with pytest.raises(BadRequestError, match=message):
                scans.plan(sent, patience)
        assert scans.rows() == 0

    def test_an_explanation_has_a_time_bound(self, kernel: Kernel, call: Call) -> None:
        scans = Scans(kernel, call, planning=PlanningSettings(processes=0, explain_budget_ms=50))
        scans.append(1, 1)
        scans.disk.at_manifest = (0, lambda: time.sleep(0.1))
        with pytest.raises(UnavailableError, match=r"floecat\.planning\.explain-budget-ms: 50"):
            scans.kernel.planning.explanations.explain(scans.call, T)
        scans.kernel.close()

    def test_a_missing_manifest_is_an_error(self, scans: Scans) -> None:
        scans.append(4, 4)
        scans.files.manifest_paths[1].unlink()
        with pytest.raises(FileMissingError, match=r"1-m1\.avro"):
            scans.plan()


class TestLargeSets:
    """Residuals of filters with many values, of 9 files in 3 tasks or 4 files in one."""

    @pytest.mark.parametrize("budget_ms", [60_000, 0])
    @pytest.mark.parametrize("files", [9, 4])
    def test_without_bounds_each_residual_has_the_whole_set(
        self, scans: Scans, files: int, budget_ms: int
    ) -> None:
        scans.append(files)
        values = [f"\x00 {number:05}" for number in range(5000)]
        filter = {"type": "in", "term": "text", "values": values}
        answer = scans.plan(PlanTableScan(filter=filter), PlanClient(budget_ms))
        scans.kernel.planning.queue.drain_once()
        answer = scans.result(answer.plan_id)
        tasks = list(scans.all_tasks(answer))
        assert [task["residual-filter"] for task in tasks] == [filter] * files

    def test_a_residual_has_the_values_between_the_bounds_of_its_file(self, scans: Scans) -> None:
        scans.append(4)
        kept = {"type": "eq", "term": "text", "value": "a"}
        for operation in ("in", "not-in"):
            values = [*range(25, 100_000), *range(20)]
            filter = {"type": operation, "term": "id", "values": values}
            both = {"type": "or", "left": filter, "right": kept}
            tasks = list(scans.all_tasks(scans.plan(PlanTableScan(filter=both))))
            found = [task["residual-filter"]["left"]["values"] for task in tasks]
            assert found == [[*range(10)], [*range(10, 20)], [*range(25, 30)], [*range(30, 40)]]
            assert all(task["residual-filter"]["right"] == kept for task in tasks)

    def test_pyiceberg_gets_a_weaker_residual_that_it_does_not_evaluate(self, scans: Scans) -> None:
        scans.append(4)
        early = PlanClient(60_000, is_early_pyiceberg=True)
        values = [f"v{number}" for number in range(5000)]
        for operation, weaker in (
            ("in", {"type": "not-null", "term": "text"}),
            ("not-in", {"type": "not-eq", "term": "text", "value": "v0"}),
        ):
            filter = {"type": operation, "term": "text", "values": values}
            tasks = list(scans.all_tasks(scans.plan(PlanTableScan(filter=filter), early)))
            assert [task["residual-filter"] for task in tasks] == [weaker] * 4


class TestReading:
    def test_a_task_is_answered_again_to_a_client_that_lost_the_answer(self, scans: Scans) -> None:
        scans.append(8)
        task = tasks_of(scans.plan())["plan-tasks"][0]
        first = scans.fetch(task)
        scans.clock.ms += MINUTE_MS - 1
        assert scans.fetch(task) == first
        scans.clock.ms += 1
        with pytest.raises(NoSuchPlanTaskError):
            scans.fetch(task)

    def test_a_key_is_answered_again_for_as_long_as_the_plan_lives(self, scans: Scans) -> None:
        scans.append(8)
        task = tasks_of(scans.plan())["plan-tasks"][0]
        first = scans.fetch(task, with_key(scans.call, "one"))
        scans.clock.ms += 2 * MINUTE_MS
        assert scans.fetch(task, with_key(scans.call, "one")) == first
        with pytest.raises(NoSuchPlanTaskError):
            scans.fetch(task, with_key(scans.call, "two"))

    def test_at_once(self, scans: Scans) -> None:
        scans.append(8)
        task = tasks_of(scans.plan())["plan-tasks"][0]
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda _: scans.fetch(task), range(8)))
        assert answers == [answers[0]] * 8

    def test_strict(self, kernel: Kernel, call: Call) -> None:
        scans = Scans(kernel, call, plan_task_read_once="strict")
        scans.append(8)
        answer = scans.plan()
        for task in tasks_of(answer)["plan-tasks"]:
            scans.fetch(task)
            with pytest.raises(NoSuchPlanTaskError):
                scans.fetch(task)
        with pytest.raises(NoSuchPlanIdError):
            scans.result(answer.plan_id)

    def test_a_plan_whose_tasks_were_all_fetched_is_forgotten(self, scans: Scans) -> None:
        scans.append(8)
        answer = scans.plan()
        scans.all_paths(answer)
        assert scans.result(answer.plan_id) == answer
        scans.clock.ms += MINUTE_MS
        with pytest.raises(NoSuchPlanIdError):
            scans.result(answer.plan_id)

    def test_tasks_that_do_not_exist(self, scans: Scans) -> None:
        scans.append(8)
        plan_id, other = scans.plan().plan_id, uuids.uuid7()
        tasks = ("", "x", f"{plan_id}-task-2", f"{plan_id}-task-00", f"{other}-task-0", f"{plan_id}")
        for task in (*tasks, f"{plan_id}-task--1", f"{plan_id}-task-{2**63}", f"{plan_id}-task-{'9' * 99}"):
            with pytest.raises(NoSuchPlanTaskError):
                scans.fetch(task)

    def test_plans_of_others(self, scans: Scans, kernel: Kernel, call: Call) -> None:
        scans.append(8)
        create(kernel, call, "u")
        answer = scans.plan()
        task = tasks_of(answer)["plan-tasks"][0]
        bert = scans.call_of("bert", call)
        services = scans.kernel
        for caller, name in ((bert, T), (scans.call, table("u"))):
            with pytest.raises(NoSuchPlanIdError):
                services.planning.plans.result(caller, name, answer.plan_id)
            with pytest.raises(NoSuchPlanIdError):
                services.planning.plans.cancel(caller, name, answer.plan_id)
            with pytest.raises(NoSuchPlanTaskError):
                services.planning.tasks.fetch(caller, name, task)
        assert len(scans.all_paths(answer)) == 8


class TestJobs:
    def test_a_plan_that_takes_long_is_made_by_a_worker(self, scans: Scans) -> None:
        scans.append(9)
        submitted = scans.plan(patience=HURRIED)
        assert submitted.status == "submitted"
        assert scans.result(submitted.plan_id).status == "submitted"
        with pytest.raises(NoSuchPlanTaskError):
            scans.fetch(f"{submitted.plan_id}-task-0")
        assert scans.kernel.planning.queue.drain_once().succeeded == 1
        answer = scans.result(submitted.plan_id)
        assert len(tasks_of(answer)["plan-tasks"]) == 3
        assert scans.all_paths(answer) == scans.files.paths

    def test_the_files_of_a_very_large_plan_are_counted_within_the_time_too(
        self, kernel: Kernel, call: Call
    ) -> None:
        scans = Scans(kernel, call, planning=PlanningSettings(processes=1, in_process_bytes=1))
        scans.append(300, 300)
        with pytest.raises(UnavailableError, match="cannot poll"):
            scans.plan(patience=PlanClient(0, is_early_pyiceberg=True))
        submitted = scans.plan(patience=HURRIED)
        assert submitted.status == "submitted"
        assert scans.kernel.planning.queue.drain_once().succeeded == 1
        assert scans.all_paths(scans.result(submitted.plan_id)) == scans.files.paths
        scans.kernel.close()

    def test_one_chunk_is_inline_then_too(self, scans: Scans) -> None:
        scans.append(4)
        submitted = scans.plan(patience=HURRIED)
        scans.kernel.planning.queue.drain_once()
        assert list(paths_of([tasks_of(scans.result(submitted.plan_id))])) == scans.files.paths

    def test_a_client_that_cannot_poll_is_told_to_come_again(self, scans: Scans) -> None:
        scans.append(4)
        with pytest.raises(UnavailableError) as caught:
            scans.plan(patience=PlanClient(0, is_early_pyiceberg=True))
        assert caught.value.retry_after_s > 0
        assert scans.rows() == 0

    def test_what_becomes_of_the_table_does_not_matter(self, scans: Scans) -> None:
        scans.append(5)
        before = scans.files.paths
        submitted = scans.plan(patience=HURRIED)
        scans.append(5)
        gone = {"action": "remove-snapshots", "snapshot-ids": [1]}
        scans.kernel.commits.tables.commit(scans.call, change("t", [gone]))
        scans.kernel.planning.queue.drain_once()
        assert scans.all_paths(scans.result(submitted.plan_id)) == before
        with pytest.raises(BadRequestError, match="may have expired"):
            scans.plan(PlanTableScan(snapshot_id=1))

    def test_a_worker_that_died_has_left_nothing(self, scans: Scans) -> None:
        scans.append(9)
        plan_id = scans.plan(patience=HURRIED).plan_id
        kind, store = scans.kernel.planning.queue.kind, scans.kernel.store

        def claim_and_die(conn: Any) -> None:
            now_ms = scans.clock.now_ms()
            job_claims.claim(conn, kind.name, "dead", now_ms, kind.lease_ms, base_ms=1, longest_ms=1)
            assert plans.claim(conn, plan_id, now_ms) is not None
            plans.insert_tasks(conn, [TaskRow(plan_id, number, b"half") for number in (0, 7)])

        store.run(claim_and_die)
        assert scans.kernel.planning.queue.drain_once().total == 0
        scans.clock.ms += kind.lease_ms + 1
        assert scans.kernel.planning.queue.drain_once().succeeded == 1
        assert scans.all_paths(scans.result(plan_id)) == scans.files.paths

    def test_processes_share_the_work(self, scans: Scans) -> None:
        scans.append(*[4] * 10)
        submitted = [scans.plan(patience=HURRIED).plan_id for _ in range(2)]
        other = Kernel(scans.kernel.settings, scans.kernel.store, LocalFileIO(fsync=False), scans.clock)
        drained: list[int] = []
        # while the first process works on a plan, another one makes the rest
        scans.disk.at_manifest = 9, lambda: drained.append(other.planning.queue.drain_once().succeeded)
        assert scans.kernel.planning.queue.drain_once().succeeded == 1
        assert drained == [1]
        for plan_id in submitted:
            assert scans.all_paths(scans.result(plan_id)) == scans.files.paths
        other.close()

    def test_a_plan_that_fails_says_why(self, scans: Scans) -> None:
        scans.append(4, 4)
        plan_id = scans.plan(patience=HURRIED).plan_id
        scans.files.manifest_paths[1].unlink()
        assert scans.kernel.planning.queue.drain_once().succeeded == 1
        answer = scans.result(plan_id)
        assert (answer.status, answer.fields) == ("failed", b"")
        assert isinstance(answer.error, FileMissingError)
        assert "1-m1.avro" in answer.error.message

    def test_a_job_that_ended_without_its_plan(self, scans: Scans) -> None:
        scans.append(4)
        plan_id = scans.plan(patience=HURRIED).plan_id
        scans.kernel.jobs.cancel(scans.call, plan_id)
        assert scans.result(plan_id).status == "cancelled"

    def test_cancelled_before_and_after(self, scans: Scans) -> None:
        scans.append(9)
        waiting, done = scans.plan(patience=HURRIED).plan_id, scans.plan().plan_id
        for plan_id in (waiting, done):
            scans.cancel(plan_id)
            scans.cancel(plan_id)
            assert scans.result(plan_id).status == "cancelled"
            with pytest.raises(NoSuchPlanTaskError):
                scans.fetch(f"{plan_id}-task-0")
        assert scans.kernel.planning.queue.drain_once().total == 0
        scans.clock.ms += MINUTE_MS
        with pytest.raises(NoSuchPlanIdError):
            scans.cancel(done)

    def test_cancelled_while_it_is_made(self, scans: Scans) -> None:
        scans.append(*[4] * 80)
        plan_id = scans.plan(patience=HURRIED).plan_id
        scans.disk.at_manifest = 70, lambda: scans.cancel(plan_id)
        drained = scans.kernel.planning.queue.drain_once()
        assert (drained.cancelled, drained.total) == (1, 1)
        assert scans.result(plan_id).status == "cancelled"
        assert scans.rows() == 2


class TestLife:
    def test_a_plan_lives_for_as_long_as_it_is_asked_for(self, scans: Scans) -> None:
        scans.append(9)
        plan_id = scans.plan().plan_id
        for _ in range(3):
            scans.clock.ms += 9 * MINUTE_MS
            assert scans.result(plan_id).status == "completed"
        scans.clock.ms += 10 * MINUTE_MS
        with pytest.raises(NoSuchPlanIdError):
            scans.result(plan_id)

    def test_expired_plans_take_no_space(self, scans: Scans) -> None:
        scans.append(9)
        scans.plan()
        scans.expiry.sweep()
        assert scans.rows() == 5
        scans.clock.ms += 10 * MINUTE_MS
        swept = scans.expiry.sweep()
        assert (swept["plan_tasks"], swept["queries"], scans.rows()) == (3, 1, 0)

    def test_open_plans_are_bounded(self, scans: Scans, call: Call) -> None:
        scans.append(9)
        first, _ = scans.plan(), scans.plan()
        with pytest.raises(UnavailableError, match="open-queries-per-principal is 2"):
            scans.plan()
        bert, cleo = scans.call_of("bert", call), scans.call_of("cleo", call)
        scans.plan(call=bert)
        with pytest.raises(UnavailableError, match="open-queries is 3"):
            scans.plan(call=cleo)
        scans.cancel(first.plan_id)
        scans.plan()

    @pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.scale)])
    def test_many_open_plans(self, kernel: Kernel, call: Call, count: int) -> None:
        limits = LimitSettings(open_queries=count, open_queries_per_principal=count)
        scans = Scans(kernel, call, limits=limits)
        scans.append(5)
        answers = [scans.plan() for _ in range(count)]
        with pytest.raises(UnavailableError, match=f"open-queries-per-principal is {count}"):
            scans.plan()
        assert scans.all_paths(answers[0]) == scans.all_paths(answers[-1]) == scans.files.paths
        scans.cancel(answers[1].plan_id)
        scans.clock.ms += 10 * MINUTE_MS
        assert scans.expiry.sweep()["queries"] == count
        assert scans.rows() == 0
        scans.plan()
        scans.kernel.close()

    def test_plans_that_are_answered_are_not_open(self, scans: Scans) -> None:
        scans.append(4)
        assert len({scans.plan().plan_id for _ in range(5)}) == 5

    def test_a_key_is_answered_alike_for_as_long_as_keys_live(self, scans: Scans) -> None:
        scans.append(4)
        keyed = with_key(scans.call, "k")
        answer = scans.plan(call=keyed)
        with scans.kernel.store.read() as conn:
            # the answers of a client that always sends keys would fill the store
            assert conn.all(sa.select(_PLANS.c.answer)) == [(None,)]
        lifetime_ms = scans.kernel.settings.gateway.idempotency_key_lifetime.ms
        scans.append(1)
        scans.clock.ms += lifetime_ms - 1
        scans.expiry.sweep()
        assert scans.plan(call=keyed) == answer
        scans.clock.ms += 1
        scans.expiry.sweep()
        assert scans.rows() == 0

    def test_a_key_whose_tasks_are_gone_makes_the_plan_again(self, scans: Scans) -> None:
        scans.append(9)
        keyed = with_key(scans.call, "k")
        first = scans.plan(call=keyed)
        scans.clock.ms += scans.kernel.settings.gateway.plan_task_ttl.ms
        second = scans.plan(call=keyed)
        assert second.plan_id != first.plan_id
        assert scans.all_paths(second) == scans.files.paths

    def test_a_key_makes_one_plan(self, scans: Scans) -> None:
        scans.append(9)
        keyed = with_key(scans.call, "k")
        answer = scans.plan(call=keyed)
        assert scans.plan(call=keyed) == answer
        assert scans.plan().plan_id != answer.plan_id
        with pytest.raises(IdempotencyConflictError):
            scans.plan(call=with_key(scans.call, "k", request_hash="other"))
