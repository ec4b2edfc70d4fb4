"""Drops of tables of 1, 50,000 and 500,000 files, and how fast their files go.

The files are real and small, on a local file system (`--folder`, by default one in memory, so that disks do
not decide). Java's `CatalogUtil.dropTableData` deletes equal files in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from benchmarks.figures import figure, percentile, progress
from benchmarks.java_purge import java_catalog_util
from benchmarks.large_tables import write_table
from benchmarks.servers import Floecat, floecat
from benchmarks.stops import Missing

_MEDIUM, _LARGE = 50_000, 500_000
_DROPS = 100
_MANAGEMENT = "/management/v1/catalogs/floecat/purges"
_POLL_S = 0.05
_IDLE_S = 3.0
_PATIENCE_S = 600

_IN_PROCESS = """
import json, sys, time
from floecat.runtime import open_kernel
from floecat.settings import load_settings
from benchmarks.memory import peak_rss_mib
opened = open_kernel(load_settings())
started = time.perf_counter()
drained = opened.purge_queue.drain_once()
seconds = time.perf_counter() - started
assert drained.succeeded == 1, drained
print(json.dumps({"s": seconds, "mib": peak_rss_mib("self")}))
opened.close()
"""

_BY_DAGSTER = """
import json, sys, time
import dagster as dg
from floecat_assets.defs.purge.assets import outcomes
from floecat_assets.defs.resources import KernelResource, SparkResource
from floecat.runtime import open_kernel
from floecat.settings import load_settings
on_spark = sys.argv[1] == "spark"
spark = SparkResource(master="local[2]")
if on_spark:
    opened = open_kernel(load_settings())
    opened.purge_queue.drain_once()  # finds out how large the table is, and offers it
    opened.close()
    spark.open().range(1).collect()
