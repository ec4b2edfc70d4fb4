"""What engines read wrong of themselves: spared where a property or the manifests can do it, else pinned.

A pinned fault that fails here was mended by its engine: docs/delta.md names it, and may forget it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo

from tests.clients.delta.lake import ENGINES, DeltaLake, Reader, sql_name
from tests.clients.delta.odd_files import (
    FILLED,
    MISREAD_BY_VECTORS,
    REFUSED,
    nanosecond_table,
    ordinary_table,
)
from tests.clients.delta.rows import check, difference
from tests.clients.delta.writer import DeltaWriter

pytestmark = pytest.mark.spark


def _with_polars(lake: DeltaLake, table: str, _version: int | None) -> pa.Table:
    import polars

    return polars.scan_iceberg(lake.pyiceberg(table)).collect().to_arrow()


_READERS: dict[str, Reader] = {**ENGINES, "polars": _with_polars}
_NOR = {("polars", "text in a binary column")}
"""Engines that refuse a table of `REFUSED` too."""

_PROPERTY = "read.parquet.vectorization.enabled"


@contextmanager
def _vectors(lake: DeltaLake) -> Iterator[None]:
    """Has Spark read by vectors, whatever tables say."""
    lake.spark("SET `spark.sql.iceberg.vectorization.enabled`=`true`")
    try:
        yield
    finally:
        lake.spark("RESET `spark.sql.iceberg.vectorization.enabled`")


@pytest.mark.parametrize("kind", MISREAD_BY_VECTORS)
def test_files_that_vectors_misread_are_read_without_them(
    delta_lake: DeltaLake, table_folder: Path, kind: str
) -> None:
    written = MISREAD_BY_VECTORS[kind](table_folder / "t")
    table = delta_lake.register("faults", table_folder.name.lower(), written.folder)
    assert delta_lake.metadata(table)["properties"][_PROPERTY] == "false"
    for engine, read in _READERS.items():
        if (engine, kind) != ("polars", "encodings"):
            check(read(delta_lake, table, None), written.rows[1], engine)
    # else the property is not needed any more
    with _vectors(delta_lake):
        try:
            found = ENGINES["spark"](delta_lake, table, None)
        except Exception:  # noqa: BLE001 - as far as it fails, and does not misread
            return
    assert difference(found, written.rows[1])


def test_ordinary_files_are_read_by_vectors(delta_lake: DeltaLake, table_folder: Path) -> None:
    written = ordinary_table(table_folder / "t")
    table = delta_lake.register("faults", "ordinary", written.folder)
    assert _PROPERTY not in delta_lake.metadata(table)["properties"]
    for engine, read in _READERS.items():
        check(read(delta_lake, table, None), written.rows[1], engine)
    [plan] = delta_lake.spark(f"EXPLAIN SELECT * FROM {sql_name(table, '`')}")["plan"].to_pylist()
    assert "ColumnarToRow" in plan


# Replaced tables.

_PARTS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "p": ["a", "a", "b", None],
        "q": pa.array([1, 2, 3, 4], pa.int32()),
    }
)
_NEW = pa.table(
    {
        "id": pa.array([11, 12, 13], pa.int64()),
        "p": ["a", "x", None],
        "q": pa.array([1, 3, 3], pa.int32()),
    }
)


def _found(lake: DeltaLake, table: str, condition: str, at: str = "") -> int:
    source = f"lake.{sql_name(table, chr(34))}{at}"
    count: int = lake.duckdb(f"SELECT count(*) FROM {source} WHERE {condition}").columns[0][0].as_py()
    return count


@pytest.mark.parametrize("mapping", [None, "name", "id"])
@pytest.mark.parametrize(
    ("before", "columns", "after"),
    [
        (["p"], ["id", "p", "q"], ["q"]),
        (["p"], ["id", "q"], ["q"]),
        (["p"], ["id", "q"], []),
        (["p", "q"], ["id", "q"], ["q"]),
        ([], ["id", "p"], ["p"]),
    ],
)
def test_filters_in_the_version_that_replaced_the_partitions(
    delta_lake: DeltaLake,
    table_folder: Path,
    mapping: str | None,
    before: list[str],
    columns: list[str],
    after: list[str],
) -> None:
    written = DeltaWriter(table_folder / "t", _PARTS.schema, partitions=before, mapping=mapping)
    written.append(_PARTS)
    written.delete({0: [0]})
    table = delta_lake.register("faults", table_folder.name.lower(), written.folder)
    check(ENGINES["duckdb"](delta_lake, table, None), written.rows[2])
    written.replace(_NEW.select(columns), after)
    for engine in ("pyiceberg", "duckdb"):
        check(ENGINES[engine](delta_lake, table, None), written.rows[3], engine)
    snapshots = {
        each["snapshot-id"]: each["timestamp-ms"] for each in delta_lake.metadata(table)["snapshots"]
    }
    moment = f" AT (TIMESTAMP => make_timestamptz({snapshots[3] * 1000 + 999}))"
    for at in ("", " AT (VERSION => 3)", moment):
        assert _found(delta_lake, table, "id > 11", at) == 2
        assert _found(delta_lake, table, "id = 1", at) == 0
        if "q" in columns:
            assert _found(delta_lake, table, "q = 3", at) == 2
        if "p" in columns:
            assert _found(delta_lake, table, "p IS NULL", at) == 1
    if 2 in snapshots:
        assert _found(delta_lake, table, "id > 2", " AT (VERSION => 2)") == 2
        moment = f" AT (TIMESTAMP => make_timestamptz({snapshots[2] * 1000}))"
        assert _found(delta_lake, table, "id > 2", moment) == 2


def _changes(lake: DeltaLake, table: str, first: int, last: int) -> list[tuple[Any, ...]]:
    """What Spark's changelog tells of the versions after the first one."""
    options = f"map('start-snapshot-id', '{first}', 'end-snapshot-id', '{last}')"
    lake.spark(
        f"CALL system.create_changelog_view(table => '{table}', options => {options}, changelog_view => 'c')"
    )
    found = lake.spark("SELECT id, _change_type FROM c")
    lake.spark("DROP VIEW c")
    return sorted(zip(found["id"].to_pylist(), found["_change_type"].to_pylist(), strict=True))


