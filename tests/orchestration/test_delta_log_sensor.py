from __future__ import annotations

import json
import socket
from typing import Any

import dagster as dg
import pytest

from floecat.errors import BadRequestError
from floecat.runtime import kernel
from floecat.settings import load_settings
from floecat_assets.defs.delta import sensors
from floecat_assets.defs.delta.assets import ARTIFACTS, artifacts
from floecat_assets.defs.delta.sensors import delta_log_sensor
from floecat_assets.defs.resources import KernelResource, SparkResource
from tests.orchestration.conftest import Follower, Lakehouse, delta_rows


class Watcher:
    """Evaluates the sensor, and remembers run keys as the daemon does."""

    def __init__(self, follower: Follower) -> None:
        self.instance = follower.instance
        self.cursor: str | None = None
        self.follows = True
        self._follower = follower
        self._keys: set[str] = set()

    def evaluate(self) -> dg.SensorResult | dg.SkipReason:
        if self.follows:
            self._follower.ticks(2)
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"kernel": KernelResource()}
        ) as context:
            result = delta_log_sensor(context)
        assert isinstance(result, dg.SensorResult | dg.SkipReason)
        return result

    def tick(self) -> list[dg.RunRequest]:
        result = self.evaluate()
        if isinstance(result, dg.SkipReason):
            return []
        self.cursor = result.cursor
        requests = [each for each in result.run_requests or () if each.run_key not in self._keys]
        self._keys |= {str(each.run_key) for each in requests}
        return requests

    def begin(self, request: dg.RunRequest, status: dg.DagsterRunStatus, **of_run: Any) -> None:
        """Stores a run of a request that has come so far."""
        self.instance.create_run_for_job(
            job_def=dg.Definitions(
                assets=[artifacts], resources={"kernel": KernelResource(), "spark": SparkResource()}
            ).resolve_implicit_global_asset_job_def(),
            tags={**request.tags, "dagster/partition": str(request.partition_key)},
            status=status,
            **of_run,
        )

    def do(self, request: dg.RunRequest) -> None:
        result = dg.materialize(
            [artifacts],
            instance=self.instance,
            partition_key=request.partition_key,
            tags=dict(request.tags),
            resources={"kernel": KernelResource(), "spark": SparkResource()},
        )
        assert result.success


@pytest.fixture
def watcher(follower: Follower) -> Watcher:
    return Watcher(follower)


def reasons(requests: list[dg.RunRequest]) -> list[tuple[str, str]]:
    return [(each.tags["floecat/name"], each.tags["floecat/reason"]) for each in requests]


def test_a_table_that_was_never_read_gets_one_run(lakehouse: Lakehouse, watcher: Watcher) -> None:
    table = lakehouse.register_delta(lakehouse.delta("orders"), read=False)
    (request,) = watcher.tick()
    key = lakehouse.entry_id(table)
    assert request.partition_key == lakehouse.partition(table)
    assert request.tags["floecat/table"] == key
    assert str(request.run_key).startswith(f"{key}:1-")
    assert reasons([request]) == [("floecat.lake.orders", "unread")]
    assert watcher.tick() == []
    watcher.do(request)
    assert watcher.tick() == []
    assert lakehouse.versions(table) == [0, 1]


def test_a_run_does_not_wait_for_the_sensor_of_commits(lakehouse: Lakehouse, watcher: Watcher) -> None:
    watcher.follows = False
    table = lakehouse.register_delta(lakehouse.delta("orders"), read=False)
    (request,) = watcher.tick()
    key = lakehouse.partition(table)
    assert request.partition_key == key
    assert watcher.instance.get_dynamic_partitions("delta_tables") == [key]
    watcher.follows = True
    assert watcher.tick() == []
    assert watcher.instance.get_dynamic_partitions("delta_tables") == [key]


def test_each_new_version_gets_a_run(lakehouse: Lakehouse, watcher: Watcher) -> None:
    writer = lakehouse.delta("orders")
    table = lakehouse.register_delta(writer)
    assert watcher.tick() == []
    keys = []
    for start in (20, 30):
        writer.append(delta_rows(start, start + 10))
        (request,) = watcher.tick()
        assert reasons([request]) == [("floecat.lake.orders", "behind")]
        keys.append(request.run_key)
        watcher.do(request)
    assert len(set(keys)) == 2
    assert lakehouse.versions(table) == [0, 1, 2, 3]


