"""Tables that are replaced by ones with other partition columns."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from floecat.iceberg.manifests.lists import read_manifest_list
from tests.behaviour.delta.conftest import as_rows
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
    assert not lake.kernel.compat.repair(lake.compat_table(table))
    assert lake.rows(table) == as_rows(writer.rows[3])
    writer.append(ROWS.select(columns))
    assert lake.rows(table) == as_rows(writer.rows[4])


@pytest.mark.parametrize(("before", "after"), [(["p"], ["q"]), (["p"], []), ([], ["q"])])
def test_columns_that_change_their_role_have_other_ids(lake, tmp_path, before, after):
    """The table is made again, as readers would find the ordinary column in files of the other kind."""
    writer = DeltaWriter(tmp_path / "t", ROWS.schema, partitions=before)
    writer.append(ROWS)
    table = lake.register(writer.folder)
    ids = field_ids(lake, table)
    writer.replace(ROWS, after)
    changed = {name for name, id in field_ids(lake, table).items() if ids[name] != id}
    assert changed == set(before) ^ set(after)
    assert lake.rows(table) == as_rows(writer.rows[writer.version])


def field_ids(lake, table):
    metadata = msgspec.json.decode(lake.load(table).metadata)
    (schema,) = [each for each in metadata["schemas"] if each["schema-id"] == metadata["current-schema-id"]]
    return {field["name"]: field["id"] for field in schema["fields"]}
