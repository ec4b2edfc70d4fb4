"""Data files that were written for another table, with its field ids."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floecat.errors import UnsupportedDeltaTableError
from tests.behaviour.delta.conftest import as_rows
from tests.clients.delta.writer import DeltaWriter

SCHEMA = pa.schema(
    [("a", pa.int64()), ("b", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())]))]
)


def rows_of(*ids: int) -> pa.Table:
    rows = [{"a": id, "b": -id, "s": {"x": 10 * id, "y": -10 * id}} for id in ids]
    return pa.Table.from_pylist(rows, SCHEMA)


def numbered(schema: pa.Schema, ids: dict[str, int]) -> pa.Schema:
    def number(field: pa.Field) -> pa.Field:
        type_ = pa.struct(list(map(number, field.type))) if pa.types.is_struct(field.type) else field.type
        metadata = {"PARQUET:field_id": str(ids[field.name])} if field.name in ids else None
        return pa.field(field.name, type_, field.nullable, metadata)

    return pa.schema(list(map(number, schema)))


SWAPPED = {"a": 2, "b": 1, "s": 5, "x": 4, "y": 3}


def make_foreign(writer: DeltaWriter, place: int, ids=SWAPPED, *, stats=True, extra=None) -> None:
    """Writes the file of a commit again, with ids."""
    file = writer.files[place]
    path = writer.folder / file.path
    table = pq.read_table(path)
    for name, values in (extra or {}).items():
        table = table.append_column(name, values)
    pq.write_table(table.cast(numbered(table.schema, ids)), path)
    change = {"size": path.stat().st_size} | ({} if stats else {"stats": None})
    file.add |= change
    for log in (writer.folder / "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            if line.get("add", {}).get("path") == file.add["path"]:
                line["add"] |= change
        log.write_text("\n".join(map(json.dumps, lines)))


def copies(writer: DeltaWriter) -> int:
    return len(list(writer.folder.glob("metadata/compat-df-*")))


@pytest.fixture
def writer(tmp_path) -> DeltaWriter:
    """Three files of one row, each of its own version."""
    made = DeltaWriter(tmp_path / "t", SCHEMA)
    for id in (1, 2, 3):
        made.append(rows_of(id))
    return made


@pytest.mark.parametrize("stats", [True, False])
def test_columns_are_those_of_the_names(lake, writer, stats):
    for place in range(3):
        make_foreign(writer, place, stats=stats)
    table = lake.register(writer.folder)
    assert lake.rows(table) == as_rows(rows_of(1, 2, 3))
    assert lake.rows(table, 2) == as_rows(rows_of(1, 2))
    assert copies(writer) == 3
    writer.delete({1: [0]})
    assert lake.rows(table) == as_rows(rows_of(1, 3))
    writer.remove([0])
    writer.append(rows_of(4))
    assert lake.rows(table) == as_rows(rows_of(3, 4))
    assert copies(writer) == 3


def test_bounds_are_those_of_the_names(lake, writer):
    from pyiceberg.table import StaticTable

    make_foreign(writer, 2, stats=False)
    table = lake.register(writer.folder)
    scan = StaticTable.from_metadata(lake.load(table).metadata_location).scan("a = 3")
    assert scan.to_arrow().to_pylist() == rows_of(3).to_pylist()


def test_a_commit_of_foreign_files(lake, writer):
    table = lake.register(writer.folder)
    writer.append(rows_of(4))
    make_foreign(writer, 3)
    assert lake.rows(table) == as_rows(rows_of(1, 2, 3, 4))
    assert copies(writer) == 1


def test_one_of_a_kind_is_enough(open_lake, tmp_path):
    """The oldest one, and one of every kind of name."""
    writer = DeltaWriter(tmp_path / "t", SCHEMA)
    for id in range(1, 4):
        writer.append(rows_of(id), modificationTime=1000 - id)
    writer.append(rows_of(4), path="00000-0-foreign.parquet")
    make_foreign(writer, 2)
    lake = open_lake(max_versions_in_request=1)
    assert lake.rows(lake.register(writer.folder)) == as_rows(rows_of(1, 2, 3, 4))
    assert copies(writer) == 1
    writer = DeltaWriter(tmp_path / "u", SCHEMA)
    for id in range(1, 4):
        writer.append(rows_of(id))
    writer.append(rows_of(4), path="00000-0-foreign.parquet")
    make_foreign(writer, 3)
    assert lake.rows(lake.register(writer.folder, "u")) == as_rows(rows_of(1, 2, 3, 4))
    assert copies(writer) == 1


def test_columns_that_the_table_does_not_know(lake, writer):
    """Their ids may become those of columns that are added."""
    same = {"a": 1, "b": 2, "s": 3, "x": 4, "y": 5}
    make_foreign(writer, 0, same)
    more = {"more": pa.array([77], pa.int64())}
    make_foreign(writer, 1, same | {"more": 6}, extra=more)
    table = lake.register(writer.folder)
    assert copies(writer) == 1
    writer.set_schema(SCHEMA.append(pa.field("c", pa.int64())))
    expected = [(*row, None) for row in as_rows(rows_of(1, 2, 3))]
    assert lake.rows(table) == expected


def test_files_with_the_ids_of_the_table_stay(lake, writer):
    make_foreign(writer, 0, {"a": 1, "b": 2, "s": 3, "x": 4, "y": 5})
    assert lake.rows(lake.register(writer.folder)) == as_rows(rows_of(1, 2, 3))
    assert copies(writer) == 0


def test_files_of_another_table_under_column_mapping(lake, tmp_path):
    """Delta goes by names in this mode, and a table that gets it keeps its files."""
    writer = DeltaWriter(tmp_path / "t", SCHEMA, mapping="name")
    writer.append(rows_of(1))
    physical = {name: name for name in SCHEMA.names}
    for field in writer.schema:
        physical[field.metadata[b"physical"].decode()] = field.name
    foreign = {name: {"a": 2, "b": 1, "s": 3}[logical] for name, logical in physical.items()}
    inner = writer.schema.field("s").type
    foreign |= {child.metadata[b"physical"].decode(): 5 - at for at, child in enumerate(inner)}
    make_foreign(writer, 0, foreign)
    assert lake.rows(lake.register(writer.folder)) == as_rows(rows_of(1))
    assert copies(writer) == 1


@pytest.mark.parametrize("stats", [True, False])
def test_tables_can_be_refused_instead(open_lake, writer, stats):
    lake = open_lake(unnumbered_collections="refuse")
    for place in range(3):
        make_foreign(writer, place, stats=stats)
    with pytest.raises(UnsupportedDeltaTableError, match=r"ids of another table.*unnumbered-collections"):
        lake.load(lake.register(writer.folder))


@pytest.mark.parametrize(("files", "read"), [(3, 3), (8, 8), (9, 1)])
def test_few_footers_are_read_and_none_is_needed(open_lake, writer, files, read):
    for id in range(4, files + 1):
        writer.append(rows_of(id))
    lake = open_lake(max_versions_in_request=1)
    asked: list[str] = []
    read_range = lake.kernel.files.read_range

    def note(location: str, *place: int) -> bytes:
        asked.append(location)
        return read_range(location, *place)

    lake.kernel.files.read_range = note
    lake.load(lake.register(writer.folder))
    assert [location for location in asked if "/part-" in location] == asked
    assert len(asked) == read
    # files of old versions are often gone
    for path in writer.folder.glob("part-*"):
        path.unlink()
    other = open_lake()
    assert other.versions(other.register(writer.folder, "u")) == list(range(files + 1))


def test_a_lost_copy_is_made_anew(lake, writer):
    make_foreign(writer, 2)
    table = lake.register(writer.folder)
    rows = lake.rows(table)
    writer.commit([])  # what carries the copies on has to know of them
    lake.load(table)
    [copy, *_] = writer.folder.glob("metadata/compat-df-*")
    copy.unlink()
    assert lake.kernel.delta.refresh_service.repair(lake.delta_entry(table))
    assert lake.rows(table) == rows