def test_changes_of_the_version_that_dropped_the_partition_column(
    delta_lake: DeltaLake, table_folder: Path
) -> None:
    """The manifest of its deleted entries is not listed, for DuckDB's sake."""
    written = DeltaWriter(table_folder / "t", _PARTS.schema, partitions=["p", "q"])
    written.append(_PARTS)
    table = delta_lake.register("faults", table_folder.name.lower(), written.folder)
    assert delta_lake.metadata(table)
    written.replace(_NEW.select(["id", "q"]), ["q"])
    inserted = [(id_, "INSERT") for id_ in (11, 12, 13)]
    assert _changes(delta_lake, table, 1, 2) == inserted
    written.append(_NEW.select(["id", "q"]))
    assert _changes(delta_lake, table, 2, 3) == inserted


# What cannot be spared.


def test_spark_filters_milliseconds_as_microseconds(delta_lake: DeltaLake, table_folder: Path) -> None:
    """It compares the statistics of row groups with the filter, in another unit."""
    written = MISREAD_BY_VECTORS["milliseconds"](table_folder / "t")
    table = delta_lake.register("faults", "filtered_milliseconds", written.folder)
    condition = "t >= TIMESTAMP '2023-01-01 00:00:00Z'"
    source = sql_name(table, "`")
    assert delta_lake.spark(f"SELECT * FROM {source} WHERE {condition}").num_rows == 0
    # what it does not push down is right
    wrapped = "t + INTERVAL 0 DAYS >= TIMESTAMP '2023-01-01 00:00:00Z'"
    assert delta_lake.spark(f"SELECT * FROM {source} WHERE {wrapped}").num_rows == FILLED
    assert _found(delta_lake, table, "t >= TIMESTAMPTZ '2023-01-01 00:00:00+00'") == FILLED
    pyiceberg = delta_lake.pyiceberg(table)
    assert pyiceberg.scan(row_filter="t >= '2023-01-01T00:00:00+00:00'").count() == FILLED


