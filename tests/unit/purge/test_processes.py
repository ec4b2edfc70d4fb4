from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from floecat.errors import UnavailableError
from floecat.fileio.local import LocalFileIO
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS
from floecat.jobs.running import JobAbandonedError
from floecat.purge.live_tables import LiveTable
from floecat.purge.process_worker import PurgeSetup
from floecat.purge.processes import PurgeProcesses
from floecat.purge.progress import PurgeProgress
from floecat.purge.table_purge import LargeTableError, PurgeIncompleteError, PurgeTarget
from floecat.store.job_claims import Lease
from floecat.store.leases import LeaseLostError
from tests.storages import storage_at
from tests.unit.iceberg.manifest_bytes import manifest_list_bytes
from tests.unit.purge.table_files import FakeLiveTables, TableFiles

LEASE = Lease(uuid4(), "me", 1)


class ChangingTables(FakeLiveTables):
    """Tables of which one can be committed to, and the batches that were announced."""

    committed: LiveTable | None = None
    batches = 0

    def positions(self) -> Mapping[UUID, int]:
        return {self.catalog_id: 0 if self.committed is None else 1}

    def changed(self, seen: Mapping[UUID, int], now: Mapping[UUID, int]) -> Sequence[LiveTable]:
        assert seen != now
        return [self.committed] if self.committed is not None else []

    def begin_batch(self, lease: Lease, folders: Sequence[str]) -> bool:
        assert lease == LEASE
        self.batches += 1
        return True

    def end_batch(self, lease: Lease) -> None:
        assert lease == LEASE
        self.batches = 0


class Bench:
    """Processes that delete two files in one call, and tables."""

    def __init__(self, root: Path) -> None:
        self.files = LocalFileIO(fsync=False)
        self.warehouse = root.as_uri()
        self.live = ChangingTables(self.warehouse, files=self.files)
        self.sidecars: list[str] = []
        setup = PurgeSetup(
            sys.path, 1, pickle.dumps(DEFAULT_BOUNDS), 1 << 20, 2, 1, 1_000, 1 << 20, ("delta",)
        )
        self.processes = PurgeProcesses(setup, self.live, [lambda _: iter(self.sidecars)], most=1)

    def table(self, name: str) -> TableFiles:
        table = TableFiles(self.files, f"{self.warehouse}/{name}")
        for _ in range(2):
            table.append(count=3)
        table.commit()
        return table

    def target(self, table: TableFiles) -> PurgeTarget:
        storage = storage_at([self.warehouse], self.files)
        return PurgeTarget(table.table_uuid, table.metadata_location, storage, lease=LEASE)

    def purge(
        self, target: PurgeTarget, check: Callable[[], None] = lambda: None, *, refuse_large: bool = False
    ) -> PurgeProgress:
        progress = PurgeProgress()
        self.processes.purge(target, check, progress, refuse_large=refuse_large)
        return progress


@pytest.fixture(scope="module")
def module_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("processes"))
    yield made
    made.processes.close()
    assert not children()


@pytest.fixture
def bench(module_bench: Bench) -> Bench:
    module_bench.live.rows.clear()
    module_bench.live.committed = None
    module_bench.live.batches = 0
    module_bench.sidecars.clear()
    return module_bench


