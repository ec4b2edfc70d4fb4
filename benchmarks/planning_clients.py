"""Whole plans of clients: planned by the service, and by the client itself, by turns in one run.

Clients are PyIceberg, Iceberg's Java library, whose REST catalog is what Spark and Flink plan with, and
Spark. A plan is whole when the client has every task; Spark answers `SELECT count(*)` by the tasks alone.
What the first two need alone to read the answers, which are in memory then, is told beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from py4j.java_gateway import JavaGateway
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest.scan_planning import ScanTasks
from pyiceberg.table import FileScanTask, Table

from benchmarks.figures import figure
from benchmarks.planning import table
from benchmarks.planning_answers import answers, processor_s
from benchmarks.planning_tables import FILE_ROWS
from benchmarks.servers import Floecat, floecat
from tests.engines.programs import jar
from tests.engines.spark_process import SparkProcess
from tests.services.spark import start_java

_RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
_MODES = ("server", "client")
_SOURCE = """
import java.util.*;
import org.apache.iceberg.*;
import org.apache.iceberg.catalog.*;
import org.apache.iceberg.io.*;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.rest.responses.*;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;

public class Plans {
  public static Table table(String uri, String mode, Object conf) {
    Map properties = new HashMap();
    properties.put("uri", uri);
    properties.put("scan-planning-mode", mode);
    RESTCatalog catalog = new RESTCatalog();
    catalog.setConf((org.apache.hadoop.conf.Configuration) conf);
    catalog.initialize("c", properties);
    return catalog.loadTable(TableIdentifier.parse("db.large"));
  }

  public static long[] plan(Table table) throws Exception {
    long begun = System.nanoTime();
    long found = 0;
    CloseableIterable tasks = table.newScan().planFiles();
    for (Iterator it = tasks.iterator(); it.hasNext(); it.next()) found++;
    tasks.close();
    return new long[] {(System.nanoTime() - begun) / 1000L, found};
  }

  public static long read(List answers, Table table) throws Exception {
    ObjectMapper json = new ObjectMapper();
    long begun = System.nanoTime();
    for (Iterator it = answers.iterator(); it.hasNext();)
      FetchScanTasksResponseParser.fromJson(json.readTree((String) it.next()), table.specs(), true);
    return (System.nanoTime() - begun) / 1000L;
  }
}
"""


class _Java:
    """Iceberg's Java library."""

    name = "Java"

    def __init__(self, gateway: JavaGateway, service: Floecat) -> None:
        self._gateway = gateway
        jvm: Any = gateway.jvm
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
        compiler.cook(_SOURCE)
        methods = compiler.getClassLoader().loadClass("Plans").getMethods()
        self._methods = {method.getName(): method for method in methods}
        conf = jvm.org.apache.hadoop.conf.Configuration()
        self._tables = {mode: self._call("table", service.base, mode, conf) for mode in _MODES}

    def plan(self, mode: str) -> tuple[float, int]:
        """Seconds of a plan, and the number of its tasks."""
        took_us, found = self._call("plan", self._tables[mode])
        return took_us / 1e6, found

    def read(self, bodies: Sequence[bytes]) -> float:
        """Seconds that one thread needs to read answers."""
        texts = self._gateway.jvm.java.util.ArrayList([body.decode() for body in bodies])
        return float(self._call("read", texts, self._tables["client"])) / 1e6

    def _call(self, name: str, *arguments: Any) -> Any:
        array = self._gateway.new_array(self._gateway.jvm.Object, len(arguments))
        for place, argument in enumerate(arguments):
            array[place] = argument
        return self._methods[name].invoke(None, array)


