"""Scans of connectors by Dagster."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from floecat.connectors.connector_info import NewConnector
from floecat.delta.connector import DeltaConnector
from floecat.entries.calls import PageRequest
from floecat.errors import StorageUnavailableError
from floecat_assets.definitions import defs
from floecat_assets.defs.connectors.assets import discovered_tables
from floecat_assets.defs.connectors.jobs import connector_scan
from floecat_assets.defs.connectors.schedules import connector_scan_schedule
from floecat_assets.defs.connectors.sensors import failed_scan_sensor
from floecat_assets.defs.resources import KernelResource
from tests.orchestration.conftest import Lakehouse

EVALUATED = ("upstreams_reachable", "tables_match_upstream")


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
    assert events(instance) == [("floecat/landing", 2, 0)]
    assert evaluations(instance) == {"upstreams_reachable": True, "tables_match_upstream": True}
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
    assert events(instance) == [("floecat/b", 1, 0)]
    assert evaluations(instance) == {"upstreams_reachable": False, "tables_match_upstream": True}
    assert landed(lakehouse) == ["orders"]


def test_a_scan_counts_and_names_what_cannot_be_read(
    lakehouse: Lakehouse, instance: dg.DagsterInstance, capfd: pytest.CaptureFixture[str]
) -> None:
    (lakehouse.delta("orders").folder / "_delta_log" / f"{2:020}.json").write_text('{"add": {"path": 5}}')
    lakehouse.delta("events")
    lakehouse.connect("landing", "delta")
    assert run(instance, connector_scan.name).success
    told = capfd.readouterr().err
    assert "connector landing: 2 tables registered, 1 of them cannot be read, 0 changed, 0 were known" in told
    assert "table landed.orders cannot be read: " in told


def test_an_event_names_tables_as_people_do(lakehouse: Lakehouse, instance: dg.DagsterInstance) -> None:
    location = lakehouse.delta("orders").folder.parent.as_uri()
    lakehouse.kernel.connectors.connectors.create(
        lakehouse.call(), NewConnector("eu", "delta", location, ("landed", "eu"))
    )
    assert run(instance, connector_scan.name).success
    (record,) = instance.fetch_materializations(discovered_tables.key, limit=1).records
    shown = record.asset_materialization.metadata["reconcile/tables"]  # type: ignore[union-attr]
    (row,) = shown.records  # type: ignore[union-attr]
    assert (row.data["table"], row.data["what"]) == ("landed:eu.orders", "new")


def test_events_have_links_and_partitions_go_with_their_connectors(
    lakehouse: Lakehouse, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOECAT_PIPELINE_CATALOG_URL", "https://catalog.example.com")
    lakehouse.delta("orders")
    lakehouse.connect("landing", "delta")
    assert run(instance, connector_scan.name).success
    assert instance.get_dynamic_partitions("connectors") == ["floecat/landing"]
    (record,) = instance.fetch_materializations(discovered_tables.key, limit=1).records
    links = record.asset_materialization.metadata  # type: ignore[union-attr]
    root = "https://catalog.example.com/management/v1/catalogs/floecat"
    assert links["reconcile/connector"].value == f"{root}/connectors/landing"
    assert str(links["reconcile/job"].value).startswith(f"{root}/jobs/")
    assert links["reconcile/captures"].value == 1
    lakehouse.kernel.connectors.connectors.drop(lakehouse.call(), "landing")
    lakehouse.connect("second", "delta")
    assert run(instance, connector_scan.name).success
    assert instance.get_dynamic_partitions("connectors") == ["floecat/second"]


def test_scans_of_a_run_that_was_killed_are_due_again_with_the_reason(
    lakehouse: Lakehouse, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakehouse.delta("orders")
    lakehouse.connect("landing", "delta")

    class KilledError(BaseException):
        pass

    def killed(_self: object) -> Any:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(DeltaConnector, "discover", killed)
        result = run(instance, connector_scan.name, raises=False)
    assert not result.success
    (job,) = lakehouse.kernel.jobs.list(lakehouse.call(), kinds=["connector-scan"])
    assert job.state == "running"
    with dg.build_run_status_sensor_context(
        sensor_name="failed_scan_sensor",
        dagster_instance=instance,
        dagster_run=result.dagster_run,
        dagster_event=next(event for event in reversed(result.all_events) if event.is_failure),
        resources={"kernel": KernelResource()},
    ).for_run_failure() as context:
        assert failed_scan_sensor(context) is None
    (job,) = lakehouse.kernel.jobs.list(lakehouse.call(), kinds=["connector-scan"])
    assert (job.state, job.attempts) == ("waiting", 1)
    assert f"run {result.run_id} failed" in (job.last_error or "")


def events(instance: dg.DagsterInstance) -> list[tuple[str | None, object, object]]:
    """Partition, new and failed tables of each scan that ended well."""
    found = instance.fetch_materializations(discovered_tables.key, limit=10).records
    made = [record.asset_materialization for record in found]
    numbers = ("reconcile/new", "reconcile/failed")
    return [(each.partition, *(each.metadata[name].value for name in numbers)) for each in made if each]


def evaluations(instance: dg.DagsterInstance) -> dict[str, bool]:
    """The newest result of each check."""
    keys = [dg.AssetCheckKey(discovered_tables.key, name) for name in EVALUATED]
    found = instance.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    return {
        key.name: record.event.dagster_event.asset_check_evaluation_data.passed  # type: ignore[union-attr]
        for key, record in found.items()
    }


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
