from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from floecat.delta.refresh import verification as table_numbers
from floecat.delta.refresh.verification import FileCounts, TableCounts, count_table
from floecat.errors import BoundExceededError, FileMissingError, NoSuchTableError
from floecat.identifiers.namespace import TableIdentifier
from tests.behaviour.delta.conftest import Lake, OpenLake, delta_table, lake, open_lake, rows_of
from tests.clients.delta.writer import DeltaWriter
from tests.unit.delta.log_lines import checkpoint_bytes

__all__ = ["lake", "open_lake"]

TABLE = TableIdentifier(("ns",), "t")


def numbers(lake: Lake) -> TableCounts:
    return count_table(lake.kernel.store, lake.kernel.files, lake.delta_entry(TABLE))


@pytest.fixture
def writer(lake: Lake) -> DeltaWriter:
    made = delta_table(lake.root / "t", files=4)
    made.delete({0: [1, 2], 1: [0]})
    made.remove([3])
    lake.register(made.folder)
    return made


@pytest.mark.parametrize("format_version", [2, 3])
def test_both_sides_agree_on_a_table(open_lake: OpenLake, format_version: int) -> None:
    lake = open_lake(format_version=format_version)
    made = delta_table(lake.root / "t", files=4)
    made.delete({0: [1, 2], 1: [0]})
    made.delete({0: [5]}, storage="i")
    made.remove([3])
    lake.register(made.folder)
    expected = FileCounts(files=3, rows=30, files_without_rows=0, deleted_rows=4, files_with_deletes=2)
    assert numbers(lake) == TableCounts(7, expected, expected, (), (), ())


@pytest.mark.parametrize("text", ["no JSON", '{"numRecords":7', '{"numRecords":"7"}', r'{"a":"\ud800"}'])
def test_statistics_that_are_none_have_no_rows(lake: Lake, text: str) -> None:
    made = delta_table(lake.root / "t", files=2)
    file = made.folder / "_delta_log" / f"{made.version:020}.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for action in actions:
        action.get("add", {})["stats"] = text
    file.write_text("\n".join(map(json.dumps, actions)))
    lake.register(made.folder)
    found = numbers(lake)
    assert (found.delta.files, found.delta.rows, found.delta.files_without_rows) == (2, 10, 1)
    # artifacts take them from the footer
    assert found.iceberg.rows == 20


def test_the_version_of_the_entry_is_counted_and_not_the_newest(lake: Lake, writer: DeltaWriter) -> None:
    before = numbers(lake)
    writer.append(rows_of(1000))
    assert numbers(lake) == before


def test_manifest_lists_are_read_within_the_bounds_of_the_settings(open_lake: OpenLake) -> None:
    lake = open_lake(limits={"manifest-entries": 1})
    made = delta_table(lake.root / "t", files=1)
    lake.register(made.folder)
    assert numbers(lake).iceberg.files == 1
    made.delete({0: [1]})
    lake.load(TABLE)
    with pytest.raises(BoundExceededError, match=r"manifest list .* 1 \(floecat\.limits\.manifest-entries\)"):
        numbers(lake)


def test_files_whose_rows_nobody_tells_are_counted_apart(open_lake: OpenLake) -> None:
    lake = open_lake(missing_statistics="leave-out")
    made = delta_table(lake.root / "t", files=1)
    made.append(rows_of(100, 101), stats=None)
    lake.register(made.folder)
    found = numbers(lake)
    assert (found.delta.rows, found.delta.files_without_rows) == (10, 1)
    assert (found.iceberg.rows, found.iceberg.files_without_rows) == (10, 1)


def test_footers_tell_more_than_the_log(lake: Lake) -> None:
    made = delta_table(lake.root / "t", files=1)
    made.append(rows_of(100, 101), stats=None)
    lake.register(made.folder)
    found = numbers(lake)
    assert (found.delta.rows, found.delta.files_without_rows) == (10, 1)
    assert (found.iceberg.rows, found.iceberg.files_without_rows) == (12, 0)


