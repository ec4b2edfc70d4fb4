"""Filters and aggregates at the edges of every column: skipping files by their bounds must not lose rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan

from tests.clients.delta.expectations import MISREAD, Outcome, tables_that_give
from tests.clients.delta.lake import DeltaLake, sql_name
from tests.clients.delta.oracles import oracle_rows
from tests.clients.delta.probes import DUCKDB, SPARK, Dialect, Leaf, leaves, probes

pytestmark = pytest.mark.spark

Packed = Callable[[str], str]

_READABLE = [facts.name for facts in tables_that_give(Outcome.ROWS)]
# Tables that differ in what statistics and partitions they have; the others are left to the long form, and to
# DuckDB, which is fast.
_TELLING = (
    "delta-rs/delta-0.8.0-null-partition",
    "delta-rs/delta-1.2.1-only-struct-stats",
    "delta-rs/table_with_column_mapping",
    "delta/data-reader-partition-values-column-mapping-name",
    "delta/table-with-dv-large",
    "golden/data-reader-escaped-chars/delta",
    "golden/data-reader-timestamp_ntz-name-mode/delta",
    "golden/data-skipping-basic-stats-all-types-columnmapping-id/delta",
    "golden/data-skipping-basic-stats-all-types/delta",
    "golden/data-skipping-change-stats-collected-across-versions/delta",
    "golden/dv-with-columnmapping/delta",
    "golden/kernel-timestamp-int96/delta",
    "kernel-rs/mixed-nulls",
    "kernel-rs/stats-writing-all-types/delta",
    "kernel-rs/timestamp-truncation-stats",
    "kernel-rs/v2-parquet-sidecars-struct-stats-only",
    "made/sail-ntz",
    "made/sail-tw",
)
# Spark takes long for as many questions.
_FOR_SPARK = ("made/sail-tw",)


def _first(names: Sequence[str]) -> list[Any]:
    """All tables; those that are not among some are left to the long form."""
    return [name if name in names else pytest.param(name, marks=pytest.mark.scale) for name in _READABLE]


def _leaves(name: str) -> list[Leaf]:
    return list(leaves(oracle_rows(name)))


def _check_filters(
    select: Callable[[str], pa.Table], source: str, dialect: Dialect, columns: list[Leaf]
) -> None:
    asked = [probe for leaf in columns for probe in probes(leaf)]
    if not asked:
        return
    answer = select(
        " UNION ALL ".join(
            f"SELECT {at} AS probe, count(*) AS found FROM {source} WHERE {probe.sql(dialect)}"
            for at, probe in enumerate(asked)
        )
    )
    found = dict(zip(answer["probe"].to_pylist(), answer["found"].to_pylist(), strict=True))
    counts = [(str(probe), found[at]) for at, probe in enumerate(asked)]
    assert counts == [(str(probe), probe.count + probe.nans) for probe in asked]


def _check_aggregates(
    select: Callable[[str], pa.Table], source: str, dialect: Dialect, columns: list[Leaf], rows: int
) -> None:
    asked = [(f"count(*) = {rows}", "count(*)")]
    for leaf in columns:
        name = dialect.name(leaf.path)
        filled = len(leaf.values) - leaf.nulls
        asked += [(f"count({name}) = {filled}", f"count({name})")]
        for value, edge in ((leaf.smallest, f"min({name})"), (leaf.largest, f"max({name})")):
            asked += [(f"{edge} {dialect.equal} {dialect.literal(value, leaf.type)}", edge)]
    statements = [
        f"SELECT {at} AS probe, {condition} AS found, CAST({value} AS {dialect.string}) AS value"
        f" FROM {source}"
        for at, (condition, value) in enumerate(asked)
    ]
    answer = select(" UNION ALL ".join(statements)).to_pylist()
    assert [f"{asked[row['probe']][0]}: is {row['value']}" for row in answer if not row["found"]] == []


@pytest.mark.parametrize("name", _READABLE)
def test_filters_with_duckdb(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    source = f"lake.{sql_name(packed(name), DUCKDB.quote)}"
    _check_filters(delta_lake.duckdb, source, DUCKDB, _leaves(name))


@pytest.mark.parametrize("name", _first(_FOR_SPARK))
def test_filters_with_spark(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    with delta_lake.spark_view(packed(name)) as view:
        _check_filters(delta_lake.spark, view, SPARK, _leaves(name))


@pytest.mark.parametrize("name", _first(_TELLING))
def test_filters_with_pyiceberg(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    table = delta_lake.pyiceberg(packed(name))
    misread = MISREAD.get(("pyiceberg", name), frozenset())
    columns = [leaf for leaf in _leaves(name) if len(leaf.path) == 1 and leaf.path[0] not in misread]
    asked = [probe for leaf in columns for probe in probes(leaf)]
    found = [(str(probe), table.scan(row_filter=probe.expression()).count()) for probe in asked]
    assert found == [(str(probe), probe.count) for probe in asked]


@pytest.mark.parametrize("name", _first(_TELLING))
def test_plans_of_java(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    """Iceberg's own library, on which Spark and Trino stand, skips no file that has rows to be found."""
    rows_of = _rows_of_files(delta_lake, packed(name), MISREAD.get(("pyiceberg", name), frozenset()))
    values_of = {
        path: {leaf.path: leaf.values for leaf in leaves(rows)}
        for path, rows in rows_of.items()
        if rows.num_rows
    }
    jvm, table = delta_lake.java_table(packed(name))
    expressions, wrap = jvm.org.apache.iceberg.expressions.Expressions, jvm.java.nio.ByteBuffer.wrap
    lost = []
    for leaf in _leaves(name):
        for probe in probes(leaf):
            planned = _planned(table.newScan().filter(probe.java(expressions, wrap)))
            wanted = {
                path
                for path, values in values_of.items()
                if any(probe.finds(value) for value in values.get(leaf.path, ()))
            }
            if not wanted <= planned:
                lost.append(f"{probe}: {sorted(wanted - planned)}")
    assert lost == []


