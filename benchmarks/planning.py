"""Scan plans of large tables, by the planning processes of a service and by Iceberg's Java library.

There are as many processes as cores, as Java uses all cores too, and both have the same low priority. Cold
plans find no manifest in memory, warm ones all that the filter needs. Java plans each filter several times;
its first call is the first of that filter.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from py4j.java_gateway import JavaGateway

from benchmarks.figures import figure, progress
from benchmarks.planning_tables import write_table
from benchmarks.planning_work import Found, count_tasks, hold
from floecat.child_process import NICENESS
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.planning.files.planner import Planner, open_planner
from floecat.planning.files.scans import ScanRequest
from floecat.planning.filters.expression_json import parse_filter
from floecat.planning.filters.expressions import FALSE
from tests.services.java_plans import JavaPlanner
from tests.services.spark import start_java
from tests.storages import storage_at


class Plans:
    """Plans of one table by a planner."""

    def __init__(self, planner: Planner, metadata: bytes) -> None:
        self._planner = planner
        self._metadata = TableMetadata.parse(metadata)
        self._storage = storage_at(["file:///"])

    def start(self, processes: int) -> list[int]:
        """Starts processes, and returns their ids."""

        def begin() -> None:
            found.update(self._planner.run(self._storage, self._metadata, ScanRequest(filter=FALSE), hold))

        found: set[int] = set()
        threads = [threading.Thread(target=begin) for _ in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(found)

    def time(self, json: object) -> tuple[float, float, Found]:
        """Milliseconds of a plan, those until the first task is here, and what was found."""
        started = time.perf_counter()
        request = ScanRequest(filter=parse_filter(json))
        first = 0.0
        found = Found(0, 0)
        for each in self._planner.run(self._storage, self._metadata, request, count_tasks):
            first, found = first or time.perf_counter() - started, each
        return (time.perf_counter() - started) * 1000, first * 1000, found


def _processor_s(pids: Iterable[int]) -> float:
    """Processor time of processes so far."""
    stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")


def filters(files: int) -> dict[str, object]:
    def compare(kind: str, term: str, value: object) -> dict[str, object]:
        return {"type": kind, "term": term, "value": value}

    return {
        "id = one value": compare("eq", "id", files * 123 + 78),
        "id in the last 1 %": compare("gt-eq", "id", files * 990),
        "unsorted column in a range": {
            "type": "and",
            "left": compare("gt", "c3", 5.0),
            "right": compare("lt", "c3", 1000.0),
        },
        "one of 28 days": compare("eq", "day", "2024-01-03"),
        "no filter": True,
    }


def _planner(processes: int, memory_bytes: int, disk_folder: str | None = None) -> Planner:
    return open_planner(
        local_bytes=1 << 20,
        processes=processes,
        memory_bytes=memory_bytes,
        in_process_bytes=0,
        disk_folder=disk_folder,
    )


def _compare(java: JavaPlanner, name: str, location: str, files: int, options: argparse.Namespace) -> None:
    memory_bytes = options.memory_mib << 20
    table = java.load(location)
    metadata = Path(location.removeprefix("file://")).read_bytes()
    peak = 0.0
    for title, json in filters(files).items():
        planner = _planner(options.processes, options.processes * memory_bytes)
        plans = Plans(planner, metadata)
        pids = plans.start(options.processes)
        before_s = _processor_s(pids)
        cold_ms, first_task_ms, found = plans.time(json)
        cold_s = _processor_s(pids) - before_s
        warm = [plans.time(json) for _ in range(options.runs)]
        warm_s = (_processor_s(pids) - before_s - cold_s) / options.runs
        peak = max(peak, *(each[2].peak_mib for each in warm))
        planner.close()
        restarted_ms, restarted_s = _restarted(options, memory_bytes, metadata, json)
        java_ms, java_tasks, java_first_task_ms = java.time(table, json, options.runs)
        if found.tasks != java_tasks:
            raise SystemExit(f"{title}: {found.tasks} tasks, and {java_tasks} of Java")
        label = f"{name}, {title}"
        note = f"{java_tasks:,} tasks; {cold_s:.2f} s of processor time, {warm_s:.3f} s warm"
        figure(f"{label}: cold", cold_ms, "ms", baseline=java_ms[0], target=1.0, note=note)
        note = f"manifests kept on disk; {restarted_s:.2f} s of processor time"
        figure(f"{label}: first after a restart", restarted_ms, "ms", baseline=java_ms[0], note=note)
        warm_ms = median(each[0] for each in warm)
        target = None if json is True else 0.2
        figure(f"{label}: warm median", warm_ms, "ms", baseline=median(java_ms), target=target)
        if json is True:
            note = f"warm {median(each[1] for each in warm):.0f} ms"
            figure(
                f"{label}: first task",
                first_task_ms,
                "ms",
                baseline=java_first_task_ms,
                target=1000,
                note=note,
            )
    figure(f"{name}: peak memory of the planning process", peak, "MiB", target=1024)


def _restarted(
    options: argparse.Namespace, memory_bytes: int, metadata: bytes, json: object
) -> tuple[float, float]:
    """Milliseconds, and seconds of processor time, of the first plan where manifests were kept on disk."""
    with tempfile.TemporaryDirectory(prefix="floecat-planning-") as folder:
        for _ in range(2):
            planner = _planner(options.processes, options.processes * memory_bytes, folder)
            plans = Plans(planner, metadata)
            pids = plans.start(options.processes)
            before_s = _processor_s(pids)
            plan_ms, _, _ = plans.time(json)
            processor_s = _processor_s(pids) - before_s
            planner.close()
    return plan_ms, processor_s


def _concurrent(location: str, files: int, memory_bytes: int) -> None:
    """Plans a second of 8 clients beside those of one, with two processes."""
    metadata = Path(location.removeprefix("file://")).read_bytes()
    planner = _planner(2, 2 * memory_bytes)
    json = filters(files)["unsorted column in a range"]

    def work(count: int) -> None:
        plans = Plans(planner, metadata)
        for _ in range(count):
            plans.time(json)

    def rate(clients: int, count: int) -> float:
        threads = [threading.Thread(target=work, args=(count,)) for _ in range(clients)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return clients * count / (time.perf_counter() - started)

    rate(8, 1)
    alone, together = rate(1, 16), rate(8, 4)
    figure(
        f"{files:,} files: plans of 8 clients, 2 processes",
        together,
        "plans/s",
        baseline=alone,
        target=1.6,
        better="higher",
    )
    planner.close()


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--per-manifest", type=int, default=2000)
    parser.add_argument("--memory-mib", type=int, default=512)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--layouts", nargs="*", default=["mixed", "clustered"])
    parser.add_argument("--folder", type=Path, help="where tables are kept for the next run")
    options = parser.parse_args()
    with ThreadPoolExecutor(1) as starter:
        gateway = starter.submit(_start_java).result()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="floecat-planning-"))
    try:
        for files in options.files:
            for layout in options.layouts:
                _measure(JavaPlanner(gateway), folder, files, layout == "clustered", options)
    finally:
        gateway.shutdown()
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def _start_java() -> JavaGateway:
    """Starts Java from a thread of its own, with the priority of planning processes, which it inherits."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
    return start_java("-Xmx4g")


def _measure(
    java: JavaPlanner,
    folder: Path,
    files: int,
    is_clustered: bool,
    options: argparse.Namespace,
) -> None:
    name = f"{files:,} files, {'clustered' if is_clustered else 'days in every manifest'}"
    location = table(folder, files, files // options.per_manifest, is_clustered)
    _compare(java, name, location, files, options)
    if not is_clustered:
        _concurrent(location, files, options.memory_mib << 20)


def table(folder: Path, files: int, manifests: int, is_clustered: bool) -> str:
    """The metadata file of a table, which is made unless it is in the folder."""
    place = folder / f"{files}-{'clustered' if is_clustered else 'mixed'}"
    if not place.exists():
        progress(f"writing {place.name}")
        return write_table(place, files=files, manifests=manifests, is_clustered=is_clustered)
    return f"file://{place}/00000.metadata.json"


if __name__ == "__main__":
    main()