class _PyIceberg:
    """PyIceberg."""

    name = "PyIceberg"

    def __init__(self, service: Floecat) -> None:
        self._tables: dict[str, Table] = {
            mode: load_catalog(
                mode, type="rest", uri=service.base, **{"scan-planning-mode": mode}
            ).load_table("db.large")
            for mode in _MODES
        }

    def plan(self, mode: str) -> tuple[float, int]:
        """As of `_Java`."""
        begun = time.perf_counter()
        found = len(list(self._tables[mode].scan().plan_files()))
        return time.perf_counter() - begun, found

    def read(self, bodies: Sequence[bytes]) -> float:
        """As of `_Java`."""
        begun = time.perf_counter()
        for body in bodies:
            read = ScanTasks.model_validate_json(body.decode())
            for task in read.file_scan_tasks:
                FileScanTask.from_rest_response(task, read.delete_files)
        return time.perf_counter() - begun


class _Spark:
    """A session of Spark."""

    name = "Spark"

    def __init__(self, spark: SparkProcess) -> None:
        self._spark = spark

    def plan(self, mode: str) -> tuple[float, int]:
        """As of `_Java`."""
        begun = time.perf_counter()
        [(rows,)] = self._spark.sql(f"SELECT count(*) FROM {mode}.db.large")
        return time.perf_counter() - begun, rows // FILE_ROWS


def _of_spark(service: Floecat) -> dict[str, str]:
    """A catalog for each way of planning."""
    settings = {}
    for mode in _MODES:
        catalog = f"spark.sql.catalog.{mode}"
        settings |= {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "rest",
            f"{catalog}.uri": service.base,
            f"{catalog}.scan-planning-mode": mode,
        }
    return settings


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--per-manifest", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where tables are kept for the next run")
    options = parser.parse_args()
    gateway = start_java("-Xmx2g", runtime=jar(_RUNTIME))
    try:
        with TemporaryDirectory(prefix="floecat-planning-") as made:
            folder = options.folder or Path(made)
            for files in options.files:
                _measure(gateway, folder, table(folder, files, files // options.per_manifest, False), options)
    finally:
        gateway.shutdown()


def _measure(gateway: JavaGateway, folder: Path, location: str, options: argparse.Namespace) -> None:
    settings = {
        "FLOECAT_STORAGE_ALLOWED_LOCATIONS": f"file://{folder}",
        "FLOECAT_STATISTICS_WORKERS": "0",  # there are no data files to read
    }
    with TemporaryDirectory() as data, floecat(Path(data), settings) as service, service.client() as http:
        http.post("namespaces", json={"namespace": ["db"]}).raise_for_status()
        registration = {"name": "large", "metadata-location": location}
        http.post("namespaces/db/register", json=registration).raise_for_status()
        for client in (_Java(gateway, service), _PyIceberg(service)):
            _compare(client, service, options.runs)
            bodies = [body for _, body in answers(http, "namespaces/db/tables/large", None)]
            client.read(bodies)
            seconds = median(client.read(bodies) for _ in range(3))
            note = f"{len(bodies)} answers, {sum(map(len, bodies)):,} bytes, in one thread"
            figure(f"{client.name}: reads the answers alone", seconds, "s", note=note)
        with SparkProcess(Path(data) / "spark", _of_spark(service)) as spark:
            _compare(_Spark(spark), service, options.runs)


def _compare(client: _Java | _PyIceberg | _Spark, service: Floecat, runs: int) -> None:
    seconds: dict[str, list[float]] = {mode: [] for mode in _MODES}
    found: set[int] = set()
    used_s = 0.0
    for run in range(runs + 1):
        for mode in _MODES:
            before_s = processor_s(service.pid)
            took_s, count = client.plan(mode)
            found.add(count)
            seconds[mode].append(took_s)
            if run and mode == "server":
                used_s += processor_s(service.pid) - before_s
    if len(found) > 1:
        raise SystemExit(f"{client.name}: plans differ: {found} tasks")
    (count,) = found
    for title, at in (("first", slice(1)), ("next", slice(1, None))):
        server, own = (median(seconds[mode][at]) for mode in _MODES)
        note = f"service {used_s / runs:.2f} s of processor time" if title == "next" else None
        label = f"{client.name}, {count:,} files: {title} plans"
        figure(label, server, "s", baseline=own, target=1.0, note=note)


if __name__ == "__main__":
    main()
