"""Storage, credentials and rows that fail while files of dropped tables are deleted."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from floecat.entries.metadata_files import MetadataFiles
from floecat.errors import ForbiddenError, StorageUnavailableError
from floecat.fileio.base import DeleteFailure, DeleteOutcome
from floecat.fileio.local import LocalFileIO
from floecat.fileio.locations import AllowedLocations
from floecat.jobs.queue import Drained
from floecat.purge.deletion.progress import FailedKey, PurgeProgress, progress_of
from floecat.purge.deletion.table_purge import PurgeIncompleteError, PurgeTarget, TablePurge
from floecat.purge.sharing.shared_files import SharedFiles
from floecat.runtime import Kernel
from floecat.settings import PurgeSettings, Settings
from floecat.storage.catalog_storage import CatalogStorage
from tests.faults.answers import Sender
from tests.faults.deployment import Deployment
from tests.services.catalog import CatalogServer
from tests.services.faults import FaultyFileIO
from tests.services.postgres import PostgresServer
from tests.storages import storage_at
from tests.unit.purge.kernels import NAME, PurgeBench
from tests.unit.purge.table_files import FakeLiveTables, TableFiles


class FaultyPurges(PurgeBench):
    """A kernel on storage with faults, with the table `t` dropped."""

    def open_kernel(self, settings: Settings) -> Kernel:
        self.plain = LocalFileIO(fsync=False)
        self.files = FaultyFileIO(self.plain)
        return Kernel(settings, super().open_kernel(settings).store, self.files, self.clock)

    def dropped(self, manifests: int = 3, files: int = 4) -> TableFiles:
        table = TableFiles(self.plain, f"{self.settings.warehouse_location}/ns/t")
        for _ in range(manifests):
            table.append(count=files)
        table.commit()
        self.register(table, "t")
        self.drop(NAME)
        return table

    def drain(self) -> Drained:
        """One attempt, when it is due."""
        self.clock.ms = max(self.clock.ms, self.job().not_before_ms)
        return self.kernel.purge.queue.drain_once(max_jobs=1)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[FaultyPurges]:
    opened = FaultyPurges(tmp_path, PurgeSettings(files_per_call=5, max_attempts=3))
    yield opened
    opened.kernel.close()


def test_one_key_that_never_goes(bench: FaultyPurges) -> None:
    """Everything else goes, what leads to the key stays, and an operator can end it later."""
    table = bench.dropped()
    stuck = [each for each in table.written if "/t/data/" in each][5]
    bench.files.refuse(stuck)
    assert [bench.drain() for _ in range(3)] == [Drained(waiting=1), Drained(waiting=1), Drained(failed=1)]
    manifest, root = table.manifests[1], table.metadata_location
    lists = [each["manifest-list"] for each in table.snapshots]
    # the first list that names the manifest leads to it; no other does
    assert table.remaining() == [stuck, manifest, lists[1], root]
    row = bench.job()
    progress = progress_of(row)
    assert bench.kernel.jobs.get(bench.call, row.id).state == "failed"
    assert (progress.failed, progress.waiting) == (1, 3)
    assert progress.failed_keys == [FailedKey(stuck, "injected")]
    bench.files.clear()
    bench.kernel.jobs.retry(bench.call, row.id)
    assert bench.drain() == Drained(succeeded=1)
    assert table.remaining() == []
    assert progress_of(bench.job()).complete


def test_a_dead_letter_names_a_hundred_keys_and_counts_all(bench: FaultyPurges) -> None:
    table = bench.dropped(manifests=2, files=60)
    bench.files.refuse("/t/data/")
    bench.drain()
    progress = progress_of(bench.job())
    assert (len(progress.failed_keys), progress.failed, progress.deleted) == (100, 120, 0)
    assert len([each for each in table.remaining() if "/t/data/" in each]) == 120


def test_storage_that_is_down_for_a_while_costs_an_attempt(bench: FaultyPurges) -> None:
    table = bench.dropped()
    bench.files.fail("delete_many", times=100)
    assert bench.drain() == Drained(waiting=1)
    assert bench.job().last_error == "Storage did not answer in time (injected)"
    bench.files.clear()
    assert bench.drain() == Drained(succeeded=1)
    assert table.remaining() == []


class AwayForDeletes(LocalFileIO):
    """Storage that answers reads, and no delete: as a client of object storage reports it, key by key."""

    away = True

    def delete_many(self, locations: object, allowed: AllowedLocations | None = None) -> DeleteOutcome:
        if not self.away:
            return super().delete_many(locations, allowed)  # type: ignore[arg-type]
        return DeleteOutcome(0, tuple(DeleteFailure(each, "away", passing=True) for each in locations))  # type: ignore[attr-defined]


def purge_of(files: LocalFileIO, warehouse: str) -> TablePurge:
    live = FakeLiveTables(warehouse, files=files)
    return TablePurge(MetadataFiles(max_bytes=1 << 20), SharedFiles(live), batch_size=5, threads=2)


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    return (tmp_path / "warehouse").as_uri()


def written(files: LocalFileIO, warehouse: str) -> TableFiles:
    table = TableFiles(files, f"{warehouse}/t")
    for _ in range(2):
        table.append(count=8)
    table.commit()
    return table


def test_storage_that_answers_no_delete_ends_the_attempt_early(warehouse: str) -> None:
    files = AwayForDeletes(fsync=False)
    table = written(files, warehouse)
    target = PurgeTarget(table.table_uuid, table.metadata_location, storage_at([warehouse], files))
    with pytest.raises(StorageUnavailableError, match="away"):
        purge_of(files, warehouse).purge(target)
    assert table.remaining() == table.written


class AnswersTooLate(LocalFileIO):
    """Storage that deletes, and whose answers about one file, and all of its batch, come too late."""

    late = 3

    def delete_many(self, locations: Iterable[str], allowed: AllowedLocations | None = None) -> DeleteOutcome:
        batch = list(locations)
        done = super().delete_many(batch, allowed)
        if self.late == 0 or not any(each.endswith("/1-0.parquet") for each in batch):
            return done
        self.late -= 1
        return DeleteOutcome(0, tuple(DeleteFailure(each, "no answer", passing=True) for each in batch))


def test_files_whose_deletion_is_not_answered_are_looked_at_again(warehouse: str) -> None:
    files = AnswersTooLate(fsync=False)
    table = written(files, warehouse)
    target = PurgeTarget(table.table_uuid, table.metadata_location, storage_at([warehouse], files))
    progress = PurgeProgress()
    with pytest.raises(PurgeIncompleteError, match=r"5 files could not be deleted.*no answer"):
        purge_of(files, warehouse).purge(target, progress=progress)
    assert progress.failed == 5
    assert table.metadata_location in table.remaining()
    progress.begin_again()
    assert purge_of(files, warehouse).purge(target, progress=progress).complete
    assert (progress.failed, progress.failed_keys, table.remaining()) == (0, [], [])
    assert progress.note.endswith("unless an earlier attempt deleted them")


class ExpiringFiles(LocalFileIO):
    """Storage whose keys are refused after some calls, for reads and for deletes."""

    def __init__(self, calls: int) -> None:
        super().__init__(fsync=False)
        self.calls = calls

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        self._use()
        return super().read(location, max_bytes=max_bytes)

    def delete_many(self, locations: object, allowed: AllowedLocations | None = None) -> DeleteOutcome:
        try:
            self._use()
        except ForbiddenError as error:
            return DeleteOutcome(0, tuple(DeleteFailure(each, error.message) for each in locations))  # type: ignore[attr-defined]
        return super().delete_many(locations, allowed)  # type: ignore[arg-type]

    def _use(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise ForbiddenError("Storage refuses access: the token has expired")


@pytest.mark.parametrize("calls", [0, 1, 3, 4, 6])
def test_keys_that_expire_are_asked_for_again(warehouse: str, calls: int) -> None:
    """Whatever call it is that the old keys are refused for: the metadata, a manifest, a delete."""
    fresh = LocalFileIO(fsync=False)
    table = written(fresh, warehouse)
    asked = []

    def renew() -> CatalogStorage:
        asked.append(True)
        return storage_at([warehouse], fresh)

    old = storage_at([warehouse], ExpiringFiles(calls))
    target = PurgeTarget(table.table_uuid, table.metadata_location, old, renew=renew)
    assert purge_of(fresh, warehouse).purge(target).complete
    assert table.remaining() == []
    assert asked


def test_slow_storage_keeps_the_lease(tmp_path: Path) -> None:
    """A call that takes longer than a lease: it is renewed meanwhile, and no other worker takes the job."""
    bench = FaultyPurges(tmp_path, PurgeSettings(lease_timeout_ms=3_000, backoff_base_ms=1))
    table = bench.dropped()
    hang = bench.files.hang("delete_many")
    results: list[Drained] = []
    worker = threading.Thread(target=lambda: results.append(bench.kernel.purge.queue.drain_once()))
    worker.start()
    assert hang.reached.wait(120)
    first = bench.job().lease_expires_at_ms
    assert first is not None
    # the clock of the store goes on: two seconds in each of two renewals
    for _ in range(2):
        expected = bench.clock.ms = bench.clock.ms + 2_000
        deadline = time.monotonic() + 120
        while (bench.job().lease_expires_at_ms or 0) < expected + 3_000:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert bench.kernel.purge.queue.claim() == []
    hang.release()
    worker.join(120)
    assert results == [Drained(succeeded=1)]
    assert table.remaining() == []
    bench.kernel.close()


def test_a_table_that_was_made_again_at_the_same_place_is_left_alone(bench: FaultyPurges) -> None:
    old = bench.dropped()
    new = TableFiles(bench.plain, old.location, first_number=100)
    new.append(count=3)
    new.commit()
    bench.register(new, "t")
    assert bench.drain() == Drained(succeeded=1)
    assert old.remaining() == []
    assert new.remaining() == new.written


@pytest.mark.scale
@pytest.mark.timeout(600)
def test_restarts_of_postgresql_lose_no_purge(
    own_postgres_server: PostgresServer, tmp_path: Path, start_catalog: Callable[..., CatalogServer]
) -> None:
    chance = random.Random(7)
    url = own_postgres_server.url(own_postgres_server.create_database())
    deployment = Deployment(tmp_path / "data", start_catalog, postgres_url=url)
    server = deployment.start(
        FLOECAT_PURGE_LEASE_TIMEOUT_MS="2000",
        FLOECAT_PURGE_BACKOFF_BASE_MS="50",
        FLOECAT_PURGE_POLL_INTERVAL_MS="50",
        FLOECAT_PURGE_MAX_ATTEMPTS="100",
        FLOECAT_PURGE_FILES_PER_CALL="2",
    )
    sender, files = Sender(server.base_url), LocalFileIO(fsync=False)
    assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
    dropped = []
    for restart in range(10):
        for number in range(4):
            name = f"t{restart}-{number}"
            table = TableFiles(files, f"{(deployment.data_dir / 'warehouse').as_uri()}/ns/{name}")
            for _ in range(3):
                table.append(count=20)
            table.commit()
            body = {"name": name, "metadata-location": table.metadata_location}
            assert sender.send("POST", "/namespaces/ns/register", body).status == 200
            assert sender.send("DELETE", f"/namespaces/ns/tables/{name}", purgeRequested="true").status == 204
            dropped.append(table)
        time.sleep(chance.uniform(0, 0.3))
        own_postgres_server.kill()
        own_postgres_server.start()
        deadline = time.monotonic() + 60
        while sender.send("GET", "/namespaces").status != 200:
            assert time.monotonic() < deadline
    deadline = time.monotonic() + 120
    while any(table.remaining() for table in dropped):
        assert time.monotonic() < deadline
        time.sleep(0.1)
