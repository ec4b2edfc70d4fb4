"""The whole path: a commit or a Delta table, the real daemon, an event in the instance."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import msgspec
import pytest

from floecat.connectors.connector_info import NewConnector
from floecat.entries.calls import Call
from floecat.iceberg.manifests.lists import read_manifest_list
from floecat.iceberg.manifests.reader import read_manifest
from floecat.identifiers.namespace import TableIdentifier
from tests.orchestration.conftest import Lakehouse
from tests.scan_files import WrittenAppends

ROOT = Path(__file__).parents[2]
TABLES = dg.AssetKey(["catalog", "tables"])
ARTIFACTS = dg.AssetKey(["compat", "artifacts"])
STATISTICS = dg.AssetKey(["statistics", "targets"])


@pytest.fixture
def daemon(lakehouse: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The home of a daemon that runs as long as the test."""
    home = tmp_path / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    # no service runs here: runs capture statistics
    monkeypatch.setenv("FLOECAT_STATISTICS_WORKERS", "0")
    # As `floecat up` does: the processes of a daemon would all create its storage at once.
    with dg.DagsterInstance.from_config(str(home)) as instance:
        instance.upgrade()
    log = (home / "daemon.log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "dagster._daemon", "run", "-w", str(ROOT / "workspace.yaml")],
        cwd=ROOT,
        env=os.environ.copy(),
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    yield home
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(timeout=120)
    log.close()


def test_the_daemon_reports_commits_makes_delta_tables_readable_and_captures_statistics(
    daemon: Path, lakehouse: Lakehouse
) -> None:
    """Of the Delta table, which was only registered, one run reads the log and another one the rows."""
    writer = lakehouse.delta("orders")
    writer.delete({0: [1, 2]})
    delta_table = lakehouse.register_delta(writer, read=False)
    table = lakehouse.create("customers")
    lakehouse.append(table, "42")
    with dg.DagsterInstance.from_config(str(daemon)) as instance:
        # the key of an earlier release
        instance.add_dynamic_partitions("tables", [lakehouse.entry_id(table)])
        artifacts = _materializations(instance, ARTIFACTS, 1, within_s=150)
        assert artifacts, (daemon / "daemon.log").read_text()
        runs = instance.get_runs(dg.RunsFilter(job_name="delta_artifacts"))
        commits = _materializations(instance, TABLES, 2, partition=lakehouse.partition(table))
        own = _materializations(instance, dg.AssetKey(["floecat", "sales", "customers"]), 2)
        partitions = _partitions(instance, 2)
        of_delta = lakehouse.partition(delta_table)
        captured = _materializations(instance, STATISTICS, 1, partition=of_delta, within_s=150)
    assert partitions == {lakehouse.partition(table), lakehouse.partition(delta_table)}
    assert len(commits) == 2, (daemon / "daemon.log").read_text()
    assert own[0].asset_materialization.metadata["dagster/row_count"].value == 42
    assert artifacts[0].partition_key == lakehouse.partition(delta_table)
    assert artifacts[0].asset_materialization.metadata["delta/counts"].data["delta/deleted_rows"] == 2
    assert [run.tags["floecat/table"] for run in runs] == [lakehouse.entry_id(delta_table)]
    assert captured, (daemon / "daemon.log").read_text()
    assert captured[0].asset_materialization.metadata["statistics/rows"].value == "18"
    _check_files(lakehouse, delta_table)


def test_a_commit_in_another_catalog_is_here_and_captured_without_a_hand(
    daemon: Path, lakehouse: Lakehouse
) -> None:
    kernel, theirs = lakehouse.kernel, lakehouse.create("orders")
    location = msgspec.json.decode(kernel.catalog.tables.load(lakehouse.call(), theirs).metadata)["location"]
    appends = WrittenAppends(location)
    lakehouse.commit(theirs, *appends.append(1))
    call = lakehouse.call()
    mirror = kernel.catalog.catalogs.create(
        call.principal.account_id, "mirror", call.catalog.storage_location.rpartition("/")[0]
    )
    here = Call.of_service("ada", mirror)
    kernel.connectors.connectors.create(here, NewConnector("lake", "iceberg", location, interval_ms=10_000))
    assert _captured(lakehouse, here, 1), (daemon / "daemon.log").read_text()
    lakehouse.commit(theirs, *appends.append(1))
    assert _captured(lakehouse, here, 2), (daemon / "daemon.log").read_text()
    key = dg.AssetKey(["reconcile", "discovered_tables"])
    with dg.DagsterInstance.from_config(str(daemon)) as instance:
        newest = _materializations(instance, key, 2, partition="mirror/lake")[0].asset_materialization
    assert newest.metadata["reconcile/changed"].value == newest.metadata["reconcile/captures"].value == 1


def _captured(lakehouse: Lakehouse, call: Call, snapshots: int, within_s: float = 200) -> bool:
    """Whether so many snapshots of the only table of a catalog are captured in the end."""
    kernel, deadline = lakehouse.kernel, time.monotonic() + within_s
    while time.monotonic() < deadline:
        for each in kernel.catalog.tables.list_all(call):
            identifier = TableIdentifier(("lake",), each.name)
            found = kernel.statistics.captures.snapshots(call, identifier)
            if sum(capture.status == "finalized" for capture in found) == snapshots:
                return True
        time.sleep(0.5)
    return False


def _check_files(lakehouse: Lakehouse, table: TableIdentifier) -> None:
    """Every manifest of the newest snapshot is there and can be read."""
    loaded = lakehouse.kernel.catalog.tables.load(lakehouse.call(), table)
    document = msgspec.json.decode(loaded.metadata)
    manifest_list = Path(document["snapshots"][-1]["manifest-list"].removeprefix("file://"))
    manifests = list(read_manifest_list(manifest_list.read_bytes(), location=str(manifest_list)))
    assert {manifest.content for manifest in manifests} == {0, 1}
    for manifest in manifests:
        file = Path(manifest.manifest_path.removeprefix("file://"))
        assert list(read_manifest(file.read_bytes(), location=str(file)))


def _partitions(instance: dg.DagsterInstance, count: int, within_s: float = 150) -> set[str]:
    deadline = time.monotonic() + within_s
    while True:
        found = instance.get_dynamic_partitions("tables")
        if len(found) == count or time.monotonic() > deadline:
            return set(found)
        time.sleep(0.5)


def _materializations(
    instance: dg.DagsterInstance,
    asset: dg.AssetKey,
    count: int,
    *,
    partition: str | None = None,
    within_s: float = 150,
) -> list[dg.EventLogRecord]:
    wanted = dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[partition] if partition else None)
    deadline = time.monotonic() + within_s
    while True:
        records = instance.fetch_materializations(wanted, limit=10).records
        if len(records) >= count or time.monotonic() > deadline:
            return list(records)
        time.sleep(0.5)
