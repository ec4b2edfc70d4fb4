from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import PyArrowFileIO, _read_deletes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, StringType

from floecat.iceberg.position_deletes import (
    FILE_PATH_ID,
    POS_ID,
    DeleteFormat,
    PositionDeletes,
    write_position_deletes,
)

DATA_FILE = "s3://bucket/täble/part=a%2Fb/part-00000 x.c000.snappy.parquet"
FORMATS = get_args(DeleteFormat)


def int64s(*values: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, np.int64)


def read_parquet(data: bytes) -> list[tuple[str, int]]:
    table = pq.read_table(BytesIO(data))
    return list(zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True))


def read_avro(data: bytes) -> list[tuple[str, int]]:
    records: Any = fastavro.reader(BytesIO(data))
    return [(record["file_path"], record["pos"]) for record in records]


READ: dict[str, Callable[[bytes], list[tuple[str, int]]]] = {"parquet": read_parquet, "avro": read_avro}


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=30)
@given(
    data_file=st.text(st.characters(codec="utf-8"), min_size=1, max_size=40),
    positions=st.sets(st.integers(0, 300) | st.integers(0, (1 << 63) - 1), min_size=1, max_size=40),
)
def test_what_was_written_is_read(format: DeleteFormat, data_file: str, positions: set[int]) -> None:
    expected = sorted(positions)
    made = write_position_deletes(data_file, int64s(*expected), format=format)
    assert READ[format](made.data) == [(data_file, position) for position in expected]
    assert made == PositionDeletes(
        made.data,
        len(expected),
        data_file.encode(),
        expected[0].to_bytes(8, "little"),
        expected[-1].to_bytes(8, "little"),
    )


def test_bounds_are_iceberg_values() -> None:
    made = write_position_deletes(DATA_FILE, int64s(3, 77), format="parquet")
    assert from_bytes(StringType(), made.file_path_bound) == DATA_FILE
    assert from_bytes(LongType(), made.pos_lower_bound) == 3
    assert from_bytes(LongType(), made.pos_upper_bound) == 77
    assert made.record_count == 2


def test_pyiceberg_reads_parquet(tmp_path: Path) -> None:
    positions = np.arange(0, 2_500_000, 2)
    made = write_position_deletes(DATA_FILE, positions, format="parquet")
    path = tmp_path / "pd.parquet"
    path.write_bytes(made.data)
    delete_file = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=str(path),
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=made.record_count,
        file_size_in_bytes=len(made.data),
    )
    found = _read_deletes(PyArrowFileIO(), delete_file)
    assert list(found) == [DATA_FILE]
    assert np.array_equal(found[DATA_FILE].to_numpy(), positions)


def test_parquet_files_are_like_those_of_iceberg() -> None:
    made = write_position_deletes(DATA_FILE, int64s(3, 77), format="parquet")
    file = pq.ParquetFile(BytesIO(made.data))
    path, pos = (file.schema_arrow.field(name) for name in ("file_path", "pos"))
    assert (path.type, pos.type) == (pa.string(), pa.int64())
    assert not path.nullable
    assert not pos.nullable
    assert path.metadata[b"PARQUET:field_id"] == str(FILE_PATH_ID).encode() == b"2147483546"
    assert pos.metadata[b"PARQUET:field_id"] == str(POS_ID).encode() == b"2147483545"
    metadata = file.metadata.metadata
    assert set(metadata) == {b"delete-type", b"iceberg.schema"}
    assert metadata[b"delete-type"] == b"position"
    group = file.metadata.row_group(0)
    assert [group.column(index).compression for index in (0, 1)] == ["ZSTD", "ZSTD"]
    assert "PLAIN" in group.column(1).encodings
    assert not group.column(1).has_dictionary_page
    statistics = [group.column(index).statistics for index in (0, 1)]
    assert (statistics[0].min, statistics[0].max) == (DATA_FILE, DATA_FILE)
    assert (statistics[1].min, statistics[1].max) == (3, 77)


def test_row_groups_let_readers_prune() -> None:
    made = write_position_deletes(DATA_FILE, np.arange(2_500_000), format="parquet")
    file = pq.read_metadata(BytesIO(made.data))
    assert [file.row_group(index).num_rows for index in range(file.num_row_groups)] == [
        1 << 20,
        1 << 20,
        402_848,
    ]


def test_a_long_path_is_not_repeated() -> None:
    """For all rows of a row group the path would take 3 GiB, which no string array holds."""
    location = "s3://bucket/" + "x" * 3000
    written = write_position_deletes(location, np.arange((1 << 20) + 1), format="parquet")
    last = pq.ParquetFile(BytesIO(written.data)).read_row_group(1)
    assert last.to_pylist() == [{"file_path": location, "pos": 1 << 20}]


def test_avro_files_are_like_those_of_iceberg() -> None:
    made = write_position_deletes(DATA_FILE, int64s(3, 77), format="avro")
    reader: Any = fastavro.reader(BytesIO(made.data))
    fields = {field["name"]: (field["type"], field["field-id"]) for field in reader.writer_schema["fields"]}
    assert fields == {"file_path": ("string", FILE_PATH_ID), "pos": ("long", POS_ID)}
    assert reader.metadata["delete-type"] == "position"
    assert reader.metadata["avro.codec"] == "deflate"


@pytest.mark.parametrize("format", FORMATS)
def test_chunks_give_the_same_file(format: DeleteFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("floecat.iceberg.position_deletes._BATCH_ROWS", 1000)
    positions = np.arange(0, 7_000, 2)
    whole = write_position_deletes(DATA_FILE, positions, format=format)
    assert READ[format](whole.data) == [(DATA_FILE, position) for position in range(0, 7_000, 2)]
    for size in (1, 500, 1000, 1001, 3499):
        chunks = (positions[start : start + size] for start in range(0, len(positions), size))
        assert write_position_deletes(DATA_FILE, chunks, format=format) == whole


_IN_ANOTHER_PROCESS = """
import hashlib, sys
import numpy as np
from floecat.iceberg.position_deletes import write_position_deletes
made = write_position_deletes(sys.argv[1], np.arange(0, 50_000, 7), format=sys.argv[2])
print(hashlib.sha256(made.data).hexdigest())
"""


@pytest.mark.parametrize("format", FORMATS)
def test_another_process_writes_the_same_bytes(format: DeleteFormat) -> None:
    made = write_position_deletes(DATA_FILE, np.arange(0, 50_000, 7), format=format)
    other = subprocess.run(
        [sys.executable, "-c", _IN_ANOTHER_PROCESS, DATA_FILE, format],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": "4711", "TZ": "Asia/Tokyo"},
    )
    assert other.stdout.strip() == hashlib.sha256(made.data).hexdigest()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "chunks",
    [
        [int64s(3, 2)],
        [int64s(2, 2)],
        [int64s(-1, 2)],
        [int64s(1, 5), int64s(5, 6)],
        [np.arange(1 << 20), int64s(7)],
    ],
)
def test_refuses_positions_out_of_order(format: DeleteFormat, chunks: list[Any]) -> None:
    with pytest.raises(ValueError, match="not ascending"):
        write_position_deletes(DATA_FILE, chunks, format=format)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("positions", [int64s(), [], [int64s(), int64s()]])
def test_refuses_a_file_about_nothing(format: DeleteFormat, positions: Any) -> None:
    with pytest.raises(ValueError, match="no positions"):
        write_position_deletes(DATA_FILE, positions, format=format)
