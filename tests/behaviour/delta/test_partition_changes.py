"""Tables that are replaced by ones with other partition columns."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from floecat.iceberg.manifests.lists import read_manifest_list
from tests.behaviour.delta.conftest import as_rows
from tests.clients.delta.raw_table import RawTable, column
from tests.clients.delta.writer import DeltaWriter

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "p": ["a", "b", None], "q": [1, 1, 2]})


def manifests(lake, table):
    metadata = msgspec.json.decode(lake.load(table).metadata)
    newest = metadata["snapshots"][-1]
    path = newest["manifest-list"].removeprefix("file://")
    with open(path, "rb") as file:
        return list(read_manifest_list(file.read(), location=path)), newest["summary"]


@pytest.mark.parametrize(
    ("before", "columns", "after", "is_listed"),
    [
        (["p"], ["id", "p", "q"], ["p"], True),
        (["p"], ["id", "q"], [], False),
        (["p", "q"], ["id", "q"], ["q"], False),
    ],
)
def test_manifests_of_deleted_entries(lake, tmp_path, before, columns, after, is_listed):
    """DuckDB fails on those by columns that the schema does not have. They are counted all the same."""
    writer = DeltaWriter(tmp_path / "t", ROWS.schema, partitions=before)
    writer.append(ROWS)
    writer.delete({0: [0]})
    files = len(writer.files)
    table = lake.register(writer.folder)
    assert lake.rows(table) == as_rows(writer.rows[2])
    writer.replace(ROWS.select(columns), after)
    listed, summary = manifests(lake, table)
    assert any(not each.added_files_count for each in listed) == is_listed
    assert summary["operation"] == "overwrite"
    assert (summary["deleted-data-files"], summary["deleted-records"]) == (str(files), "3")
    assert (summary["removed-delete-files"], summary["removed-position-deletes"]) == ("1", "1")
    assert summary["total-records"] == "3"
    written = {each.manifest_path.rpartition("/")[2] for each in listed}
    assert {path.name for path in writer.folder.glob("metadata/3-compat-*.avro")} == written
    assert not lake.kernel.delta.refresh_service.repair(lake.delta_entry(table))
    assert lake.rows(table) == as_rows(writer.rows[3])
    writer.append(ROWS.select(columns))
    assert lake.rows(table) == as_rows(writer.rows[4])


@pytest.mark.parametrize(("before", "after"), [(["p"], ["q"]), (["p"], []), ([], ["q"])])
def test_columns_that_change_their_role_keep_ids_and_versions(lake, tmp_path, before, after):
    """PyIceberg binds filters on old snapshots to the newest schema."""
    writer = DeltaWriter(tmp_path / "t", ROWS.schema, partitions=before)
    writer.append(ROWS)
    writer.append(ROWS)
    table = lake.register(writer.folder)
    ids = field_ids(lake, table)
    writer.replace(ROWS, after)
    assert field_ids(lake, table) == ids
    assert lake.state(table).generation == 0
    for version in (1, 2, 3):
        assert lake.rows(table, version) == as_rows(writer.rows[version])


P = (column("id", "long"), column("p", "string"))


@pytest.mark.parametrize("turns", [1, 2])
@pytest.mark.parametrize("starts_by_p", [False, True])
@pytest.mark.parametrize("held", [1, 3])
@pytest.mark.parametrize("at_once", [False, True])
def test_partition_columns_that_files_hold_are_told_apart(lake, tmp_path, turns, starts_by_p, held, at_once):
    """Only one of three files of a version holds the column; none with the last number."""
    made = RawTable(tmp_path / "t")
    files: list[dict] = []
    table = None
    wanted = {}
    for version in range(turns + 1):
        by_p = starts_by_p == (version % 2 == 0)
        removed = [made.remove(file) for file in files]
        files = []
        wanted[version] = [(at, f"{version}-{at}") for at in range(3)]
        for at, value in wanted[version]:
            column_p = {"p": ["file"] if by_p else [value]} if not by_p or at == held else {}
            rows = pa.table({"id": pa.array([at], pa.int64())} | column_p)
            files.append(made.add(f"{version}{at}.parquet", rows, {"p": value} if by_p else {}))
        made.commit(*made.define(*P, partitions=["p"] if by_p else []), *removed, *files)
        if table is None and not at_once:
            table = lake.register(made.folder)
        if table is not None:
            assert lake.rows(table) == wanted[version]
    table = table or lake.register(made.folder)
    assert lake.rows(table) == wanted[turns]
    lake.materialise(table)
    offered = lake.versions(table)
    for version in offered:
        assert version == 0 or lake.rows(table, version) == wanted[version]
    # where the id is another one, clients would find nothing by filters
    assert offered == [version for version in wanted if held == 3 or (turns - version) % 2 == 0]


def field_ids(lake, table):
    metadata = msgspec.json.decode(lake.load(table).metadata)
    (schema,) = [each for each in metadata["schemas"] if each["schema-id"] == metadata["current-schema-id"]]
    return {field["name"]: field["id"] for field in schema["fields"]}
