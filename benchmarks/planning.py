"""Scan plans of large tables, by the planning process of a service and by Iceberg's Java library.

Java writes the tables. Cold plans find no manifest in memory, warm ones all that the filter needs. Java plans
each filter several times; its first call is the first of that filter.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from benchmarks.figures import figure, progress
from benchmarks.planning_work import Found, count_tasks
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.planning.expression_json import parse_filter
from floecat.planning.planner import Planner, open_planner
from floecat.planning.scans import ScanRequest
from tests.services.java_plans import JavaPlanner
from tests.services.spark import start_java
from tests.storages import storage_at

_RUNS = 7
_SOURCE = """
import java.util.*;
import org.apache.iceberg.*;
import org.apache.iceberg.catalog.*;
import org.apache.iceberg.types.*;

public class Tables {
  public static String make(Object conf, String warehouse, String name, Integer files, Integer manifests,
      Boolean clustered) {
    List columns = new ArrayList();
    columns.add(Types.NestedField.required(1, "id", Types.LongType.get()));
    columns.add(Types.NestedField.optional(2, "day", Types.DateType.get()));
    columns.add(Types.NestedField.optional(3, "cat", Types.StringType.get()));
    for (int i = 0; i < 8; i++) {
      columns.add(Types.NestedField.optional(4 + i, "c" + i, Types.DoubleType.get()));
    }
    Schema schema = new Schema(columns);
    PartitionSpec spec = PartitionSpec.builderFor(schema).identity("day").build();
    Map properties = new HashMap();
    properties.put("format-version", "2");
    properties.put("commit.manifest-merge.enabled", "false");
    org.apache.iceberg.hadoop.HadoopCatalog catalog = new org.apache.iceberg.hadoop.HadoopCatalog(
        (org.apache.hadoop.conf.Configuration) conf, warehouse);
    Table table = catalog.createTable(TableIdentifier.parse(name), schema, spec, properties);
    int count = manifests.intValue();
    int per = files.intValue() / count;
    long k = 0;
    for (int m = 0; m < count; m++) {
      AppendFiles append = table.newFastAppend();
      for (int i = 0; i < per; i++, k++) {
        int day = clustered.booleanValue() ? (int) ((long) m * 28 / count) : i % 28;
        append.appendFile(file(table, columns, k, day));
      }
      append.commit();
    }
    return ((HasTableOperations) table).operations().current().metadataFileLocation();
  }

