"""Logs with damaged files: each state that the other files hold is rebuilt, and no other."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floecat.delta.log.delta_log import DeltaLog
from floecat.delta.log.log_bounds import LogBounds
from floecat.delta.log.log_files import DamagedFiles
from floecat.errors import (
    ForbiddenError,
    InvalidDeltaTableError,
    StorageUnavailableError,
    UnsupportedDeltaTableError,
)
from floecat.fileio.locations import AllowedLocations
from floecat.settings.limits import LimitSettings
from tests.unit.delta.log.test_delta_log import UUID, LogOnDisk
from tests.unit.delta.log_lines import (
    PARTITIONED,
    PROTOCOL,
    add,
    checkpoint_bytes,
    commit_bytes,
    descriptor,
    metadata,
    remove,
    schema_string,
)

LAST = 6
NEW = f"{4:020}.checkpoint.parquet"
OTHER = metadata(schema_string("a", "b", "p"), ["p"])


@pytest.fixture
def table(tmp_path: Path) -> LogOnDisk:
    """Versions 0 to 6, each with a file more."""
    made = LogOnDisk(tmp_path / "t")
    made.commit(0, PROTOCOL, PARTITIONED, file(0))
    for version in range(1, LAST + 1):
        made.commit(version, file(version))
    return made


def file(version: int) -> dict[str, Any]:
    return add(f"f{version}", partitionValues={"p": "1"})


def state(version: int) -> list[Mapping[str, Any]]:
    return [PROTOCOL, PARTITIONED, *(file(each) for each in range(version + 1))]


def parquet(columns: Mapping[str, Any]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), sink)
    return sink.getvalue()


def sidecar(path: str) -> dict[str, Any]:
    return {"sidecar": {"path": path, "sizeInBytes": 10, "modificationTime": 1}}


def drop_commits(table: LogOnDisk, until: int) -> None:
    for version in range(until + 1):
        (table.root / "_delta_log" / f"{version:020}.json").unlink()


GOOD = checkpoint_bytes(*state(4))
HEADER = {
    "protocol": [{"minReaderVersion": 1, "minWriterVersion": 2}, None],
    "metaData": [None, {"schemaString": schema_string("a", "p"), "partitionColumns": ["p"]}],
}
DAMAGED: dict[str, bytes] = {
    "empty": b"",
    "cut off": GOOD[: len(GOOD) // 2],
    "start only": b"PAR1\x15\x04\x15",
    "garbage": b"\x00\xff" * 300,
    "json": commit_bytes(*state(4)),
    "other columns": parquet({"x": [1]}),
    "no rows": checkpoint_bytes(),
    "no protocol": checkpoint_bytes(*state(4)[1:]),
    "no metadata": checkpoint_bytes(*state(4)[:1], *state(4)[2:]),
    "no schema": checkpoint_bytes(PROTOCOL, {"metaData": {"id": "x", "schemaString": ""}}, *state(4)[2:]),
    "two protocols": checkpoint_bytes(
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, *state(4)
    ),
    "two metadata": checkpoint_bytes(*state(4), OTHER),
    "broken protocol": checkpoint_bytes({"protocol": {"minReaderVersion": 1}}, *state(4)[1:]),
    "reader version 0": checkpoint_bytes(
        {"protocol": {"minReaderVersion": 0, "minWriterVersion": 0}}, *state(4)[1:]
    ),
    "no column of files": parquet(HEADER),
    "files without paths": parquet(HEADER | {"add": [{"size": 5}, None]}),
    "files without sizes": parquet(HEADER | {"add": [{"path": "f0"}, None]}),
    "a file without a size": checkpoint_bytes(*state(3), add("f4", size=None)),
    "a file with two vectors": checkpoint_bytes(
        *state(4), *(add("f0", deletionVector=descriptor(offset=offset)) for offset in (1, 9))
    ),
}


@pytest.mark.parametrize("before", ["commits alone", "an older checkpoint", "an older checkpoint alone"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_checkpoint_is_left_out(table: LogOnDisk, damage: str, before: str) -> None:
    table.put(NEW, DAMAGED[damage])
    if before != "commits alone":
        table.checkpoint(2, *state(2))
    if before == "an older checkpoint alone":
        drop_commits(table, 2)
    assert table.live() == [f"f{version}" for version in range(LAST + 1)]
    assert table.live(4) == [f"f{version}" for version in range(5)]
    [fault] = table.log.faults
    assert fault.names == (NEW,)
    assert NEW in fault.message
    history = table.log.metadata_history(table.log.listing())
    assert [version for version, _ in history] == [2 if before == "an older checkpoint alone" else 0]


def test_two_checkpoints_of_one_version(table: LogOnDisk) -> None:
    drop_commits(table, 4)
    table.put(NEW, b"")
    table.put(f"{4:020}.checkpoint.{UUID}.json", commit_bytes(*state(4)))
    assert len(table.live()) == LAST + 1


@pytest.mark.parametrize("damage", ["missing", "empty", "garbage", "other columns", "files without paths"])
@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_damaged_sidecar(table: LogOnDisk, kind: str, damage: str) -> None:
    actions = [
        {"checkpointMetadata": {"version": 4}},
        PROTOCOL,
        PARTITIONED,
        sidecar("x.parquet"),
        sidecar("y.parquet"),
    ]
    name = f"{4:020}.checkpoint.{UUID}.{kind}"
    table.put(name, commit_bytes(*actions) if kind == "json" else checkpoint_bytes(*actions))
    table.put("_sidecars/x.parquet", checkpoint_bytes(*state(1)[2:]))
    if damage != "missing":
        table.put("_sidecars/y.parquet", DAMAGED[damage])
    assert table.live() == [f"f{version}" for version in range(LAST + 1)]
    assert [fault.names for fault in table.log.faults] == [(name, "_sidecars/y.parquet")]
    assert "y.parquet" in table.log.faults[0].message
    # once it is there, the checkpoint counts again
    table.put("_sidecars/y.parquet", checkpoint_bytes(*(file(version) for version in range(2, 5))))
    drop_commits(table, 4)
    assert table.live() == [f"f{version}" for version in range(LAST + 1)]


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        b"\n",
        b"garbage",
        commit_bytes(*state(4))[:-9],
        commit_bytes(PROTOCOL, *state(4)[2:]),
        commit_bytes({"checkpointMetadata": {"version": 3}}, *state(4)),
        commit_bytes({"protocol": {"what": 1}}, *state(4)[1:]),
        commit_bytes(PROTOCOL, PARTITIONED, sidecar("..")),
        commit_bytes(PROTOCOL, PARTITIONED, sidecar("a\0b")),
        commit_bytes(PROTOCOL, PARTITIONED, sidecar("")),
    ],
)
def test_a_damaged_json_checkpoint(table: LogOnDisk, lines: bytes) -> None:
    table.put(f"{4:020}.checkpoint.{UUID}.json", lines)
    assert table.live() == [f"f{version}" for version in range(LAST + 1)]
    assert len(table.log.faults) == 1


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("damage", ["empty", "cut off", "missing", "two metadata"])
def test_a_damaged_part(table: LogOnDisk, damage: str, number: int) -> None:
    parts = [state(4)[:4], state(4)[4:]]
    for place, actions in enumerate(parts, start=1):
        data = checkpoint_bytes(*actions)
        if place == number:
            data = checkpoint_bytes(OTHER, *actions) if damage == "two metadata" else DAMAGED.get(damage, b"")
        if place != number or damage != "missing":
            table.put(f"{4:020}.checkpoint.{place:010}.{2:010}.parquet", data)
    assert table.live() == [f"f{version}" for version in range(LAST + 1)]
    assert len(table.log.faults) == (damage != "missing")


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        b'{"add":{"path":"f0.pa',
        b"\x00\xff",
        commit_bytes(*state(4)[2:]),
        commit_bytes(PROTOCOL, *state(4)[2:]),
        commit_bytes(*state(4))[:-5],
    ],
)
def test_a_damaged_compaction(table: LogOnDisk, lines: bytes) -> None:
    table.put(f"{0:020}.{4:020}.compacted.json", lines)
    table.put(f"{1:020}.{2:020}.compacted.json", commit_bytes(file(1), file(2)))
    assert table.live() == [f"f{version}" for version in range(LAST + 1)]
    assert [fault.names for fault in table.log.faults] == [(f"{0:020}.{4:020}.compacted.json",)]


def vector(offset: int) -> dict[str, Any]:
    return add("f0", partitionValues={"p": "1"}, deletionVector=descriptor(offset=offset))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        # they lack that f0 got a vector in version 1, of which version 6 makes another one
        (f"{1:020}.{4:020}.compacted.json", commit_bytes(vector(9), *map(file, range(1, 5)))),
        (f"{0:020}.{4:020}.compacted.json", commit_bytes(*state(4))),
        (f"{4:020}.checkpoint.parquet", GOOD),
        # their metadata is not that of a table
        (f"{1:020}.{4:020}.compacted.json", commit_bytes({"metaData": {"id": "no schema"}})),
        (f"{1:020}.{4:020}.compacted.json", commit_bytes(metadata(partitions=["no column"]))),
    ],
)
def test_what_contradicts_the_commits_is_left_out(table: LogOnDisk, name: str, data: bytes) -> None:
    table.commit(1, vector(9), remove("f0"), file(1))
    table.commit(LAST, vector(10), remove("f0", deletionVector=descriptor(offset=9)), file(LAST))
    table.put(name, data)
    assert table.live() == [f"f{version}" for version in range(LAST + 1)]
    assert [fault.names for fault in table.log.faults] == [(name,)]
    assert name in table.log.faults[0].message
    # without the commits it is all there is
    drop_commits(table, 0 if name.startswith(f"{1:020}") else 4)
    table.log = table.bounded()
    with pytest.raises(InvalidDeltaTableError):
        table.live()


@pytest.mark.parametrize(
    "spoiled", [b"", b"{", commit_bytes(file(3)) + b'{"add":{"pa', b'{"add":{"path":"f"}}\n']
)
def test_a_damaged_commit(table: LogOnDisk, spoiled: bytes) -> None:
    broken = table.put(f"{3:020}.json", spoiled)
    assert table.live(2) == ["f0", "f1", "f2"]
    for version in (3, LAST):
        with pytest.raises(InvalidDeltaTableError, match=f"{broken.name}"):
            table.snapshot(version)
    # a checkpoint after it makes it needless for what comes later
    table.checkpoint(5, *state(5))
    assert len(table.live()) == LAST + 1
    for version in (3, 4):
        with pytest.raises(InvalidDeltaTableError, match=f"{broken.name}"):
            table.snapshot(version)
    # so does one of the same version
    table.checkpoint(3, *state(3))
    assert table.live(4) == [f"f{version}" for version in range(5)]


def test_a_compaction_holds_a_damaged_commit(table: LogOnDisk) -> None:
    table.put(f"{3:020}.json", b"")
    table.put(f"{1:020}.{2:020}.compacted.json", commit_bytes(file(1), file(2)))
    table.put(f"{2:020}.{4:020}.compacted.json", commit_bytes(file(2), file(3), file(4)))
    assert table.live() == [f"f{version}" for version in range(LAST + 1)]
    with pytest.raises(InvalidDeltaTableError, match=f"{3:020}.json of the log is empty"):
        table.snapshot(3)


def test_what_is_left_out_is_named_with_what_is_missing(table: LogOnDisk) -> None:
    table.put(NEW, b"")
    table.put(f"{2:020}.checkpoint.parquet", b"")
    drop_commits(table, 1)
    with pytest.raises(InvalidDeltaTableError) as raised:
        table.snapshot()
    assert all(f"{version:020}.checkpoint.parquet is damaged" in raised.value.message for version in (2, 4))
    assert "Version 0 is missing" in raised.value.message


def test_versions_before_the_first_good_checkpoint_are_unreadable_alone(table: LogOnDisk) -> None:
    table.put(f"{1:020}.checkpoint.parquet", b"")
    table.checkpoint(4, PROTOCOL, OTHER, *state(4)[2:])
    drop_commits(table, 0)
    listing = table.log.listing()
    history = table.log.metadata_history(listing)
    assert [(version, metadata.schema_string) for version, metadata in history] == [
        (4, OTHER["metaData"]["schemaString"])
    ]
    assert len(table.live()) == LAST + 1
    for version in (1, 2, 3):
        with pytest.raises(InvalidDeltaTableError, match=f"{1:020}.checkpoint.parquet is damaged"):
            table.log.snapshot(listing, version)


def test_a_newest_version_that_only_a_damaged_checkpoint_has(table: LogOnDisk) -> None:
    """It is never taken for the version before it."""
    table.put(f"{LAST + 1:020}.checkpoint.parquet", b"")
    assert table.log.listing().latest == LAST + 1
    with pytest.raises(
        InvalidDeltaTableError, match=r"checkpoint\.parquet is damaged .*; Version 7 is missing"
    ):
        table.snapshot()


@pytest.mark.parametrize(
    ("error", "fail"),
    [
        (StorageUnavailableError, lambda files: files.fail("read", nth=1)),
        (ForbiddenError, lambda files: files.refuse(NEW)),
    ],
)
def test_what_storage_fails_with_is_no_damage(
    table: LogOnDisk, error: type[Exception], fail: Callable[[Any], None]
) -> None:
    table.checkpoint(4, *state(4))
    listing = table.log.listing()
    fail(table.files)
    with pytest.raises((error, StorageUnavailableError)):
        table.log.snapshot(listing, LAST)
    assert table.log.faults == []


def test_a_protocol_that_is_not_known_is_refused(table: LogOnDisk) -> None:
    """It may be what the table needs by now."""
    table.put(
        NEW, checkpoint_bytes({"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}, *state(4)[1:])
    )
    with pytest.raises(UnsupportedDeltaTableError, match="reader version 99"):
        table.snapshot()


def test_a_checkpoint_that_is_too_large(table: LogOnDisk) -> None:
    table.put(NEW, GOOD)
    bounds = LogBounds(LimitSettings(delta_log_bytes=len(GOOD) - 1))
    log = DeltaLog(table.files, AllowedLocations([str(table.root)]), str(table.root), bounds=bounds)
    assert len(log.snapshot(log.listing(), LAST).files) == LAST + 1
    (fault,) = log.faults
    assert "is too large: it is larger than" in fault.message
    assert "floecat.limits.delta-log-bytes" in fault.message


def test_a_damaged_file_is_read_and_logged_once(table: LogOnDisk, caplog: pytest.LogCaptureFixture) -> None:
    damaged = DamagedFiles()
    path = table.put(NEW, b"no checkpoint")

    def read() -> DeltaLog:
        log = DeltaLog(table.files, AllowedLocations([str(table.root)]), str(table.root), damaged)
        assert len(log.snapshot(log.listing(), LAST).files) == LAST + 1
        return log

    def reads() -> int:
        return sum(location.endswith(NEW) for kind, location in table.files.calls if kind == "read")

    assert len(read().faults) == len(read().faults) == 1
    assert reads() == 1
    assert [NEW in record.message for record in caplog.records] == [True]
    path.write_bytes(GOOD)
    assert read().faults == []
    assert reads() == 2


def test_times_of_a_version_whose_commit_is_damaged(table: LogOnDisk) -> None:
    enabled = metadata(partitions=["p"], delta__enableInCommitTimestamps="true")
    table.put(f"{4:020}.json", b"")
    table.checkpoint(4, PROTOCOL, enabled, *state(4)[2:])
    snapshot = table.snapshot(4)
    assert snapshot.timestamp_ms == table.log.listing().timestamp_ms(4)
    assert table.live(4) == [f"f{version}" for version in range(5)]


def test_a_good_checkpoint_is_not_blamed_for_a_commit(table: LogOnDisk) -> None:
    table.checkpoint(4, *state(4))
    table.commit(LAST, remove("f1"), {"metaData": {"id": "none"}})
    with pytest.raises(InvalidDeltaTableError, match="has no schema"):
        table.snapshot()
    table.commit(LAST, add("f0", deletionVector=descriptor()), add("f0", deletionVector=descriptor(offset=9)))
    with pytest.raises(InvalidDeltaTableError, match="two deletion vectors"):
        table.snapshot()
    assert table.log.faults == []
