"""Tables whose log has damaged files: they are read all the same, and their operator is told."""

from __future__ import annotations

import logging

import pytest

from floecat.errors import InvalidDeltaTableError, StorageUnavailableError
from tests.behaviour.delta.conftest import as_rows, delta_table, rows_of


def checkpoint(writer, version, *, keep_commits=True):
    """Writes a good checkpoint; the commits up to it may be cleaned up."""
    import deltalake

    log = writer.folder / "_delta_log"
    deltalake.DeltaTable(str(writer.folder), version=version).create_checkpoint()
    if not keep_commits:
        for each in range(version + 1):
            (log / f"{each:020}.json").unlink()
    return log / f"{version:020}.checkpoint.parquet"


def reads_of(lake, monkeypatch):
    """Names of files that are read from now on."""
    found = []
    read = lake.kernel.files.read

    def note(location, **options):
        found.append(location.rpartition("/")[2])
        return read(location, **options)

    monkeypatch.setattr(lake.kernel.files, "read", note)
    return found


def test_a_damaged_checkpoint_is_noted_and_left_out(open_lake, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.WARNING)
    lake = open_lake(max_versions_in_request=3)
    writer = delta_table(tmp_path / "t", files=6)
    checkpoint(writer, 2)
    damaged = checkpoint(writer, 4)
    good = damaged.read_bytes()
    damaged.write_bytes(b"")
    for version in range(2):
        (writer.folder / "_delta_log" / f"{version:020}.json").unlink()
    table = lake.register(writer.folder)
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    assert lake.versions(table) == [4, 5, 6]
    assert lake.rows(table, 4) == as_rows(writer.rows[4])
    assert damaged.name in lake.state(table).problem
    # loads, new versions and a full refresh leave the note, and do not look at the file again
    read = reads_of(lake, monkeypatch)
    lake.load(table)
    writer.append(rows_of(1000))
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    lake.materialise(table)
    assert damaged.name in lake.state(table).problem
    assert damaged.name not in read
    warnings = [record.getMessage() for record in caplog.records if damaged.name in record.getMessage()]
    assert len(warnings) == 1
    # an operator who puts it right sees that
    damaged.write_bytes(good)
    lake.materialise(table)
    assert lake.state(table).problem is None
    assert lake.versions(table) == [2, 3, 4, 5, 6, 7]


def test_a_checkpoint_that_is_damaged_later_does_not_matter(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=4)
    path = checkpoint(writer, 3, keep_commits=False)
    table = lake.register(writer.folder)
    lake.load(table)
    path.write_bytes(b"")
    writer.append(rows_of(1000))
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    lake.materialise(table)
    assert lake.versions(table) == [3, 4, 5]
    assert lake.state(table).version == writer.version


def test_versions_that_only_a_damaged_checkpoint_told_are_left_out(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=6)
    first, second = checkpoint(writer, 1), checkpoint(writer, 4)
    (writer.folder / "_delta_log" / f"{0:020}.json").unlink()
    first.write_bytes(b"")
    table = lake.register(writer.folder)
    assert lake.versions(table) == [4, 5, 6]
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    lake.materialise(table)
    assert lake.versions(table) == [4, 5, 6]
    assert second.name not in lake.state(table).problem
    # the metadata in force is that of the good checkpoint
    writer.append(rows_of(1000))
    assert lake.rows(table) == as_rows(writer.rows[writer.version])


@pytest.mark.parametrize("spoiled", [b"", b'{"add":{"path":"p'])
def test_a_damaged_commit_before_a_checkpoint(lake, tmp_path, spoiled):
    writer = delta_table(tmp_path / "t", files=6)
    checkpoint(writer, 4)
    broken = writer.folder / "_delta_log" / f"{2:020}.json"
    broken.write_bytes(spoiled)
    table = lake.register(writer.folder)
    assert lake.versions(table) == [0, 1, 4, 5, 6]
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    assert broken.name in lake.state(table).problem


def test_a_damaged_newest_commit(lake, tmp_path):
    """The table is not answered as of the version before; with a checkpoint of that version it is read."""
    writer = delta_table(tmp_path / "t", files=3)
    table = lake.register(writer.folder)
    lake.load(table)
    writer.append(rows_of(1000))
    path = checkpoint(writer, writer.version)
    good = path.read_bytes()
    path.unlink()
    broken = writer.folder / "_delta_log" / f"{writer.version:020}.json"
    broken.write_bytes(b"\x00")
    with pytest.raises(InvalidDeltaTableError, match=broken.name):
        lake.load(table)
    path.write_bytes(good)
    assert lake.rows(table) == as_rows(writer.rows[writer.version])


def test_versions_before_those_of_a_request(open_lake, tmp_path):
    lake = open_lake(max_versions_in_request=3)
    writer = delta_table(tmp_path / "t", files=7)
    (writer.folder / "_delta_log" / f"{3:020}.checkpoint.parquet").write_bytes(b"PAR1")
    (writer.folder / "_delta_log" / f"{5:020}.checkpoint.parquet").write_bytes(b"PAR1")
    table = lake.register(writer.folder)
    assert lake.versions(table) == [5, 6, 7]
    lake.materialise(table)
    assert lake.versions(table) == list(range(8))
    assert all(lake.rows(table, version) == as_rows(writer.rows[version]) for version in range(1, 8))
    assert f"{3:020}" in lake.state(table).problem or f"{5:020}" in lake.state(table).problem


def test_a_table_that_cannot_be_read_costs_little(open_lake, tmp_path, monkeypatch):
    lake = open_lake()
    writer = delta_table(tmp_path / "t", files=3)
    damaged = checkpoint(writer, 3, keep_commits=False)
    good = damaged.read_bytes()
    damaged.write_bytes(good[:-30])
    table = lake.register(writer.folder)
    read = reads_of(lake, monkeypatch)
    for _ in range(3):
        with pytest.raises(
            InvalidDeltaTableError, match=f"{damaged.name} is damaged .*; Version 0 is missing"
        ):
            lake.load(table)
    assert damaged.name not in read
    damaged.write_bytes(good)
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    assert lake.state(table).problem is None


def test_storage_that_fails_is_no_damage(lake, tmp_path, monkeypatch):
    writer = delta_table(tmp_path / "t", files=3)
    path = checkpoint(writer, 2)
    read = lake.kernel.files.read

    def fail(location, **options):
        if location.endswith(path.name):
            raise StorageUnavailableError("Storage did not answer in time")
        return read(location, **options)

    with monkeypatch.context() as patched:
        patched.setattr(lake.kernel.files, "read", fail)
        table = lake.register(writer.folder)
    lake.load(table)
    assert lake.state(table).problem is None
