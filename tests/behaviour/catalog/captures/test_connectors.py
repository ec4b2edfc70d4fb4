"""Captures of what connectors find: jobs of a scan, of its tables, and of their snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from floecat.connectors.connector_info import ConnectorUpdate, NewConnector
from floecat.connectors.kinds.iceberg_folders import IcebergFoldersConnector
from floecat.connectors.spi import Discovery
from floecat.entries.calls import Call
from floecat.errors import (
    BadRequestError,
    ConflictError,
    FloecatError,
    ForbiddenError,
    NotAuthorizedError,
    StoreUnavailableError,
    UnavailableError,
    UpstreamRefusedError,
)
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.descriptions import JobInfo
from floecat.statistics.capture.control import SnapshotCapture
from floecat.statistics.capture.descriptions import TableCapturesInfo
from tests.behaviour.catalog.captures.bench import BOTH, Bench
from tests.behaviour.catalog.changes import set_property
from tests.clocks import SetClock

INTERVAL_MS = 600_000


class Mirror:
    """A catalog whose connector follows the table of a bench, by its folder."""

    def __init__(self, bench: Bench, clock: SetClock, **policy: Any) -> None:
        self.bench = bench
        self.kernel = bench.kernel
        self.clock = clock
        account, warehouse = bench.call.principal.account_id, bench.call.catalog.storage_location
        catalog = self.kernel.catalog.catalogs.create(account, "mirror", warehouse)
        self.call = Call.of_service("tester", catalog)
        location = bench.metadata.location
        self.create(NewConnector("lake", "iceberg", location, interval_ms=INTERVAL_MS, policy=policy))

    def create(self, wanted: NewConnector, call: Call | None = None) -> None:
        self.kernel.connectors.connectors.create(call or self.call, wanted)

    @property
    def table(self) -> TableIdentifier:
        (found,) = self.kernel.catalog.tables.list_all(self.call)
        return TableIdentifier(("lake",), found.name)

    @property
    def entry_id(self) -> UUID:
        (found,) = self.kernel.catalog.tables.list_all(self.call)
        return found.id

    def scan(self) -> None:
        """A scheduled scan."""
        self.clock.ms += INTERVAL_MS
        assert [report.error for report in self.kernel.connectors.jobs.scan_due()] == [None]

    def work(self, entry_id: UUID | None = None) -> None:
        """What workers do until nothing is due."""
        self.bench.pipeline.search_commits()
        self.bench.pipeline.drain(entry_id or self.entry_id)

    def jobs(self, kind: str, call: Call | None = None) -> list[JobInfo]:
        return self.kernel.jobs.list(call or self.call, kinds=[kind])

    def snapshots(self) -> list[SnapshotCapture]:
        return list(self.kernel.statistics.captures.snapshots(self.call, self.table))

    def captured(self) -> list[int]:
        return [each.snapshot_id for each in self.snapshots() if each.status == "finalized"]


@pytest.fixture
def mirror(bench: Bench, clock: SetClock) -> Callable[..., Mirror]:
    return lambda **policy: Mirror(bench, clock, **policy)


@BOTH
def test_a_scan_has_its_tables_captured_as_a_tree_of_jobs(bench: Bench, mirror: Callable[..., Mirror]):
    bench.append(2)
    followed = mirror()
    followed.scan()
    followed.work()
    assert followed.captured() == [1]
    (scan,) = followed.jobs("connector-scan")
    (table,) = followed.kernel.jobs.get(followed.call, scan.id).children
    assert isinstance(table, TableCapturesInfo)
    assert (table.kind, table.state) == ("capture-table", "succeeded")
    assert table.title == str(followed.table)
    assert (scan.counts["registered"], scan.counts["captures"]) == (1, 1)
    assert dict(table.counts) == {"snapshots": 1, "captured": 1}
    (capture,) = followed.kernel.jobs.get(followed.call, table.id).children
    assert (capture.kind, capture.state, capture.parent_id) == ("capture", "succeeded", table.id)
    # the next scan finds nothing to do
    followed.scan()
    followed.work()
    assert [job.counts["captures"] for job in followed.jobs("connector-scan")] == [1, 0]
    bench.append(1)
    followed.scan()
    followed.work()
    assert followed.captured() == [1, 2]
    assert len(followed.jobs("capture-table")) == len(followed.jobs("capture")) == 2


def test_groups_of_a_capture_of_a_scan_work_under_its_lock(
    open_bench: Callable[..., Bench], clock: SetClock
) -> None:
    bench = open_bench(files_per_group=1)
    bench.append(3)
    followed = Mirror(bench, clock)
    followed.scan()
    followed.work()
    assert followed.captured() == [1]
    assert {job.state for job in followed.jobs("capture-group")} == {"succeeded"}
    assert followed.jobs("capture-table")[0].state == "succeeded"


@BOTH
def test_metadata_only_captures_nothing(bench: Bench, mirror: Callable[..., Mirror]) -> None:
    bench.append(1)
    followed = mirror(mode="metadata-only")
    followed.scan()
    followed.work()
    assert followed.jobs("capture") == followed.jobs("capture-table") == []
    followed.kernel.connectors.connectors.update(
        followed.call, "lake", ConnectorUpdate(policy={"mode": "metadata-and-capture"})
    )
    followed.scan()
    followed.work()
    assert followed.captured() == [1]


@pytest.mark.parametrize(
    ("snapshots", "captured"), [("current", [4]), ("latest-2", [3, 4]), ("all", [1, 2, 3, 4])]
)
def test_the_policy_says_how_many_snapshots(
    bench: Bench, mirror: Callable[..., Mirror], snapshots: str, captured: list[int]
) -> None:
    for _ in range(4):
        bench.append(1)
    followed = mirror(snapshots=snapshots)
    followed.scan()
    followed.work()
    assert followed.captured() == captured
    (table,) = followed.jobs("capture-table")
    assert dict(table.counts) == {"snapshots": len(captured), "captured": len(captured)}


def test_a_full_connector_reads_and_captures_everything_again(
    bench: Bench, mirror: Callable[..., Mirror]
) -> None:
    bench.append(1)
    followed = mirror(full=True)
    for generation in (1, 2):
        followed.scan()
        followed.work()
        assert [each.generation for each in followed.snapshots()] == [generation]


@BOTH
def test_captures_that_fail_are_named_and_retried(bench: Bench, mirror: Callable[..., Mirror]) -> None:
    bench.append(1)
    kept = bench.file(0).read_bytes()
    bench.file(0).unlink()
    followed = mirror()
    followed.scan()
    for _ in range(20):
        followed.work()
        followed.clock.ms += 3_600_000
    (table,) = followed.jobs("capture-table")
    assert isinstance(table, TableCapturesInfo)
    assert (table.state, table.captured) == ("failed", 0)
    assert "missing or partial: 1 of 1 snapshots" in (table.problem or "")
    # a scan does not ask for it again
    followed.scan()
    assert len(followed.jobs("capture-table")) == 1
    bench.file(0).write_bytes(kept)
    followed.kernel.jobs.retry(followed.call, table.id)
    followed.work()
    assert followed.captured() == [1]
    (table,) = followed.jobs("capture-table")
    assert isinstance(table, TableCapturesInfo)
    assert (table.state, table.problem) == ("succeeded", None)


def test_what_is_missing_is_named_beside_what_is_captured(
    bench: Bench, mirror: Callable[..., Mirror]
) -> None:
    bench.append(2)
    bench.file(0).unlink()
    followed = mirror()
    followed.scan()
    for _ in range(20):
        followed.work()
        followed.clock.ms += 3_600_000
    (table,) = followed.jobs("capture-table")
    assert isinstance(table, TableCapturesInfo)
    assert (table.state, table.captured) == ("succeeded", 1)
    assert "missing or partial: 1 of 1 snapshots, the first: 1 data file is missing" in (table.problem or "")


@BOTH
def test_the_catalog_itself_is_a_connector_that_only_captures(bench: Bench, clock: SetClock) -> None:
    bench.append(1)
    bench.pipeline.search_commits()  # its commit is captured without a connector, and cancelled here
    (asked,) = bench.listed()
    bench.captures.cancel(bench.call, asked.id)
    followed = Mirror(bench, clock, mode="metadata-only")
    followed.create(NewConnector("own", "catalog", "catalog:", interval_ms=INTERVAL_MS), bench.call)
    made = bench.kernel.connectors.connectors.load(bench.call, "own")
    assert (made.policy.mode, made.namespace) == ("capture-only", ())
    bench.append(1)
    clock.ms += INTERVAL_MS
    reports = {report.connector: report for report in bench.kernel.connectors.jobs.scan_due()}
    assert (reports["own"].error, reports["own"].captures) == (None, 1)
    followed.work(bench.entry_id)
    assert bench.captured().status == "finalized"
    (table,) = followed.jobs("capture-table", bench.call)
    assert table.state == "succeeded"
    assert followed.jobs("capture-table") == []


def test_a_connector_that_only_captures_does_so_below_its_namespace(bench: Bench, clock: SetClock) -> None:
    bench.append(1)
    followed = Mirror(bench, clock)
    for name, namespace, policy in (
        ("beside", ("other",), {}),
        ("others", ("ns",), {"tables": ["!t"]}),
        ("here", ("ns",), {"tables": ["t*"]}),
    ):
        followed.create(NewConnector(name, "catalog", "catalog:", namespace, policy=policy), bench.call)
        report = bench.kernel.connectors.scans.scan(bench.call, name)
        assert (report.error, report.captures) == (None, int(name == "here"))
    with pytest.raises(BadRequestError, match="only captures"):
        bench.kernel.connectors.scans.compare(bench.call, "here")
    (step,) = bench.kernel.connectors.trial.run(bench.call, "here")
    assert step.problem is None


@pytest.mark.parametrize(
    ("location", "more", "message"),
    [
        ("file:///lake", {}, "has the location catalog:"),
        ("catalog:", {"policy": {"mode": "metadata-only"}}, "has mode=capture-only"),
        ("catalog:", {"options": {"a": "b"}}, "takes no options"),
    ],
)
def test_a_connector_of_the_catalog_refuses_what_it_cannot_do(
    bench: Bench, location: str, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadRequestError, match=message):
        bench.kernel.connectors.connectors.create(
            bench.call, NewConnector("own", "catalog", location, **more)
        )


def test_tables_may_refuse_captures(bench: Bench, mirror: Callable[..., Mirror]) -> None:
    bench.append(1)
    bench.commit(set_property("t", "floecat.statistics.enabled", "false"))
    followed = mirror()
    followed.scan()
    followed.work()
    assert followed.captured() == []
    assert [job.state for job in followed.jobs("capture-table")] == ["succeeded"]


def test_a_scan_whose_asking_fails_is_done_again_and_asks(
    bench: Bench, mirror: Callable[..., Mirror], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.append(1)
    followed = mirror()

    def away(*_given: object, **_named: object) -> int:
        raise StoreUnavailableError("away")

    followed.clock.ms += INTERVAL_MS
    with monkeypatch.context() as patch:
        patch.setattr(followed.kernel.connectors.scans, "_ask_for_captures", away)
        assert list(followed.kernel.connectors.jobs.scan_due()) == []
    followed.clock.ms += 30_000
    assert [report.captures for report in followed.kernel.connectors.jobs.scan_due()] == [1]
    followed.work()
    assert followed.captured() == [1]


@BOTH
def test_a_tree_is_shown_cancelled_and_retried_as_a_whole(
    bench: Bench, mirror: Callable[..., Mirror]
) -> None:
    for _ in range(3):
        bench.append(1)
    followed = mirror(snapshots="all")
    followed.scan()
    (scan,) = followed.jobs("connector-scan")
    jobs = followed.kernel.jobs
    bench.kernel.statistics.jobs.tables.drain_once()  # it asks for captures, and waits
    (table,) = jobs.tree(followed.call, scan.id).children
    assert (table.state, [each.kind for each in table.children]) == ("waiting", ["capture"] * 3)
    # a scan that has ended is cancelled with what is open below it
    assert jobs.cancel(followed.call, scan.id).state == "succeeded"
    (table,) = jobs.tree(followed.call, scan.id).children
    assert [table.state, *(each.state for each in table.children)] == ["cancelled"] * 4
    with pytest.raises(ConflictError, match="cannot be cancelled: it is succeeded"):
        jobs.cancel(followed.call, scan.id)
    followed.work()
    assert followed.captured() == []
    with pytest.raises(ConflictError, match="cannot be retried: it is succeeded"):
        jobs.retry(followed.call, scan.id)
    jobs.retry(followed.call, scan.id, parts=True)
    # what the table waited for, it asks for again
    (table,) = jobs.tree(followed.call, scan.id).children
    assert [table.state, *(each.state for each in table.children)] == ["queued", *["cancelled"] * 3]
    followed.work()
    assert followed.captured() == [1, 2, 3]
    with pytest.raises(ConflictError, match="it is succeeded, and nothing below it failed"):
        jobs.retry(followed.call, scan.id, parts=True)


def test_a_started_scan_is_a_job_that_this_process_works_on(bench: Bench, clock: SetClock) -> None:
    bench.append(1)
    followed = Mirror(bench, clock, mode="metadata-only")
    scans, call = followed.kernel.connectors.jobs, followed.call
    started = scans.start(call, "lake")
    ended = followed.kernel.jobs.wait(call, started.id, 10_000)
    assert (ended.state, ended.counts["registered"], ended.created_by) == ("succeeded", 1, "tester")
    full = scans.start(call, "lake", full=True)
    followed.kernel.jobs.wait(call, full.id, 10_000)
    followed.work()
    assert followed.captured() == []  # metadata-only holds for full scans, too
    with pytest.raises(BadRequestError, match="between 0 and 60 s"):
        followed.kernel.jobs.wait(call, full.id, 60_001)


@pytest.mark.parametrize(
    ("error", "state", "attempts"),
    [
        (UnavailableError("the other catalog is away"), "waiting", 1),
        (ForbiddenError("the login is refused"), "failed", 1),
        (NotAuthorizedError("the token is refused"), "failed", 1),
        (UpstreamRefusedError("the host is not allowed"), "failed", 1),
    ],
)
def test_a_scan_is_tried_again_unless_that_is_of_no_use(
    bench: Bench,
    clock: SetClock,
    monkeypatch: pytest.MonkeyPatch,
    error: FloecatError,
    state: str,
    attempts: int,
) -> None:
    bench.append(1)
    followed = Mirror(bench, clock)

    def away(_self: object) -> Iterator[object]:
        raise error
        yield

    scans = followed.kernel.connectors.jobs
    with monkeypatch.context() as patch:
        patch.setattr(IcebergFoldersConnector, "discover", away)
        clock.ms += INTERVAL_MS
        assert [report.error for report in scans.scan_due()] == [error]
        (job,) = followed.jobs("connector-scan")
        assert (job.state, job.attempts, job.last_error) == (state, attempts, error.message)
        if state == "waiting":
            assert job.due_at_ms is not None
            assert clock.ms + 250 <= job.due_at_ms <= clock.ms + 500
            for _ in range(7):
                clock.ms += 30_000
                assert scans.is_due(clock.ms)
                assert len(list(scans.scan_due())) == 1
            (job,) = followed.jobs("connector-scan")
        assert (job.state, job.last_error) == ("failed", error.message)
        connector = followed.kernel.connectors.connectors.load(followed.call, "lake")
        assert connector.last_error == error.message
    # the next scan by schedule takes the place of what failed
    followed.scan()
    assert [job.state for job in followed.jobs("connector-scan")] == ["succeeded"]


def test_started_scans_of_an_account_come_one_after_the_other(
    bench: Bench, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.append(1)
    followed = Mirror(bench, clock, mode="metadata-only")
    location = bench.metadata.location
    for name in ("second", "third"):
        followed.create(NewConnector(name, "iceberg", f"{location}/metadata"))
    under_way: list[str] = []
    most: list[int] = []
    discover = IcebergFoldersConnector.discover

    def slow(self: IcebergFoldersConnector) -> Iterator[Discovery]:
        under_way.append("x")
        time.sleep(0.1)
        most.append(len(under_way))
        yield from discover(self)
        under_way.pop()

    monkeypatch.setattr(IcebergFoldersConnector, "discover", slow)
    started = [
        followed.kernel.connectors.jobs.start(followed.call, name) for name in ("lake", "second", "third")
    ]
    # asked for twice, it is done once
    assert followed.kernel.connectors.jobs.start(followed.call, "third").id == started[-1].id
    for job in started:
        assert not followed.kernel.jobs.wait(followed.call, job.id, 10_000).is_open
    assert most == [1, 1, 1]
