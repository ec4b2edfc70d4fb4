from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from floecat.delta.connector import DeltaConnector
from floecat.entries.calls import PageRequest
from floecat.errors import StorageUnavailableError
from floecat_assets.definitions import defs
from floecat_assets.defs.catalog.schedules import metadata_check_schedule
from floecat_assets.defs.delta.jobs import connector_scan
from floecat_assets.defs.delta.schedules import connector_scan_schedule, delta_repair_schedule
from floecat_assets.defs.resources import KernelResource
from tests.orchestration.conftest import Follower, Lakehouse


def run(instance: dg.DagsterInstance, job: str, *, raises: bool = True) -> dg.ExecuteInProcessResult:
    found = defs().resolve_job_def(job)
    return found.execute_in_process(instance=instance, raise_on_error=raises)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as found:
        yield found


def test_due_connectors_are_scanned(lakehouse: Lakehouse, instance: dg.DagsterInstance) -> None:
    lakehouse.delta("orders")
    lakehouse.delta("events")
    lakehouse.connect("landing", "delta")
    assert run(instance, connector_scan.name).success
    assert landed(lakehouse) == ["events", "orders"]
    # scanned a moment ago, it is not due again
    lakehouse.delta("returns")
    assert run(instance, connector_scan.name).success
    assert landed(lakehouse) == ["events", "orders"]


def test_a_scan_that_ends_early_fails_the_run_and_stops_no_other(
    lakehouse: Lakehouse, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakehouse.delta("orders")
    lakehouse.connect("a", "elsewhere")
    lakehouse.connect("b", "delta")
    discover = DeltaConnector.discover

    def fail_elsewhere(self: Any) -> Any:
        if self._source.location.endswith("elsewhere"):
            raise StorageUnavailableError("storage is away")
        return discover(self)

    monkeypatch.setattr(DeltaConnector, "discover", fail_elsewhere)
    result = run(instance, connector_scan.name, raises=False)
    assert not result.success
    (failure,) = result.filter_events(lambda event: event.is_step_failure)
    assert "Scans of 1 connectors ended early: a" in str(failure.step_failure_data)
    assert landed(lakehouse) == ["orders"]


def test_a_scan_counts_and_names_what_cannot_be_read(
    lakehouse: Lakehouse, instance: dg.DagsterInstance, capfd: pytest.CaptureFixture[str]
) -> None:
    (lakehouse.delta("orders").folder / "_delta_log" / f"{2:020}.json").write_text('{"add": {"path": 5}}')
    lakehouse.delta("events")
    lakehouse.connect("landing", "delta")
    assert run(instance, connector_scan.name).success
    told = capfd.readouterr().err
    assert "connector landing: 2 tables registered, 1 of them cannot be read, 0 were known, 0 failed" in told
    assert "table landed.orders cannot be read: " in told


def landed(lakehouse: Lakehouse) -> list[str]:
    page = lakehouse.kernel.catalog.tables.list(lakehouse.call(), ("landed",), PageRequest())
    return sorted(table.name for table in page.items)


def evaluate(
    instance: dg.DagsterInstance, schedule: dg.ScheduleDefinition = connector_scan_schedule
) -> dg.RunRequest | dg.SkipReason:
    with dg.build_schedule_context(instance=instance, resources={"kernel": KernelResource()}) as context:
        found = schedule(context)
    assert isinstance(found, dg.RunRequest | dg.SkipReason)
    return found


def test_a_scan_is_started_when_one_is_due(lakehouse: Lakehouse, instance: dg.DagsterInstance) -> None:
    assert isinstance(evaluate(instance), dg.SkipReason)
    lakehouse.delta("orders")
    lakehouse.connect("landing", "delta")
    assert isinstance(evaluate(instance), dg.RunRequest)
    instance.create_run_for_job(
        job_def=defs().resolve_job_def("connector_scan"), status=dg.DagsterRunStatus.STARTED
    )
    assert isinstance(evaluate(instance), dg.SkipReason)


def test_no_scan_is_started_twice_for_one_time(lakehouse: Lakehouse, instance: dg.DagsterInstance) -> None:
    lakehouse.connect("landing", "delta")
    assert run(instance, connector_scan.name).success
    assert isinstance(evaluate(instance), dg.SkipReason)


def test_with_the_store_away_no_scan_is_started(
    lakehouse: Lakehouse, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"postgresql+psycopg://floecat:hunter2@127.0.0.1:{nobody.getsockname()[1]}/floecat"
        monkeypatch.setenv("FLOECAT_STORE_URL", url)
        result = evaluate(instance)
    assert isinstance(result, dg.SkipReason)
    assert "hunter2" not in str(result.skip_message)


def test_repairs_are_started_where_there_are_delta_tables(
    lakehouse: Lakehouse, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakehouse.create("orders")
    assert evaluate(instance, delta_repair_schedule) == dg.SkipReason("There are no Delta tables")
    lakehouse.register_delta(lakehouse.delta("orders"), read=False)
    assert isinstance(evaluate(instance, delta_repair_schedule), dg.RunRequest)
    monkeypatch.setenv("FLOECAT_GATEWAY_DELTA_COMPAT_ENABLED", "false")
    assert isinstance(evaluate(instance, delta_repair_schedule), dg.SkipReason)


def test_metadata_files_are_checked_where_there_are_tables(
    lakehouse: Lakehouse, instance: dg.DagsterInstance
) -> None:
    assert evaluate(instance, metadata_check_schedule) == dg.SkipReason("There are no tables")
    table = lakehouse.create("orders")
    Follower(instance).tick()
    assert isinstance(evaluate(instance, metadata_check_schedule), dg.RunRequest)
    lakehouse.metadata_file(table).unlink()
    (evaluation,) = run(instance, "metadata_check").get_asset_check_evaluations()
    assert (evaluation.check_name, evaluation.passed) == ("metadata_files_reachable", False)
    instance.create_run_for_job(
        job_def=defs().resolve_job_def("metadata_check"), status=dg.DagsterRunStatus.STARTED
    )
    assert isinstance(evaluate(instance, metadata_check_schedule), dg.SkipReason)


def test_repairs_are_a_job(lakehouse: Lakehouse, instance: dg.DagsterInstance) -> None:
    writer = lakehouse.delta("orders")
    lakehouse.register_delta(writer)
    for lost in (writer.folder / "metadata").glob("*.avro"):
        lost.unlink()
    result = run(instance, "delta_repair")
    (evaluation,) = result.get_asset_check_evaluations()
    assert evaluation.check_name == "artifacts_present"
    assert not evaluation.passed
    (again,) = run(instance, "delta_repair").get_asset_check_evaluations()
    assert again.passed