def test_counts_of_a_checkpoint_that_are_no_numbers(lake: Lake) -> None:
    made = delta_table(lake.root / "t", files=1)
    log = made.folder / "_delta_log"
    lines = [
        json.loads(line) for file in sorted(log.glob("*.json")) for line in file.read_text().splitlines()
    ]
    actions = [line for line in lines if "commitInfo" not in line]
    for line in actions:
        if "add" in line:
            line["add"] |= {"stats": None, "stats_parsed": {"numRecords": "many"}}
    types = {"stats_parsed": pa.struct([("numRecords", pa.string())])}
    (log / f"{1:020}.checkpoint.parquet").write_bytes(checkpoint_bytes(*actions, add_types=types))
    for file in log.glob("*.json"):
        file.unlink()
    lake.register(made.folder)
    found = numbers(lake)
    assert (found.delta.rows, found.delta.files_without_rows) == (0, 1)
    assert found.iceberg.rows == 10


def change_log(writer: DeltaWriter, old: str, new: str) -> None:
    """Changes the newest commit behind the back of the catalog."""
    file = writer.folder / "_delta_log" / f"{writer.version:020}.json"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_files_that_differ_are_named(lake: Lake) -> None:
    made = delta_table(lake.root / "t", files=1)
    made.append(rows_of(100), path="listed.parquet")
    lake.register(made.folder)
    change_log(made, "listed.parquet", "live.parquet")
    found = numbers(lake)
    assert found.missing == (f"{made.folder.as_uri()}/live.parquet",)
    assert found.unexpected == (f"{made.folder.as_uri()}/listed.parquet",)


def test_rows_that_differ_are_seen(lake: Lake) -> None:
    made = delta_table(lake.root / "t", files=1)
    made.append(rows_of(100))
    lake.register(made.folder)
    change_log(made, '\\"numRecords\\":1,', '\\"numRecords\\":2,')
    found = numbers(lake)
    assert (found.delta.rows, found.iceberg.rows) == (12, 11)


def test_deletes_that_differ_are_seen(lake: Lake) -> None:
    made = delta_table(lake.root / "t", files=2)
    made.delete({0: [1]})
    lake.register(made.folder)
    change_log(made, '"cardinality":1', '"cardinality":2')
    found = numbers(lake)
    assert (found.delta.deleted_rows, found.iceberg.deleted_rows) == (2, 1)


def test_deletes_of_a_file_that_has_none_are_named(lake: Lake) -> None:
    made = delta_table(lake.root / "t", files=2)
    made.delete({0: [1]})
    lake.register(made.folder)
    change_log(made, '"deletionVector"', '"somethingElse"')
    found = numbers(lake)
    assert found.stray_deletes == (f"{made.folder.as_uri()}/{made.files[0].path}",)


def test_a_lost_manifest_is_an_error(lake: Lake, writer: DeltaWriter) -> None:
    for file in (writer.folder / "metadata").glob("*-m*.avro"):
        file.unlink()
    with pytest.raises(FileMissingError):
        numbers(lake)


def test_a_table_that_was_never_read_cannot_be_counted(lake: Lake) -> None:
    made = delta_table(lake.root / "t")
    lake.kernel.delta.registration.register(lake.call, ("ns",), "t", made.folder.as_uri(), read=False)
    with pytest.raises(NoSuchTableError, match="has not been read yet"):
        numbers(lake)


def test_statistics_are_read_as_text_and_as_structs() -> None:
    import pyarrow as pa

    files = pa.table(
        {
            "stats": pa.array(['{"minValues":{"numRecords":7},"numRecords":3}', None, "{}", None]),
            "stats_parsed": pa.array([None, {"numRecords": 5}, None, None]),
        }
    )
    assert list(table_numbers._row_counts(files)) == [3, 5, None, None]


@pytest.mark.parametrize(
    ("some", "others", "beyond"),
    [
        ([], [], ()),
        (["a"], ["a"], ()),
        (["a", "b"], ["b"], ("a",)),
        (["a", "a"], ["a"], ("a",)),
        (["a"], ["a", "a", "b"], ()),
    ],
)
def test_beyond_counts_repetitions(some: list[str], others: list[str], beyond: tuple[str, ...]) -> None:
    assert table_numbers._beyond(some, others) == beyond


def test_golden_tables_agree(lake: Lake) -> None:
    from tests.delta_tables import writable_copy

    for name in ("golden/dv-partitioned-with-checkpoint/delta", "delta/table-with-dv-large"):
        folder = writable_copy(name, lake.root / Path(name).name.replace("delta", "t") / name)
        table = lake.register(folder, Path(name).parts[-2])
        found: Any = count_table(lake.kernel.store, lake.kernel.files, lake.delta_entry(table))
        assert found.delta == found.iceberg
        assert found.delta.deleted_rows > 0
        assert (found.missing, found.unexpected, found.stray_deletes) == ((), (), ())
