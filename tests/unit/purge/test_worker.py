from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.auth.authorizer import AllowAll
from floecat.auth.principals import Principal
from floecat.entries import calls
from floecat.entries.metadata_files import MetadataFiles
from floecat.errors import LocationNotAllowedError, StorageUnavailableError
from floecat.events.listeners import EventListeners
from floecat.fileio.base import DeleteOutcome, FileIO
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.kinds import Backoff, JobKind
from floecat.jobs.queue import Drained, JobQueue
from floecat.jobs.workers import JobWorkers
from floecat.purge.deletion.progress import progress_of
from floecat.purge.deletion.table_purge import TablePurge
from floecat.purge.purge_jobs import PURGE, PurgePayload, PurgeWork, purge_job_for, purge_kind
from floecat.purge.purgers import SQL_ASYNC, Purgers, ReachableFilesPurger
from floecat.purge.sharing.live_tables import StoredTables
from floecat.purge.sharing.shared_files import SharedFiles
from floecat.purge.spi import PurgerContext, PurgerRows
from floecat.settings import PurgeSettings
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.catalogs import accounts, catalogs, namespaces
from floecat.store.database.engine import Store
from floecat.store.entries import entry_changes, tables
from floecat.store.entries.documents import compress
from floecat.store.jobs import job_claims, jobs
from floecat.store.jobs.jobs import JobRow
from tests.clocks import SetClock
from tests.storages import storages_at
from tests.unit.purge.table_files import TableFiles

NOW_MS = 1_700_000_000_000
LEASE_MS = 60_000


class Catalog:
    """A catalog with one namespace, and tables in it."""

    def __init__(
        self, store: Store, warehouse: str, *further: str, account_id: uuid.UUID | None = None
    ) -> None:
        self.store = store
        self.id = uuids.uuid7()
        self.namespace_id = uuids.uuid7()
        self.account_id = account_id = account_id or uuids.uuid7()
        self.row = catalogs.CatalogRow(
            self.id, account_id, str(self.id), warehouse, further, {}, 0, NOW_MS, NOW_MS
        )
        with store.write() as conn:
            accounts.ensure(conn, account_id, NOW_MS)
            catalogs.insert(conn, self.row)
            namespaces.insert(
                conn,
                namespaces.NamespaceRow(
                    id=self.namespace_id,
                    catalog_id=self.id,
                    parent_id=None,
                    physical_name="ns",
                    levels=("ns",),
                    properties={},
                    created_at_ms=NOW_MS,
                    updated_at_ms=NOW_MS,
                ),
            )

    @property
    def call(self) -> calls.Call:
        storage = storages_at().of(self.row)
        catalog = calls.Catalog(self.id, self.account_id, str(self.id), self.row.storage_location, storage)
        return calls.Call(Principal("anna", self.account_id), AllowAll(), catalog)

    def register(self, table: TableFiles, name: str, *, kind: str = "table") -> tables.EntryRow:
        row = tables.EntryRow(
            id=uuids.uuid7(),
            catalog_id=self.id,
            namespace_id=self.namespace_id,
            name=name,
            kind=kind,
            object_uuid=table.table_uuid,
            location=table.location,
            metadata_location=table.metadata_location,
            version=1,
            format_version=2,
            created_at_ms=NOW_MS,
            updated_at_ms=NOW_MS,
        )
        document = table.document()
        with self.store.write() as conn:
            entry_changes.insert(conn, row, compress(document), len(document))
        return row

    def drop(self, row: tables.EntryRow, now_ms: int = NOW_MS) -> JobRow:
        with self.store.write() as conn:
            document = tables.document(conn, row.id)
            identifier = TableIdentifier(("ns",), row.name)
            kind = new_kind(self.store)
            job = purge_job_for(
                kind, self.call, row, identifier, purger=SQL_ASYNC, request_id="r1", now_ms=now_ms
            )
            assert entry_changes.delete(conn, row.id, row.version)
            jobs.insert(conn, job, document)
        return job

    def dropped(self, table: TableFiles) -> JobRow:
        return self.drop(self.register(table, f"t{uuid.uuid4().hex}"))

    def job(self, job: JobRow) -> JobRow:
        with self.store.read() as conn:
            found = jobs.get(conn, job.id)
        assert found is not None
        return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path / 'store.db'}")
    opened.upgrade()
    yield opened
    opened.close()