def _rows_of_files(delta_lake: DeltaLake, name: str, misread: frozenset[str]) -> dict[str, pa.Table]:
    """What is left in each data file, as PyIceberg reads it."""
    table = delta_lake.pyiceberg(name)
    scan = table.scan()
    reader = ArrowScan(table.metadata, table.io, scan.projection(), AlwaysTrue())
    tasks = list(scan.plan_files())
    return {task.file.file_path: reader.to_table([task]).drop_columns(list(misread)) for task in tasks}


def _planned(scan: Any) -> set[str]:
    with_close = scan.planFiles()
    tasks = with_close.iterator()
    found = set()
    while tasks.hasNext():
        found.add(tasks.next().file().location())
    with_close.close()
    return found


@pytest.mark.parametrize("name", _READABLE)
def test_aggregates_with_duckdb(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    source = f"lake.{sql_name(packed(name), DUCKDB.quote)}"
    _check_aggregates(delta_lake.duckdb, source, DUCKDB, _leaves(name), oracle_rows(name).num_rows)


@pytest.mark.parametrize("name", _first((*_FOR_SPARK, "kernel-rs/timestamp-truncation-stats")))
def test_pushed_down_aggregates_with_spark(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    """Spark answers these from the manifests alone where it may."""
    delta_lake.spark("SET `spark.sql.iceberg.aggregate-push-down.enabled`=`true`")
    with delta_lake.spark_view(packed(name)) as view:
        _check_aggregates(delta_lake.spark, view, SPARK, _leaves(name), oracle_rows(name).num_rows)


def test_aggregates_are_pushed_down(delta_lake: DeltaLake, packed: Packed) -> None:
    """Else the test before says nothing."""
    source = sql_name(packed("golden/snapshot-data3/delta"), SPARK.quote)
    delta_lake.spark("SET `spark.sql.iceberg.aggregate-push-down.enabled`=`true`")
    [row] = delta_lake.spark(f"EXPLAIN SELECT max(col1) FROM {source}").to_pylist()
    assert "LocalTableScan" in row["plan"]
