"""Purges and orphan files in the pipeline."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from floecat.errors import StorageUnavailableError
from floecat.fileio.local import LocalFileIO
from floecat.identifiers.namespace import TableIdentifier
from floecat.jobs.operations import JobOperations
from floecat.purge.purge_jobs import PurgeInfo
from floecat_assets.definitions import defs
from floecat_assets.defs.purge.assets import OUTCOMES
from floecat_assets.defs.purge.orphans import orphan_files
from floecat_assets.defs.purge.sensors import purge_outcomes, purge_sensor
from floecat_assets.defs.resources import KernelResource, SparkResource
from tests.orchestration.conftest import Follower, Lakehouse
from tests.unit.iceberg.manifest_bytes import manifest_list_bytes
from tests.unit.purge.table_files import TableFiles

MANIFESTS = 3
FILES = 8


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as found:
        yield found


def table(lakehouse: Lakehouse, name: str) -> TableFiles:
    """A table whose manifest list says 8,000 files for each manifest, so that each is a range of its own."""
    lakehouse.create(f"beside-{name}", namespace="ns")
    made = TableFiles(
        lakehouse.kernel.files, f"{lakehouse.kernel.settings.warehouse_location}/floecat/{name}"
    )
    for _ in range(MANIFESTS):
        made.append(count=FILES, expire=True)
    listed = [{"manifest_path": path, "added_files_count": 8_000} for path in made.manifests]
    location = made.write(made.path("metadata/counted.avro"), manifest_list_bytes(listed))
    made.snapshots[-1]["manifest-list"] = location
    made.commit()
    lakehouse.kernel.commits.registration.register_table(
        lakehouse.call(), ("ns",), name, made.metadata_location
    )
    return made


def drop(lakehouse: Lakehouse, name: str) -> PurgeInfo:
    lakehouse.kernel.purge.drops.drop(lakehouse.call(), TableIdentifier(("ns",), name), purge=True)
    return lakehouse.kernel.purge.operations.list(lakehouse.call(), title=f"ns.{name}")[0]


def run(instance: dg.DagsterInstance) -> tuple[dict[str, Any], dg.AssetCheckEvaluation]:
    result = defs().resolve_job_def(purge_outcomes.name).execute_in_process(instance=instance)
    (made,) = result.asset_materializations_for_node(OUTCOMES.to_python_identifier())
    (check,) = result.get_asset_check_evaluations()
    return shown(made), check


def shown(made: dg.AssetMaterialization) -> dict[str, Any]:
    return {
        name: value.records if isinstance(value, dg.TableMetadataValue) else value.value
        for name, value in made.metadata.items()
    }


def tick(instance: dg.DagsterInstance, cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
    context = dg.build_sensor_context(
        instance=instance, cursor=cursor, resources={"kernel": KernelResource()}
    )
    with context:
        result = purge_sensor(context)
    assert isinstance(result, dg.SensorResult | dg.SkipReason)
    return result


def test_a_run_works_on_what_is_due(lakehouse: Lakehouse, instance: dg.DagsterInstance) -> None:
    files = table(lakehouse, "t")
    purge = drop(lakehouse, "t")
    metadata, check = run(instance)
    assert files.remaining() == [location for location in files.written if "/snap-" in location]
    named = len(files.written) - len(files.remaining())
    assert (metadata["purge/succeeded"], metadata["purge/deleted_files"]) == (1, named)
    assert metadata["purge/deleted_bytes"] > 0
    assert (metadata["purge/all_queued"], metadata["purge/oldest_open_age_s"]) == (0, 0)
    (row,) = metadata["purge/tables"]
    assert row.data["table"] == "ns.t"
    assert check.passed
    assert lakehouse.kernel.purge.operations.get(lakehouse.call(), purge.id).state == "succeeded"


@pytest.mark.spark
def test_a_large_table_that_is_offered_goes_to_spark(
    lakehouse: Lakehouse, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    monkeypatch.setattr(SparkResource, "open", lambda _self: spark)
    files = table(lakehouse, "t")
    purge = drop(lakehouse, "t")
    monkeypatch.setenv("FLOECAT_PURGE_LARGE_JOB_FILES", "20000")
    assert isinstance(tick(instance), dg.SkipReason)
    # the first claim finds out how large it is; workers of the service do it within seconds
    metadata, _ = run(instance)
    assert (metadata["purge/succeeded"], metadata["purge/all_waiting"]) == (0, 1)
    result = tick(instance)
    assert isinstance(result, dg.SensorResult)
    (request,) = result.run_requests or ()
    assert request.tags["floecat/reason"].startswith("1 purges are offered")
    with warnings.catch_warnings():
        # sockets that py4j and PySpark leave to the garbage collector
        warnings.simplefilter("ignore", ResourceWarning)
        metadata, _ = run(instance)
        gc.collect()
    assert (metadata["purge/succeeded"], metadata["purge/ranges_on_spark"]) == (1, MANIFESTS)
    assert not [location for location in files.remaining() if "/t/data/" in location]
    done = lakehouse.kernel.purge.operations.get(lakehouse.call(), purge.id)
    assert (done.state, done.progress.failed) == ("succeeded", 0)
    assert done.progress.deleted == len(files.written) - len(files.remaining())


def test_a_dead_letter_fails_the_check_and_is_reported_once(
    lakehouse: Lakehouse, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("floecat.jobs.operations.SETTLED_MS", 0)
    monkeypatch.setenv("FLOECAT_PURGE_MAX_ATTEMPTS", "1")
    files = table(lakehouse, "t")
    broken = next(name for name in files.written if "/metadata/m" in name)
    path = Path(broken.removeprefix("file://"))
    path.write_bytes(b"no manifest")
    kernel = KernelResource().open()
    kernel.purge.drops.drop(lakehouse.call(), TableIdentifier(("ns",), "t"), purge=True)
    kernel.close()
    assert isinstance(tick(instance), dg.SkipReason)
    metadata, check = run(instance)
    assert (metadata["purge/dead"], metadata["purge/all_failed"]) == (1, 1)
    assert not check.passed
    (row,) = check.metadata["purge/purges"].records
    assert row.data["table"] == "ns.t"
    assert broken in row.data["problem"]
    result = tick(instance)
    assert isinstance(result, dg.SensorResult)
    assert result.run_requests
    (ended,) = result.asset_events
    assert isinstance(ended, dg.AssetObservation)
    assert ended.description is not None
    assert ended.description.startswith("purge of floecat.ns.t: failed: ")
    assert isinstance(tick(instance, result.cursor), dg.SkipReason)


def test_purges_of_the_service_are_reported_once_and_the_drop_leads_to_them(
    lakehouse: Lakehouse, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("floecat.jobs.operations.SETTLED_MS", 0)
    monkeypatch.setenv("FLOECAT_PIPELINE_CATALOG_URL", "https://lake.example.com")
    follower = Follower(instance)
    table(lakehouse, "t")
    follower.ticks(2)
    purge = drop(lakehouse, "t")
    dropped, shared = follower.events_of(follower.evaluate())
    for event in (dropped, shared):
        assert event.metadata["floecat/purge"].value == OUTCOMES
    link = "https://lake.example.com/management/v1/catalogs/floecat/jobs?kind=purge&entry=ns.t"
    assert dropped.metadata["floecat/purge_job"].value == link
    lakehouse.kernel.purge.queue.drain_once()
    result = tick(instance, "0")
    assert isinstance(result, dg.SensorResult)
    assert not result.run_requests
    (made,) = result.asset_events
    assert isinstance(made, dg.AssetMaterialization)
    deleted = lakehouse.kernel.purge.operations.get(lakehouse.call(), purge.id).progress.deleted
    assert made.description == f"purge of floecat.ns.t: {deleted} files deleted, dropped by ada"
    metadata = shown(made)
    assert (metadata["purge/files_of_table"], metadata["floecat/job_id"]) == (deleted, str(purge.id))
    assert metadata["floecat/table"] == dg.AssetKey(["floecat", "ns", "t"])
    assert isinstance(tick(instance, result.cursor), dg.SkipReason)


def test_nothing_starts_while_the_store_is_away(
    lakehouse: Lakehouse, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_self: JobOperations[Any], _due_for_ms: int) -> int:
        raise StorageUnavailableError("the store is away")

    monkeypatch.setattr(JobOperations, "overdue", away)
    skipped = tick(instance)
    assert isinstance(skipped, dg.SkipReason)
    assert skipped.skip_message == "Nothing was checked: the store is away"


def test_orphan_files_are_reported_and_then_deleted(lakehouse: Lakehouse) -> None:
    files = table(lakehouse, "t")
    stray = files.path("data/stray.parquet")
    LocalFileIO(fsync=False).write_new(stray, b"12345")
    os.utime(stray.removeprefix("file://"), (0, 0))

    def find(**config: Any) -> dict[str, Any]:
        result = dg.materialize(
            [orphan_files],
            resources={"kernel": KernelResource()},
            run_config={"ops": {"purge__orphan_files": {"config": config}}},
        )
        (made,) = result.asset_materializations_for_node("purge__orphan_files")
        return shown(made)

    found = find()
    assert (found["purge/tables"], found["purge/orphan_files"], found["purge/orphan_bytes"]) == (2, 1, 5)
    assert (found["purge/dry_run"], found["purge/deleted_files"], found["purge/oldest"]) == (True, 0, 0)
    done = find(namespace=["ns"], table="t", delete=True, older_than_days=2)
    assert (done["purge/tables"], done["purge/deleted_files"], done["purge/failed_files"]) == (1, 1, 0)
    assert files.remaining() == files.written