@pytest.fixture
def catalog(store: Store, warehouse: str) -> Catalog:
    return Catalog(store, warehouse)


@pytest.fixture
def clock() -> SetClock:
    return SetClock(NOW_MS)


def new_kind(
    store: Store,
    files: FileIO | None = None,
    *,
    clock: SetClock | None = None,
    max_attempts: int = 3,
    lease_ms: int = LEASE_MS,
) -> JobKind:
    storages = storages_at(files)
    purge = TablePurge(
        MetadataFiles(max_bytes=1 << 20),
        SharedFiles(StoredTables(store, storages, SetClock(NOW_MS))),
        batch_size=5,
    )

    def storage(catalog_id: uuid.UUID) -> CatalogStorage:
        with store.read() as conn:
            found = storages.by_id(conn, catalog_id)
        assert found is not None
        return found

    listeners = EventListeners()
    context = PurgerContext(server_identity="here:1", storage=storage, emit=listeners.emit)
    clock = clock or SetClock(NOW_MS)
    purgers = Purgers(SQL_ASYNC, {}, context, [ReachableFilesPurger(SQL_ASYNC, purge, clock)])
    work = PurgeWork(purgers, listeners, clock, lambda lease: PurgerRows(store, lease, 0))
    settings = PurgeSettings(lease_timeout_ms=lease_ms, max_attempts=max_attempts)
    backoff = Backoff(base_ms=1000, max_ms=5000, random_fraction=lambda: 0.0)
    return msgspec.structs.replace(purge_kind(work, settings), backoff=backoff)


def new_queue(store: Store, files: FileIO, clock: SetClock, *, lease_ms: int = LEASE_MS) -> JobQueue:
    return JobQueue(store, clock, new_kind(store, files, clock=clock, lease_ms=lease_ms))


def deleted_files(job: JobRow) -> int:
    return progress_of(job).deleted


@pytest.fixture
def queue(store: Store, files: FileIO, clock: SetClock) -> JobQueue:
    return new_queue(store, files, clock)


def new_table(files: FileIO, location: str, count: int = 7) -> TableFiles:
    table = TableFiles(files, location)
    table.append(count=count)
    table.commit()
    return table


def claim(store: Store, owner: str, now_ms: int) -> JobRow | None:
    rows = store.run(
        lambda conn: job_claims.claim(conn, PURGE, owner, now_ms, LEASE_MS, base_ms=1000, longest_ms=5000)
    )
    return rows[0] if rows else None


