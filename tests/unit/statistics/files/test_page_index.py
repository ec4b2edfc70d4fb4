from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floecat.iceberg.position_deletes import write_position_deletes
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds
from floecat.statistics.files.data_files import FileSummaries
from floecat.statistics.files.page_index import PageIndex
from floecat.statistics.files.sources import UnreadableFileError
from floecat.statistics.files.summaries import DataFile, DeleteFile
from tests.unit.statistics.files.table_files import FILES, data_file, schema_of, with_ids, write_parquet

_ROWS = 5000


def _table() -> pa.Table:
    numbers = list(range(_ROWS))
    columns: dict[str, pa.Array] = {
        "i": pa.array([None if n % 9 == 0 else n - 2500 for n in numbers], pa.int32()),
        "l": pa.array([n % 100 for n in numbers]),
        "f": pa.array([float("nan") if n < 2500 else n / 2 for n in numbers], pa.float32()),
        "d": pa.array([n / 3 for n in numbers]),
        "b": pa.array([n > 100 for n in numbers]),
        "s": pa.array([f"text {n % 300:03d}" for n in numbers]),
        "date": pa.array([dt.date(2020, 1, 1) + dt.timedelta(n % 50) for n in numbers]),
        "ts": pa.array([n * 1_000_000 for n in numbers], pa.timestamp("us")),
        "p9": pa.array([Decimal(n) for n in numbers], pa.decimal128(9, 0)),
        "p38": pa.array([Decimal(n * 10**20) for n in numbers], pa.decimal128(38, 0)),
        "p60": pa.array([Decimal(n * 10**40) for n in numbers], pa.decimal256(60, 0)),
        "st": pa.array([{"x": n} for n in numbers]),
        "list": pa.array([[n] for n in numbers]),
        "bin": pa.array([b"x"] * _ROWS),
    }
    return with_ids(dict(enumerate(columns.items(), start=1)))


def _index(file: DataFile, bounds: Bounds = DEFAULT_BOUNDS) -> tuple[PageIndex, pa.Table]:
    with FileSummaries(FILES, schema_of((1, "i", "int")), [], bounds=bounds) as summaries:
        index = summaries.page_index(file)
    return index, pq.read_table(io.BytesIO(index.data))


def _pages(index: pa.Table) -> dict[tuple[str, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in index.to_pylist():
        found.setdefault((row["column_name"], row["row_group"]), []).append(row)
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"data_page_version": "1.0", "compression": "zstd"},
        {"data_page_version": "2.0", "compression": "snappy"},
        {"use_dictionary": False, "compression": "none"},
        {"dictionary_pagesize_limit": 500, "store_decimal_as_integer": True},
    ],
)
def test_pages_have_their_places_rows_and_bounds(options: dict[str, Any], tmp_path: Path) -> None:
    table = _table()
    file = write_parquet(
        tmp_path,
        "f.parquet",
        table,
        row_group_size=3000,
        data_page_size=2000,
        write_batch_size=100,
        **options,
    )
    index, rows = _index(file)
    assert (index.rows, index.live_rows, index.pages, index.row_groups) == (_ROWS, _ROWS, len(rows), 2)
    assert index.columns == ("i", "l", "f", "d", "b", "s", "date", "ts", "p9", "p38", "p60", "st.x")
    footer = pq.read_metadata(tmp_path / "f.parquet")
    values = table.flatten()
    kinds = {"i": "i32", "f": "f32", "d": "f64", "b": "bool", "s": "utf8", "date": "i32"}
    for (name, group), pages in _pages(rows).items():
        [facts] = [
            footer.row_group(group).column(leaf)
            for leaf in range(footer.num_columns)
            if footer.row_group(group).column(leaf).path_in_schema == name
        ]
        first = pages[0]
        place = facts.data_page_offset
        if first["dictionary_page_header_offset"] is not None:
            assert first["requires_dictionary_page"] or not options.get("use_dictionary", True)
            dictionary = first["dictionary_page_header_offset"]
            assert dictionary + first["dictionary_page_total_compressed_size"] == place
        row = 0
        for ordinal, page in enumerate(pages):
            assert (page["page_ordinal"], page["first_row_index"]) == (ordinal, row)
            assert page["page_header_offset"] == place
            assert page["live_row_count"] == page["row_count"]
            held = values[name][group * 3000 + row : group * 3000 + row + page["row_count"]].to_pylist()
            held = [value for value in held if value is not None and value == value]
            kind = kinds.get(name, "i64")
            if name.startswith("p"):
                kind = "decimal256_unscaled" if name == "p60" else "decimal128_unscaled"
            if name == "date":
                held = [(value - dt.date(1970, 1, 1)).days for value in held]
            if name == "ts":
                held = [
                    int((value - dt.datetime(1970, 1, 1)) / dt.timedelta(microseconds=1)) for value in held
                ]
            assert page[f"min_{kind}"] == min(held, default=None)
            assert page[f"max_{kind}"] == max(held, default=None)
            place += page["page_total_compressed_size"]
            row += page["row_count"]
        assert row == footer.row_group(group).num_rows
    assert len(rows) > 5 * len(_pages(rows)) / 2


