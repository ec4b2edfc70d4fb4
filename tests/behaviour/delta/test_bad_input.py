"""Tables that are broken: each fails by its name, in time, and alone."""

from __future__ import annotations

import json
import shutil
import struct
import threading

import pytest

from floecat.errors import (
    FileMissingError,
    InvalidDeltaTableError,
    LocationNotAllowedError,
    NoSuchTableError,
    UnsupportedDeltaTableError,
)
from floecat.identifiers.namespace import TableIdentifier
from tests.behaviour.delta.conftest import as_rows, delta_table, rows_of
from tests.clients.delta.writer import deletion_vector_payload

LOOKS = 10
VERSIONS_FOR_A_LOOK = 4


def vector_file(writer):
    [path] = writer.folder.glob("**/deletion_vector_*.bin")
    return path


def edit_newest(writer, change):
    """Changes the add of the newest commit."""
    log = writer.folder / "_delta_log" / f"{writer.version:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            change(line["add"])
    log.write_text("\n".join(json.dumps(line) for line in lines))


def flip_payload(writer):
    path = vector_file(writer)
    data = bytearray(path.read_bytes())
    data[12] ^= 0xFF
    path.write_bytes(data)


def cut_vector(writer):
    path = vector_file(writer)
    path.write_bytes(path.read_bytes()[:-6])


def other_file_version(writer):
    path = vector_file(writer)
    path.write_bytes(b"\x07" + path.read_bytes()[1:])


def set_vector(**fields):
    return lambda writer: edit_newest(writer, lambda add: add["deletionVector"].update(fields))


VECTORS = {
    "wrong checksum": (flip_payload, InvalidDeltaTableError, "checksum"),
    "missing file": (lambda writer: vector_file(writer).unlink(), InvalidDeltaTableError, "deletion_vector"),
    "longer than its file": (cut_vector, InvalidDeltaTableError, "ends too early"),
    "another format version": (other_file_version, InvalidDeltaTableError, "format version"),
    "unknown storage type": (set_vector(storageType="x"), InvalidDeltaTableError, "storage type"),
    "another number of rows": (set_vector(cardinality=3), InvalidDeltaTableError, "number of rows"),
    "another size": (set_vector(sizeInBytes=4), InvalidDeltaTableError, "size"),
    "no rows, though it has some": (set_vector(cardinality=0), InvalidDeltaTableError, "number of rows"),
    "in another storage": (
        set_vector(storageType="p", pathOrInlineDv="dbfs:/t/v.bin"),
        UnsupportedDeltaTableError,
        "dbfs",
    ),
    "absolute, outside": (
        set_vector(storageType="p", pathOrInlineDv="file:///etc/passwd"),
        LocationNotAllowedError,
        "allowed",
    ),
    "no Z85": (set_vector(storageType="i", pathOrInlineDv="~~~~~"), InvalidDeltaTableError, "inline"),
}


@pytest.mark.parametrize("fault", VECTORS)
def test_broken_vectors(lake, tmp_path, fault):
    spoil, error, text = VECTORS[fault]
    writer = delta_table(tmp_path / "t", files=1)
    writer.delete({0: [2, 5]})
    spoil(writer)
    good = lake.register(delta_table(tmp_path / "good").folder, "good")
    table = lake.register(writer.folder)
    with pytest.raises(error, match=text):
        lake.load(table)
    assert lake.versions(good)


@pytest.mark.parametrize("storage", ["u", "i"])
@pytest.mark.parametrize("format_version", [2, 3])
def test_vectors_whose_content_is_wrong(open_lake, tmp_path, monkeypatch, format_version, storage):
    """A checksum is right for whatever was written."""
    sorted_payload = deletion_vector_payload([1, 2, 3])
    assert sorted_payload.endswith(struct.pack("<3H", 1, 2, 3))
    broken = sorted_payload[:-6] + struct.pack("<3H", 1, 1, 3)
    monkeypatch.setattr("tests.clients.delta.writer.deletion_vector_payload", lambda _: broken)
    writer = delta_table(tmp_path / "t", files=1)
    writer.delete({0: [1, 2, 3]}, storage=storage)
    lake = open_lake(format_version=format_version)
    table = lake.register(writer.folder)
    with pytest.raises(InvalidDeltaTableError, match="its bitmap is damaged"):
        lake.load(table)


