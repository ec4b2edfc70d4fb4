"""Workers of purges are killed at random points. Nothing is leaked, and nothing of others is deleted."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from floecat.auth.principals import Principal
from floecat.events.table_events import PurgeCompleted
from floecat.fileio.local import LocalFileIO
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, kernel
from floecat.settings import PurgeSettings, Settings, load_settings
from floecat.store.jobs.jobs import OPEN_STATES, JobRow
from tests.faults.answers import Sender
from tests.faults.deployment import Deployment
from tests.job_rows import job_rows
from tests.services.catalog import CatalogServer
from tests.services.kills import KillableFileIO, KilledError, KillSwitch, killable_store
from tests.unit.purge.kernels import PurgeBench
from tests.unit.purge.table_files import TableFiles

TABLES_AT_ONCE = 10


class KilledPurges(PurgeBench):
    """A kernel whose worker dies, and tables: those that are dropped, and one that shares files with some."""

    def __init__(self, tmp_path: Path, chance: random.Random) -> None:
        self.switch = KillSwitch()
        self.chance = chance
        self.kills = 0
        self.dropped: list[TableFiles] = []
        self.shared: set[str] = set()
        self.succeeded: list[object] = []
        super().__init__(
            tmp_path,
            PurgeSettings(files_per_call=3, delete_threads_per_job=2, max_attempts=1_000),
        )
        self.live = TableFiles(self.plain, f"{self.settings.warehouse_location}/ns/live")

    def open_kernel(self, settings: Settings) -> Kernel:
        self.plain = LocalFileIO(fsync=False)
        files = KillableFileIO(self.plain, self.switch)
        return Kernel(settings, killable_store(settings.store_url, self.switch), files, self.clock)  # type: ignore[arg-type]

    def drop_some(self) -> None:
        """Drops tables inside the live one; every fourth has a file in common with it."""
        first = len(self.dropped)
        for number in range(first, first + TABLES_AT_ONCE):
            table = TableFiles(self.plain, f"{self.settings.warehouse_location}/ns/live/t{number}")
            table.append(count=2)
            table.append(count=3)
            table.add_statistics()
            table.commit()
            self.register(table, f"t{number}")
            self.dropped.append(table)
        shared = [table.path("data/1-0.parquet") for table in self.dropped[first::4]]
        self.shared.update(shared)
        self.live.append(*shared)
        self.live.commit()
        self.replace_live()
        for number in range(first, first + TABLES_AT_ONCE):
            self.drop(TableIdentifier(("ns",), f"t{number}"))

    def replace_live(self) -> None:
        if len(self.dropped) > TABLES_AT_ONCE:
            self.kernel.purge.drops.drop(self.call, TableIdentifier(("ns",), "live"), purge=False)
        self.register(self.live, "live")

    def open_jobs(self) -> list[JobRow]:
        return [row for row in job_rows(self.kernel, self.call) if row.state in OPEN_STATES]

    def kill_until_done(self) -> None:
        """Lets workers take jobs, and kills most of them somewhere, until no job is open."""
        while jobs := self.open_jobs():
            self.clock.ms = max(job.not_before_ms for job in jobs)
            self.switch.arm(int(self.chance.triangular(1, 45, 5)))
            try:
                self.kernel.purge.queue.drain_once(max_jobs=1)
            except KilledError:
                self.kills += 1
            finally:
                self.switch.disarm()


@pytest.mark.parametrize("kills", [60, pytest.param(1_000, marks=pytest.mark.scale)])
def test_kills_leak_nothing_and_delete_nothing_of_others(tmp_path: Path, kills: int) -> None:
    bench = KilledPurges(tmp_path, random.Random(kills))
    while bench.kills < kills:
        bench.drop_some()
        bench.kill_until_done()
    for table in bench.dropped:
        assert set(table.remaining()) == bench.shared.intersection(table.written)
    assert bench.live.remaining() == bench.live.written
    jobs = job_rows(bench.kernel, bench.call)
    assert [job.state for job in jobs] == ["succeeded"] * len(bench.dropped)
    completed = [event.job_id for event in bench.events if isinstance(event, PurgeCompleted)]
    # a worker that died behind the COMMIT called no listener
    assert len(completed) == len(set(completed)) <= len(jobs)
    bench.kernel.close()


class PurgesOfAService:
    """Tables of a service that was told to be slow at purging, and is killed meanwhile."""

    def __init__(self, deployment: Deployment) -> None:
        self.server = deployment.start(
            FLOECAT_PURGE_LEASE_TIMEOUT_MS="1000",
            FLOECAT_PURGE_BACKOFF_BASE_MS="50",
            FLOECAT_PURGE_POLL_INTERVAL_MS="50",
            FLOECAT_PURGE_MAX_ATTEMPTS="100",
            FLOECAT_PURGE_FILES_PER_CALL="2",
            FLOECAT_PURGE_DELETE_THREADS_PER_JOB="1",
        )
        self.files = LocalFileIO(fsync=False)
        self.warehouse = (deployment.data_dir / "warehouse").as_uri()
        self.sender = Sender(self.server.base_url)
        assert self.sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
        self.dropped: list[TableFiles] = []
        self.live = self.register("live")

    def register(self, name: str) -> TableFiles:
        table = TableFiles(self.files, f"{self.warehouse}/ns/{name}")
        for _ in range(3):
            table.append(count=20)
        table.commit()
        body = {"name": name, "metadata-location": table.metadata_location}
        assert self.sender.send("POST", "/namespaces/ns/register", body).status == 200
        return table

    def drop_some(self) -> None:
        for _ in range(3):
            name = f"t{len(self.dropped)}"
            self.dropped.append(self.register(name))
            answer = self.sender.send("DELETE", f"/namespaces/ns/tables/{name}", purgeRequested="true")
            assert answer.status == 204

    def kill_and_start(self) -> None:
        self.server.kill()
        self.server.start()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, "the purges did not end"
            time.sleep(0.02)


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=[pytest.mark.scale, pytest.mark.timeout(900)])])
def test_a_killed_service_purges_everything_once(
    tmp_path: Path, start_catalog: Callable[..., CatalogServer], kills: int
) -> None:
    chance = random.Random(kills)
    deployment = Deployment(tmp_path / "data", start_catalog)
    purges = PurgesOfAService(deployment)
    for _ in range(kills):
        purges.drop_some()
        left = chance.randrange(20, 190)
        purges.wait_for(
            lambda left=left: sum(len(t.remaining()) for t in purges.dropped[-3:]) <= left  # type: ignore[misc]
        )
        purges.kill_and_start()
    purges.wait_for(lambda: not any(table.remaining() for table in purges.dropped))
    assert purges.live.remaining() == purges.live.written
    with kernel(load_settings(overrides={"floecat.data-dir": str(deployment.data_dir)})) as opened:
        gateway = opened.settings.gateway
        principal = Principal("anna", gateway.default_account_id)
        call = opened.catalog.calls.open(principal, gateway.default_prefix)
        purges.wait_for(lambda: {job.state for job in opened.jobs.list(call)} == {"succeeded"})
        assert len(opened.jobs.list(call)) == len(purges.dropped)
