from __future__ import annotations

import io
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.errors import InvalidDeltaTableError
from floecat.iceberg.file_metrics import ColumnMetrics, FileMetrics
from floecat.iceberg.parquet.column_statistics import ColumnFooter
from floecat.iceberg.parquet.field_ids import footer_schema
from floecat.iceberg.parquet.footers import (
    TAIL_LENGTH,
    FileFooter,
    footer_length,
    footer_metrics,
    with_footers,
)
from floecat.iceberg.schemas.types import PrimitiveType, parse_primitive
from tests.delta_tables import delta_table

LOCATION = "s3://bucket/t/part-1.parquet"


@dataclass(frozen=True)
class Column:
    field_id: int
    physical_path: tuple[str, ...]
    type: PrimitiveType


def column(field_id: int, type: str, *path: str) -> Column:
    return Column(field_id, path or (f"c{field_id}",), parse_primitive(type))


def parquet(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


def with_ids(table: pa.Table, *ids: int) -> pa.Table:
    fields = [
        field.with_metadata({"PARQUET:field_id": str(id)})
        for field, id in zip(table.schema, ids, strict=True)
    ]
    return table.cast(pa.schema(fields))


def read(data: bytes, *columns: Column) -> FileFooter:
    return footer_metrics(data[-footer_length(data[-TAIL_LENGTH:], LOCATION) :], columns, LOCATION)


def one(values: Sequence[Any], arrow_type: pa.DataType, type: str, **options: Any) -> ColumnFooter:
    table = pa.table({"c1": pa.array(values, arrow_type)})
    return read(parquet(table, **options), column(1, type)).columns[1]


def test_rows_are_counted_from_the_footer_alone() -> None:
    data = parquet(pa.table({"c1": range(1000)}), row_group_size=300)
    length = footer_length(data[-TAIL_LENGTH:], LOCATION)
    assert TAIL_LENGTH < length < len(data)
    assert footer_metrics(data[-length:], [], LOCATION) == FileFooter(1000, {})
    assert footer_metrics(data, [], LOCATION) == FileFooter(1000, {})


def test_a_file_without_rows_has_counts_and_no_bounds() -> None:
    footer = read(parquet(pa.table({"c1": pa.array([], pa.int64())})), column(1, "long"))
    assert footer == FileFooter(0, {1: ColumnFooter(0, 0)})


def test_counts_and_bounds_of_all_row_groups() -> None:
    found = one([5, None, 3, 9, None, None, 7], pa.int64(), "long", row_group_size=2)
    assert found == ColumnFooter(7, 3, (3).to_bytes(8, "little"), (9).to_bytes(8, "little"))


def test_columns_are_found_by_path_if_the_file_has_no_ids() -> None:
    inner = pa.array(
        [{"c": 1, "d.e": "x", "l": [1, 2]}, None],
        pa.struct([("c", pa.int64()), ("d.e", pa.string()), ("l", pa.list_(pa.int64()))]),
    )
    table = pa.table(
        {
            "l": pa.array([[1], []]),
            "m": pa.array([[(1, 2)], []], pa.map_(pa.int64(), pa.int64())),
            "a.b": inner,
        }
    )
    columns = [
        column(1, "long", "a.b", "c"),
        column(2, "string", "a.b", "d.e"),
        column(3, "long", "l"),
        column(4, "long", "a.b", "l"),
        column(5, "long", "l", "list", "element"),
        column(6, "long", "gone"),
    ]
    one, x = (1).to_bytes(8, "little"), b"x"
    assert read(parquet(table), *columns).columns == {
        1: ColumnFooter(2, 1, one, one),
        2: ColumnFooter(2, 1, x, x),
    }


def test_columns_are_found_by_id_if_the_file_has_ids() -> None:
    table = with_ids(pa.table({"c1": [1], "c2": [2]}), 2, 7)
    found = read(parquet(table), column(1, "long"), column(2, "long"), column(7, "long", "renamed")).columns
    assert {id: footer.lower for id, footer in found.items()} == {
        2: (1).to_bytes(8, "little"),
        7: (2).to_bytes(8, "little"),
    }


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"", "does not end"),
        (b"\x01\x00\x00\x00PAR", "does not end"),
        (b"\x01\x00\x00\x00PARE", "encrypted"),
        (b"PK\x05\x06aaaa", "does not end"),
    ],
)
def test_the_end_of_another_file_is_refused(tail: bytes, reason: str) -> None:
    with pytest.raises(InvalidDeltaTableError, match=rf"{LOCATION}.*{reason}"):
        footer_length(tail, LOCATION)


def test_a_file_that_is_cut_off_is_refused() -> None:
    data = parquet(pa.table({"c1": range(10)}))
    for cut in (data[:-1], data[:-100], data[-100:]):
        with pytest.raises(InvalidDeltaTableError, match=LOCATION):
            footer_metrics(cut, [column(1, "long")], LOCATION)


