"""Statistics in the pipeline: reported from the service, captured by runs, in one process and on Spark."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import dagster as dg
import msgspec
import pytest

from floecat.commits.commit import CreateTable
from floecat.fileio.opening import open_fileio
from floecat.iceberg.schemas.schema import parse_schema
from floecat.identifiers.namespace import TableIdentifier
from floecat.statistics.capture.control import SnapshotCapture
from floecat.statistics.capture.descriptions import CaptureInfo
from floecat.statistics.files.data_files import FileSummaries
from floecat.statistics.files.summaries import DataFile
from floecat.statistics.records import FileTarget, StatisticsRecord, content_hash
from floecat_assets.definitions import defs
from floecat_assets.defs.resources import KernelResource, SparkResource
from floecat_assets.defs.statistics.assets import index_artifacts, snapshots, targets
from floecat_assets.defs.statistics.checks import TARGETS
from floecat_assets.defs.statistics.reporting import news_of
from floecat_assets.defs.statistics.schedules import statistics_report
from floecat_assets.defs.statistics.sensors import capture_sensor, statistics_capture
from tests.orchestration.conftest import Follower, Lakehouse
from tests.scan_files import WrittenAppends

SCHEMA = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "type": "long", "required": False},
        {"id": 2, "name": "text", "type": "string", "required": False},
    ],
}
T = TableIdentifier(("ns",), "t")
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PYSPARK_4 = "4.0.5"
OWN = dg.AssetKey(["floecat", "ns", "t"])


class Table:
    """A table with data files, known to Dagster."""

    def __init__(self, lakehouse: Lakehouse, instance: dg.DagsterInstance, *, known: bool = True) -> None:
        self.lakehouse = lakehouse
        self.kernel = lakehouse.kernel
        self.instance = instance
        self.call = lakehouse.call()
        self.kernel.catalog.namespaces.create(self.call, ("ns",), {})
        schema = msgspec.Raw(msgspec.json.encode(SCHEMA))
        made = self.kernel.commits.tables.create_table(
            self.call, ("ns",), CreateTable(name="t", schema=schema)
        )
        self.appends = WrittenAppends(msgspec.json.decode(made.metadata)["location"])
        self.key = lakehouse.partition(T)
        self.entry_id = UUID(lakehouse.entry_id(T))
        self.cursor: str | None = None
        if known:
            Follower(instance).tick()

    def append(self, *manifests: int) -> None:
        self.lakehouse.commit(T, *self.appends.append(*manifests))

    def service(self) -> None:
        """What the workers of the service do."""
        self.kernel.statistics.pipeline.search_commits()
        self.kernel.statistics.pipeline.drain(self.entry_id)

    def tick(self) -> dg.SensorResult:
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources={"kernel": KernelResource()}
        ) as context:
            result = capture_sensor(context)
        assert isinstance(result, dg.SensorResult)
        self.cursor = result.cursor
        return result

    def run(self, asset: dg.AssetsDefinition) -> dg.ExecuteInProcessResult:
        job = defs().resolve_implicit_global_asset_job_def()
        with warnings.catch_warnings():
            # sockets that py4j and PySpark leave to the garbage collector
            warnings.simplefilter("ignore", ResourceWarning)
            result = job.execute_in_process(
                instance=self.instance, partition_key=self.key, asset_selection=[asset.key]
            )
            gc.collect()
        return result

    def capture_by_groups(self, monkeypatch: pytest.MonkeyPatch) -> CaptureInfo:
        """Asks for a capture that is large enough for Spark."""
        monkeypatch.setenv("FLOECAT_STATISTICS_FILES_PER_GROUP", "2")
        monkeypatch.setenv("FLOECAT_STATISTICS_LARGE_CAPTURE_BYTES", "1")
        with closing(KernelResource().open()) as kernel:
            return kernel.statistics.captures.capture(self.call, T, full=True, wait_ms=0)

    def captured(self) -> list[SnapshotCapture]:
        return self.kernel.statistics.captures.snapshots(self.call, T)

    def records(self) -> list[StatisticsRecord]:
        return self.kernel.statistics.targets.list(self.call, T)[1].items


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as found:
        yield found


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ended a moment ago counts as settled: one process writes."""
    monkeypatch.setattr("floecat.jobs.operations.SETTLED_MS", 0)


@pytest.fixture
def table(lakehouse: Lakehouse, instance: dg.DagsterInstance) -> Table:
    return Table(lakehouse, instance)


def shown(metadata: Any) -> dict[str, Any]:
    return {
        name: [row.data for row in value.records] if isinstance(value, dg.TableMetadataValue) else value.value
        for name, value in metadata.items()
    }


@pytest.mark.usefixtures("settled")
def test_a_capture_that_is_seen_before_its_table_is_not_lost(
    lakehouse: Lakehouse, instance: dg.DagsterInstance
) -> None:
    table = Table(lakehouse, instance, known=False)
    table.append(1)
    table.service()
    assert [event.asset_key for event in table.tick().asset_events] == [OWN, snapshots.key, TARGETS]
    assert instance.get_dynamic_partitions("captured_tables") == [table.key]
    Follower(instance).tick()
    assert instance.get_dynamic_partitions("captured_tables") == [table.key]


