from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from floecat.errors import SettingsError
from floecat_assets.definitions import defs
from floecat_assets.tables.definitions import load_specs

ROOT = Path(__file__).parents[2]

LOADS_WITHOUT_IO = """
import sys

def refuse(event, args):
    if event in ("socket.connect", "sqlite3.connect"):
        raise RuntimeError(f"{event} while definitions load")
    if event == "import" and args[0] in ("pyarrow", "numpy", "pyspark"):
        raise RuntimeError(f"{args[0]} is imported while definitions load")

sys.addaudithook(refuse)
from floecat_assets.definitions import defs
import dagster as dg
dg.Definitions.validate_loadable(defs())
"""

TABLES_LOAD_WITHOUT_PYARROW = (
    LOADS_WITHOUT_IO.replace('("socket.connect", "sqlite3.connect")', '("socket.connect",)').replace(
        "floecat_assets.definitions", "floecat_assets.tables.definitions"
    )
    + """
print(*(spec.key.to_user_string() for spec in defs().resolve_all_asset_specs()))
"""
)


def test_the_code_location_holds_what_it_should():
    loaded = defs()
    dg.Definitions.validate_loadable(loaded)
    repository = loaded.get_repository_def()
    tables, made = dg.AssetKey(["catalog", "tables"]), dg.AssetKey(["compat", "artifacts"])
    outcomes, orphans = dg.AssetKey(["purge", "outcomes"]), dg.AssetKey(["purge", "orphan_files"])
    snapshots, targets = dg.AssetKey(["catalog", "snapshots"]), dg.AssetKey(["statistics", "targets"])
    indexes = dg.AssetKey(["statistics", "index_artifacts"])
    discovered = dg.AssetKey(["reconcile", "discovered_tables"])
    assert repository.asset_graph.get_all_asset_keys() == {
        *(tables, made, outcomes, orphans),
        *(snapshots, targets, indexes, discovered),
    }
    for key, parent in ((snapshots, tables), (targets, snapshots), (indexes, targets)):
        node = repository.asset_graph.get(key)
        assert (node.group_name, node.parent_keys) == ("statistics", {parent})
        assert node.partitions_def.name == "captured_tables"
    for key in (outcomes, orphans):
        node = repository.asset_graph.get(key)
        assert (node.group_name, node.partitions_def, node.pools) == ("purge", None, {"purge"})
    node = repository.asset_graph.get(tables)
    assert (node.is_external, node.group_name, node.kinds) == (True, "catalog", {"iceberg"})
    assert isinstance(node.partitions_def, dg.DynamicPartitionsDefinition)
    assert node.partitions_def.name == "tables"
    node = repository.asset_graph.get(made)
    assert (node.parent_keys, node.group_name, node.kinds) == ({tables}, "compat", {"delta", "iceberg"})
    assert node.partitions_def.name == "delta_tables"
    assert {(key.asset_key, key.name) for key in repository.asset_graph.asset_check_keys} == {
        (tables, "metadata_files_reachable"),
        *((made, f"{what}_match") for what in ("live_files", "rows", "deleted_rows")),
        (made, "artifacts_present"),
        (outcomes, "no_dead_letters"),
        *((targets, name) for name in ("manifests_match_summary", "every_file_captured")),
        (targets, "no_failed_captures"),
        *((discovered, name) for name in ("upstreams_reachable", "tables_match_upstream")),
    }
    assert {(sensor.name, sensor.default_status) for sensor in repository.sensor_defs} == {
        ("capture_sensor", dg.DefaultSensorStatus.RUNNING),
        ("commit_sensor", dg.DefaultSensorStatus.RUNNING),
        ("delta_log_sensor", dg.DefaultSensorStatus.RUNNING),
        ("failed_scan_sensor", dg.DefaultSensorStatus.RUNNING),
        ("purge_sensor", dg.DefaultSensorStatus.RUNNING),
        ("table_names_sensor", dg.DefaultSensorStatus.RUNNING),
    }
    assert {(each.name, each.cron_schedule, each.job_name) for each in repository.schedule_defs} == {
        ("connector_scan_schedule", "* * * * *", "connector_scan"),
        ("delta_repair_schedule", "17 * * * *", "delta_repair"),
        ("metadata_check_schedule", "43 3 * * *", "metadata_check"),
        ("statistics_report_schedule", "23 4 * * *", "statistics_report"),
    }
    assert loaded.executor is dg.in_process_executor


