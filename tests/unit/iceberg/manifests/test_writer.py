from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.manifest import FileFormat as PyIcebergFormat
from pyiceberg.manifest import ManifestFile as PyIcebergManifest

from floecat.iceberg.avro.container import BLOCK_SIZE, read_blocks, read_header
from floecat.iceberg.file_metrics import FileMetrics
from floecat.iceberg.manifests import entries as manifest_entries
from floecat.iceberg.manifests.index import INDEX_KEY, read_index
from floecat.iceberg.manifests.lists import DATA_MANIFEST, DELETE_MANIFEST
from floecat.iceberg.manifests.reader import FileContent, read_file_paths
from tests.unit.iceberg.manifest_rows import rows_by_columns
from tests.unit.iceberg.manifest_samples import (
    METRICS,
    SampleFile,
    Table,
    comparable,
    read_entries,
    read_metadata,
)

LOCATION = "s3://b/t/metadata/m0.avro"


DELETES = FileContent.POSITION_DELETES


INT = st.integers(-(2**31), 2**31 - 1)


LONG = st.integers(-(2**63), 2**63 - 1)


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


PARTITION_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": INT,
    "long": LONG,
    "float": st.floats(width=32),
    "double": st.floats(),
    "date": INT,
    "time": st.integers(0, 86_400_000_000 - 1),
    "timestamp": LONG,
    "timestamptz": LONG,
    "timestamp_ns": LONG,
    "timestamptz_ns": LONG,
    "string": TEXT,
    "binary": st.binary(max_size=12),
    "uuid": st.binary(min_size=16, max_size=16),
    "fixed[5]": st.binary(min_size=5, max_size=5),
    "decimal(1, 0)": st.integers(-9, 9),
    "decimal(9, 2)": st.integers(-(10**9) + 1, 10**9 - 1),
    "decimal(18, 18)": st.integers(-(10**18) + 1, 10**18 - 1),
    "decimal(38, 10)": st.integers(-(10**38) + 1, 10**38 - 1),
}
# Few ids, so that files have columns in common.


IDS = st.sampled_from([1, 2, 63, 64, 100, 8191, 8192, 2_147_483_546])


METRIC_MAPS = st.fixed_dictionaries(
    {},
    optional={
        "value_counts": st.dictionaries(IDS, st.integers(0, 2**63 - 1)),
        "null_value_counts": st.dictionaries(IDS, st.integers(0, 200)),
        "lower_bounds": st.dictionaries(
            IDS, st.one_of(st.binary(max_size=20), st.binary(min_size=8, max_size=8))
        ),
        "upper_bounds": st.dictionaries(IDS, st.binary(min_size=8, max_size=8)),
    },
)


@st.composite
def tables_and_files(draw: st.DrawFn, max_size: int = 12) -> tuple[Table, list[SampleFile], FileContent]:
    types = tuple(draw(st.lists(st.sampled_from(sorted(PARTITION_VALUES)), max_size=4)))
    table = Table(types, format_version=draw(st.sampled_from([2, 3])), spec_id=draw(st.integers(0, 300)))
    content = draw(st.sampled_from([FileContent.DATA, DELETES]))
    partition = st.tuples(*(st.one_of(st.none(), PARTITION_VALUES[type]) for type in types))
    is_data, is_v3 = content is FileContent.DATA, table.format_version == 3
    vectors = not is_data and is_v3 and draw(st.booleans())
    # Some columns are the same in all rows, others are not.
    ids = st.one_of(st.just(draw(LONG)), LONG)
    file = st.builds(
        SampleFile,
        path=TEXT,
        status=st.sampled_from([0, 1, 2]),
        snapshot_id=ids,
        sequence_number=ids,
        partition=partition,
        records=ids,
        size=ids,
        metrics=METRIC_MAPS,
        referenced=st.none() if is_data else st.one_of(st.none(), TEXT),
        content_range=st.tuples(LONG, LONG) if vectors else st.none(),
        first_row_id=st.one_of(st.none(), LONG) if is_data and is_v3 else st.none(),
    )
    return table, draw(st.lists(file, max_size=max_size)), content