def children() -> list[int]:
    """Purge processes of this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                is_ours = "floecat.purge.process_worker" in (entry / "cmdline").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            if is_ours and int(parent) == os.getpid():
                found.append(int(entry.name))
    return found


def test_everything_reachable_goes_and_what_others_need_stays(bench: Bench) -> None:
    table, other = bench.table("a"), bench.table("b")
    shared = table.path("data/1-0.parquet")
    other.append(shared)
    other.commit()
    bench.live.register(other)
    bench.sidecars += [table.write(table.path(f"metadata/{number}.index")) for number in range(3)]
    progress = bench.purge(bench.target(table))
    assert table.remaining() == [shared]
    assert other.remaining() == other.written
    assert (progress.shared, progress.failed, progress.deleted) == (1, 0, len(table.written) - 1)
    assert bench.live.batches == 0


def test_a_file_that_is_committed_meanwhile_stays(bench: Bench) -> None:
    table, other = bench.table("c"), bench.table("d")
    shared = [path for path in table.written if "/data/" in path][-1]

    def commit() -> None:
        if bench.live.committed is None:
            other.append(shared)
            other.commit()
            bench.live.committed = bench.live.register(other)

    bench.purge(bench.target(table), commit)
    assert table.remaining() == [shared]


@pytest.mark.parametrize("error", [LeaseLostError(), KeyError("a fault")])
def test_what_the_check_raises_ends_the_purge(bench: Bench, error: Exception) -> None:
    table = bench.table(f"stopped-{type(error).__name__}")
    checks = iter([None, error])

    def check() -> None:
        if (raised := next(checks)) is not None:
            raise raised

    with pytest.raises(type(error)) as caught:
        bench.purge(bench.target(table), check)
    assert caught.value is error
    assert len(table.remaining()) == len(table.written) - 2
    assert bench.live.batches == 0


def test_errors_come_through_with_what_was_done(bench: Bench) -> None:
    table = bench.table("broken")
    bench.files.delete(table.manifests[0])
    bench.files.write_new(table.manifests[0], b"no manifest")
    progress = PurgeProgress()
    with pytest.raises(PurgeIncompleteError):
        bench.processes.purge(bench.target(table), lambda: None, progress, refuse_large=False)
    assert progress.deleted > 0


def test_a_large_table_is_refused_with_its_number_of_files(bench: Bench) -> None:
    table = bench.table("large")
    listed = [{"manifest_path": path, "added_files_count": 1_000} for path in table.manifests]
    table.snapshots[-1]["manifest-list"] = table.write(
        table.path("metadata/counted.avro"), manifest_list_bytes(listed)
    )
    table.commit()
    with pytest.raises(LargeTableError) as caught:
        bench.purge(bench.target(table), refuse_large=True)
    assert caught.value.files >= 1_000
    assert table.remaining() == table.written


def test_a_process_that_dies_leaves_the_rest_to_the_next_attempt(bench: Bench) -> None:
    table = bench.table("killed")

    def kill() -> None:
        for process in children():
            os.kill(process, signal.SIGKILL)

    with pytest.raises(JobAbandonedError, match="process ended while it deleted files"):
        bench.purge(bench.target(table), kill)
    # calls of it may still be on their way to storage
    assert bench.live.batches == 1
    assert table.remaining() == table.written
    bench.purge(bench.target(table))
    assert table.remaining() == []


def test_a_process_that_dies_before_a_batch_gives_the_job_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = bench.table("early")

    def kill() -> Mapping[UUID, int]:
        for process in children():
            os.kill(process, signal.SIGKILL)
        return {}

    monkeypatch.setattr(bench.live, "positions", kill)
    with pytest.raises(UnavailableError, match="process ended"):
        bench.purge(bench.target(table))
    assert bench.live.batches == 0
    assert table.remaining() == table.written


def test_purges_take_turns(bench: Bench) -> None:
    first, second = bench.table("first"), bench.table("second")
    waiting = threading.Thread(target=lambda: bench.purge(bench.target(second)))

    def check() -> None:
        if waiting.ident is None:
            waiting.start()
            waiting.join(0.3)
        assert len(children()) == 1
        assert second.remaining() == second.written

    bench.purge(bench.target(first), check)
    waiting.join(120)
    assert first.remaining() == second.remaining() == []


def test_a_process_that_died_while_idle_is_replaced(bench: Bench) -> None:
    bench.purge(bench.target(bench.table("before")))
    (process,) = children()
    os.kill(process, signal.SIGKILL)
    table = bench.table("after")
    bench.purge(bench.target(table))
    assert table.remaining() == []
