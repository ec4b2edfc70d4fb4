"""Statistics of a table like `lineitem`, in this process and by Spark.

`compute_table_stats` is Iceberg's procedure for the same sketches of distinct values. Ours has counts, bounds
and widths as well, which `summary` and `approx_count_distinct` of Spark are asked for together.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession
from pyspark.sql.functions import approx_count_distinct

from benchmarks.figures import figure, percentile, progress
from benchmarks.lineitem import COLUMNS, write_files
from benchmarks.servers import floecat
from floecat.fileio.opening import open_fileio
from floecat.iceberg.schemas.schema import Schema, parse_schema
from floecat.statistics.files.data_files import FileSummaries
from floecat.statistics.files.summaries import DataFile, FileSummary
from floecat.statistics.files.theta import ThetaSketch, union
from tests.services.spark import iceberg_runtime, java_home

_TYPES = {"bigint": "long", "decimal(12,2)": "decimal(12, 2)"}
_LONGEST_S = 60
_TOLERANCE = 0.1
"""Six standard errors: estimates that differ by more are not of the same values."""


def _schema() -> Schema:
    fields = [
        {"id": id, "name": name, "type": _TYPES.get(type, type), "required": False}
        for id, (name, type) in enumerate(COLUMNS.items(), start=1)
    ]
    return parse_schema(json.dumps({"type": "struct", "fields": fields}).encode())


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def _summaries(paths: Sequence[Path]) -> list[FileSummary]:
    schema = _schema()
    with FileSummaries(open_fileio(fsync=False), schema, list(schema.fields_by_id)) as summaries:
        return [
            summaries.summarize(DataFile(path.as_uri(), "parquet", 0, path.stat().st_size)) for path in paths
        ]


def _merged(parts: Sequence[Mapping[str, ThetaSketch]]) -> dict[str, ThetaSketch]:
    return {name: union(part[name] for part in parts) for name in COLUMNS}


def _sketches(paths: Sequence[Path]) -> dict[str, ThetaSketch]:
    names = list(COLUMNS)
    return _merged(
        [
            {
                names[column.field_id - 1]: ThetaSketch.from_bytes(column.sketch or b"")
                for column in found.columns
            }
            for found in _summaries(paths)
        ]
    )


def _spark(folder: Path) -> SparkSession:
    os.environ.setdefault("JAVA_HOME", str(java_home()))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {
        "spark.driver.extraClassPath": str(iceberg_runtime()),
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        "spark.sql.warehouse.dir": str(folder / "spark"),
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.master("local[2]").appName("floecat-statistics")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _create_table(session: SparkSession, data: Path) -> None:
    columns = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
    session.sql(f"CREATE TABLE lake.db.lineitem ({columns}) USING iceberg")
    session.sql(f"CALL lake.system.add_files(table => 'db.lineitem', source_table => '`parquet`.`{data}`')")


def _compute_table_stats(session: SparkSession) -> dict[str, int]:
    """Iceberg's procedure; the distinct values by column."""
    [(path,)] = session.sql("CALL lake.system.compute_table_stats('db.lineitem')").collect()
    data = Path(str(path).removeprefix("file:")).read_bytes()
    length = int.from_bytes(data[-12:-8], "little")
    blobs = json.loads(data[-12 - length : -12])["blobs"]
    names = list(COLUMNS)
    return {names[blob["fields"][0] - 1]: int(blob["properties"]["ndv"]) for blob in blobs}


def _summary(session: SparkSession, data: Path) -> None:
    table = session.read.parquet(str(data))
    table.summary("count", "min", "max").collect()
    table.agg(*(approx_count_distinct(name, 0.016) for name in COLUMNS)).collect()


def _compare(ours: Mapping[str, ThetaSketch], theirs: Mapping[str, int]) -> None:
    for name in COLUMNS:
        if abs(ours[name].estimate / theirs[name] - 1) > _TOLERANCE:
            raise SystemExit(f"{name}: {ours[name].estimate:.0f} distinct values, {theirs[name]} of Iceberg")