@pytest.mark.parametrize(("engine", "kind"), REFUSED)
def test_files_that_an_engine_refuses(
    delta_lake: DeltaLake, table_folder: Path, engine: str, kind: str
) -> None:
    written = REFUSED[engine, kind](table_folder / "t")
    table = delta_lake.register("faults", table_folder.name.lower(), written.folder)
    for name, read in _READERS.items():
        if name != engine and (name, kind) not in _NOR:
            check(read(delta_lake, table, None), written.rows[1], name)
    with pytest.raises(Exception, match=r"(?s).+"):
        _READERS[engine](delta_lake, table, None)


def test_spark_takes_nanoseconds_for_microseconds(delta_lake: DeltaLake, table_folder: Path) -> None:
    written = nanosecond_table(table_folder / "t")
    table = delta_lake.register("faults", "nanoseconds", written.folder)
    for engine in ("pyiceberg", "duckdb", "polars"):
        check(_READERS[engine](delta_lake, table, None), written.rows[1], engine)
    [[read]] = ENGINES["spark"](delta_lake, table, None).cast(pa.schema([("n", pa.int64())])).columns
    assert read.as_py() == 1_000_000_000


@pytest.mark.parametrize("mapping", [None, "name"])
def test_daft_wants_field_ids(delta_lake: DeltaLake, table_folder: Path, mapping: str | None) -> None:
    import daft

    written = DeltaWriter(table_folder / "t", _PARTS.schema, mapping=mapping)
    written.append(_PARTS)
    table = delta_lake.register("faults", table_folder.name.lower(), written.folder)
    frame = daft.read_iceberg(delta_lake.pyiceberg(table))
    if mapping:
        check(frame.to_arrow(), written.rows[1])
        return
    with pytest.raises(Exception, match="carries no parquet field IDs"):
        frame.to_arrow()


def test_nan_is_passed_over_with_its_row_group(delta_lake: DeltaLake, table_folder: Path) -> None:
    """It is greater than all numbers, and Arrow's writer leaves it out of the statistics of a row group."""
    rows = pa.table({"f": [1.0, 2.0, float("nan")]})
    written = DeltaWriter(table_folder / "t", rows.schema)
    written.append(rows)
    table = delta_lake.register("faults", "nan", written.folder)
    assert _found(delta_lake, table, "f > 1.5") == 2
    assert _found(delta_lake, table, "f > 5") == 0
    source = sql_name(table, "`")
    assert delta_lake.spark(f"SELECT * FROM {source} WHERE f > 1.5").num_rows == 2
    assert delta_lake.spark(f"SELECT * FROM {source} WHERE f > 5").num_rows == 0


def test_pyiceberg_finds_no_infinity_of_a_float(delta_lake: DeltaLake, table_folder: Path) -> None:
    rows = pa.table({"f": pa.array([1.0, math.inf], pa.float32()), "d": [1.0, math.inf]})
    written = DeltaWriter(table_folder / "t", rows.schema)
    written.append(rows)
    table = delta_lake.register("faults", "infinity", written.folder)
    assert delta_lake.pyiceberg(table).scan(row_filter=EqualTo("d", math.inf)).count() == 1
    assert delta_lake.pyiceberg(table).scan(row_filter=EqualTo("f", math.inf)).count() == 0
    assert _found(delta_lake, table, "f = 'inf'::FLOAT") == 1


def test_pyiceberg_filters_unsigned_numbers_as_signed(delta_lake: DeltaLake, table_folder: Path) -> None:
    rows = pa.table({"n": pa.array([1, 4_000_000_000], pa.int64())})
    written = DeltaWriter(table_folder / "t", rows.schema)
    unsigned = pa.schema([("n", pa.uint32())])
    written.append(rows, write=lambda table, path: pq.write_table(table.cast(unsigned), path))
    table = delta_lake.register("faults", "unsigned_filter", written.folder)
    check(ENGINES["pyiceberg"](delta_lake, table, None), rows)
    assert delta_lake.pyiceberg(table).scan(row_filter=EqualTo("n", 4_000_000_000)).count() == 0
    assert _found(delta_lake, table, "n = 4000000000") == 1
