"""The property that turns Spark's vectorised reader off, where a file was seen that it misreads."""

from __future__ import annotations

import functools
import shutil

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.behaviour.delta.conftest import SCHEMA, as_rows, delta_table, rows_of
from tests.clients.delta.writer import DeltaWriter

PROPERTY = "read.parquet.vectorization.enabled"
MOMENTS = pa.schema([("t", pa.timestamp("us", "UTC"))])

misread = functools.partial(pq.write_table, use_dictionary=False, column_encoding={"s": "DELTA_BYTE_ARRAY"})
"""Writes a file of `SCHEMA` that the reader fails on."""


def in_one_commit(writer):
    """Writes the log of a table again, with one commit that has all files."""
    log = writer.folder / "_delta_log"
    shutil.rmtree(log)
    log.mkdir()
    writer.version = -1
    writer.set_schema(SCHEMA)
    writer.commit([{"add": file.add} for file in writer.files])


def setting(lake, table):
    return msgspec.json.decode(lake.load(table).metadata)["properties"].get(PROPERTY)


def test_tables_of_ordinary_files_are_left_alone(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    writer.delete({0: [1]})
    assert setting(lake, lake.register(writer.folder)) is None


@pytest.mark.parametrize("stats", [True, False])
@pytest.mark.parametrize("mapping", [None, "name", "id"])
def test_a_file_that_was_there_from_the_start(lake, tmp_path, mapping, stats):
    writer = DeltaWriter(tmp_path / "t", MOMENTS, mapping=mapping)
    rows = pa.table({"t": pa.array([1_000_000], MOMENTS.field(0).type)}, schema=MOMENTS)
    of_add = {} if stats else {"stats": None}
    writer.append(rows, write=functools.partial(pq.write_table, coerce_timestamps="ms"), **of_add)
    assert setting(lake, lake.register(writer.folder)) == "false"


@pytest.mark.parametrize("stats", [True, False])
def test_a_file_of_a_later_commit(lake, tmp_path, stats):
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    assert setting(lake, table) is None
    writer.append(rows_of(100), write=misread, **({} if stats else {"stats": None}))
    assert setting(lake, table) == "false"
    # older snapshots have the file when the newest has not
    writer.remove([2])
    writer.append(rows_of(101))
    assert setting(lake, table) == "false"
    assert lake.rows(table) == as_rows(writer.rows[writer.version])


def test_it_stays_when_artifacts_are_made_anew(open_lake, tmp_path):
    lake = open_lake(max_versions_in_request=1)
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    writer.append(rows_of(100), write=misread)
    assert setting(lake, table) == "false"
    writer.remove([2])
    assert setting(lake, table) == "false"
    for path in writer.folder.glob("metadata/*.avro"):
        path.unlink()
    # the one version that is made has no such file any more
    assert setting(lake, table) == "false"
    assert lake.rows(table) == as_rows(writer.rows[writer.version])


def test_another_table_at_the_place_begins_anew(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    writer.append(rows_of(100), write=misread)
    table = lake.register(writer.folder)
    assert setting(lake, table) == "false"
    shutil.rmtree(writer.folder / "_delta_log")
    for path in writer.folder.glob("*.parquet"):
        path.unlink()
    (tmp_path / "other").mkdir()
    other = delta_table(tmp_path / "other" / "t", rows=3)
    shutil.copytree(other.folder, writer.folder, dirs_exist_ok=True)
    assert lake.rows(table) == as_rows(other.rows[other.version])
    assert setting(lake, table) is None


@pytest.mark.parametrize("value", ["true", "false"])
@pytest.mark.parametrize("write", [pq.write_table, misread])
def test_what_the_delta_table_says_comes_first(lake, tmp_path, value, write):
    writer = DeltaWriter(tmp_path / "t", SCHEMA, configuration={PROPERTY: value})
    writer.append(rows_of(1), write=write)
    table = lake.register(writer.folder)
    assert setting(lake, table) == value
    writer._configuration.clear()
    writer.set_schema(SCHEMA)
    assert setting(lake, table) == ("false" if write is misread else None)


def test_a_column_that_is_widened(lake, tmp_path):
    """The annotation of its files is one that the reader takes for the narrow type only."""
    narrow, wide = pa.schema([("n", pa.int16())]), pa.schema([("n", pa.int64())])
    writer = DeltaWriter(tmp_path / "t", narrow, reader_features=["typeWidening"])
    writer.append(pa.table({"n": [1]}, schema=narrow))
    table = lake.register(writer.folder)
    assert setting(lake, table) is None
    writer.set_schema(wide)
    assert setting(lake, table) == "false"


def test_samples_are_of_every_kind_of_name(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    writer.append(rows_of(100), path="other-1.parquet", write=misread)
    in_one_commit(writer)
    assert setting(lake, lake.register(writer.folder)) == "false"


@pytest.mark.parametrize(("days", "expected"), [(1, "false"), (0, None)])
def test_the_newest_file_is_a_sample_if_it_is_a_day_younger(lake, tmp_path, days, expected):
    writer = DeltaWriter(tmp_path / "t", SCHEMA)
    writer.append(rows_of(1), path="part-1.parquet")
    writer.append(rows_of(2), path="part-2.parquet", write=misread)
    for id in range(3, 10):
        writer.append(rows_of(id), path=f"part-{id}.parquet")
    writer.files[1].add["modificationTime"] += days * 86_400_000
    in_one_commit(writer)
    assert setting(lake, lake.register(writer.folder)) == expected
