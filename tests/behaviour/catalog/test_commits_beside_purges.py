"""Files of a dropped table that are added to another one while the purge runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from floecat.auth.principals import Principal
from floecat.clock import SystemClock
from floecat.entries.calls import Call, LoadedTable
from floecat.errors import UnavailableError
from floecat.fileio.base import DeleteOutcome
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.jobs.queue import Drained
from floecat.purge.purge_jobs import PURGE
from floecat.runtime import Kernel
from floecat.settings import (
    CommitSettings,
    GatewaySettings,
    PurgeSettings,
    Settings,
    StorageSettings,
    StoreSettings,
)
from floecat.store import schema
from floecat.store.database.engine import Store
from floecat.struct_types import prepare_struct_types
from tests.behaviour.catalog.changes import append, set_property, table
from tests.unit.purge.table_files import TableFiles
from tests.unit.purge.test_processes import kill_children

BATCH = 3
WAIT_S = 120


class HookedFileIO(LocalFileIO):
    """The local disk, which calls back once at a point of a purge.

    Attributes:
        at_delete: called in the first bulk deletion, before anything goes.
        at_read: by name of a file: one of them is called before each read.
    """

    def __init__(self) -> None:
        super().__init__(fsync=False)
        self.at_delete: Callable[[], None] | None = None
        self.at_read: dict[str, list[Callable[[], object]]] = {}

    def delete_many(self, locations: Iterable[str], allowed: AllowedLocations | None = None) -> DeleteOutcome:
        hook, self.at_delete = self.at_delete, None
        if hook is not None:
            hook()
        return super().delete_many(locations, allowed)

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        if hooks := self.at_read.get(location):
            hooks.pop(0)()
        return super().read(location, max_bytes=max_bytes)


class Lake:
    """A kernel whose purges delete a few files at a time, and a table that is dropped."""

    def __init__(self, kernel: Kernel, files: HookedFileIO) -> None:
        self.kernel, self.files = kernel, files
        account = kernel.settings.gateway.default_account_id
        kernel.catalog.catalogs.ensure(account, "floecat", kernel.settings.warehouse_location)
        kernel.catalog.catalogs.ensure(account, "other", kernel.settings.warehouse_location)
        self.warehouse = kernel.settings.warehouse_location
        self.call, self.other = (
            kernel.catalog.calls.open(Principal("t", account), name) for name in ("floecat", "other")
        )
        for call in (self.call, self.other):
            kernel.catalog.namespaces.create(call, ("ns",), {})
        self.old = self.table("old", 5, 5)
        self.register(self.call, "old", self.old)
        self.early, *_, self.late = [
            location for location in self.old.written if location.endswith(".parquet")
        ]
        self.live = self.table("live", 1)
        self.register(self.call, "live", self.live)
        self.threads = ThreadPoolExecutor(2)

    def table(self, name: str, *counts: int) -> TableFiles:
        made = TableFiles(self.files, f"{self.warehouse}/{name}")
        for count in counts:
            made.append(count=count)
        made.commit()
        return made

    def register(self, call: Call, name: str, files: TableFiles) -> LoadedTable:
        return self.kernel.commits.registration.register_table(call, ("ns",), name, files.metadata_location)

    def add_to_live(self, *paths: str) -> LoadedTable:
        """Commits an append of files that exist already, as an engine does."""
        parent = self.live.snapshots[-1]["snapshot-id"]
        self.live.append(*paths)
        number = self.live.snapshots[-1]["snapshot-id"]
        return self.kernel.commits.tables.commit(
            self.call, append("live", number, parent, self.live.location)
        )

    def purge(self) -> None:
        self.kernel.purge.drops.drop(self.call, table("old"), purge=True)
        assert self.kernel.purge.queue.drain_once() == Drained(succeeded=1)

    def later(self, work: Callable[[], Any]) -> Future[Any]:
        """Starts work in another thread, and returns when it waits for a purge."""
        future = self.threads.submit(work)
        ends_at = time.monotonic() + WAIT_S
        while not self.is_held():
            assert not future.done()
            assert time.monotonic() < ends_at
            time.sleep(0.005)
        return future

    def is_held(self) -> bool:
        """Whether a commit waits for a batch to end."""
        now_ms = self.kernel.clock.now_ms()
        with self.kernel.store.read() as conn:
            return any(row[0] > now_ms for row in conn.all(_HELD))

    def left(self) -> set[str]:
        return set(self.old.remaining())


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def store_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if backend == "sqlite":
        return f"sqlite:///{tmp_path / 'floecat.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def make_lake(store_url: str, tmp_path: Path) -> Iterator[Callable[..., Lake]]:
    opened: list[Lake] = []

    def make(purge_wait_ms: int = 20_000, **purge: Any) -> Lake:
        settings = Settings(
            data_dir=str(tmp_path / "data"),
            store=StoreSettings(url=store_url),
            storage=StorageSettings(fsync=False),
            purge=PurgeSettings(files_per_call=BATCH, delete_threads_per_job=1, **purge),
            gateway=GatewaySettings(commit=CommitSettings(purge_wait_ms=purge_wait_ms)),
        )
        prepare_struct_types()
        store, files = Store.open(store_url), HookedFileIO()
        store.upgrade()
        opened.append(Lake(Kernel(settings, store, files, SystemClock()), files))
        return opened[-1]

    yield make
    for lake in opened:
        lake.threads.shutdown()
        lake.kernel.close()


def test_a_file_that_is_added_before_its_batch_stays(make_lake: Callable[..., Lake]) -> None:
    """The purge has looked at all tables, and reads the manifests of its own a second time."""
    lake = make_lake()
    hooks = [lambda: None, lambda: lake.add_to_live(lake.late)]
    lake.files.at_read[lake.old.manifests[-1]] = hooks
    lake.purge()
    assert hooks == []
    assert lake.left() == {lake.late}


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_a_file_that_is_added_during_a_batch_stays(make_lake: Callable[..., Lake]) -> None:
    """The commit waits for the batch and goes before the next, which reads it."""
    lake = make_lake()
    added: list[Future[LoadedTable]] = []
    lake.files.at_delete = lambda: added.append(lake.later(lambda: lake.add_to_live(lake.late)))
    lake.purge()
    assert added[0].result(WAIT_S).metadata_location
    assert lake.left() == {lake.late}


def test_a_table_that_is_registered_in_another_catalog_meanwhile_keeps_its_files(
    make_lake: Callable[..., Lake],
) -> None:
    """As a migration of a table does, that names the data files of the old one."""
    lake = make_lake()
    copy = TableFiles(lake.files, f"{lake.warehouse}/copy")
    copy.append(lake.late)
    copy.append(lake.old.written[0])
    copy.commit()
    added: list[Future[LoadedTable]] = []
    lake.files.at_delete = lambda: added.append(lake.later(lambda: lake.register(lake.other, "copy", copy)))
    lake.purge()
    assert added[0].result(WAIT_S).table_uuid == copy.table_uuid
    # the first file was in the batch under way: it was gone before the table was there
    assert lake.left() == {lake.late}


def test_commits_elsewhere_wait_for_nothing(make_lake: Callable[..., Lake]) -> None:
    lake = make_lake(purge_wait_ms=0)
    made: list[LoadedTable] = []

    def commit() -> None:
        data = lake.live.write(lake.live.path("data/new.parquet"))
        made.append(lake.add_to_live(data))
        made.append(lake.kernel.commits.tables.commit(lake.call, set_property("live", "a", "1")))
        made.append(lake.register(lake.other, "other", lake.table("elsewhere", 1)))

    lake.files.at_delete = commit
    lake.purge()
    assert len(made) == 3
    assert lake.left() == set()


def test_a_wait_is_bounded_and_names_the_purge(make_lake: Callable[..., Lake]) -> None:
    lake = make_lake(purge_wait_ms=0)
    refused: list[UnavailableError] = []
    folder = Path(lake.live.location.removeprefix("file://")) / "metadata"
    before: list[set[str]] = []

    def commit() -> None:
        lake.live.append(lake.late)
        before.append({file.name for file in folder.iterdir()})
        parent, snapshot = (each["snapshot-id"] for each in lake.live.snapshots[-2:])
        with pytest.raises(UnavailableError, match="being deleted by purge job") as caught:
            lake.kernel.commits.tables.commit(lake.call, append("live", snapshot, parent, lake.live.location))
        refused.append(caught.value)

    lake.files.at_delete = commit
    current = lake.kernel.catalog.tables.load(lake.call, table("live")).metadata_location
    lake.purge()
    assert refused[0].retry_after_s == 5
    assert "of ns.old; nothing was changed" in refused[0].message
    assert "floecat.gateway.commit.purge-wait-ms" in refused[0].message
    assert lake.kernel.catalog.tables.load(lake.call, table("live")).metadata_location == current
    assert {file.name for file in folder.iterdir()} == before[0]
    assert lake.left() == set()


def test_a_batch_whose_process_died_holds_commits_until_its_lease_ends(
    make_lake: Callable[..., Lake],
) -> None:
    """A call that the process sent may still be on its way to storage."""
    lake = make_lake(enabled=False, lease_timeout_ms=5_000, backoff_base_ms=1)
    lake.kernel.background.start()
    lake.kernel.purge.drops.drop(lake.call, table("old"), purge=True)
    (row,) = lake.kernel.purge.queue.claim()
    checks = iter([lambda: None, kill_children])

    def kill_in_a_batch() -> bool:
        next(checks)()
        return False

    assert lake.kernel.purge.queue.work_on(row, kill_in_a_batch).outcome == "waiting"
    (job,) = lake.kernel.jobs.list(lake.call, kinds=[PURGE])
    added = lake.later(lambda: lake.add_to_live(lake.late))
    assert added.result(WAIT_S).metadata_location
    assert lake.kernel.clock.now_ms() >= (job.lease_expires_at_ms or 0) > job.created_at_ms
    ends_at = time.monotonic() + WAIT_S
    while not (drained := lake.kernel.purge.queue.drain_once()).total:
        assert time.monotonic() < ends_at
        time.sleep(0.005)
    assert drained == Drained(succeeded=1)
    assert lake.left() == {lake.late}


def test_a_delta_table_is_not_registered_around_files_that_are_being_deleted(
    make_lake: Callable[..., Lake],
) -> None:
    """It needs all files below its location, whatever its log names."""
    lake = make_lake(purge_wait_ms=0)
    elsewhere = f"{lake.warehouse}/elsewhere"
    for location in (lake.old.location, elsewhere):
        lake.files.write_new(f"{location}/_delta_log/{0:020}.json", b"{}")
    refused: list[str] = []

    def register() -> None:
        register_delta = lake.kernel.delta.registration.register
        with pytest.raises(UnavailableError, match="being deleted by purge job") as caught:
            register_delta(lake.other, ("ns",), "delta", lake.old.location, read=False)
        refused.append(caught.value.message)
        register_delta(lake.other, ("ns",), "delta", elsewhere, read=False)

    lake.files.at_delete = register
    lake.purge()
    assert len(refused) == 1
    assert lake.left() == set()


_HELD = sa.select(schema.metadata.tables["purge_batches"].c.hold_until_ms)