def str_of(column: pa.ChunkedArray) -> str:
    text: str = column.combine_chunks().to_string(window=10_000)
    return text


@settings(max_examples=60)
@given(tables_and_files(), st.sampled_from([1, 2, 3, 4096]), st.sampled_from([1000, 2**25]))
def test_any_entries_are_read_back(
    drawn: tuple[Table, list[SampleFile], FileContent], chunk_rows: int, chunk_bytes: int
) -> None:
    table, files, content = drawn
    with (
        patch.object(manifest_entries, "_CHUNK_ROWS", chunk_rows),
        patch.object(manifest_entries, "_CHUNK_BYTES", chunk_bytes),
    ):
        manifest = table.write(files, content)
    assert comparable(read_entries(manifest.data)) == comparable(table.entries(files, content))
    index = read_index(manifest.data, location=LOCATION)
    assert index is not None
    # as text: a partition may be NaN, which equals nothing
    written, found = manifest.index.entries, index.entries
    assert [str_of(column) for column in found.columns] == [str_of(column) for column in written.columns]
    assert index.entries.schema == manifest.index.entries.schema
    assert (index.content, index.partition_spec_id, index.format_version) == (
        DATA_MANIFEST if content is FileContent.DATA else DELETE_MANIFEST,
        table.spec_id,
        table.format_version,
    )
    assert manifest.data == table.write(files, content).data


@settings(max_examples=30)
@given(tables_and_files(), st.data())
def test_a_slice_of_rows(drawn: tuple[Table, list[SampleFile], FileContent], data: st.DataObject) -> None:
    table, files, content = drawn
    start = data.draw(st.integers(0, len(files)))
    stop = data.draw(st.integers(start, len(files)))
    sliced = table.write_rows(table.rows(files, content).slice(start, stop))
    assert comparable(read_entries(sliced.data)) == comparable(table.entries(files[start:stop], content))


def test_the_header() -> None:
    table = Table(("int",), ("day",), spec_id=3)
    manifest = table.write([SampleFile("a", partition=(1,))])
    metadata = read_metadata(manifest.data)
    assert metadata.pop(INDEX_KEY)
    assert json.loads(metadata.pop("avro.schema"))["name"] == "manifest_entry"
    assert json.loads(metadata.pop("schema")) == json.loads(table.schema.raw)
    assert json.loads(metadata.pop("partition-spec")) == [
        {"name": "day", "transform": "identity", "source-id": 1, "field-id": 1000}
    ]
    assert metadata == {
        "avro.codec": "deflate",
        "schema-id": "4",
        "partition-spec-id": "3",
        "format-version": "2",
        "content": "data",
    }
    deletes = Table(format_version=3).write([SampleFile("a", referenced="d")], DELETES)
    metadata = read_metadata(deletes.data)
    assert (metadata["format-version"], metadata["content"]) == ("3", "deletes")


def test_our_own_reader() -> None:
    table = Table(format_version=3)
    vector = SampleFile("s3://b/dv.puffin", referenced="s3://b/a.parquet", content_range=(4, 44), records=2)
    data = table.write([vector], DELETES, "puffin").data
    (entry,) = rows_by_columns(data)
    assert (entry["content"], entry["file_format"], entry["record_count"]) == (DELETES, "PUFFIN", 2)
    assert (entry["referenced_data_file"], entry["content_offset"], entry["content_size_in_bytes"]) == (
        "s3://b/a.parquet",
        4,
        44,
    )
    assert (entry["snapshot_id"], entry["sequence_number"], entry["file_sequence_number"]) == (7, 8, 8)
    assert list(read_file_paths(data, location=LOCATION)) == ["s3://b/dv.puffin"]