def test_deleted_rows_are_not_live(tmp_path: Path) -> None:
    file = write_parquet(tmp_path, "f.parquet", _table(), row_group_size=3000, data_page_size=2000)
    positions = np.array([0, 1, 3000, 4999])
    written = write_position_deletes(file.location, positions, format="parquet").data
    (tmp_path / "d.parquet").write_bytes(written)
    delete = DeleteFile((tmp_path / "d.parquet").as_uri(), "parquet", 4, len(written))
    index, rows = _index(msgspec.structs.replace(file, deletes=(delete,)))
    assert (index.rows, index.live_rows) == (_ROWS, _ROWS - 4)
    pages = _pages(rows)
    for group, deleted in ((0, 2), (1, 2)):
        of_column = pages["l", group]
        assert sum(page["row_count"] - page["live_row_count"] for page in of_column) == deleted
    assert pages["l", 0][0]["live_row_count"] == pages["l", 0][0]["row_count"] - 2


def test_the_sidecar_names_its_data_file_and_is_always_the_same(tmp_path: Path) -> None:
    file = write_parquet(tmp_path, "f.parquet", _table())
    index, _ = _index(file)
    written = pq.ParquetFile(io.BytesIO(index.data))
    assert written.metadata.metadata == {b"sidecar.data_file_path": file.location.encode()}
    assert written.metadata.num_columns == 34
    assert written.metadata.row_group(0).column(0).compression == "UNCOMPRESSED"
    again, _ = _index(file)
    assert (again.data, again.sha256) == (index.data, index.sha256)


def test_damaged_pages_and_other_formats_are_refused(tmp_path: Path) -> None:
    file = write_parquet(tmp_path, "f.parquet", _table(), compression="none", use_dictionary=False)
    schema = {"type": "record", "name": "r", "fields": [{"name": "i", "field-id": 1, "type": "int"}]}
    with (tmp_path / "f.avro").open("wb") as stream:
        fastavro.writer(stream, schema, [{"i": 1}])
    with pytest.raises(UnreadableFileError, match=r"f\.avro: only Parquet files"):
        _index(data_file(tmp_path / "f.avro", 1, format="avro"))
    path = tmp_path / "f.parquet"
    path.write_bytes(path.read_bytes()[:4] + b"\xff" * 50 + path.read_bytes()[54:])
    with pytest.raises(UnreadableFileError, match=r"Cannot read file:.*f\.parquet"):
        _index(file)


def test_column_chunks_beyond_their_bound_are_refused(tmp_path: Path) -> None:
    file = write_parquet(tmp_path, "f.parquet", _table(), compression="zstd")
    problem = r"f\.parquet: a column chunk .* 5,000 \(floecat\.limits\.inflated-file-bytes\)"
    with pytest.raises(UnreadableFileError, match=problem):
        _index(file, Bounds(inflated_file_bytes=5_000))
