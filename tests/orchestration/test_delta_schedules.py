from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from floecat_assets.definitions import defs
from floecat_assets.defs.catalog.schedules import metadata_check_schedule
from floecat_assets.defs.delta.schedules import delta_repair_schedule
from floecat_assets.defs.resources import KernelResource
from tests.orchestration.conftest import Follower, Lakehouse


def run(instance: dg.DagsterInstance, job: str, *, raises: bool = True) -> dg.ExecuteInProcessResult:
    found = defs().resolve_job_def(job)
    return found.execute_in_process(instance=instance, raise_on_error=raises)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as found:
        yield found


def evaluate(instance: dg.DagsterInstance, schedule: dg.ScheduleDefinition) -> dg.RunRequest | dg.SkipReason:
    with dg.build_schedule_context(instance=instance, resources={"kernel": KernelResource()}) as context:
        found = schedule(context)
    assert isinstance(found, dg.RunRequest | dg.SkipReason)
    return found


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
