"""Names of files: any character may be in them, and a message says which one is missing."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from floecat.delta.artifacts import data_files
from floecat.delta.refresh.verification import count_table
from floecat.errors import InvalidDeltaTableError, LocationNotAllowedError, UnsupportedDeltaTableError
from tests.behaviour.delta.conftest import SCHEMA, as_rows, rows_of
from tests.clients.delta.writer import DeltaWriter

NAMES = [
    "a\\b",
    "a#b",
    "a?b",
    "a%b",
    "a%23b",
    "a%255Cb",
    "a+b;c d",
    "a\tb",
    "a\nb",
    "a\x01\x7fb",
    "é\u2028表",
    "..a",
    "a:b",
]


def table_of(folder, *names, **of_add):
    """A table with two files for each name, one in a folder of that name."""
    writer = DeltaWriter(folder, SCHEMA)
    for name in names:
        for path in (f"{name}/part.parquet", f"{name}.parquet"):
            writer.append(rows_of(len(writer.files)), path=path, **of_add)
    return writer


@pytest.mark.parametrize("of_add", [{}, {"stats": None}])
@pytest.mark.parametrize("format_version", [2, 3])
def test_any_name(open_lake, tmp_path, format_version, of_add):
    """Also where footers are opened, vectors applied, and entries removed."""
    lake = open_lake(format_version=format_version)
    writer = table_of(tmp_path / "t", *NAMES, **of_add)
    table = lake.register(writer.folder)
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    for storage in ("u", "p", "i"):
        writer.delete(
            {place: [0] for place in range("upi".index(storage), len(writer.files), 6)}, storage=storage
        )
    writer.remove(range(3, len(writer.files), 6))
    assert lake.rows(table) == as_rows(writer.rows[writer.version])


@pytest.mark.parametrize("folder", ["a#b", "a?b", "a\\b", "a b%20c", "a\tb"])
@pytest.mark.parametrize("storage", ["u", "p"])
def test_names_of_vector_files(lake, tmp_path, storage, folder):
    writer = table_of(tmp_path / "t", "x")
    writer.delete({0: [0]}, storage=storage)
    [vectors] = writer.folder.rglob("deletion_vector_*.bin")
    moved = writer.folder / folder / vectors.name
    moved.parent.mkdir()
    vectors.rename(moved)
    log = writer.folder / "_delta_log" / f"{writer.version:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    vector = lines[-1]["add"]["deletionVector"]
    vector["pathOrInlineDv"] = (
        f"file://{quote(str(moved))}" if storage == "p" else folder + vector["pathOrInlineDv"][2:]
    )
    log.write_text("\n".join(map(json.dumps, lines)))
    table = lake.register(writer.folder)
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    moved.unlink()
    other = lake.register(writer.folder, "other")
    with pytest.raises(
        InvalidDeltaTableError, match=r"Deletion vector file .*deletion_vector_.*\.bin is missing"
    ):
        lake.load(other)


def test_entries_that_earlier_releases_made(lake, tmp_path, monkeypatch):
    """They have every file as a URI, and are found when their file is removed or gets a vector."""
    writer = table_of(tmp_path / "t", "a#b", "a?b", "c")
    with monkeypatch.context() as before:
        before.setattr(data_files, "readable_locations", lambda locations: locations)
        table = lake.register(writer.folder)
        lake.load(table)
    writer.remove([0])
    writer.delete({0: [0], 1: [0]})
    lake.load(table)
    numbers = count_table(lake.kernel.store, lake.kernel.files, lake.delta_entry(table))
    assert (numbers.missing, numbers.unexpected, numbers.stray_deletes) == ((), (), ())
    assert numbers.delta == numbers.iceberg


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("%2E%2E/x.parquet", InvalidDeltaTableError),
        ("..%5Cx.parquet", InvalidDeltaTableError),
        ("a%5C..%5C..%5Cx.parquet", InvalidDeltaTableError),
        ("%2Fetc/passwd", LocationNotAllowedError),
        ("file:///etc/a%23b", LocationNotAllowedError),
        ("file:///etc/a%3Fb", LocationNotAllowedError),
        ("s3://bucket%3Fx/y", UnsupportedDeltaTableError),
    ],
)
def test_names_that_lead_elsewhere(lake, tmp_path, path, error):
    writer = table_of(tmp_path / "t")
    add = {"path": path, "size": 1, "partitionValues": {}, "modificationTime": 0, "stats": '{"numRecords":1}'}
    writer.commit([{"add": add | {"dataChange": True}}])
    with pytest.raises(error):
        lake.load(lake.register(writer.folder))


@pytest.mark.parametrize("name", ["a", "a#b", "a\nb"])
def test_a_data_file_that_is_missing(lake, tmp_path, name):
    writer = table_of(tmp_path / "t", name, stats=None)
    (writer.folder / f"{name}.parquet").unlink()
    table = lake.register(writer.folder)
    with pytest.raises(InvalidDeltaTableError) as raised:
        lake.load(table)
    shown = f"{writer.folder}/{name}.parquet".replace("\n", "\\n")
    assert raised.value.message == f"ns.t cannot be read: Data file file://{shown} is missing"
