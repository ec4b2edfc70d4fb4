from __future__ import annotations

import shutil
from collections.abc import Callable
from threading import Event
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from floecat.connectors.connector_info import NewConnector
from floecat.delta.log.delta_log import DeltaLog
from floecat.delta.refresh import pipeline
from floecat.delta.refresh.pipeline import DeltaPipeline
from floecat.errors import InvalidDeltaTableError, NoSuchTableError
from floecat.identifiers.namespace import TableIdentifier
from tests.behaviour.delta.conftest import Lake, OpenLake, delta_table, lake, open_lake, rows_of

__all__ = ["lake", "open_lake"]


class Worker:
    """Notes what it is asked for and does nothing."""

    def __init__(self, *, finds_lost: bool = False) -> None:
        self.calls: list[tuple[str, str]] = []
        self.runners: list[Any] = []
        self._finds_lost = finds_lost

    def materialise(self, table: Any, progress: Any, *, run_chunks: Any = None) -> bool:
        progress(0, 0)
        self.calls.append(("materialise", str(table.identifier)))
        self.runners.append(run_chunks)
        return False

    def repair(self, table: Any) -> bool:
        self.calls.append(("repair", str(table.identifier)))
        return self._finds_lost


def open_pipeline(lake: Lake, worker: Any = None, **options: Any) -> DeltaPipeline:
    return DeltaPipeline(
        lake.kernel.store,
        lake.kernel.parts.storages,
        worker or lake.kernel.delta.refresh_service,
        **options,
    )


def register(lake: Lake, name: str, *, read: bool = True, files: int = 1) -> Any:
    writer = delta_table(lake.root / name, files=files)
    lake.kernel.delta.registration.register(lake.call, ("ns",), name, writer.folder.as_uri(), read=read)
    return writer


def entry_id(lake: Lake, name: str) -> UUID:
    return lake.state(TableIdentifier(("ns",), name)).entry_id


def told(look: pipeline.Look) -> list[tuple[str, int, str]]:
    return [(table.name.rpartition(".")[2], table.version, table.reason) for table in look.pending]


def test_what_is_up_to_date_is_not_pending(lake: Lake) -> None:
    register(lake, "a")
    look = open_pipeline(lake).look(None, limit=10)
    assert (look.looked, look.pending, look.broken, look.next) == (1, (), (), None)


def test_tables_that_were_never_read_and_that_are_behind_are_pending(lake: Lake) -> None:
    register(lake, "a", read=False)
    register(lake, "b").append(rows_of(100))
    register(lake, "c")
    look = open_pipeline(lake).look(None, limit=10)
    assert told(look) == [("a", 1, "unread"), ("b", 2, "behind")]
    assert look.pending[0].entry_id == entry_id(lake, "a")
    assert look.pending[0].name == "floecat.ns.a"


def test_pages_follow_each_other_over_catalogs(lake: Lake) -> None:
    names = [f"t{number}" for number in range(5)]
    for name in names[:3]:
        register(lake, name, read=False)
    kernel = lake.kernel
    account = kernel.settings.gateway.default_account_id
    other = kernel.catalog.catalogs.create(account, "other", (lake.root / "other").as_uri())
    lake.call = msgspec.structs.replace(lake.call, catalog=other)
    kernel.catalog.namespaces.create(lake.call, ("ns",), {})
    for name in names[3:]:
        register(lake, name, read=False)
    found, after = [], None
    for _ in range(3):
        look = open_pipeline(lake).look(after, limit=2)
        found.append([table.name for table in look.pending])
        after = look.next
    assert found == [
        ["floecat.ns.t0", "floecat.ns.t1"],
        ["floecat.ns.t2", "other.ns.t3"],
        ["other.ns.t4"],
    ]
    assert after is None
    assert [table.name for table in open_pipeline(lake).tables()] == [
        *(f"floecat.ns.{name}" for name in names[:3]),
        *(f"other.ns.{name}" for name in names[3:]),
    ]


def test_a_full_last_page_is_followed_by_an_empty_one(lake: Lake) -> None:
    register(lake, "a")
    after = open_pipeline(lake).look(None, limit=1).next
    assert after is not None
    look = open_pipeline(lake).look(after, limit=1)
    assert (look.looked, look.next) == (0, None)


def test_one_broken_table_stops_no_other(lake: Lake) -> None:
    shutil.rmtree(register(lake, "a", read=False).folder / "_delta_log")
    register(lake, "b", read=False)
    look = open_pipeline(lake).look(None, limit=10)
    assert told(look) == [("b", 1, "unread")]
    assert [table.name for table in look.broken] == ["floecat.ns.a"]
    assert "no Delta log" in look.broken[0].problem


