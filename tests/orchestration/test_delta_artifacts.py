from __future__ import annotations

import gc
import warnings
from typing import Any

import dagster as dg
import pytest

from floecat.delta.refresh.pipeline import DeltaPipeline
from floecat.delta.refresh.verification import FileCounts, TableCounts
from floecat.errors import InvalidDeltaTableError, StorageUnavailableError
from floecat_assets.defs.delta import assets
from floecat_assets.defs.delta.assets import ARTIFACTS, artifacts
from floecat_assets.defs.delta.checks import artifacts_present, check_results
from floecat_assets.defs.resources import KernelResource, SparkResource
from floecat_assets.spark.sessions import SparkPlace
from tests.orchestration.conftest import Follower, Lakehouse, delta_rows

PLAIN = FileCounts(files=2, rows=20, files_without_rows=0, deleted_rows=0, files_with_deletes=0)


def materialise(follower: Follower, key: str, *, raises: bool = True) -> dg.ExecuteInProcessResult:
    """Makes a partition, with the checks that are part of it."""
    follower.instance.add_dynamic_partitions("delta_tables", [key])
    return dg.materialize(
        [artifacts],
        instance=follower.instance,
        partition_key=key,
        resources={"kernel": KernelResource(), "spark": SparkResource()},
        raise_on_error=raises,
    )


