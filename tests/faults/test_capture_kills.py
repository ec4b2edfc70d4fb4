"""Workers of captures die at every call to the store. Nothing is lost, and no half generation is seen."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from floecat.auth.principals import Principal
from floecat.fileio.local import LocalFileIO
from floecat.runtime import Kernel, prepare_store
from floecat.settings import Settings, StatisticsSettings, StorageSettings
from floecat.settings.kinds import Duration
from floecat.statistics.pipeline import StatisticsPipeline
from tests.behaviour.catalog.changes import SCHEMA, change, create, table
from tests.clocks import SetClock
from tests.faults.answers import Sender
from tests.faults.deployment import Deployment
from tests.scan_files import ROWS_PER_FILE, WrittenAppends
from tests.services.catalog import CatalogServer
from tests.services.kills import KilledError, KillSwitch, killable_store

T = table("t")


class KilledCaptures:
    """A table, and workers that die at some call to the store."""

    def __init__(self, tmp_path: Path, statistics: StatisticsSettings) -> None:
        settings = Settings(
            data_dir=str(tmp_path), storage=StorageSettings(fsync=False), statistics=statistics
        )
        prepare_store(settings)
        self.switch = KillSwitch()
        self.clock = SetClock()
        self.kernel = Kernel(
            settings, killable_store(settings.store_url, self.switch), LocalFileIO(fsync=False), self.clock
        )
        account = settings.gateway.default_account_id
        self.call = self.kernel.catalog.calls.open(Principal("tester", account), "floecat")
        self.kernel.catalog.namespaces.create(self.call, ("ns",), {})
        location = json.loads(create(self.kernel, self.call, "t").metadata)["location"]
        self.appends = WrittenAppends(location)
        self.files = self.kills = 0
        # groups take three times as many calls
        self.stride = 1 if statistics.files_per_group > 1 else 3

    @property
    def pipeline(self) -> StatisticsPipeline:
        return self.kernel.statistics.pipeline

    def append(self, files: int) -> None:
        self.kernel.commits.tables.commit(self.call, change("t", self.appends.append(files)))
        self.files += files

    def kill_at(self, calls: int) -> bool:
        """Lets a worker search and work until it dies; returns whether it did."""
        self.switch.arm(calls)
        try:
            self.pipeline.search_commits()
            for pending in self.pipeline.pending():
                self.pipeline.drain(pending.entry_id)
        except KilledError:
            self.kills += 1
            return True
        finally:
            self.switch.disarm()
        return False

    def check_whole(self) -> None:
        """Of the current snapshot all is seen or nothing, and what is seen is right."""
        snapshot_id, page = self.kernel.statistics.targets.list(self.call, T)
        if not page.items:
            return
        rows = [each.table.row_count for each in page.items if each.table is not None]
        columns = [each.scalar.row_count for each in page.items if each.scalar is not None]
        expected = self.files * ROWS_PER_FILE
        assert (rows, columns) == ([expected], [expected, expected])
        captured = self.kernel.statistics.captures.snapshots(self.call, T)[-1]
        assert (captured.snapshot_id, captured.status, captured.problem) == (snapshot_id, "finalized", None)

    def finish(self) -> None:
        """What later workers make of it."""
        for _ in range(100):
            self.kill_at(1_000_000)
            if not self.pipeline.pending():
                break
            self.clock.ms += 60_000
        self.check_whole()


@pytest.fixture(params=["one step", "groups"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KilledCaptures]:
    grouped = request.param == "groups"
    statistics = StatisticsSettings(
        files_per_group=1 if grouped else 128, max_attempts=1_000, publish_after=Duration(0)
    )
    made = KilledCaptures(tmp_path, statistics)
    yield made
    made.kernel.close()


def test_a_worker_that_dies_at_any_call_loses_nothing(bench: KilledCaptures) -> None:
    at = 0
    while True:
        at += 1
        bench.append(2)
        died = bench.kill_at(at * bench.stride)
        bench.check_whole()
        bench.finish()
        metadata = json.loads(bench.kernel.catalog.tables.load(bench.call, T).metadata)
        assert len(metadata["snapshots"]) == at
        newest = [each for each in metadata["statistics"] if each["snapshot-id"] == at]
        assert len(newest) == 1
        if not died:
            break
    assert bench.kills >= 15
    captures = bench.kernel.statistics.captures.list(bench.call)
    assert {each.state for each in captures} == {"succeeded"}
    snapshots = bench.kernel.statistics.captures.snapshots(bench.call, T)
    assert [each.status for each in snapshots] == ["finalized"] * at
    files = {each["snapshot-id"]: each["statistics-path"] for each in metadata["statistics"]}
    assert {each.snapshot_id: each.statistics_file for each in snapshots} == files


def test_killed_services_capture_everything(
    tmp_path: Path, start_catalog: Callable[..., CatalogServer]
) -> None:
    """Two services on one store capture beside commits, and one of them is killed now and then."""
    deployment = Deployment(
        tmp_path / "data",
        start_catalog,
        FLOECAT_STATISTICS_WORKERS="1",
        FLOECAT_STATISTICS_POLL_INTERVAL_MS="20",
        FLOECAT_STATISTICS_LEASE_MS="1000",
        FLOECAT_STATISTICS_FILES_PER_GROUP="2",
        FLOECAT_STATISTICS_PUBLISH_AFTER="PT1S",
    )
    killed, other = deployment.start(), deployment.start()
    sender = Sender(other.base_url)
    assert sender.send("POST", "/namespaces", {"namespace": ["ns"]}).status == 200
    made = sender.send("POST", "/namespaces/ns/tables", {"name": "t", "schema": json.loads(bytes(SCHEMA))})
    appends = WrittenAppends(made.body["metadata"]["location"])
    for _ in range(4):
        for _ in range(3):
            updates = {"requirements": [], "updates": appends.append(3)}
            assert sender.send("POST", "/namespaces/ns/tables/t", updates).status == 200
        killed.kill()
        killed.start()
    captures = f"{other.base_url}/management/v1/catalogs/floecat/namespaces/ns/tables/t/captures"
    deadline = time.monotonic() + 120
    while True:
        newest = httpx.get(captures, timeout=60).json()["snapshots"][-1]
        if newest["snapshot-id"] == 12 and newest["published-at-ms"] is not None:
            break
        assert time.monotonic() < deadline, newest
        time.sleep(0.02)
    assert (newest["coverage"]["rows"], newest["problem"]) == (36 * ROWS_PER_FILE, None)
    metadata = sender.send("GET", "/namespaces/ns/tables/t").body["metadata"]
    assert len(metadata["snapshots"]) == 12
    assert len({each["snapshot-id"] for each in metadata["statistics"]}) == len(metadata["statistics"])