  private static DataFile file(Table table, List columns, long k, int day) {
    Map sizes = new HashMap();
    Map values = new HashMap();
    Map nulls = new HashMap();
    Map nans = new HashMap();
    Map lower = new HashMap();
    Map upper = new HashMap();
    for (int f = 0; f < columns.size(); f++) {
      Types.NestedField column = (Types.NestedField) columns.get(f);
      Integer id = Integer.valueOf(column.fieldId());
      sizes.put(id, Long.valueOf(4000L));
      values.put(id, Long.valueOf(1000L));
      nulls.put(id, Long.valueOf(0L));
      Object least;
      Object most;
      if (f == 0) {
        least = Long.valueOf(k * 1000L);
        most = Long.valueOf(k * 1000L + 999L);
      } else if (f == 1) {
        least = Integer.valueOf(19723 + day);
        most = least;
      } else if (f == 2) {
        least = "c" + (k % 97);
        most = least;
      } else {
        least = Double.valueOf((k * 7919L) % 1000003L);
        most = Double.valueOf(((Double) least).doubleValue() + 1000.0d);
        nans.put(id, Long.valueOf(0L));
      }
      lower.put(id, Conversions.toByteBuffer(column.type(), least));
      upper.put(id, Conversions.toByteBuffer(column.type(), most));
    }
    String date = "2024-01-" + (day < 9 ? "0" : "") + (day + 1);
    return DataFiles.builder(table.spec())
        .withPath(table.location() + "/data/day=" + date + "/part-" + k + ".parquet")
        .withFormat(FileFormat.PARQUET)
        .withFileSizeInBytes(1000000L + k)
        .withPartitionPath("day=" + date)
        .withMetrics(new Metrics(Long.valueOf(1000L), sizes, values, nulls, nans, lower, upper))
        .build();
  }
}
"""


class Plans:
    """Plans of one table by a planner."""

    def __init__(self, planner: Planner, metadata: bytes) -> None:
        self._planner = planner
        self._metadata = TableMetadata.parse(metadata)
        self._storage = storage_at(["file:///"])

    def time(self, json: object) -> tuple[float, float, Found]:
        """Milliseconds of a plan, those until the first task is here, and what was found."""
        started = time.perf_counter()
        request = ScanRequest(filter=parse_filter(json))
        first = 0.0
        found = Found(0, 0)
        for each in self._planner.run(self._storage, self._metadata, request, count_tasks):
            first, found = first or time.perf_counter() - started, each
        return (time.perf_counter() - started) * 1000, first * 1000, found


def _filters(files: int) -> dict[str, object]:
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


def _planner(processes: int, memory_bytes: int) -> Planner:
    return open_planner(
        local_bytes=1 << 20, processes=processes, memory_bytes=memory_bytes, in_process_bytes=0
    )


def _compare(java: JavaPlanner, name: str, location: str, files: int, memory_bytes: int) -> None:
    table = java.load(location)
    metadata = Path(location.removeprefix("file:")).read_bytes()
    peak = 0.0
    for title, json in _filters(files).items():
        planner = _planner(1, memory_bytes)
        plans = Plans(planner, metadata)
        plans.time(False)  # the process has started
        cold_ms, first_task_ms, found = plans.time(json)
        warm = [plans.time(json) for _ in range(_RUNS)]
        peak = max(peak, *(each[2].peak_mib for each in warm))
        planner.close()
        java_ms, java_tasks, java_first_task_ms = java.time(table, json, _RUNS)
        if found.tasks != java_tasks:
            raise SystemExit(f"{title}: {found.tasks} tasks, and {java_tasks} of Java")
        label = f"{name}, {title}"
        figure(f"{label}: cold", cold_ms, "ms", baseline=java_ms[0], target=1.0, note=f"{java_tasks:,} tasks")
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


def _concurrent(location: str, files: int, memory_bytes: int) -> None:
    """Plans a second of 8 clients beside those of one, with two processes."""
    metadata = Path(location.removeprefix("file:")).read_bytes()
    planner = _planner(2, 2 * memory_bytes)
    json = _filters(files)["unsorted column in a range"]

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
    parser.add_argument("--folder", type=Path, help="where tables are kept for the next run")
    options = parser.parse_args()
    gateway = start_java("-Xmx4g")
    folder = options.folder or Path(tempfile.mkdtemp(prefix="floecat-planning-"))
    try:
        for files in options.files:
            for is_clustered in (False, True):
                _measure(JavaPlanner(gateway), folder, files, is_clustered, options)
    finally:
        gateway.shutdown()
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def _measure(
    java: JavaPlanner,
    folder: Path,
    files: int,
    is_clustered: bool,
    options: argparse.Namespace,
) -> None:
    name = f"{files:,} files, {'clustered' if is_clustered else 'days in every manifest'}"
    location = _table(java, folder, name, (files, files // options.per_manifest, is_clustered))
    memory_bytes = options.memory_mib << 20
    _compare(java, name, location, files, memory_bytes)
    if not is_clustered:
        _concurrent(location, files, memory_bytes)


def _table(java: JavaPlanner, folder: Path, name: str, size: tuple[int, int, bool]) -> str:
    """The metadata file of a table, which is made unless it is in the folder."""
    place = folder / f"{name}.location"
    if not place.exists():
        progress(f"writing {name}")
        make = java.compile(_SOURCE, "Tables")["make"]
        table = f"db.t{size[0]}_{size[2]}".lower()
        place.write_text(java.invoke(make, java.conf, str(folder), table, *size))
    return place.read_text()


if __name__ == "__main__":
    main()