def test_what_nobody_foresaw_is_told_without_its_text(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    register(lake, "a")

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(DeltaLog, "listing", fail)
    look = open_pipeline(lake).look(None, limit=10)
    assert "hunter2" not in look.broken[0].problem


def test_a_storage_that_hangs_holds_up_neither_the_look_nor_the_others(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        register(lake, name, read=False)
    listing = DeltaLog.listing
    hang = Event()

    def hang_for_b(log: DeltaLog, **options: Any) -> Any:
        if log.location.endswith("/b"):
            hang.wait(60)
        return listing(log, **options)

    monkeypatch.setattr(DeltaLog, "listing", hang_for_b)
    try:
        look = open_pipeline(lake, time_budget_s=1.0).look(None, limit=10)
    finally:
        hang.set()
    assert told(look) == [("a", 1, "unread"), ("c", 1, "unread")]
    assert [table.problem for table in look.broken] == ["Storage did not answer within 1 s"]
    assert look.next is None


def test_what_there_was_no_time_for_is_looked_at_next(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"t{number}" for number in range(4)]
    for name in names:
        register(lake, name, read=False)
    hang = Event()
    monkeypatch.setattr(DeltaLog, "listing", lambda *_, **__: hang.wait(60) and None)
    try:
        look = open_pipeline(lake, time_budget_s=0.2, parallel_looks=1).look(None, limit=10)
    finally:
        hang.set()
    monkeypatch.undo()
    assert look.looked == 1
    again = open_pipeline(lake).look(look.next, limit=10)
    assert [table for table, _, _ in told(again)] == names[1:]


def rewrite_log(writer: Any) -> None:
    for file in (writer.folder / "_delta_log").iterdir():
        file.write_bytes(file.read_bytes() + b"\n")


def cut_log(writer: Any) -> None:
    (writer.folder / "_delta_log" / f"{writer.version:020}.json").unlink()


@pytest.mark.parametrize(
    ("change", "version"), [(rewrite_log, 2), (cut_log, 1)], ids=["rewritten", "an older version again"]
)
def test_another_table_at_the_place_is_pending(
    lake: Lake, change: Callable[[Any], None], version: int
) -> None:
    writer = register(lake, "a", files=2)
    before = PendingState(lake)
    change(writer)
    look = open_pipeline(lake).look(None, limit=10)
    assert told(look) == [("a", version, "replaced")]
    assert look.pending[0].state != before.state


class PendingState:
    """The state of a log that would be told if its table had not been read."""

    def __init__(self, lake: Lake) -> None:
        delta = lake.state(TableIdentifier(("ns",), "a"))
        assert delta.version is not None
        self.state = pipeline._state(delta.version, delta.log_fingerprint, delta.generation, "replaced")


def test_older_versions_are_asked_for_until_they_were_made_once(open_lake: OpenLake) -> None:
    lake = open_lake(max_versions_in_request=2)
    register(lake, "a", files=4)
    of_a = entry_id(lake, "a")
    assert told(open_pipeline(lake).look(None, limit=10)) == [("a", 4, "incomplete")]
    open_pipeline(lake).materialise(of_a, lambda _done, _wanted: None)
    assert open_pipeline(lake).look(None, limit=10).pending == ()


def test_a_table_is_made_and_described(lake: Lake) -> None:
    writer = register(lake, "a", read=False, files=2)
    progress: list[tuple[int, int]] = []
    made = open_pipeline(lake).materialise(entry_id(lake, "a"), lambda *done: progress.append(done))
    assert (made.name, made.changed, made.version, made.versions) == ("floecat.ns.a", True, 2, 3)
    assert made.location == writer.folder.as_uri()
    assert made.metadata_location.startswith(f"{made.location}/metadata/2-compat-")
    again = open_pipeline(lake).materialise(entry_id(lake, "a"), lambda *done: progress.append(done))
    assert not again.changed
    assert progress[-1] == (0, 0)


def test_chunks_are_built_by_whom_the_caller_names(lake: Lake) -> None:
    register(lake, "a")
    worker = Worker()
    seen: list[str] = []

    def runner(table: Any) -> Any:
        seen.append(str(table.identifier))
        return "a runner"

    open_pipeline(lake, worker).materialise(entry_id(lake, "a"), lambda *_: None, runner)
    assert (seen, worker.runners) == (["ns.a"], ["a runner"])


def test_the_compat_location_is_allowed_too(open_lake: OpenLake) -> None:
    seen: list[Any] = []

    class Seeing(Worker):
        def repair(self, table: Any) -> bool:
            seen.append(table.allowed)
            return super().repair(table)

    elsewhere = "s3://compat/artifacts"
    lake = open_lake(location=elsewhere)
    register(lake, "a", read=False)
    open_pipeline(lake, Seeing()).repair(entry_id(lake, "a"))
    assert str(seen[0].check(f"{elsewhere}/x.avro")) == f"{elsewhere}/x.avro"


def test_a_repair_tells_whether_artifacts_were_missing(lake: Lake) -> None:
    register(lake, "a")
    for finds_lost in (False, True):
        worker = Worker(finds_lost=finds_lost)
        assert open_pipeline(lake, worker).repair(entry_id(lake, "a")) is finds_lost
        assert worker.calls == [("repair", "ns.a")]


@pytest.mark.parametrize("what", ["unknown", "iceberg", "dropped"])
def test_what_is_no_delta_table_is_told(lake: Lake, what: str) -> None:
    register(lake, "a")
    wanted = entry_id(lake, "a")
    if what == "unknown":
        wanted = uuid4()
    else:
        lake.kernel.catalog.tables.drop(lake.call, TableIdentifier(("ns",), "a"))
    made = open_pipeline(lake)
    for ask in (
        lambda: made.materialise(wanted, lambda *_: None),
        lambda: made.repair(wanted),
        lambda: made.counts(wanted),
    ):
        with pytest.raises(NoSuchTableError):
            ask()


def test_a_broken_table_says_what_is_wrong(lake: Lake) -> None:
    writer = register(lake, "a")
    (writer.folder / "_delta_log" / f"{2:020}.json").write_text('{"add": 5}')
    with pytest.raises(InvalidDeltaTableError, match="2"):
        open_pipeline(lake).materialise(entry_id(lake, "a"), lambda *_: None)


def test_connectors_that_are_due_are_told(lake: Lake) -> None:
    made = lake.kernel.connectors.jobs
    now_ms = lake.kernel.clock.now_ms()
    assert not made.is_due(now_ms)
    lake.kernel.connectors.connectors.create(lake.call, NewConnector("c", "delta", lake.root.as_uri()))
    assert made.is_due(lake.kernel.clock.now_ms())
    list(lake.kernel.connectors.jobs.scan_due())
    assert not made.is_due(lake.kernel.clock.now_ms())
