"""Purgers that are chosen by settings: who calls them, when, and what becomes of those that fail."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from floecat.auth.principals import Principal
from floecat.entries.calls import PageRequest, RequestKey
from floecat.errors import PurgeFailedError, SettingsError, StorageUnavailableError
from floecat.events.commit_cursor import CommitCursor
from floecat.events.table_events import PurgeCompleted, PurgeFailed, PurgeStarted, TableDropped, TableEvent
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.queue import Drained
from floecat.purge.deletion.progress import progress_of
from floecat.purge.spi import PurgerContext, PurgeRequest, PurgerRows
from floecat.runtime import open_kernel
from floecat.settings import PurgeSettings, Settings, StorageSettings
from floecat.store.jobs.job_claims import Lease
from tests.clocks import SetClock
from tests.unit.purge.kernels import NAME, PurgeBench

PURGERS_PAGE = Path(__file__).parents[3] / "docs" / "purgers.md"


class RecordingPurger:
    """A purger of another package; fails as often as its properties say."""

    def initialize(self, properties: Mapping[str, str], context: PurgerContext) -> None:
        self.properties, self.context = properties, context
        self.failures = int(properties.get("failures", 0))
        self.requests: list[PurgeRequest] = []
        self.documents: list[bytes | None] = []
        self.closed = False
        made.append(self)

    def purge_table(self, request: PurgeRequest) -> None:
        request.check()
        self.requests.append(request)
        self.documents.append(request.metadata())
        if len(self.requests) <= self.failures:
            raise RuntimeError("secret-access-key=SECRET")
        request.progress.deleted += 3

    def name(self) -> str:
        return "recording"

    def close(self) -> None:
        self.closed = True


class OutboxPurger(RecordingPurger):
    """Hands files over one by one, notes each, and is killed after the one that its properties name."""

    def purge_table(self, request: PurgeRequest) -> None:
        log = Path(self.properties["log"])
        for number in range(4):
            if request.rows.get(f"{number}") is None:
                with log.open("a") as file:
                    file.write(f"{request.attempt}: {number}\n")
                request.rows.put(f"{number}", str(request.attempt).encode())
            if self.properties.get("killed-after") == str(number):
                os.kill(os.getpid(), signal.SIGKILL)

    def name(self) -> str:
        return "outbox"


class NoPurger:
    """Has no methods of a purger."""


class ImpostorPurger(RecordingPurger):
    def name(self) -> str:
        return "sql-async"


made: list[RecordingPurger] = []
OWN = f"{__name__}:RecordingPurger"
ALL = PageRequest()


class Drops(PurgeBench):
    """A kernel with a purger, and a table in it."""

    def __init__(self, tmp_path: Path, purge: PurgeSettings) -> None:
        super().__init__(tmp_path, purge)
        self.table = self.new_table("t")

    def drain(self) -> Drained:
        self.clock.ms = max(self.clock.ms, self.job().not_before_ms)
        return self.kernel.purge.queue.drain_once()


@pytest.fixture
def drops(tmp_path: Path) -> Iterator[Callable[..., Drops]]:
    opened: list[Drops] = []
    made.clear()

    def open_with(purger: str, **properties: str) -> Drops:
        opened.append(Drops(tmp_path, PurgeSettings(purger=purger, properties=properties, max_attempts=3)))
        return opened[-1]

    yield open_with
    for each in opened:
        each.kernel.close()


def kinds(events: list[TableEvent]) -> list[type[TableEvent]]:
    return [type(event) for event in events]


def test_sql_async_leaves_the_files_to_workers(drops: Callable[..., Drops]) -> None:
    bench = drops("sql-async")
    bench.kernel.purge.drops.drop(bench.call, NAME, purge=True, request_id="r1")
    assert bench.table.remaining() == bench.table.written
    assert (bench.job().state, bench.job().request_id) == ("queued", "r1")
    assert bench.drain() == Drained(succeeded=1)
    assert bench.table.remaining() == []
    assert kinds(bench.events) == [TableDropped, PurgeStarted, PurgeCompleted]
    dropped, started, completed = bench.events
    assert isinstance(dropped, TableDropped)
    assert isinstance(started, PurgeStarted)
    assert isinstance(completed, PurgeCompleted)
    assert (dropped.purge_requested, dropped.principal, dropped.request_id) == (True, "anna", "r1")
    assert dropped.metadata_location == bench.table.metadata_location
    assert (started.job_id, started.purger, started.attempt) == (bench.job().id, "sql-async", 1)
    assert (completed.identifier, completed.table_uuid) == (NAME, bench.table.table_uuid)
    assert (completed.counts["deleted"], completed.counts["failed"]) == (6, 0)


def test_the_commit_log_says_whether_files_go(drops: Callable[..., Drops]) -> None:
    bench = drops("sql-async")
    bench.new_table("u")
    for name, purge in (("t", True), ("u", False)):
        bench.kernel.purge.drops.drop(bench.call, TableIdentifier(("ns",), name), purge=purge)
    events = bench.kernel.events.commits.after(CommitCursor(), limit=10).events
    assert [(event.identifier.name, event.purge_requested) for event in events if event.removed] == [
        ("t", True),
        ("u", False),
    ]


def test_a_drop_without_purge_is_an_event_too(drops: Callable[..., Drops]) -> None:
    bench = drops("synchronous")
    bench.kernel.purge.drops.drop(bench.call, NAME, purge=False)
    (event,) = bench.events
    assert isinstance(event, TableDropped)
    assert not event.purge_requested
    assert bench.table.remaining() == bench.table.written
    assert bench.kernel.jobs.list(bench.call) == []


def test_an_answer_that_is_replayed_is_no_second_drop(drops: Callable[..., Drops]) -> None:
    bench = drops("synchronous")
    call = msgspec.structs.replace(bench.call, request=RequestKey("k" * 36, "drop", "hash"))
    for _ in range(2):
        bench.kernel.purge.drops.drop(call, NAME, purge=True)
    assert kinds(bench.events) == [TableDropped, PurgeStarted, PurgeCompleted]


def test_synchronous_deletes_before_the_answer(drops: Callable[..., Drops]) -> None:
    bench = drops("synchronous")
    bench.kernel.purge.drops.drop(bench.call, NAME, purge=True)
    assert bench.table.remaining() == []
    row = bench.job()
    assert (row.state, row.attempts, progress_of(row).deleted) == ("succeeded", 1, 6)


def test_a_purger_of_another_package_is_called_after_the_drop(drops: Callable[..., Drops]) -> None:
    bench = drops(OWN, colour="red")
    bench.kernel.purge.drops.drop(bench.call, NAME, purge=True, request_id="r1")
    (purger,) = made
    (request,) = purger.requests
    assert purger.properties == {"colour": "red"}
    assert re.fullmatch(r".+:\d+", purger.context.server_identity)
    assert (request.identifier, request.principal, request.request_id) == (NAME, "anna", "r1")
    assert (request.attempt, request.metadata_location) == (1, bench.table.metadata_location)
    assert b'"table-uuid"' in (purger.documents[0] or b"")
    storage = purger.context.storage(request.catalog_id)
    assert storage.files(request.location).exists(request.metadata_location)
    row = bench.job()
    assert (row.state, progress_of(row).deleted) == ("succeeded", 3)
    bench.kernel.close()
    assert purger.closed


def test_a_purger_that_fails_is_called_again_by_a_worker(drops: Callable[..., Drops]) -> None:
    bench = drops(OWN, failures="1")
    with pytest.raises(PurgeFailedError, match=r"Table ns.t is dropped.* RuntimeError. Job .* tries again"):
        bench.kernel.purge.drops.drop(bench.call, NAME, purge=True)
    assert not bench.kernel.catalog.tables.list(bench.call, NAME.namespace, ALL).items
    assert (bench.job().state, bench.job().last_error) == ("waiting", "internal error: RuntimeError")
    assert bench.drain() == Drained(succeeded=1)
    assert [request.attempt for request in made[0].requests] == [1, 2]
    assert kinds(bench.events) == [TableDropped, PurgeStarted, PurgeStarted, PurgeCompleted]


def test_a_purger_that_always_fails_ends_as_dead_letter(drops: Callable[..., Drops]) -> None:
    bench = drops(OWN, failures="9")
    with pytest.raises(PurgeFailedError):
        bench.kernel.purge.drops.drop(bench.call, NAME, purge=True)
    assert [bench.drain(), bench.drain()] == [Drained(waiting=1), Drained(failed=1)]
    assert bench.kernel.jobs.get(bench.call, bench.job().id).state == "failed"
    failed = bench.events[-1]
    assert isinstance(failed, PurgeFailed)
    assert (failed.attempts, failed.error) == (3, "internal error: RuntimeError")


KILLED = f"""
import sys
from pathlib import Path
from floecat.settings import PurgeSettings
from tests.clocks import SetClock
from tests.unit.purge.kernels import NAME, PurgeBench
properties = {{"log": sys.argv[2], "killed-after": "1"}}
bench = PurgeBench(Path(sys.argv[1]), PurgeSettings(purger="{__name__}:OutboxPurger", properties=properties))
bench.new_table("t")
bench.kernel.purge.drops.drop(bench.call, NAME, purge=True)
"""


def test_a_purger_that_was_killed_goes_on_from_its_rows(tmp_path: Path) -> None:
    log = tmp_path / "log"
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path, log], check=False, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    purge = PurgeSettings(purger=f"{__name__}:OutboxPurger", properties={"log": str(log)})
    settings = Settings(data_dir=str(tmp_path / "data"), storage=StorageSettings(fsync=False), purge=purge)
    clock = SetClock(1_700_000_000_000)
    clock.ms += purge.lease_timeout_ms + purge.backoff_max_ms
    kernel = open_kernel(settings, clock=clock)
    gateway = settings.gateway
    call = kernel.catalog.calls.open(Principal("anna", gateway.default_account_id), gateway.default_prefix)
    assert kernel.purge.queue.drain_once() == Drained(succeeded=1)
    (job,) = kernel.jobs.list(call)
    assert job.attempts == 2
    assert log.read_text().splitlines() == ["1: 0", "1: 1", "2: 2", "2: 3"]
    rows = PurgerRows(kernel.store, Lease(job.id, "", 0), 0)
    assert list(rows) == [("0", b"1"), ("1", b"1"), ("2", b"2"), ("3", b"2")]
    kernel.close()


def test_a_process_with_another_purger_leaves_the_files(drops: Callable[..., Drops]) -> None:
    bench = drops(OWN, failures="1")
    with pytest.raises(PurgeFailedError):
        bench.kernel.purge.drops.drop(bench.call, NAME, purge=True)
    other = open_kernel(
        msgspec.structs.replace(bench.settings, purge=PurgeSettings(purger="synchronous")), clock=bench.clock
    )
    bench.clock.ms = bench.job().not_before_ms
    assert other.purge.queue.drain_once() == Drained(waiting=1)
    other.close()
    assert bench.job().last_error == (
        "The purger recording is not the one of this process: floecat.purge.purger is synchronous"
    )
    assert bench.table.remaining() == bench.table.written


def test_the_example_of_the_documentation(
    drops: Callable[..., Drops], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = PURGERS_PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "audit_purger.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "audit_purger", raising=False)
    log = tmp_path / "purges.jsonl"
    bench = drops("audit_purger:AuditPurger", file=str(log))
    bench.kernel.purge.drops.drop(bench.call, NAME, purge=True, request_id="r1")
    (entry,) = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert (entry["table"], entry["dropped_by"], entry["request"]) == ("ns.t", "anna", "r1")
    assert entry["metadata_location"] == bench.table.metadata_location
    assert bench.table.remaining() == bench.table.written
    assert bench.job().state == "succeeded"


def test_a_purger_is_found_by_its_entry_point(
    drops: Callable[..., Drops], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packages" / "recorder-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: recorder\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[floecat.purgers]\nrecorder = {OWN}\n")
    monkeypatch.syspath_prepend(str(package.parent))
    bench = drops("recorder")
    bench.kernel.purge.drops.drop(bench.call, NAME, purge=True)
    assert len(made[0].requests) == 1
    assert bench.job().state == "succeeded"


@pytest.mark.parametrize(
    ("purger", "message"),
    [
        ("nothing", "'nothing' is not sql-async, synchronous, a package.module:Class"),
        ("tests.nowhere:Purger", "cannot be imported"),
        (f"{__name__}:NoPurger", "is not a purger: it has no initialize()"),
        (f"{__name__}:ImpostorPurger", "calls itself sql-async"),
    ],
)
def test_a_purger_that_cannot_be_used_stops_the_start(
    drops: Callable[..., Drops], purger: str, message: str
) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        drops(purger)


def test_a_listener_that_fails_is_counted(drops: Callable[..., Drops]) -> None:
    bench = drops("synchronous")

    def failing(event: TableEvent) -> None:
        raise StorageUnavailableError(f"away for {event.identifier}")

    bench.kernel.listeners.add(failing)
    bench.kernel.purge.drops.drop(bench.call, NAME, purge=True)
    assert bench.table.remaining() == []
    assert bench.kernel.listeners.failures == 3