def _commits_until_finalized(folder: Path, commits: int) -> list[float]:
    """Seconds from the answer to an append of 1,000 rows until statistics of its snapshot are finalized."""
    rows = pa.table({"id": range(1000), "name": [f"name {row}" for row in range(1000)]})
    taken = []
    with floecat(folder) as service, httpx.Client(base_url=service.base, timeout=60) as client:
        catalog = RestCatalog("floecat", uri=service.base, warehouse="floecat")
        catalog.create_namespace("bench")
        table = catalog.create_table("bench.small", rows.schema)
        captures = "/management/v1/catalogs/floecat/namespaces/bench/tables/small/captures"
        for _ in range(commits):
            table.append(rows)
            committed = time.perf_counter()
            snapshot = table.current_snapshot()
            while not any(
                found["snapshot-id"] == getattr(snapshot, "snapshot_id", None)
                and found["status"] == "finalized"
                for found in client.get(captures).raise_for_status().json()["snapshots"]
            ):
                time.sleep(0.01)
                if time.perf_counter() - committed > _LONGEST_S:
                    raise SystemExit("The statistics of a small table were not finalized")
            taken.append(time.perf_counter() - committed)
            table.refresh()  # a commit of its own may have published the statistics
    return taken


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="where the files are kept for the next run")
    parser.add_argument(
        "--baselines", nargs="*", choices=["iceberg", "summary"], default=["iceberg", "summary"]
    )
    parser.add_argument("--commits", type=int, default=20, help="to a small table; 0 leaves it out")
    options = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="floecat-statistics-"))
    data = (options.folder or scratch) / f"lineitem-{options.rows}"
    rows, label = options.rows, f"lineitem, {options.rows:,} rows"
    try:
        if not data.exists():
            progress("writing files")
            list(write_files(data, rows, scale=rows))
        paths = sorted(data.glob("*.parquet"))
        size = sum(path.stat().st_size for path in paths)
        progress("in this process")
        full_s, ours = _timed(lambda: _sketches(paths))
        new = list(write_files(scratch / "new", max(rows // 100, 1), first=rows, scale=rows))
        refresh_s, _ = _timed(lambda: _merged([ours, _sketches(new)]))
        note = f"{size / 1e6:.0f} MB, {len(COLUMNS)} columns"
        figure(f"{label}: statistics", full_s, "s", note=note)
        figure(f"{label}: 1 % new rows, beside all", refresh_s, "s", baseline=full_s, target=0.05)
        if options.commits:
            progress("commits to a small table")
            taken = _commits_until_finalized(scratch, options.commits)
            name = "small table: commit to finalized statistics"
            figure(f"{name}, median", percentile(taken, 0.5), "s", note=f"{options.commits} commits")
            figure(f"{name}, slowest", max(taken), "s")
        if options.baselines:
            progress("in Spark")
            _beside_spark(scratch, data, label, full_s, ours, options.baselines)
    finally:
        shutil.rmtree(scratch)


def _beside_spark(
    scratch: Path,
    data: Path,
    label: str,
    full_s: float,
    ours: Mapping[str, ThetaSketch],
    baselines: Sequence[str],
) -> None:
    session = _spark(scratch)
    if "iceberg" in baselines:
        _create_table(session, data)
        iceberg_s, theirs = _timed(lambda: _compute_table_stats(session))
        _compare(ours, theirs)
        figure(f"{label}: beside compute_table_stats", full_s, "s", baseline=iceberg_s, target=1.0)
    if "summary" in baselines:
        spark_s, _ = _timed(lambda: _summary(session, data))
        figure(
            f"{label}: beside summary and approx_count_distinct", full_s, "s", baseline=spark_s, target=1.0
        )
    session.stop()


if __name__ == "__main__":
    main()