@given(data=st.data())
def test_a_damaged_footer_is_refused_or_read(data: st.DataObject) -> None:
    whole = parquet(pa.table({"c1": range(10), "c2": ["a"] * 10}))
    footer = bytearray(whole[-footer_length(whole, LOCATION) :])
    for place in data.draw(st.lists(st.integers(0, len(footer) - 9), min_size=1, max_size=5)):
        footer[place] = data.draw(st.integers(0, 255))
    try:
        found = footer_metrics(bytes(footer), [column(1, "long"), column(2, "string")], LOCATION)
    except InvalidDeltaTableError:
        return
    assert found.record_count >= 0


def test_footers_fill_what_is_unknown() -> None:
    metrics = FileMetrics(
        pa.array([5, None, 7, None], pa.int64()),
        (
            ColumnMetrics(
                1, pa.array([5, None, 7, None], pa.int64()), None, pa.array([b"a", None, b"c", None])
            ),
            ColumnMetrics(2, None, pa.array([1, 2, 3, 4], pa.int64())),
        ),
    )
    footers = [
        FileFooter(6, {1: ColumnFooter(6, 0, b"b", b"z"), 3: ColumnFooter(6, 6)}),
        FileFooter(8, {1: ColumnFooter(8, None, b"C", b"Z"), 2: ColumnFooter(8, 0)}),
    ]
    found = with_footers(metrics, [1, 2], footers)
    assert found.record_counts.to_pylist() == [5, 6, 8, None]
    first, second, third = found.columns
    assert first.value_counts.to_pylist() == [5, 6, 7, None]
    assert first.null_value_counts.to_pylist() == [None, 0, None, None]
    assert first.lower_bounds.to_pylist() == [b"a", b"b", b"c", None]
    assert first.upper_bounds.to_pylist() == [None, b"z", b"Z", None]
    assert second.null_value_counts.to_pylist() == [1, 2, 3, 4]
    assert second.value_counts.to_pylist() == [None, None, 8, None]
    assert third.null_value_counts.to_pylist() == [None, 6, None, None]


def test_footers_of_no_files_change_nothing() -> None:
    metrics = FileMetrics(pa.array([5, None], pa.int64()))
    found = with_footers(metrics, [], [])
    assert found.record_counts.to_pylist() == [5, None]
    assert found.columns == ()


def test_row_counts_are_enough() -> None:
    found = with_footers(FileMetrics(pa.nulls(2, pa.int64())), [0, 1], [FileFooter(1, {}), FileFooter(2, {})])
    assert found.record_counts.to_pylist() == [1, 2]


def test_decimals_of_all_stores() -> None:
    values = [Decimal("1.28"), Decimal("-1.28"), None]
    for precision, options in (
        (5, {"store_decimal_as_integer": True}),
        (15, {"store_decimal_as_integer": True}),
        (30, {}),
    ):
        found = one(values, pa.decimal128(precision, 2), f"decimal({precision}, 2)", **options)
        assert found == ColumnFooter(3, 1, b"\x80", b"\x00\x80")


@pytest.mark.parametrize(
    "name",
    [
        "golden/parquet-all-types/delta",
        "delta-rs/table_with_edge_timestamps",
        "kernel-rs/mixed-nulls",
        "made/sail-ntz",
    ],
)
def test_files_of_other_writers_are_read_as_arrow_reads_them(name: str) -> None:
    for file in delta_table(name).rglob("*.parquet"):
        if "_delta_log" in file.parts:
            continue
        metadata = pq.read_metadata(file)
        names = [field.name for field in metadata.schema.to_arrow_schema()]
        columns = [column(id, "string", field) for id, field in enumerate(names)]
        footer = footer_metrics(file.read_bytes(), columns, str(file))
        assert footer.record_count == metadata.num_rows
        flat = {
            metadata.schema.column(place).path: metadata.row_group(0).column(place)
            for place in range(metadata.num_columns)
        }
        for id, found in footer.columns.items():
            chunk = flat[names[id]]
            assert found.value_count == chunk.num_values
            assert found.null_count == chunk.statistics.null_count
            if found.lower is not None:
                assert (found.lower, found.upper) == (chunk.statistics.min_raw, chunk.statistics.max_raw)


def test_a_footer_of_more_structs_than_writers_make_is_damaged() -> None:
    # a schema of two million elements that take a byte each
    metadata = b"\x15\x02\x19\xfc\x80\x89\x7a" + bytes(2_000_000) + b"\x00"
    tail = metadata + len(metadata).to_bytes(4, "little") + b"PAR1"
    tracemalloc.start()
    try:
        with pytest.raises(InvalidDeltaTableError, match="its footer is damaged"):
            footer_metrics(tail, [], LOCATION)
        with pytest.raises(InvalidDeltaTableError, match="its footer is damaged"):
            footer_schema(tail, LOCATION)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40_000_000