def test_what_a_load_brought_in_needs_no_run(lakehouse: Lakehouse, watcher: Watcher) -> None:
    writer = lakehouse.delta("orders")
    table = lakehouse.register_delta(writer)
    writer.append(delta_rows(20, 30))
    # another process, as this one has just looked
    with kernel(load_settings()) as service:
        service.delta.format.refresh(lakehouse.call(), table, lakehouse.row(table))
    assert watcher.tick() == []


def test_nothing_starts_while_a_run_of_the_table_is_going_on(lakehouse: Lakehouse, watcher: Watcher) -> None:
    writer = lakehouse.delta("orders")
    lakehouse.register_delta(writer, read=False)
    (request,) = watcher.tick()
    watcher.begin(request, dg.DagsterRunStatus.STARTED)
    writer.append(delta_rows(20, 30))
    result = watcher.evaluate()
    assert isinstance(result, dg.SensorResult)
    assert result.run_requests == []
    assert result.skip_reason is not None
    assert "1 wait for a run" in str(result.skip_reason.skip_message)


def test_a_run_that_was_started_by_hand_counts_too(lakehouse: Lakehouse, watcher: Watcher) -> None:
    table = lakehouse.register_delta(lakehouse.delta("orders"), read=False)
    by_hand = dg.RunRequest(partition_key=lakehouse.partition(table))
    watcher.begin(by_hand, dg.DagsterRunStatus.STARTED, asset_selection=frozenset([ARTIFACTS]))
    assert watcher.tick() == []