def values(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = result.asset_materializations_for_node("compat__artifacts")
    return {key: item.value for key, item in event.metadata.items()}


def outcomes(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {each.check_name: each.passed for each in result.get_asset_check_evaluations()}


def test_a_table_is_made_and_counted(lakehouse: Lakehouse, follower: Follower) -> None:
    writer = lakehouse.delta("orders")
    table = lakehouse.register_delta(writer, read=False)
    writer.append(delta_rows(20, 30))
    writer.delete({0: [1, 2], 3: [0]})
    key = lakehouse.partition(table)
    result = materialise(follower, key)

    assert outcomes(result) == dict.fromkeys(("live_files_match", "rows_match", "deleted_rows_match"), True)
    metadata = values(result)
    location = metadata.pop("floecat/metadata_location")
    assert location.startswith(f"{writer.folder.as_uri()}/metadata/3-compat-")
    counts = metadata.pop("delta/counts")
    assert metadata == {
        "floecat/table_name": "floecat.lake.orders",
        "floecat/table_id": lakehouse.entry_id(table),
        "floecat/location": writer.folder.as_uri(),
        "floecat/snapshot_id": "3",
        "floecat/changed": True,
        "delta/version": "3",
        "delta/versions": "4",
    } | {key: metadata[key] for key in metadata if key.startswith("dagster/partition")}
    (observed,) = follower.instance.fetch_observations(
        dg.AssetKey(["floecat", "lake", "orders"]), limit=5
    ).records
    own = {key: item.value for key, item in observed.asset_observation.metadata.items()}
    assert own.pop("floecat/table_id") == lakehouse.entry_id(table)
    assert own == counts
    assert 0 < counts.pop("floecat/seconds") < 60
    assert counts == {
        "dagster/row_count": 27,
        "delta/live_files": 4,
        "delta/rows": 30,
        "delta/deleted_rows": 3,
        "delta/files_with_deletes": 2,
        "floecat/chunks_in_process": 3,
        "floecat/chunks_on_spark": 0,
    }
    assert lakehouse.versions(table) == [0, 1, 2, 3]
    (record,) = follower.instance.fetch_materializations(ARTIFACTS, limit=5).records
    assert record.partition_key == key
    assert record.asset_materialization.tags["dagster/data_version"] == "3"


def test_older_versions_than_a_load_takes_are_made_too(
    lakehouse: Lakehouse, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOECAT_GATEWAY_DELTA_COMPAT_MAX_VERSIONS_IN_REQUEST", "2")
    writer = lakehouse.delta("orders")
    for start in range(20, 60, 10):
        writer.append(delta_rows(start, start + 10))
    table = lakehouse.register_delta(writer, read=False)
    result = materialise(follower, lakehouse.partition(table))
    assert values(result)["delta/versions"] == "6"
    assert lakehouse.versions(table) == [0, 1, 2, 3, 4, 5]


def test_made_again_nothing_changes(lakehouse: Lakehouse, follower: Follower) -> None:
    table = lakehouse.register_delta(lakehouse.delta("orders"))
    key = lakehouse.partition(table)
    first = values(materialise(follower, key))
    second = values(materialise(follower, key))
    assert second["floecat/changed"] is False
    assert second["floecat/metadata_location"] == first["floecat/metadata_location"]


@pytest.mark.parametrize("what", ["iceberg", "dropped"])
def test_what_is_no_delta_table_is_passed_over(lakehouse: Lakehouse, follower: Follower, what: str) -> None:
    if what == "iceberg":
        key = lakehouse.partition(lakehouse.create("orders"))
    else:
        table = lakehouse.register_delta(lakehouse.delta("orders"))
        key = lakehouse.partition(table)
        lakehouse.kernel.catalog.tables.drop(lakehouse.call(), table)
    result = materialise(follower, key)
    assert result.success
    assert result.asset_materializations_for_node("compat__artifacts") == []
    descriptions = {each.description for each in result.get_asset_check_evaluations()}
    assert descriptions == {"Not a Delta table"}


def test_a_broken_table_fails_at_once_and_says_why(lakehouse: Lakehouse, follower: Follower) -> None:
    writer = lakehouse.delta("orders")
    table = lakehouse.register_delta(writer)
    key = lakehouse.partition(table)
    log = writer.folder / "_delta_log"
    (log / f"{2:020}.json").write_text('{"add": {"path": 5}}')
    result = materialise(follower, key, raises=False)
    assert not result.success
    (failure,) = result.filter_events(lambda event: event.is_step_failure)
    assert failure.step_failure_data.user_failure_data.metadata["floecat/error"].value == (
        "InvalidDeltaTableError"
    )
    assert not result.filter_events(lambda event: event.is_step_up_for_retry)
    assert lakehouse.versions(table) == [0, 1]


@pytest.mark.parametrize("key", ["nonsense", "{0190A1B2-0000-7000-8000-000000000001}"])
def test_a_partition_that_is_no_table_fails_at_once_and_says_so(
    lakehouse: Lakehouse, follower: Follower, key: str
) -> None:
    result = materialise(follower, key, raises=False)
    (failure,) = result.filter_events(lambda event: event.is_step_failure)
    assert f"Partition '{key}' is not a table" in str(failure.step_failure_data)
    assert not result.filter_events(lambda event: event.is_step_up_for_retry)


def test_settings_say_where_spark_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SparkResource().place() == SparkPlace()
    monkeypatch.setenv("FLOECAT_SPARK_MASTER", "spark://host:7077")
    monkeypatch.setenv("FLOECAT_SPARK_CONF", '{"spark.a": "1", "spark.b": "2"}')
    assert SparkResource().place() == SparkPlace("spark://host:7077", None, {"spark.a": "1", "spark.b": "2"})
    here = SparkResource(remote="sc://here", conf={"spark.b": "3"})
    assert here.place() == SparkPlace(None, "sc://here", {"spark.a": "1", "spark.b": "3"})


def test_what_passes_is_tried_again(
    lakehouse: Lakehouse, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lakehouse.register_delta(lakehouse.delta("orders"), read=False)
    tries = 0
    work = DeltaPipeline.materialise

    def away_at_first(self: Any, *arguments: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StorageUnavailableError("storage is away")
        return work(self, *arguments)

    monkeypatch.setattr(DeltaPipeline, "materialise", away_at_first)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    result = materialise(follower, lakehouse.partition(table))
    assert result.success
    assert tries == 2


@pytest.mark.spark
def test_many_vectors_go_to_spark(
    lakehouse: Lakehouse, follower: Follower, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    monkeypatch.setenv("FLOECAT_GATEWAY_DELTA_COMPAT_MAX_FILES_IN_REQUEST", "1")
    monkeypatch.setattr(SparkResource, "open", lambda _self: spark)
    monkeypatch.setattr(SparkResource, "teardown_after_execution", lambda _self, _context: None)
    writer = lakehouse.delta("orders")
    table = lakehouse.register_delta(writer, read=False)
    writer.delete({0: [1], 1: [1]})
    writer.delete({0: [2]})
    with warnings.catch_warnings():
        # sockets that py4j and PySpark leave to the garbage collector
        warnings.simplefilter("ignore", ResourceWarning)
        result = materialise(follower, lakehouse.partition(table))
        gc.collect()
    counts = values(result)["delta/counts"]
    assert (counts["floecat/chunks_on_spark"], counts["floecat/chunks_in_process"]) == (1, 2)
    assert counts["delta/deleted_rows"] == 3
    assert all(outcomes(result).values())


def results_of(**changed: Any) -> dict[str, bool]:
    numbers: dict[str, Any] = {"version": 1, "delta": PLAIN, "iceberg": PLAIN}
    numbers |= {"missing": (), "unexpected": (), "stray_deletes": ()}
    return {each.check_name: each.passed for each in check_results(TableCounts(**(numbers | changed)))}


def replaced(**changed: int) -> FileCounts:
    fields = {name: getattr(PLAIN, name) for name in PLAIN.__struct_fields__}
    return FileCounts(**(fields | changed))


@pytest.mark.parametrize(
    ("changed", "failed"),
    [
        ({}, set()),
        ({"missing": ("file:///a",)}, {"live_files_match"}),
        ({"unexpected": ("file:///a",)}, {"live_files_match"}),
        ({"iceberg": replaced(rows=19)}, {"rows_match"}),
        ({"iceberg": replaced(deleted_rows=1)}, {"deleted_rows_match"}),
        ({"stray_deletes": ("file:///a",)}, {"deleted_rows_match"}),
        ({"delta": replaced(rows=10, files_without_rows=1)}, set()),
        ({"delta": replaced(rows=30, files_without_rows=1)}, {"rows_match"}),
        ({"iceberg": replaced(rows=20, files_without_rows=1)}, {"rows_match"}),
    ],
)
def test_checks_fail_for_what_they_are_about(changed: dict[str, Any], failed: set[str]) -> None:
    assert {name for name, passed in results_of(**changed).items() if not passed} == failed


def run_presence_check(follower: Follower) -> dg.AssetCheckEvaluation:
    job = dg.Definitions(
        asset_checks=[artifacts_present], resources={"kernel": KernelResource()}
    ).resolve_implicit_global_asset_job_def()
    (evaluation,) = job.execute_in_process(instance=follower.instance).get_asset_check_evaluations()
    return evaluation


def told(evaluation: dg.AssetCheckEvaluation) -> list[tuple[str, str]]:
    records = evaluation.metadata["floecat/outcomes"].records
    return [(record.data["table"], record.data["outcome"]) for record in records]


def test_lost_artifacts_are_found_and_made_anew(lakehouse: Lakehouse, follower: Follower) -> None:
    writers = [lakehouse.delta(name) for name in ("orders", "events", "returns")]
    for writer in writers:
        writer.delete({0: [1]})
        lakehouse.register_delta(writer)
    assert run_presence_check(follower).passed

    for lost in (writers[1].folder / "metadata").glob("*-pd-*"):
        lost.unlink()
    evaluation = run_presence_check(follower)
    assert not evaluation.passed
    assert evaluation.severity == dg.AssetCheckSeverity.WARN
    assert told(evaluation) == [("floecat.lake.events", "rebuilt")]
    assert run_presence_check(follower).passed
    assert list((writers[1].folder / "metadata").glob("*-pd-*"))


def test_a_repair_brings_all_versions_back(
    lakehouse: Lakehouse, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = lakehouse.delta("orders")
    for start in range(20, 50, 10):
        writer.append(delta_rows(start, start + 10))
    table = lakehouse.register_delta(writer)
    for lost in (writer.folder / "metadata").glob("*.avro"):
        lost.unlink()
    monkeypatch.setenv("FLOECAT_GATEWAY_DELTA_COMPAT_MAX_VERSIONS_IN_REQUEST", "1")
    assert told(run_presence_check(follower)) == [("floecat.lake.orders", "rebuilt")]
    assert lakehouse.versions(table) == [0, 1, 2, 3, 4]


def test_one_table_that_cannot_be_repaired_stops_no_other(
    lakehouse: Lakehouse, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers = [lakehouse.delta(name) for name in ("orders", "events")]
    tables = [lakehouse.register_delta(writer) for writer in writers]
    for writer in writers:
        for lost in (writer.folder / "metadata").glob("*.avro"):
            lost.unlink()
    repair = DeltaPipeline.repair

    def fail_first(self: Any, entry_id: Any) -> bool:
        if str(entry_id) == lakehouse.entry_id(tables[0]):
            raise InvalidDeltaTableError("the log is broken")
        return repair(self, entry_id)

    monkeypatch.setattr(DeltaPipeline, "repair", fail_first)
    evaluation = run_presence_check(follower)
    assert evaluation.severity == dg.AssetCheckSeverity.ERROR
    assert told(evaluation) == [
        ("floecat.lake.orders", "the log is broken"),
        ("floecat.lake.events", "rebuilt"),
    ]


def test_progress_is_logged_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[tuple[int, int]] = []
    now = 0.0
    monkeypatch.setattr(assets.time, "monotonic", lambda: now)

    class Log:
        def info(self, _text: str, done: int, wanted: int) -> None:
            lines.append((done, wanted))

    class Context:
        log = Log()

    context: Any = Context()
    log = assets.log_progress(context)
    for done in range(0, 300, 100):
        now += 6.0
        log(done, 250)
    log(250, 250)
    assert lines == [(100, 250), (250, 250)]
