from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from floecat.jobs.queue import Drained
from floecat.purge.deletion.progress import PurgeProgress, progress_of
from floecat.runtime import Kernel, open_kernel
from floecat.settings import PurgeSettings, Settings
from floecat.store import schema
from tests.unit.iceberg.manifest_bytes import manifest_list_bytes
from tests.unit.purge.kernels import NAME, PurgeBench
from tests.unit.purge.table_files import TableFiles

WAIT_S = 120


class Bench(PurgeBench):
    """Processes that delete two files in one call."""

    def open_kernel(self, settings: Settings) -> Kernel:
        # processes know no other time
        return open_kernel(settings)

    def table(self, name: str, *paths: str) -> TableFiles:
        table = TableFiles(self.kernel.files, f"{self.settings.warehouse_location}/ns/{name}")
        for _ in range(2):
            table.append(*paths, count=3)
        table.commit()
        return table

    def dropped(self, name: str = "t") -> TableFiles:
        table = self.table(name)
        self.register(table, name)
        self.drop(NAME._replace(name=name))
        return table

    def purge(self, at_check: Callable[[int], bool | None] = lambda _: None) -> Drained:
        """Works on one job.

        Args:
            at_check: called with the number of each check, from 0; true stops the work.
        """
        checks = iter(range(1_000_000))
        queue = self.kernel.purge.queue
        (row,) = queue.claim()
        # the queue asks between jobs, too
        outcome = queue.work_on(row, lambda: bool(at_check(next(checks)))).outcome
        return Drained()._replace(**{outcome: 1})

    def progress(self) -> PurgeProgress:
        return progress_of(self.job())

    def batches(self) -> int:
        with self.kernel.store.read() as conn:
            return len(conn.all(_UNDER_WAY))


_UNDER_WAY = sa.select(schema.metadata.tables["purge_batches"].c.job_id).where(sa.text("under_way"))


@pytest.fixture
def open_bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    opened: list[Bench] = []

    def open_one(**changed: int) -> Bench:
        settings = {"enabled": False, "files_per_call": 2, "delete_threads_per_job": 1, "worker_threads": 1}
        opened.append(Bench(tmp_path, PurgeSettings(**{**settings, **changed})))  # type: ignore[arg-type]
        opened[-1].kernel.background.start()
        return opened[-1]

    yield open_one
    for bench in opened:
        bench.kernel.close()
    assert not children()


@pytest.fixture
def bench(open_bench: Callable[..., Bench]) -> Bench:
    return open_bench()