def test_many_rows_of_very_different_length() -> None:
    # more than one chunk, more than one block, and some rows that are as long as a block
    files = [
        SampleFile(
            f"s3://b/{'x' * (100_000 if number % 1500 == 7 else number % 40)}/{number}.parquet",
            partition=(f"p{number % 3}",),
            metrics={"upper_bounds": {1: b"u" * (50_000 if number == 5000 else 3)}},
        )
        for number in range(6000)
    ]
    table = Table(("string",))
    manifest = table.write(files)
    assert read_entries(manifest.data) == table.entries(files)
    header = read_header(manifest.data, location=LOCATION, what="manifest")
    blocks = list(read_blocks(manifest.data, header, location=LOCATION, what="manifest"))
    sizes = manifest.index.column("entry_size")
    ends = np.cumsum([block.rows for block in blocks])
    assert ends[-1] == len(files)
    assert all(
        BLOCK_SIZE - sizes.max() <= sum(sizes[end - block.rows : end]) <= BLOCK_SIZE + sizes.max()
        for block, end in list(zip(blocks, ends, strict=True))[:5]
    )


def shorter(rows: Any) -> Any:
    return dataclasses.replace(rows, file_sizes=rows.file_sizes[1:])


def unknown_count(rows: Any) -> Any:
    return dataclasses.replace(rows, metrics=FileMetrics(pa.array([1, None], pa.int64())))


def without_path(rows: Any) -> Any:
    return dataclasses.replace(rows, file_paths=pa.array(["a", None]))


def unknown_status(rows: Any) -> Any:
    return dataclasses.replace(rows, statuses=np.array([1, 3], np.uint8))


def unknown_size(rows: Any) -> Any:
    return dataclasses.replace(rows, file_sizes=np.array([1, np.nan]))


def with_vectors(rows: Any) -> Any:
    return dataclasses.replace(rows, content_offsets=np.zeros(2, np.int64))


def with_references(rows: Any) -> Any:
    return dataclasses.replace(rows, referenced_data_files=pa.array(["a", "b"]))


def without_partitions(rows: Any) -> Any:
    return dataclasses.replace(rows, partitions=None)


def other_partitions(rows: Any) -> Any:
    return dataclasses.replace(rows, partitions=pa.array([{"a": 1, "b": 2}] * 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shorter, "differ in length"),
        (unknown_count, "record count"),
        (without_path, "path is missing"),
        (unknown_status, "status unknown"),
        (unknown_size, "must be integers"),
        (with_vectors, "Format version 2 has neither"),
        (with_references, "Only delete files"),
        (without_partitions, "Partition values are missing"),
        (other_partitions, "do not fit the spec"),
    ],
)
def test_what_is_refused(change: Callable[[Any], Any], message: str) -> None:
    table = Table(("int",))
    rows = table.rows([SampleFile("a", partition=(1,)), SampleFile("b", partition=(2,))])
    with pytest.raises(ValueError, match=message):
        table.write_rows(change(rows))
    with pytest.raises(ValueError, match="format version 1"):
        dataclasses.replace(table, format_version=1).write_rows(rows)


PYICEBERG_VALUES: dict[str, tuple[Any, Any]] = {
    "boolean": (True, True),
    "int": (-5, -5),
    "long": (2**40, 2**40),
    "float": (1.5, 1.5),
    "double": (-1.5, -1.5),
    "date": (18262, 18262),
    "time": (5, 5),
    "timestamp": (1_600_000_000_000_000, 1_600_000_000_000_000),
    "timestamptz": (1_600_000_000_000_000, 1_600_000_000_000_000),
    "string": ("é", "é"),
    "binary": (b"\x00\xff", b"\x00\xff"),
    "decimal(9, 2)": (-12345, Decimal("-123.45")),
    "decimal(38, 10)": (10**37, Decimal(10**27)),
    "fixed[5]": (b"12345", b"12345"),
}


