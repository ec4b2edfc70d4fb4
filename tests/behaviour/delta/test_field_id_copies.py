"""Tables with column mapping whose writers gave no field ids to what is in lists and maps."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floecat.delta.refresh.verification import count_table
from floecat.errors import InvalidDeltaTableError, UnavailableError, UnsupportedDeltaTableError
from tests.behaviour.delta.conftest import by_id
from tests.clients.delta.writer import DeltaWriter
from tests.delta_tables import expected_rows, writable_copy

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.list_(pa.int64()))),
        ("s", pa.struct([("a", pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())])))])),
    ]
)
SETTING = "floecat.gateway.delta-compat.unnumbered-collections"


def rows_of(*ids: int) -> pa.Table:
    rows = [
        {
            "id": id,
            "l": [id, None, -id],
            "m": [(f"k{id}", [id]), ("none", None)],
            "s": {"a": [{"x": id, "y": f"y{id}"}, {"x": None, "y": None}]},
        }
        for id in ids
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.fixture(params=["name", "id"])
def writer(request, tmp_path) -> DeltaWriter:
    """Two files of ten rows, each of its own version."""
    made = DeltaWriter(tmp_path / "t", SCHEMA, mapping=request.param)
    made.append(rows_of(*range(10)))
    made.append(rows_of(*range(10, 20)))
    return made


def copies(folder: Path) -> set[Path]:
    return set(folder.glob("metadata/compat-df-*"))


def test_rows_are_whole(engines, lake, writer):
    table = lake.register(writer.folder)
    assert len(copies(writer.folder)) == 2
    engines.check(lake, table, writer)


@pytest.mark.parametrize("format_version", [2, 3])
def test_deletes_are_of_the_copies(engines, open_lake, writer, format_version):
    lake = open_lake(format_version=format_version)
    table = lake.register(writer.folder)
    made = copies(writer.folder)
    writer.delete({0: [0, 3], 1: [9]})
    lake.load(table)
    writer.delete({0: [0, 3, 4]}, storage="i")
    engines.check(lake, table, writer)
    assert copies(writer.folder) == made


def test_files_that_are_gone(engines, lake, writer):
    table = lake.register(writer.folder)
    writer.delete({0: [1]})
    lake.load(table)
    writer.remove([0])
    lake.load(table)
    writer.append(rows_of(100))
    engines.check(lake, table, writer)
    writer.remove([0, 1])
    assert by_id(engines.pyiceberg(lake, table)) == []
    assert engines.duckdb(lake, table).num_rows == 0


def test_columns_that_are_renamed_added_and_dropped(engines, lake, writer):
    table = lake.register(writer.folder)
    fields = list(writer.schema)
    fields[1] = fields[1].with_name("renamed")
    writer.set_schema(pa.schema([*fields, pa.field("more", pa.list_(pa.string()))]))
    engines.check(lake, table, writer)
    added = rows_of(30).rename_columns(["id", "renamed", "m", "s"])
    writer.append(added.append_column("more", pa.array([["a", None]], pa.list_(pa.string()))))
    engines.check(lake, table, writer)
    writer.set_schema(pa.schema([writer.schema.field("id")]))
    # no list is left, and files that were copied are removed all the same
    writer.remove([0])
    writer.delete({0: [5]})
    engines.check(lake, table, writer)


def test_what_was_dropped_is_in_older_versions(engines, open_lake, writer):
    """The first copies are made for a version that has less columns than those before it."""
    lake = open_lake(max_versions_in_request=1)
    writer.set_schema(pa.schema([writer.schema.field("id"), writer.schema.field("m")]))
    table = lake.register(writer.folder)
    assert lake.versions(table) == [3]
    made = copies(writer.folder)
    assert lake.materialise(table)
    assert lake.versions(table) == [0, 1, 2, 3]
    assert copies(writer.folder) == made
    assert lake.state(table).generation == 0
    engines.check(lake, table, writer)


def test_files_without_ids_stay(engines, lake, tmp_path):
    writer = DeltaWriter(tmp_path / "t", SCHEMA)
    writer.append(rows_of(1, 2))
    writer.mapping = "name"
    numbers = iter(range(1, 100))

    def mapped(field: pa.Field) -> pa.Field:
        names = {b"id": str(next(numbers)).encode(), b"physical": field.name.encode()}
        type_ = field.type
        if field.name == "s":
            element = type_.field("a").type.value_type
            inner = pa.struct([mapped(child) for child in element])
            type_ = pa.struct([mapped(type_.field("a")).with_type(pa.list_(inner))])
        return pa.field(field.name, type_, field.nullable, names)

    writer.set_schema(pa.schema([mapped(field) for field in SCHEMA]))
    writer.append(rows_of(3))
    table = lake.register(writer.folder)
    assert len(copies(writer.folder)) == 1
    engines.check(lake, table, writer)


def test_copies_have_the_data_of_their_originals(lake, writer):
    lake.register(writer.folder)
    originals = {(writer.folder / file.path).read_bytes() for file in writer.files}
    for copy in copies(writer.folder):
        data = copy.read_bytes()
        [original] = [each for each in originals if each[:100] == data[:100]]
        originals.remove(original)
        length = len(original) - 8 - int.from_bytes(original[-8:-4], "little")
        assert data[:length] == original[:length]
        pq.ParquetFile(copy).read()


def test_copies_that_are_there_are_used(open_lake, writer):
    open_lake().register(writer.folder)
    made = {copy: copy.stat().st_mtime_ns for copy in copies(writer.folder)}
    other = open_lake()
    before = other.kernel.files.counters.counts
    table = other.register(writer.folder)
    spent = other.kernel.files.counters.counts - before
    assert {copy: copy.stat().st_mtime_ns for copy in copies(writer.folder)} == made
    assert other.state(table).generation == 0
    assert spent.bytes_written < 50_000


def test_a_copy_of_somebody_else_is_left_alone(engines, open_lake, writer):
    open_lake().register(writer.folder)
    taken = sorted(copies(writer.folder))[0]
    taken.write_bytes(b"of somebody else")
    lake = open_lake()
    table = lake.register(writer.folder)
    assert taken.read_bytes() == b"of somebody else"
    assert lake.state(table).generation == 1
    engines.check(lake, table, writer)


def test_a_lost_copy_is_made_anew(engines, lake, writer):
    writer.delete({0: [2]})
    table = lake.register(writer.folder)
    assert not lake.kernel.delta.refresh_service.repair(lake.delta_entry(table))
    for copy in copies(writer.folder):
        copy.unlink()
    assert lake.kernel.delta.refresh_service.repair(lake.delta_entry(table))
    assert lake.state(table).generation == 1
    engines.check(lake, table, writer)


def test_counts_agree(lake, writer):
    writer.delete({0: [2]})
    table = lake.register(writer.folder)
    numbers = count_table(lake.kernel.store, lake.kernel.files, lake.delta_entry(table))
    assert numbers.delta == numbers.iceberg
    assert (numbers.missing, numbers.unexpected, numbers.stray_deletes) == ((), (), ())


def test_tables_can_be_refused_instead(open_lake, writer):
    lake = open_lake(unnumbered_collections="refuse")
    table = lake.register(writer.folder)
    with pytest.raises(UnsupportedDeltaTableError) as refused:
        lake.load(table)
    assert "Column l " in refused.value.message
    assert "icebergCompatV2" in refused.value.message
    assert SETTING in refused.value.message
    assert not copies(writer.folder)


def test_broken_files_are_named(lake, writer):
    file = writer.folder / writer.files[1].path
    file.write_bytes(file.read_bytes()[:-8] + b"\xff\xff\xff\x00PAR1")
    table = lake.register(writer.folder)
    with pytest.raises(InvalidDeltaTableError, match=file.name):
        lake.load(table)


def test_many_files_are_left_to_the_pipeline(engines, open_lake, writer):
    lake = open_lake(max_files_in_request=0, wait="PT0.5S")
    table = lake.register(writer.folder)
    with pytest.raises(UnavailableError):
        lake.load(table)
    lake.materialise(table)
    engines.check(lake, table, writer)


@pytest.mark.parametrize(
    "name",
    ["golden/table-with-columnmapping-mode-name/delta", "golden/table-with-columnmapping-mode-id/delta"],
)
def test_tables_of_spark(engines, lake, tmp_path, name):
    table = lake.register(writable_copy(name, tmp_path / "t"))
    expected = expected_rows(name)
    assert copies(tmp_path / "t")

    def sorted_rows(rows: pa.Table) -> list[str]:
        names = sorted(name for name in rows.column_names if "array" in name or "map" in name)
        assert names
        return sorted(map(repr, rows.select(names).to_pylist()))

    assert sorted_rows(engines.duckdb(lake, table)) == sorted_rows(expected)
