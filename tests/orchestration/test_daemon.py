"""The whole path: a commit, the real daemon, an event in the instance."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import dagster as dg

ROOT = Path(__file__).parents[2]
TABLES = dg.AssetKey(["catalog", "tables"])


def test_the_daemon_reports_commits(lakehouse, tmp_path, monkeypatch):
    home = tmp_path / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    table = lakehouse.create("orders")
    lakehouse.append(table, "42")

    log = (tmp_path / "daemon.log").open("w")
    daemon = subprocess.Popen(
        [sys.executable, "-m", "dagster._daemon", "run", "-w", str(ROOT / "workspace.yaml")],
        cwd=ROOT,
        env=os.environ.copy(),
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        with dg.DagsterInstance.from_config(str(home)) as instance:
            records = _materializations(instance, 2)
            assert instance.get_dynamic_partitions("tables") == [lakehouse.entry_id(table)]
    finally:
        os.killpg(daemon.pid, signal.SIGTERM)
        daemon.wait(timeout=30)
        log.close()
    output = (tmp_path / "daemon.log").read_text()
    assert len(records) == 2, output
    assert records[0].partition_key == lakehouse.entry_id(table)
    assert records[0].asset_materialization.metadata["dagster/row_count"].value == 42


def _materializations(instance: dg.DagsterInstance, count: int) -> list[dg.EventLogRecord]:
    deadline = time.monotonic() + 60
    while True:
        records = instance.fetch_materializations(TABLES, limit=10).records
        if len(records) >= count or time.monotonic() > deadline:
            return list(records)
        time.sleep(0.5)