started = time.perf_counter()
result = dg.materialize([outcomes], resources={"kernel": KernelResource(), "spark": spark})
seconds = time.perf_counter() - started
(made,) = result.asset_materializations_for_node("purge__outcomes")
values = {name: value.value for name, value in made.metadata.items() if "tables" not in name}
assert values["purge/succeeded"] == 1, values
assert (values["purge/ranges_on_spark"] > 0) == on_spark, values
print(json.dumps({"s": values["purge/seconds"], "run_s": seconds}))
"""


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("/dev/shm" if Path("/dev/shm").is_dir() else "/tmp")
    )
    parser.add_argument("--large", type=int, default=_LARGE, help="files of the largest table")
    parser.add_argument("--without-spark", action="store_true")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="floecat-bench-", dir=arguments.folder) as made:
        folder = Path(made)
        _drops(folder, arguments.large)
        peaks = _drains(folder, arguments.large, with_spark=not arguments.without_spark)
        figure("purge.memory.large-to-medium", peaks[1] / peaks[0], "ratio", target=1.15)


def _drops(folder: Path, large: int) -> None:
    """Latency of drops of all sizes; the purges wait."""
    with (
        floecat(folder, {"FLOECAT_PURGE_ENABLED": "false"}, name="drops") as service,
        service.client() as http,
    ):
        http.post("namespaces", json={"namespace": ["bench"]}).raise_for_status()
        _dropped_s(service, http, "warm", 1)
        for files in (1, _MEDIUM, large):
            progress(f"drops of tables of {files} files")
            taken = [seconds * 1000 for seconds in _dropped_s(service, http, f"t{files}", files)]
            figure(f"purge.drop.{files}-files.p50", percentile(taken, 0.5), "ms")
            figure(f"purge.drop.{files}-files.p99", percentile(taken, 0.99), "ms", target=50)


def _dropped_s(service: Floecat, http: httpx.Client, name: str, files: int) -> list[float]:
    """How long drops of a table take. It has many entries: each drop does all that a single one would do."""
    table = write_table((service.warehouse / name).as_uri(), files)
    names = [f"{name}-{number}" for number in range(_DROPS)]
    for entry in names:
        body = {"name": entry, "metadata-location": table.metadata_location}
        http.post("namespaces/bench/register", json=body).raise_for_status()
    taken = [_drop(http, entry) for entry in names]
    shutil.rmtree(service.warehouse / name)
    return taken


def _drop(http: httpx.Client, name: str) -> float:
    started = time.perf_counter()
    answer = http.delete(f"namespaces/bench/tables/{name}", params={"purgeRequested": "true"})
    taken = time.perf_counter() - started
    answer.raise_for_status()
    return taken


def _drains(folder: Path, large: int, *, with_spark: bool) -> tuple[float, float]:
    """Rates of each way to delete files, and the peaks of memory of a purge of a medium and a large table."""
    java_rate = None
    try:
        with java_catalog_util() as drop_table_data:
            java_rate = _by_java(folder, drop_table_data)
    except Missing as missing:
        progress(str(missing))
    here = {"FLOECAT_PURGE_LARGE_JOB_OFFER": "PT0S"}  # without waiting for Spark
    medium = _by_process(folder, "in-process", _MEDIUM, _IN_PROCESS, settings=here)
    rate = _MEDIUM / medium["s"]
    figure("purge.in-process.50k", rate, "files/s", baseline=java_rate, target=1.5, better="higher")
    large_run = _by_process(folder, "in-process-large", large, _IN_PROCESS, settings=here)
    figure(f"purge.in-process.{large // 1000}k", large / large_run["s"], "files/s", better="higher")
    figure("purge.memory.50k", medium["mib"], "MiB")
    figure(f"purge.memory.{large // 1000}k", large_run["mib"], "MiB")
    by_dagster = _by_process(folder, "dagster", _MEDIUM, _BY_DAGSTER, "here", settings=here)
    rate = _MEDIUM / by_dagster["s"]
    figure("purge.dagster.50k", rate, "files/s", baseline=java_rate, better="higher")
    if with_spark:
        settings = {"FLOECAT_PURGE_LARGE_JOB_FILES": str(_MEDIUM)}
        on_spark = _by_process(folder, "spark", _MEDIUM, _BY_DAGSTER, "spark", settings=settings)
        note = "local[2], on the cores of this machine; the session is open before"
        rate = _MEDIUM / on_spark["s"]
        figure("purge.spark.50k", rate, "files/s", baseline=java_rate, better="higher", note=note)
    _loads_meanwhile(folder)
    return medium["mib"], large_run["mib"]


def _by_java(folder: Path, drop_table_data: Callable[[str], float]) -> float:
    progress("CatalogUtil.dropTableData")
    drop_table_data(write_table((folder / "java-warm").as_uri(), 2_000).metadata_location)
    table = write_table((folder / "java").as_uri(), _MEDIUM)
    taken = drop_table_data(table.metadata_location)
    left = sum(len(names) for _, _, names in os.walk(folder / "java"))
    figure("purge.java.50k", _MEDIUM / taken, "files/s", better="higher", note=f"{left} files left")
    shutil.rmtree(folder / "java")
    return _MEDIUM / taken


def _by_process(
    folder: Path, name: str, files: int, code: str, *arguments: str, settings: dict[str, str] | None = None
) -> dict[str, Any]:
    """Drops a table and has a program of its own delete its files; answers what that prints."""
    progress(f"{name}: {files} files")
    with _dropped(folder, name, files) as environment:
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(
            command,
            env={**os.environ, **environment, **(settings or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-4000:])
        left = sum(len(names) for _, _, names in os.walk(folder / name / "warehouse" / "t"))
        if left:
            raise RuntimeError(f"{left} files are left")
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer


@contextmanager
def _dropped(folder: Path, name: str, files: int) -> Iterator[dict[str, str]]:
    """A store with the purge of one table, as settings."""
    with floecat(folder, {"FLOECAT_PURGE_ENABLED": "false"}, name=name) as service, service.client() as http:
        table = write_table((service.warehouse / "t").as_uri(), files)
        http.post("namespaces", json={"namespace": ["bench"]}).raise_for_status()
        body = {"name": "t", "metadata-location": table.metadata_location}
        http.post("namespaces/bench/register", json=body).raise_for_status()
        _drop(http, "t")
    yield {"FLOECAT_DATA_DIR": str(folder / name), "FLOECAT_LOG_LEVEL": "warning"}
    shutil.rmtree(folder / name)


def _loads_meanwhile(folder: Path) -> None:
    """Latency of loads while the service works on a purge, and without one."""
    progress("loads beside a purge")
    with floecat(folder, name="loads") as service, service.client() as http:
        http.post("namespaces", json={"namespace": ["bench"]}).raise_for_status()
        for name, files in (("small", 1), ("t", _MEDIUM)):
            table = write_table((service.warehouse / name).as_uri(), files)
            body = {"name": name, "metadata-location": table.metadata_location}
            http.post("namespaces/bench/register", json=body).raise_for_status()
        with httpx.Client(base_url=service.base, timeout=60) as operator:
            ends_at = time.monotonic() + _IDLE_S
            idle = _loads(service, lambda: _open_purges(operator) or time.monotonic() < ends_at)
            _drop(http, "t")
            busy = _loads(service, lambda: _open_purges(operator))
    for share, label in ((0.5, "p50"), (0.99, "p99")):
        figure(
            f"purge.loads-meanwhile.{label}",
            percentile(busy, share) * 1000,
            "ms",
            baseline=percentile(idle, share) * 1000,
            note=f"{len(busy)} loads, one client; baseline: no purge",
        )


def _open_purges(operator: httpx.Client) -> bool:
    purges = operator.get(_MANAGEMENT).raise_for_status().json()["purges"]
    return any(purge["finished-at-ms"] is None for purge in purges)


def _loads(service: Floecat, goes_on: Callable[[], bool]) -> Sequence[float]:
    stop, taken = threading.Event(), []

    def load() -> None:
        with service.client() as http:
            while not stop.is_set():
                started = time.perf_counter()
                http.get("namespaces/bench/tables/small").raise_for_status()
                taken.append(time.perf_counter() - started)
                time.sleep(0.002)

    thread = threading.Thread(target=load)
    thread.start()
    deadline = time.monotonic() + _PATIENCE_S
    while goes_on() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    stop.set()
    thread.join()
    return taken


if __name__ == "__main__":
    main()
