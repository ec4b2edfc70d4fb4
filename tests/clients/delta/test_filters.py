"""Filters and aggregates at the edges of every column: skipping files by their bounds must not lose rows."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.clients.delta.expectations import Outcome, tables_that_give
from tests.clients.delta.lake import DeltaLake, sql_name
from tests.clients.delta.oracles import oracle_rows
from tests.clients.delta.probes import DUCKDB, SPARK, Dialect, Leaf, leaves, probes

pytestmark = pytest.mark.spark

Packed = Callable[[str], str]

_READABLE = [facts.name for facts in tables_that_give(Outcome.ROWS)]
# For the engines that need longer; the others are left to the long form.
_TELLING = [
    "delta-rs/delta-0.8.0-null-partition",
    "delta-rs/delta-1.2.1-only-struct-stats",
    "delta-rs/table_with_column_mapping",
    "delta-rs/table_with_edge_timestamps",
    "delta/data-reader-partition-values-column-mapping-name",
    "delta/table-with-dv-large",
    "delta/type-widening-nested",
    "golden/data-reader-escaped-chars/delta",
    "golden/data-reader-partition-values/delta",
    "golden/data-reader-timestamp_ntz-name-mode/delta",
    "golden/data-skipping-basic-stats-all-types-columnmapping-id/delta",
    "golden/data-skipping-basic-stats-all-types/delta",
    "golden/dv-with-columnmapping/delta",
    "golden/kernel-timestamp-int96/delta",
    "golden/parquet-all-types/delta",
    "kernel-rs/mixed-nulls",
    "kernel-rs/stats-writing-all-types/delta",
    "kernel-rs/timestamp-truncation-stats",
    "kernel-rs/v1-multi-part-struct-stats-only",
    "kernel-rs/v2-parquet-sidecars-struct-stats-only",
    "made/sail-ntz",
    "made/sail-tw",
]
_FEW_OR_ALL = [
    name if name in _TELLING else pytest.param(name, marks=pytest.mark.scale) for name in _READABLE
]


def _leaves(name: str) -> list[Leaf]:
    return list(leaves(oracle_rows(name)))


def _wrong_counts(answer: pa.Table, expected: list[tuple[str, int]]) -> list[str]:
    found = dict(zip(answer["probe"].to_pylist(), answer["found"].to_pylist(), strict=True))
    return [
        f"{text}: {found[index]} rows instead of {count}"
        for index, (text, count) in enumerate(expected)
        if found[index] != count
    ]


def _check_filters(
    select: Callable[[str], pa.Table], source: str, dialect: Dialect, columns: list[Leaf]
) -> None:
    asked = [probe for leaf in columns for probe in probes(leaf)]
    statements = [
        f"SELECT {index} AS probe, count(*) AS found FROM {source} WHERE {probe.sql(dialect)}"
        for index, probe in enumerate(asked)
    ]
    expected = [(str(probe), probe.count + probe.nans) for probe in asked]
    if statements:
        assert _wrong_counts(select(" UNION ALL ".join(statements)), expected) == []


def _check_aggregates(
    select: Callable[[str], pa.Table], source: str, dialect: Dialect, columns: list[Leaf], rows: int
) -> None:
    asked = [(f"count(*) = {rows}", "count(*)")]
    for leaf in columns:
        name = dialect.name(leaf.path)
        filled = len(leaf.values) - leaf.nulls
        edges = ((leaf.smallest, f"min({name})"), (leaf.largest, f"max({name})"))
        asked += [(f"count({name}) = {filled}", f"count({name})")]
        asked += [
            (f"{edge} {dialect.equal} {dialect.literal(value, leaf.type)}", edge) for value, edge in edges
        ]
    statements = [
        f"SELECT {index} AS probe, {condition} AS found, CAST({value} AS {dialect.string}) AS value"
        f" FROM {source}"
        for index, (condition, value) in enumerate(asked)
    ]
    answer = select(" UNION ALL ".join(statements)).to_pylist()
    assert [f"{asked[row['probe']][0]}: is {row['value']}" for row in answer if not row["found"]] == []


@pytest.mark.parametrize("name", _READABLE)
def test_filters_with_duckdb(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    source = f"lake.{sql_name(packed(name), DUCKDB.quote)}"
    _check_filters(delta_lake.duckdb, source, DUCKDB, _leaves(name))


@pytest.mark.parametrize("name", _FEW_OR_ALL)
def test_filters_with_spark(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    _check_filters(delta_lake.spark, sql_name(packed(name), SPARK.quote), SPARK, _leaves(name))


@pytest.mark.parametrize("name", _FEW_OR_ALL)
def test_filters_with_pyiceberg(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    table = delta_lake.pyiceberg(packed(name))
    asked = [probe for leaf in _leaves(name) if len(leaf.path) == 1 for probe in probes(leaf)]
    found = [(str(probe), table.scan(row_filter=probe.expression()).count()) for probe in asked]
    assert found == [(str(probe), probe.count) for probe in asked]


@pytest.mark.parametrize("name", _READABLE)
def test_aggregates_with_duckdb(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    source = f"lake.{sql_name(packed(name), DUCKDB.quote)}"
    _check_aggregates(delta_lake.duckdb, source, DUCKDB, _leaves(name), oracle_rows(name).num_rows)


@pytest.mark.parametrize("name", _FEW_OR_ALL)
def test_pushed_down_aggregates_with_spark(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    """Spark answers these from the manifests alone where it may."""
    delta_lake.spark("SET spark.sql.iceberg.aggregate-push-down.enabled = true")
    source = sql_name(packed(name), SPARK.quote)
    _check_aggregates(delta_lake.spark, source, SPARK, _leaves(name), oracle_rows(name).num_rows)


def test_aggregates_are_pushed_down(delta_lake: DeltaLake, packed: Packed) -> None:
    """Else the test before says nothing."""
    source = sql_name(packed("golden/snapshot-data3/delta"), SPARK.quote)
    delta_lake.spark("SET spark.sql.iceberg.aggregate-push-down.enabled = true")
    [[plan]] = [c.to_pylist() for c in delta_lake.spark(f"EXPLAIN SELECT max(col1) FROM {source}").columns]
    assert "LocalTableScan" in plan