def children() -> list[int]:
    """Purge processes of this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                is_ours = "# purge" in (entry / "cmdline").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            if is_ours and int(parent) == os.getpid():
                found.append(int(entry.name))
    return found


def kill_children() -> None:
    for process in children():
        os.kill(process, signal.SIGKILL)


def test_everything_reachable_goes_and_what_others_need_stays(bench: Bench) -> None:
    table = bench.dropped()
    shared = table.path("data/1-0.parquet")
    other = bench.table("other", shared)
    bench.register(other, "other")
    assert bench.purge() == Drained(succeeded=1)
    assert len(children()) == 1
    assert table.remaining() == [shared]
    assert set(other.remaining()) == set(other.written)
    progress = bench.progress()
    assert (progress.shared, progress.failed, progress.deleted) == (1, 0, len(table.written) - 1)
    assert bench.batches() == 0


def test_a_file_that_is_registered_meanwhile_stays(bench: Bench) -> None:
    table = bench.dropped()
    shared = [path for path in table.written if path.endswith(".parquet")][-1]
    other = bench.table("other", shared)
    waiting = threading.Thread(target=bench.register, args=(other, "other"))

    def register(number: int) -> None:
        if number == 1:
            waiting.start()
            ends_at = time.monotonic() + WAIT_S
            while not is_held(bench):
                assert time.monotonic() < ends_at
                time.sleep(0.005)

    assert bench.purge(register) == Drained(succeeded=1)
    waiting.join(WAIT_S)
    assert table.remaining() == [shared]


def is_held(bench: Bench) -> bool:
    """Whether a commit waits for a batch to end."""
    now_ms = bench.kernel.clock.now_ms()
    with bench.kernel.store.read() as conn:
        return any(
            row[0] > now_ms
            for row in conn.all(sa.select(schema.metadata.tables["purge_batches"].c.hold_until_ms))
        )


def test_a_purge_stops_between_two_calls_and_goes_on(bench: Bench) -> None:
    table = bench.dropped()
    assert bench.purge(lambda number: number == 2) == Drained(waiting=1)
    assert len(table.remaining()) == len(table.written) - 2
    assert bench.progress().deleted == 2
    assert bench.batches() == 0
    (process,) = children()
    assert bench.purge() == Drained(succeeded=1)
    assert table.remaining() == []
    assert children() == [process]


def test_errors_come_through_with_what_was_done(bench: Bench) -> None:
    table = bench.dropped()
    bench.kernel.files.delete(table.manifests[0])
    bench.kernel.files.write_new(table.manifests[0], b"no manifest")
    assert bench.purge() == Drained(waiting=1)
    assert table.manifests[0].rpartition("/")[2] in (bench.job().last_error or "")
    assert bench.progress().deleted > 0


def test_a_large_table_is_offered_with_its_number_of_files(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(large_job_files=1_000)
    table = bench.table("t")
    listed = [{"manifest_path": path, "added_files_count": 1_000} for path in table.manifests]
    table.snapshots[-1]["manifest-list"] = table.write(
        table.path("metadata/counted.avro"), manifest_list_bytes(listed)
    )
    table.commit()
    bench.register(table, "t")
    bench.drop(NAME)
    assert bench.purge() == Drained(waiting=1)
    assert (bench.job().last_error or "").startswith("1001 files: waits for a run on Spark")
    assert bench.kernel.purge.large_jobs.offered() == 1
    assert table.remaining() == table.written


def test_a_process_that_dies_while_it_deletes_keeps_the_lease(open_bench: Callable[..., Bench]) -> None:
    bench = open_bench(lease_timeout_ms=5_000, backoff_base_ms=1)
    table = bench.dropped()
    assert bench.purge(lambda number: kill_children() if number == 1 else None) == Drained(waiting=1)
    # calls of it may still be on their way to storage
    assert (bench.job().state, bench.batches()) == ("running", 1)
    assert table.remaining() == table.written
    ends_at = time.monotonic() + WAIT_S
    while not (drained := bench.kernel.purge.queue.drain_once()).total:
        assert time.monotonic() < ends_at
        time.sleep(0.05)
    assert drained == Drained(succeeded=1)
    assert table.remaining() == []


def test_a_process_that_dies_before_it_deletes_gives_the_job_back(bench: Bench) -> None:
    table = bench.dropped()
    assert bench.purge(lambda number: kill_children() if number == 0 else None) == Drained(waiting=1)
    assert (bench.job().state, bench.job().last_error) == ("waiting", "The purge process ended")
    assert table.remaining() == table.written


def test_purges_take_turns(bench: Bench) -> None:
    first, second = bench.dropped("first"), bench.dropped("second")
    waiting = threading.Thread(target=bench.purge)

    def check(number: int) -> None:
        if number == 1:
            waiting.start()
            waiting.join(0.3)
        assert len(children()) == 1
        assert second.remaining() == second.written

    bench.purge(check)
    waiting.join(WAIT_S)
    assert first.remaining() == second.remaining() == []


def test_a_process_that_died_while_idle_is_replaced(bench: Bench) -> None:
    bench.dropped("before")
    bench.purge()
    (process,) = children()
    os.kill(process, signal.SIGKILL)
    table = bench.dropped("after")
    assert bench.purge() == Drained(succeeded=1)
    assert table.remaining() == []
