from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import yaml

from floecat_assets.definitions import defs

ROOT = Path(__file__).parents[2]

LOADS_WITHOUT_IO = """
import sys

def refuse(event, args):
    if event in ("socket.connect", "sqlite3.connect"):
        raise RuntimeError(f"{event} while definitions load")

sys.addaudithook(refuse)
from floecat_assets.definitions import defs
import dagster as dg
dg.Definitions.validate_loadable(defs())
"""


def test_the_code_location_holds_what_it_should():
    loaded = defs()
    dg.Definitions.validate_loadable(loaded)
    repository = loaded.get_repository_def()
    tables = dg.AssetKey(["catalog", "tables"])
    assert repository.asset_graph.get_all_asset_keys() == {tables}
    node = repository.asset_graph.get(tables)
    assert (node.is_external, node.group_name, node.kinds) == (True, "catalog", {"iceberg"})
    assert isinstance(node.partitions_def, dg.DynamicPartitionsDefinition)
    assert node.partitions_def.name == "tables"
    assert [(sensor.name, sensor.default_status) for sensor in repository.sensor_defs] == [
        ("commit_sensor", dg.DefaultSensorStatus.RUNNING)
    ]
    assert loaded.executor is dg.in_process_executor


def test_dagster_validates_the_workspace(tmp_path):
    completed = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"],
        check=False,
        cwd=ROOT,
        env={**os.environ, "DAGSTER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "Validation successful for code location floecat" in completed.stdout + completed.stderr


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


def test_the_instance_settings_are_accepted_and_stay_in_their_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    (tmp_path / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert not instance.telemetry_enabled
        assert instance.run_monitoring_enabled
        assert instance.get_concurrency_config().run_queue_config.max_concurrent_runs == 4
        assert Path(instance.root_directory) == tmp_path
    assert (tmp_path / "history").is_dir()


def test_the_location_has_one_name_everywhere():
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text())
    (location,) = workspace["load_from"]
    assert location["python_module"] == {
        "module_name": "floecat_assets.definitions",
        "location_name": "floecat",
    }