@pytest.mark.usefixtures("settled")
def test_what_is_left_of_a_new_table_gets_a_run(
    lakehouse: Lakehouse, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOECAT_STATISTICS_WORKERS", "0")
    table = Table(lakehouse, instance, known=False)
    table.append(1)
    (request,) = table.tick().run_requests or ()
    assert request.partition_key == table.key


@pytest.mark.usefixtures("settled")
def test_snapshots_of_a_backfill_are_plotted_at_the_times_of_their_commits(table: Table) -> None:
    for rows in range(3):
        table.append(rows + 1)
    table.run(snapshots)
    table.service()
    for event in table.tick().asset_events:
        table.instance.report_runless_asset_event(event)
    found = table.instance.fetch_observations(OWN, limit=10).records
    document = msgspec.json.decode(table.kernel.catalog.tables.load(table.call, T).metadata)
    committed = {str(each["snapshot-id"]): each["timestamp-ms"] for each in document["snapshots"]}
    told = []
    for record in reversed(found):
        assert record.asset_observation is not None
        numbers = shown(record.asset_observation.metadata)
        told.append((numbers["statistics/rows"], numbers["statistics/snapshot_id"], record.timestamp))
    assert [rows for rows, _, _ in told] == [10, 30, 60]
    for _, snapshot_id, timestamp in told[:2]:
        assert timestamp == committed[snapshot_id] / 1000
    assert told[2][2] == pytest.approx(time.time(), abs=600)
    assert not table.tick().asset_events


@pytest.mark.usefixtures("settled")
def test_captures_of_the_service_are_reported_once(table: Table) -> None:
    table.append(2)
    table.service()
    result = table.tick()
    own, asked, shared = result.asset_events
    assert not result.run_requests
    # without an event of its input Dagster would call the asset unsynced
    assert (asked.asset_key, asked.partition) == (snapshots.key, table.key)
    assert isinstance(shared, dg.AssetMaterialization)
    assert (own.asset_key, shared.asset_key, shared.partition) == (OWN, TARGETS, table.key)
    assert shown(own.metadata)["statistics/rows"] == 20
    assert shown(own.metadata)["distinct/text"] == 3
    found = shown(shared.metadata)
    assert (found["statistics/rows"], found["statistics/files"]) == ("20", "2 of 2")
    assert [row["column"] for row in found["statistics/columns"]] == ["id", "text"]
    assert "| 2 |" in found["statistics/file_sizes"]
    assert not table.tick().asset_events
    # after a crash the cursor may be older than what is stored
    for event in result.asset_events:
        table.instance.report_runless_asset_event(event)
    table.cursor = None
    assert not table.tick().asset_events
    table.append(1)
    table.service()
    assert [event.asset_key for event in table.tick().asset_events] == [OWN, TARGETS]


def test_a_run_captures_what_the_service_left(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append(1)
    assert not table.tick().run_requests
    monkeypatch.setenv("FLOECAT_STATISTICS_WORKERS", "0")
    (request,) = table.tick().run_requests or ()
    assert (request.partition_key, request.tags["floecat/name"]) == (table.key, "ns.t")
    result = (
        defs()
        .resolve_job_def(statistics_capture.name)
        .execute_in_process(instance=table.instance, partition_key=table.key)
    )
    asked, made = result.asset_materializations_for_node(TARGETS.to_python_identifier())
    assert (asked.asset_key, asked.partition, made.partition) == (snapshots.key, table.key, table.key)
    assert shown(made.metadata)["statistics/rows"] == "10"
    checks = {each.check_name: each.passed for each in result.get_asset_check_evaluations()}
    assert checks == {
        "manifests_match_summary": True,
        "every_file_captured": True,
        "no_failed_captures": True,
    }
    assert [each.status for each in table.captured()] == ["finalized"]
    (observed,) = table.instance.fetch_observations(OWN, limit=5).records[:1]
    assert observed.asset_observation is not None
    assert shown(observed.asset_observation.metadata)["statistics/files"] == 1
    assert not table.tick().run_requests


def test_what_the_sensor_missed_is_reported_once(table: Table) -> None:
    table.append(2)
    table.service()
    job = defs().resolve_job_def(statistics_report.name)
    for expected in ([TARGETS, snapshots.key], []):
        result = job.execute_in_process(instance=table.instance)
        made = [each.step_materialization_data for each in result.all_events if each.is_step_materialization]
        assert sorted(each.materialization.asset_key for each in made) == sorted(expected)
    (found,) = table.instance.fetch_materializations(TARGETS, limit=5).records
    assert (found.partition_key, found.asset_materialization is not None) == (table.key, True)
    assert table.instance.fetch_observations(OWN, limit=5).records
    # what was reported is not read again
    for path in table.appends.manifest_paths:
        path.unlink()
    with closing(KernelResource().open()) as kernel:
        assert not list(news_of(table.instance, kernel, table.entry_id, table.key, most_files=10))


def test_a_missing_file_fails_the_check_that_names_it(table: Table) -> None:
    table.append(2)
    gone = Path(table.appends.paths[0].removeprefix("file://"))
    gone.unlink()
    table.kernel.statistics.pipeline.search_commits()
    (check,) = [
        each
        for each in table.run(targets).get_asset_check_evaluations()
        if each.check_name == "every_file_captured"
    ]
    assert not check.passed
    assert gone.name in (check.description or "")


def test_snapshots_before_are_captured_by_a_backfill(table: Table) -> None:
    table.append(1)
    table.append(1)
    result = table.run(snapshots)
    (made,) = result.asset_materializations_for_node(snapshots.key.to_python_identifier())
    assert shown(made.metadata)["statistics/asked_for"] == "2"
    table.run(targets)
    assert [each.status for each in table.captured()] == ["finalized", "finalized"]


@pytest.mark.usefixtures("settled")
def test_captures_that_failed_for_good_fail_the_check(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOECAT_STATISTICS_MAX_ATTEMPTS", "1")
    table.append(1)
    for path in table.appends.manifest_paths:
        path.write_bytes(b"no manifest")
    table.tick()
    table.run(targets)
    (event,) = table.tick().asset_events
    assert isinstance(event, dg.AssetCheckEvaluation)
    assert (event.check_name, event.passed) == ("no_failed_captures", False)
    assert shown(event.metadata)["statistics/captures"][0]["table"] == "ns.t"
    assert not table.tick().asset_events


@pytest.mark.spark
def test_spark_finds_the_same_numbers(table: Table, monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    opened: list[SparkResource] = []
    monkeypatch.setattr(SparkResource, "open", lambda resource: opened.append(resource) or spark)
    table.append(3)
    table.service()
    before = {content_hash(each) for each in table.records()}
    asked = table.capture_by_groups(monkeypatch)
    result = table.run(targets)
    logged = [event.message for event in result.all_events if event.message]
    assert result.success, logged
    done = table.kernel.statistics.captures.get(table.call, asked.id)
    assert (done.state, len(done.groups)) == ("succeeded", 2)
    assert {content_hash(each) for each in table.records()} == before
    assert len(before) == 3
    opened.clear()
    assert table.run(index_artifacts).success
    assert len(opened) == 1
    _, page = table.kernel.statistics.index_artifacts.list(table.call, T)
    with FileSummaries(open_fileio(fsync=False), parse_schema(msgspec.json.encode(SCHEMA)), []) as reader:
        for each in page.items:
            assert isinstance(each.target, FileTarget)
            path = each.target.file_path
            size = Path(path.removeprefix("file://")).stat().st_size
            index = reader.page_index(DataFile(path, "parquet", 10, size))
            assert each.content_etag == index.sha256.hex()
    assert len(page.items) == 3


@pytest.mark.spark
@pytest.mark.scale
@pytest.mark.timeout(1_800)
def test_pyspark_4_finds_the_same_numbers(
    table: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table.append(3)
    table.service()
    before = {content_hash(each) for each in table.records()}
    asked = table.capture_by_groups(monkeypatch)
    with closing(KernelResource().open()) as kernel:
        kernel.statistics.pipeline.drain(table.entry_id)
    # the Python of the session of other tests has another Spark
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    command = [_pyspark_4(tmp_path), HERE / "spark_groups.py"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == [PYSPARK_4, "3", "succeeded", "succeeded"]
    table.service()
    assert table.kernel.statistics.captures.get(table.call, asked.id).state == "succeeded"
    assert {content_hash(each) for each in table.records()} == before


def _pyspark_4(folder: Path) -> Path:
    """The Python of an environment with PySpark 4 in the place of the one of `constraints.txt`."""
    python = folder / "pyspark-4" / "bin" / "python"
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    kept = [line for line in constraints if not line.startswith(("pyspark==", "py4j=="))]
    (folder / "constraints.txt").write_text("\n".join(kept))
    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    packages = [f"pyspark=={PYSPARK_4}", "pandas", "--editable", ROOT]
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--constraint", folder / "constraints.txt", *packages], check=True)
    return python


def test_page_indexes_are_built_once(table: Table) -> None:
    table.append(2)
    (made,) = table.run(index_artifacts).asset_materializations_for_node(
        index_artifacts.key.to_python_identifier()
    )
    assert shown(made.metadata)["statistics/built"] == "2"
    table.append(1)
    (made,) = table.run(index_artifacts).asset_materializations_for_node(
        index_artifacts.key.to_python_identifier()
    )
    found = shown(made.metadata)
    assert (found["statistics/built"], found["statistics/kept"]) == ("1", "2")
    _, page = table.kernel.statistics.index_artifacts.list(table.call, T)
    assert [each.coverage.rows_indexed for each in page.items] == [10, 10, 10]
    for each in page.items:
        assert Path(each.artifact_uri.removeprefix("file://")).stat().st_size > 0


def test_a_cursor_of_another_kind_is_refused(table: Table) -> None:
    table.cursor = "{"
    with pytest.raises(Exception, match="reset it"):
        table.tick()