@pytest.mark.parametrize("storage", ["u", "i"])
@pytest.mark.parametrize("format_version", [2, 3])
def test_vectors_that_delete_nothing(open_lake, tmp_path, format_version, storage):
    writer = delta_table(tmp_path / "t", files=2)
    writer.delete({0: []}, storage=storage)
    writer.delete({1: [3]}, storage=storage)
    lake = open_lake(format_version=format_version)
    table = lake.register(writer.folder)
    lake.load(table)
    made = [*writer.folder.glob("metadata/*-dv-*"), *writer.folder.glob("metadata/*-pd-*")]
    assert len(made) == 1
    if format_version == 2:
        assert lake.rows(table) == as_rows(writer.rows[writer.version])


def test_rows_that_the_file_does_not_have(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=1, rows=4)
    vector = writer.store_vector([1, 900], "u")
    removed = {"remove": writer._removal(writer.files[0])}
    writer.commit([removed, {"add": writer.files[0].add | {"deletionVector": vector}}])
    table = lake.register(writer.folder)
    with pytest.raises(InvalidDeltaTableError, match="row 900"):
        lake.load(table)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("file:///etc/passwd", LocationNotAllowedError),
        ("/etc/passwd", LocationNotAllowedError),
        ("../other/part.parquet", InvalidDeltaTableError),
        ("dbfs:/t/part.parquet", UnsupportedDeltaTableError),
        ("hdfs://host:8020/part.parquet", UnsupportedDeltaTableError),
        ("a/%2e%2e/%2e%2e/part.parquet", InvalidDeltaTableError),
    ],
)
def test_data_files_outside(lake, tmp_path, path, error):
    writer = delta_table(tmp_path / "t", files=1)
    edit_newest(writer, lambda add: add.update(path=path))
    table = lake.register(writer.folder)
    with pytest.raises(error):
        lake.load(table)


@pytest.mark.parametrize("path", ["dbfs:/t/p.parquet", "s3:/t", "file:///a%5Cb", "s3://other/p.parquet"])
def test_files_elsewhere_that_are_gone(lake, tmp_path, path):
    """A remove names nothing of ours, and an old version whose file is elsewhere is left out alone."""
    writer = delta_table(tmp_path / "t", files=1)
    table = lake.register(writer.folder)
    writer.commit([{"remove": {"path": path, "deletionTimestamp": 0, "dataChange": True}}])
    assert lake.versions(table) == [0, 1, 2]
    elsewhere = {"path": path, "size": 1, "partitionValues": {}, "modificationTime": 0, "dataChange": True}
    writer.commit([{"add": elsewhere | {"stats": '{"numRecords":1}'}}])
    with pytest.raises((UnsupportedDeltaTableError, LocationNotAllowedError, InvalidDeltaTableError)):
        lake.load(table)
    writer.commit([{"remove": {"path": path, "deletionTimestamp": 0, "dataChange": True}}])
    writer.append(rows_of(1000))
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    assert lake.versions(table) == [0, 1, 2, 4, 5]