def wait_for(condition: Callable[[], bool], timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


# jobs


def test_a_job_holds_what_a_worker_needs(catalog: Catalog, files: FileIO, warehouse: str) -> None:
    table = new_table(files, f"{warehouse}/t")
    row = catalog.register(table, "orders")
    job = catalog.job(catalog.drop(row))
    payload = msgspec.json.decode(job.payload, type=PurgePayload)
    assert payload == PurgePayload(
        row.id,
        table.table_uuid,
        table.location,
        table.metadata_location,
        format="iceberg",
        purger="sql-async",
        catalog=str(catalog.id),
        namespace=("ns",),
        name="orders",
    )
    assert (job.catalog_id, job.account_id) == (catalog.id, catalog.account_id)
    assert (job.created_by, job.request_id) == ("anna", "r1")
    assert (job.title, job.subject, job.resource) == (
        "ns.orders",
        table.table_uuid.lower(),
        table.metadata_location,
    )
    assert (job.state, job.attempts, job.not_before_ms) == ("queued", 0, NOW_MS)


def test_due_jobs_are_done(catalog: Catalog, files: FileIO, warehouse: str, queue: JobQueue) -> None:
    dropped = [new_table(files, f"{warehouse}/t{number}") for number in range(3)]
    made = [catalog.dropped(table) for table in dropped]
    assert queue.drain_once() == Drained(succeeded=3)
    assert all(table.remaining() == [] for table in dropped)
    for job in map(catalog.job, made):
        assert (job.state, deleted_files(job), job.finished_at_ms) == ("succeeded", 10, NOW_MS)
    assert queue.drain_once() == Drained()


def test_a_table_whose_metadata_file_is_lost_goes_too(
    catalog: Catalog, store: Store, files: FileIO, warehouse: str, queue: JobQueue
) -> None:
    table = new_table(files, f"{warehouse}/t")
    job = catalog.dropped(table)
    files.delete(table.metadata_location)
    assert queue.drain_once() == Drained(succeeded=1)
    assert table.remaining() == []
    assert catalog.job(job).state == "succeeded"
    with store.read() as conn:
        assert jobs.attachment(conn, job.id) is None


def test_no_more_than_asked_for(catalog: Catalog, files: FileIO, warehouse: str, queue: JobQueue) -> None:
    for number in range(3):
        catalog.dropped(new_table(files, f"{warehouse}/t{number}"))
    assert queue.drain_once(max_jobs=2) == Drained(succeeded=2)


def test_tables_of_the_store_keep_their_files(
    catalog: Catalog, store: Store, files: FileIO, warehouse: str, queue: JobQueue
) -> None:
    table = new_table(files, f"{warehouse}/t")
    row = catalog.register(table, "first")
    other = Catalog(store, warehouse)
    again = other.register(table, "second")
    catalog.drop(row)
    assert queue.drain_once() == Drained(succeeded=1)
    assert table.remaining() == table.written
    other.drop(again)
    assert queue.drain_once() == Drained(succeeded=1)
    assert table.remaining() == []


def test_the_locations_of_all_catalogs_are_allowed(store: Store, tmp_path: Path) -> None:
    live = StoredTables(store, storages_at(shared_locations=["s3://shared"]), SetClock(NOW_MS))
    assert live.storages() == {}
    places = [(tmp_path / name).as_uri() for name in ("a", "b")]
    ids = [Catalog(store, place, f"{place}-more").id for place in places]
    assert set(live.storages()) == set(ids)
    allowed = live.storages()[ids[0]].allowed
    for location in ("s3://shared/x", *(f"{place}{end}" for place in places for end in ("/x", "-more/x"))):
        allowed.check(location)
    with pytest.raises(LocationNotAllowedError):
        allowed.check((tmp_path / "c").as_uri())


# failures


class FailingFileIO(LocalFileIO):
    """The local disk with bulk deletes that fail as told."""

    failure: BaseException | None = None

    def delete_many(self, locations: Iterable[str], allowed: AllowedLocations | None = None) -> DeleteOutcome:
        if self.failure is not None:
            raise self.failure
        return super().delete_many(locations, allowed)


def test_a_failed_job_is_tried_again_later_and_given_up_in_the_end(
    catalog: Catalog, store: Store, clock: SetClock, warehouse: str
) -> None:
    files = FailingFileIO(fsync=False)
    files.failure = StorageUnavailableError("storage is away")
    queue = new_queue(store, files, clock)
    table = new_table(files, f"{warehouse}/t")
    job = catalog.dropped(table)
    waits = []
    for expected in (Drained(waiting=1), Drained(waiting=1), Drained(failed=1)):
        assert queue.drain_once() == expected
        assert queue.drain_once() == Drained()
        waits.append(catalog.job(job).not_before_ms - clock.ms)
        clock.ms = max(clock.ms, catalog.job(job).not_before_ms)
    assert waits[:2] == [1000, 2000]
    dead = catalog.job(job)
    assert (dead.state, dead.attempts, dead.last_error) == ("failed", 3, "storage is away")
    assert table.remaining() == table.written
    files.failure = None
    with store.write() as conn:
        assert jobs.retry(conn, job.id, clock.ms)
    assert queue.drain_once() == Drained(succeeded=1)
    assert table.remaining() == []


def test_an_unexpected_error_keeps_its_text_to_itself(
    catalog: Catalog, store: Store, clock: SetClock, warehouse: str
) -> None:
    files = FailingFileIO(fsync=False)
    files.failure = RuntimeError("secret-access-key=SECRET")
    job = catalog.dropped(new_table(files, f"{warehouse}/t"))
    assert new_queue(store, files, clock).drain_once() == Drained(waiting=1)
    assert catalog.job(job).last_error == "internal error: RuntimeError"


def test_files_that_cannot_be_deleted_are_tried_again(
    catalog: Catalog, files: FileIO, warehouse: str, queue: JobQueue, clock: SetClock
) -> None:
    table = TableFiles(files, f"{warehouse}/t")
    stuck = table.path("data/stuck.parquet")
    files.make_directory(stuck)
    table.append(stuck, table.write(table.path("data/a.parquet")))
    table.commit()
    job = catalog.dropped(table)
    assert queue.drain_once() == Drained(waiting=1)
    failed = catalog.job(job)
    assert deleted_files(failed) == 1
    assert failed.last_error is not None
    assert "could not be deleted" in failed.last_error
    Path(stuck.removeprefix("file://")).rmdir()
    clock.ms = failed.not_before_ms
    assert queue.drain_once() == Drained(succeeded=1)
    assert table.remaining() == []
    assert deleted_files(catalog.job(job)) == 6


def test_a_job_whose_workers_die_is_given_up(
    catalog: Catalog, store: Store, files: FileIO, warehouse: str, queue: JobQueue, clock: SetClock
) -> None:
    job = catalog.dropped(new_table(files, f"{warehouse}/t"))
    for back_off in (1000, 2000, 4000):
        assert claim(store, "other", clock.ms) is not None
        clock.ms += LEASE_MS + back_off - 1
        assert queue.drain_once() == Drained()
        clock.ms += 1
    assert queue.drain_once() == Drained(failed=1)
    assert catalog.job(job).last_error == "gave up after 3 attempts"


# several workers


def test_a_job_that_was_taken_over_is_left_alone(
    catalog: Catalog, store: Store, clock: SetClock, warehouse: str
) -> None:
    """A worker that slept through its lease deletes nothing more and does not finish the job."""
    lease_ms = 1500

    class SleepingFileIO(LocalFileIO):
        batches = 0

        def delete_many(
            self, locations: Iterable[str], allowed: AllowedLocations | None = None
        ) -> DeleteOutcome:
            self.batches += 1
            if self.batches == 1:
                clock.ms += lease_ms + 1000
                assert claim(store, "other", clock.ms) is not None
                time.sleep(1.1 * lease_ms / 1000)
            return super().delete_many(locations, allowed)

    files = SleepingFileIO(fsync=False)
    table = new_table(files, f"{warehouse}/t", count=20)
    job = catalog.dropped(table)
    assert new_queue(store, files, clock, lease_ms=lease_ms).drain_once() == Drained(lost=1)
    assert files.batches == 1
    assert files.exists(table.metadata_location)
    held = catalog.job(job)
    assert (held.state, held.lease_owner) == ("running", "other")


def test_many_workers_do_every_job_once(
    catalog: Catalog, store: Store, files: FileIO, clock: SetClock, warehouse: str
) -> None:
    dropped = [new_table(files, f"{warehouse}/t{number}", 2) for number in range(24)]
    made = [catalog.dropped(table) for table in dropped]
    results: list[Drained] = []
    threads = [
        threading.Thread(target=lambda: results.append(new_queue(store, files, clock).drain_once()))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(result.succeeded for result in results) == 24
    assert sum(result.total for result in results) == 24
    assert all(catalog.job(job).attempts == 1 for job in made)
    assert all(table.remaining() == [] for table in dropped)


# the threads of a service


def test_a_running_worker_takes_jobs_as_they_come(
    catalog: Catalog, files: FileIO, warehouse: str, queue: JobQueue
) -> None:
    worker = JobWorkers(queue, threads=2, poll_interval_ms=10)
    worker.start()
    try:
        for number in range(3):
            job = catalog.dropped(new_table(files, f"{warehouse}/t{number}"))
            wait_for(lambda job=job: catalog.job(job).state == "succeeded")  # type: ignore[misc]
    finally:
        worker.stop()


def test_no_more_jobs_are_claimed_than_threads_are_idle(
    catalog: Catalog, store: Store, clock: SetClock, warehouse: str
) -> None:
    """A job that waits in a process would use up its lease, and its attempts if the process dies."""
    entered, go_on = threading.Semaphore(0), threading.Event()

    class SlowFileIO(LocalFileIO):
        def delete_many(
            self, locations: Iterable[str], allowed: AllowedLocations | None = None
        ) -> DeleteOutcome:
            entered.release()
            assert go_on.wait(120)
            return super().delete_many(locations, allowed)

    files = SlowFileIO(fsync=False)
    made = [catalog.dropped(new_table(files, f"{warehouse}/t{number}", 1)) for number in range(6)]
    worker = JobWorkers(new_queue(store, files, clock), threads=3, poll_interval_ms=10, claim_batch=2)
    worker.start()
    try:
        for _ in range(3):
            assert entered.acquire(timeout=120)
        assert sorted(catalog.job(job).state for job in made) == ["queued"] * 3 + ["running"] * 3
        go_on.set()
        wait_for(lambda: all(catalog.job(job).state == "succeeded" for job in made))
    finally:
        go_on.set()
        worker.stop()
    assert {catalog.job(job).attempts for job in made} == {1}


def test_an_idle_worker_can_be_woken(
    catalog: Catalog, files: FileIO, warehouse: str, queue: JobQueue
) -> None:
    worker = JobWorkers(queue, poll_interval_ms=600_000)
    worker.start()
    try:
        time.sleep(0.1)
        job = catalog.dropped(new_table(files, f"{warehouse}/t"))
        queue.wake()
        wait_for(lambda: catalog.job(job).state == "succeeded")
    finally:
        worker.stop()


def test_stopping_gives_the_job_back_at_once(
    catalog: Catalog, store: Store, clock: SetClock, warehouse: str
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    class SlowFileIO(LocalFileIO):
        def delete_many(
            self, locations: Iterable[str], allowed: AllowedLocations | None = None
        ) -> DeleteOutcome:
            entered.set()
            go_on.wait(120)
            return super().delete_many(locations, allowed)

    files = SlowFileIO(fsync=False)
    table = new_table(files, f"{warehouse}/t", count=30)
    job = catalog.dropped(table)
    worker = JobWorkers(new_queue(store, files, clock), poll_interval_ms=10)
    worker.start()
    assert entered.wait(120)
    worker.stop(timeout_s=0)
    go_on.set()
    worker.stop(timeout_s=120)
    given_back = catalog.job(job)
    assert (given_back.state, given_back.not_before_ms) == ("waiting", clock.ms)
    assert len(table.remaining()) == len(table.written) - 5


def test_a_worker_that_was_never_started_stops(queue: JobQueue) -> None:
    JobWorkers(queue).stop()


def test_a_store_that_is_away_does_not_end_the_worker(
    catalog: Catalog, files: FileIO, warehouse: str, clock: SetClock, store: Store
) -> None:
    class Flaky(JobQueue):
        failures = 3

        def claim(self, limit: int = 1, *, lane: str | None = None) -> Sequence[JobRow]:
            self.failures -= 1
            if self.failures >= 0:
                raise (StorageUnavailableError("away") if self.failures else RuntimeError("odd"))
            return super().claim(limit, lane=lane)

    worker = JobWorkers(Flaky(store, clock, new_kind(store, files)), poll_interval_ms=10)
    job = catalog.dropped(new_table(files, f"{warehouse}/t"))
    worker.start()
    try:
        wait_for(lambda: catalog.job(job).state == "succeeded")
    finally:
        worker.stop()