def test_a_failed_state_is_tried_again_after_pauses(
    lakehouse: Lakehouse, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakehouse.register_delta(lakehouse.delta("orders"), read=False)
    shift_s = 0.0
    now = KernelResource.now_ms
    monkeypatch.setattr(KernelResource, "now_ms", lambda self: now(self) + int(shift_s * 1000))
    made = watcher.tick()
    for tries in range(1, 6):
        watcher.begin(made[-1], dg.DagsterRunStatus.FAILURE)
        assert watcher.tick() == []
        shift_s += 61.0 * 4 ** (tries - 1)
        (request,) = watcher.tick()
        assert request.run_key == f"{made[0].run_key}:retry-{tries}"
        made.append(request)
    watcher.begin(made[-1], dg.DagsterRunStatus.FAILURE)
    shift_s += 1e6
    assert watcher.tick() == []
    assert "1 were given up" in told(watcher)


def told(watcher: Watcher) -> str:
    result = watcher.evaluate()
    assert isinstance(result, dg.SensorResult)
    assert result.skip_reason is not None
    return str(result.skip_reason.skip_message)


def test_a_new_version_is_tried_whatever_became_of_the_last(lakehouse: Lakehouse, watcher: Watcher) -> None:
    writer = lakehouse.delta("orders")
    lakehouse.register_delta(writer, read=False)
    (request,) = watcher.tick()
    watcher.begin(request, dg.DagsterRunStatus.FAILURE)
    writer.append(delta_rows(20, 30))
    (again,) = watcher.tick()
    assert ":2-" in str(again.run_key)


def test_older_versions_are_made_once(
    lakehouse: Lakehouse, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = lakehouse.delta("orders")
    for start in range(20, 50, 10):
        writer.append(delta_rows(start, start + 10))
    table = lakehouse.register_delta(writer, read=False)
    with monkeypatch.context() as limited:
        limited.setenv("FLOECAT_GATEWAY_DELTA_COMPAT_MAX_VERSIONS_IN_REQUEST", "2")
        with kernel(load_settings()) as service:
            service.delta.format.refresh(lakehouse.call(), table, lakehouse.row(table))
    assert lakehouse.versions(table) == [3, 4]
    (request,) = watcher.tick()
    assert reasons([request]) == [("floecat.lake.orders", "incomplete")]
    watcher.do(request)
    assert watcher.tick() == []
    assert lakehouse.versions(table) == [0, 1, 2, 3, 4]


def test_a_table_that_was_replaced_is_seen(lakehouse: Lakehouse, watcher: Watcher) -> None:
    writer = lakehouse.delta("orders")
    lakehouse.register_delta(writer)
    assert watcher.tick() == []
    log = writer.folder / "_delta_log"
    for file in log.iterdir():
        file.write_bytes(file.read_bytes() + b"\n")
    (request,) = watcher.tick()
    assert reasons([request]) == [("floecat.lake.orders", "replaced")]
    watcher.do(request)
    assert watcher.tick() == []


def test_one_broken_table_stops_no_other(lakehouse: Lakehouse, watcher: Watcher) -> None:
    writers = [lakehouse.delta(name) for name in ("orders", "events")]
    for writer in writers:
        lakehouse.register_delta(writer)
        writer.append(delta_rows(20, 30))
    for file in (writers[0].folder / "_delta_log").iterdir():
        file.unlink()
    assert reasons(watcher.tick()) == [("floecat.lake.events", "behind")]


def test_partitions_that_are_no_tables_stop_no_tick(lakehouse: Lakehouse, watcher: Watcher) -> None:
    watcher.instance.add_dynamic_partitions("delta_tables", ["nonsense"])
    watcher.instance.report_runless_asset_event(dg.AssetMaterialization(ARTIFACTS, partition="nonsense"))
    lakehouse.register_delta(lakehouse.delta("orders"), read=False)
    assert reasons(watcher.tick()) == [("floecat.lake.orders", "unread")]


def test_ticks_go_round_all_tables(
    lakehouse: Lakehouse, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensors, "TABLES_PER_TICK", 2)
    names = [f"t{number}" for number in range(5)]
    for name in names:
        lakehouse.register_delta(lakehouse.delta(name), read=False)
    seen = [[each.tags["floecat/name"].rpartition(".")[2] for each in watcher.tick()] for _ in range(3)]
    assert seen == [["t0", "t1"], ["t2", "t3"], ["t4"]]
    assert json.loads(watcher.cursor or "") == {"version": 1, "after": None}
    assert watcher.tick() == []


def test_a_tick_starts_a_bounded_number_of_runs(
    lakehouse: Lakehouse, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensors, "RUNS_PER_TICK", 2)
    for number in range(5):
        lakehouse.register_delta(lakehouse.delta(f"t{number}"), read=False)
    assert [len(watcher.tick()) for _ in range(3)] == [2, 2, 1]


def test_iceberg_tables_are_none_of_its_business(lakehouse: Lakehouse, watcher: Watcher) -> None:
    lakehouse.create("orders")
    assert watcher.tick() == []


def test_with_the_store_away_the_tick_is_skipped(
    lakehouse: Lakehouse, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"postgresql+psycopg://floecat:hunter2@127.0.0.1:{nobody.getsockname()[1]}/floecat"
        with monkeypatch.context() as away:
            away.setenv("FLOECAT_STORE_URL", url)
            away.setattr(watcher._follower, "ticks", lambda _count: [])
            result = watcher.evaluate()
    assert isinstance(result, dg.SkipReason)
    assert "hunter2" not in str(result.skip_message)


def test_with_delta_tables_turned_off_the_tick_is_skipped(
    lakehouse: Lakehouse, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOECAT_GATEWAY_DELTA_COMPAT_ENABLED", "false")
    result = watcher.evaluate()
    assert isinstance(result, dg.SkipReason)
    assert "turned off" in str(result.skip_message)


@pytest.mark.parametrize("cursor", ["17", "[]", '{"version":2}', '{"after":"x"}'])
def test_a_cursor_that_is_none_fails_the_tick(lakehouse: Lakehouse, watcher: Watcher, cursor: str) -> None:
    watcher.cursor = cursor
    with pytest.raises(BadRequestError, match="cursor"):
        watcher.evaluate()


def test_the_runs_are_of_the_asset(lakehouse: Lakehouse) -> None:
    job: Any = delta_log_sensor.job
    assert job.name == "delta_artifacts"
    assert artifacts.key == ARTIFACTS