@pytest.mark.parametrize("format_version", [2, 3])
def test_pyiceberg_reads_all_fields(tmp_path: Path, format_version: int) -> None:
    table = Table(tuple(PYICEBERG_VALUES), format_version=format_version)
    metrics = {
        "value_counts": {1: 10, 70: 3},
        "null_value_counts": {1: 0},
        "lower_bounds": {1: b"\x01", 70: b""},
        "upper_bounds": {70: b"\xff" * 9},
    }
    files = [
        SampleFile(
            "s3://b/é.parquet",
            partition=tuple(value for value, _ in PYICEBERG_VALUES.values()),
            metrics=metrics,
        ),
        SampleFile("s3://b/b.parquet", 2, -9, partition=(None,) * len(PYICEBERG_VALUES), records=2**40),
    ]
    first, second = fetch(tmp_path, table, files, FileContent.DATA)
    assert first.status is ManifestEntryStatus.ADDED
    assert (first.snapshot_id, first.sequence_number, first.file_sequence_number) == (7, 8, 8)
    file = first.data_file
    assert (file.content, file.file_format) == (DataFileContent.DATA, PyIcebergFormat.PARQUET)
    assert (file.file_path, file.record_count, file.file_size_in_bytes) == ("s3://b/é.parquet", 10, 1000)
    assert list(file.partition) == [value for _, value in PYICEBERG_VALUES.values()]
    assert {name: getattr(file, name) for name in METRICS} == metrics
    assert (second.status, second.snapshot_id) == (ManifestEntryStatus.DELETED, -9)
    assert second.data_file.record_count == 2**40
    assert list(second.data_file.partition) == [None] * len(PYICEBERG_VALUES)
    assert second.data_file.value_counts is None


@pytest.mark.parametrize("format_version", [2, 3])
def test_pyiceberg_reads_delete_files(tmp_path: Path, format_version: int) -> None:
    table = Table(("int",), format_version=format_version)
    file = SampleFile("s3://b/d.parquet", partition=(4,), referenced="s3://b/a.parquet")
    (entry,) = fetch(tmp_path, table, [file], DELETES)
    assert entry.data_file.content is DataFileContent.POSITION_DELETES
    assert entry.data_file.partition[0] == 4


def fetch(tmp_path: Path, table: Table, files: list[SampleFile], content: FileContent) -> list[Any]:
    manifest = table.write(files, content)
    path = tmp_path / "m.avro"
    path.write_bytes(manifest.data)
    entry = manifest.manifest_file(str(path), snapshot_id=7, sequence_number=8)
    listed = PyIcebergManifest.from_args(
        _table_format_version=table.format_version,
        manifest_path=str(path),
        manifest_length=entry.manifest_length,
        partition_spec_id=entry.partition_spec_id,
        content=ManifestContent(entry.content),
        sequence_number=8,
        min_sequence_number=8,
        added_snapshot_id=7,
    )
    return list(listed.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False))


@pytest.mark.parametrize("format_version", [2, 3])
def test_duckdb_reads_entries(tmp_path: Path, format_version: int) -> None:
    table = Table(("int", "string"), ("a b", "s"), format_version=format_version)
    metrics = {"value_counts": {1: 10, 500: 20}, "lower_bounds": {500: b"12345678"}}
    files = [
        SampleFile(f"s3://b/{number:04d}", partition=(number, None), metrics=metrics if number else {})
        for number in range(2000)
    ]
    path = tmp_path / "m.avro"
    path.write_bytes(table.write(files).data)
    package = importlib.util.find_spec("duckdb_extension_avro")
    assert package is not None
    (extension,) = Path(str(package.origin)).parent.rglob("avro.duckdb_extension")
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{extension}'")
        (row,) = connection.execute(
            "SELECT count(*), min(data_file.file_path), sum(data_file.partition.a_x20b), sum(status),"
            " max(data_file.value_counts), count(data_file.lower_bounds), count(data_file.partition.s)"
            f" FROM read_avro('{path}')"
        ).fetchall()
    assert row == (2000, "s3://b/0000", 1999 * 1000, 2000, {1: 10, 500: 20}, 1999, 0)