def test_the_run_of_a_table_leaves_the_check_of_all_tables_out():
    job = defs().get_repository_def().get_job("delta_artifacts")
    assert {key.name for key in job.asset_layer.asset_graph.asset_check_keys} == {
        "live_files_match",
        "rows_match",
        "deleted_rows_match",
    }
    assert {sensor.minimum_interval_seconds for sensor in defs().get_repository_def().sensor_defs} == {
        2,
        10,
        30,
    }


def test_the_page_says_what_runs_and_when():
    repository, page = defs().get_repository_def(), (ROOT / "docs" / "dagster.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+_(?:sensor|schedule))` \| (.+?) \|", page, re.MULTILINE))
    assert rows == {
        **{each.name: f"every {each.minimum_interval_seconds} s" for each in repository.sensor_defs},
        **{each.name: f"`{each.cron_schedule}`" for each in repository.schedule_defs},
    }
    keys = {key.to_user_string() for key in repository.asset_graph.get_all_asset_keys()}
    assert {key for key in keys if f"`{key}`" not in page} == set()


def test_dagster_validates_the_workspace(tmp_path):
    workspaces = ["-w", "workspace.yaml", "-w", "floecat_assets/tables.yaml"]
    completed = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", *workspaces],
        check=False,
        cwd=ROOT,
        env={**os.environ, "DAGSTER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    for location in ("floecat", "tables"):
        assert f"Validation successful for code location {location}" in completed.stdout + completed.stderr


def test_definitions_load_without_touching_store_or_network():
    completed = subprocess.run(
        [sys.executable, "-c", LOADS_WITHOUT_IO],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert completed.returncode == 0, completed.stderr


def test_the_location_of_tables_has_an_asset_for_each(lakehouse, monkeypatch):
    lakehouse.create("orders")
    lakehouse.register_delta(lakehouse.delta("events"), read=False)
    lakehouse.create_view("recent", sql="select * from sales.orders")
    completed = subprocess.run(
        [sys.executable, "-c", TABLES_LOAD_WITHOUT_PYARROW],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert completed.stdout.split() == [
        "floecat/sales/orders",
        "floecat/lake/events/~delta",
        "floecat/lake/events",
        "floecat/sales/recent",
    ], completed.stderr
    (view,) = [spec for spec in load_specs() if spec.key.path[-1] == "recent"]
    assert [dep.asset_key.path[-1] for dep in view.deps] == ["orders"]
    assert view.metadata["floecat/created_by"].value == "ada"
    monkeypatch.setenv("FLOECAT_PIPELINE_TABLE_ASSETS", "1")
    assert [spec.key.path[-1] for spec in load_specs()] == ["orders"]


def test_the_code_location_is_not_loaded_without_keys_of_secrets(monkeypatch):
    monkeypatch.setenv("FLOECAT_STORE_URL", "postgresql+psycopg://floecat:hunter2@127.0.0.1:9/floecat")
    with pytest.raises(SettingsError, match=r"floecat\.secrets\.keys is not set"):
        defs()


def test_with_the_store_away_there_are_no_assets_of_tables_and_a_warning(data_dir, monkeypatch, caplog):
    monkeypatch.setenv("FLOECAT_STORE_URL", "postgresql+psycopg://floecat:hunter2@127.0.0.1:9/floecat")
    assert load_specs() == ()
    (record,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert "no assets of tables: The store is not available" in record.getMessage()
    assert "hunter2" not in record.getMessage()


def test_every_part_of_the_pipeline_says_what_it_is_for():
    repository = defs().get_repository_def()
    jobs = [job for job in repository.get_all_jobs() if not job.name.startswith("__")]
    parts = [*repository.sensor_defs, *repository.schedule_defs, *jobs]
    assert [part.name for part in parts if len(part.description or "") < 20] == []
    nodes = repository.asset_graph.asset_nodes
    assert [node.key for node in nodes if len(node.description or "") < 20] == []


def test_the_instance_settings_are_accepted_and_stay_in_their_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert not instance.telemetry_enabled
        assert instance.run_monitoring_enabled
        assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 4
        assert Path(instance.root_directory) == tmp_path
    assert (tmp_path / "history").is_dir()


def test_the_locations_have_one_name_everywhere():
    files = [ROOT / "workspace.yaml", ROOT / "floecat_assets" / "tables.yaml"]
    locations = [location for file in files for location in yaml.safe_load(file.read_text())["load_from"]]
    assert [location["python_module"] for location in locations] == [
        {"module_name": "floecat_assets.definitions", "location_name": "floecat"},
        {"module_name": "floecat_assets.tables.definitions", "location_name": "tables"},
    ]