def test_a_link_that_leads_out_of_the_allowed_locations(lake, tmp_path, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    writer = delta_table(tmp_path / "t", files=1)
    writer.delete({0: [1]})
    target = outside / "vector.bin"
    shutil.move(vector_file(writer), target)
    (writer.folder / "ab").rmdir()
    edit_newest(
        writer,
        lambda add: add["deletionVector"].update(
            storageType="p", pathOrInlineDv=(writer.folder / "v.bin").as_uri()
        ),
    )
    (writer.folder / "v.bin").symlink_to(target)
    table = lake.register(writer.folder)
    with pytest.raises(LocationNotAllowedError, match="leads outside"):
        lake.load(table)


@pytest.mark.parametrize("place", ["inside", "outside"])
@pytest.mark.parametrize(
    "name",
    [
        "",
        f"{0:020}.json",
        f"{2:020}.json",
        f"{1:020}.checkpoint.parquet",
        f"{0:020}.{1:020}.compacted.json",
        "_last_checkpoint",
        "_sidecars",
        "_sidecars/x.parquet",
    ],
)
def test_a_link_in_a_log(lake, tmp_path, tmp_path_factory, name, place):
    """Listings leave links out: without its newest commit a table would be read as of an older version."""
    writer = delta_table(tmp_path / "t", files=2)
    log = writer.folder / "_delta_log"
    table = lake.register(writer.folder, "before")
    rows = lake.rows(table)
    link = log / name if name else log
    target = (tmp_path if place == "inside" else tmp_path_factory.mktemp("outside")) / "target"
    link.parent.mkdir(exist_ok=True)
    if link.exists():
        shutil.move(link, target)
    link.symlink_to(target)
    for attempt in (lambda: lake.register(writer.folder), lambda: lake.load(table)):
        with pytest.raises(InvalidDeltaTableError, match=f"has a symbolic link: .*{link.name}"):
            attempt()
    with pytest.raises(NoSuchTableError):
        lake.kernel.catalog.tables.exists(lake.call, TableIdentifier(("ns",), "t"))
    link.unlink()
    if target.exists():
        shutil.move(target, link)
    assert lake.rows(table) == rows


def test_a_checkpoint_that_is_cut_off(lake, tmp_path):
    import deltalake

    writer = delta_table(tmp_path / "t", files=3)
    deltalake.DeltaTable(str(writer.folder)).create_checkpoint()
    log = writer.folder / "_delta_log"
    for version in range(writer.version + 1):
        (log / f"{version:020}.json").unlink()
    [checkpoint] = log.glob("*.checkpoint.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    table = lake.register(writer.folder)
    with pytest.raises(InvalidDeltaTableError, match=checkpoint.name):
        lake.load(table)


def test_a_gap_names_the_version(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=3)
    (writer.folder / "_delta_log" / f"{2:020}.json").unlink()
    table = lake.register(writer.folder)
    with pytest.raises(InvalidDeltaTableError, match="Version 2 is missing"):
        lake.load(table)


@pytest.mark.parametrize(
    "stats", ["", "{", "[]", '{"numRecords": "x"}', '{"numRecords": -1}', '{"numRecords": 10.5}']
)
def test_statistics_that_are_none_are_read_from_the_file(lake, tmp_path, stats):
    writer = delta_table(tmp_path / "t", files=1)
    edit_newest(writer, lambda add: add.update(stats=stats))
    table = lake.register(writer.folder)
    assert lake.rows(table) == as_rows(writer.rows[writer.version])


def test_a_data_file_that_is_no_parquet_file(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=1)
    edit_newest(writer, lambda add: add.pop("stats"))
    (writer.folder / writer.files[0].path).write_bytes(b"x" * 100)
    table = lake.register(writer.folder)
    with pytest.raises(InvalidDeltaTableError, match=r"part-.*parquet"):
        lake.load(table)


def test_messages_hold_no_content(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=1)
    log = writer.folder / "_delta_log" / f"{writer.version + 1:020}.json"
    log.write_text('{"add": {"path": "a", "secret": "s3cr3t-value" ')
    table = lake.register(writer.folder)
    with pytest.raises(InvalidDeltaTableError) as caught:
        lake.load(table)
    assert "s3cr3t" not in str(caught.value)


def test_a_table_that_is_gone(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    shutil.rmtree(writer.folder)
    with pytest.raises((InvalidDeltaTableError, FileMissingError)):
        lake.load(table)


def test_a_type_that_iceberg_has_not(lake, tmp_path):
    writer = delta_table(tmp_path / "t", files=1)
    log = writer.folder / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('\\"type\\":\\"long\\"', '\\"type\\":\\"interval day\\"'))
    table = lake.register(writer.folder)
    with pytest.raises((UnsupportedDeltaTableError, InvalidDeltaTableError), match="id"):
        lake.load(table)


def test_a_table_that_is_written_meanwhile(lake, tmp_path):
    writer = delta_table(tmp_path / "t")
    table = lake.register(writer.folder)
    wanted = threading.Semaphore(0)

    def write():
        for _ in range(LOOKS * VERSIONS_FOR_A_LOOK):
            wanted.acquire()
            writer.append(rows_of(writer.version * 1000))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(LOOKS):
            wanted.release(VERSIONS_FOR_A_LOOK)
            seen = lake.versions(table)[-1]
            lake.load(table)
            if seen:
                assert lake.rows(table, seen) == as_rows(writer.rows[seen])
    finally:
        wanted.release(LOOKS * VERSIONS_FOR_A_LOOK)
        thread.join()
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
