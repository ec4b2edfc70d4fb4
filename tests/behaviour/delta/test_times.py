"""Times of versions: in the order of versions, whatever clocks and copied files say."""

from __future__ import annotations

import os

import msgspec
import pytest

from tests.behaviour.delta.actions import column, metadata
from tests.behaviour.delta.conftest import delta_table, rows_of

TIMES_ON = {
    "delta.enableInCommitTimestamps": "true",
    "delta.inCommitTimestampEnablementVersion": "3",
    "delta.inCommitTimestampEnablementTimestamp": "1700000003000",
}


def log_of(lake, table):
    found = msgspec.json.decode(lake.load(table).metadata)
    log = [(entry["snapshot-id"], entry["timestamp-ms"]) for entry in found["snapshot-log"]]
    assert log == [(each["snapshot-id"], each["timestamp-ms"]) for each in found["snapshots"]]
    return log


def set_written(writer, version, ms):
    os.utime(writer.folder / "_delta_log" / f"{version:020}.json", ns=(ms * 10**6, ms * 10**6))


@pytest.mark.parametrize("window", [2, 100])
def test_in_commit_timestamps_stay_and_older_files_were_written_before(open_lake, tmp_path, window):
    """The files of the log were copied: they look newer than commits that carry their time."""
    lake = open_lake(max_versions_in_request=window)
    writer = delta_table(tmp_path / "t", files=2, rows=1)
    for number in (3, 4, 5):
        actions = [{"commitInfo": {"inCommitTimestamp": 1_700_000_000_000 + number * 1000}}]
        if number == 3:
            actions.append(metadata([column("id", "long"), column("s", "string")], **TIMES_ON))
        writer.commit(actions)
    table = lake.register(writer.folder)
    lake.materialise(table)
    assert log_of(lake, table) == [
        (0, 1_700_000_002_997),
        (1, 1_700_000_002_998),
        (2, 1_700_000_002_999),
        (3, 1_700_000_003_000),
        (4, 1_700_000_004_000),
        (5, 1_700_000_005_000),
    ]


def test_clocks_that_go_back(open_lake, tmp_path):
    lake = open_lake(max_versions_in_request=2)
    writer = delta_table(tmp_path / "t", files=4, rows=1)
    for version, ms in enumerate([1000, 5000, 3000, 7000, 6000]):
        set_written(writer, version, 1_700_000_000_000 + ms)
    table = lake.register(writer.folder)
    lake.materialise(table)
    assert [ms - 1_700_000_000_000 for _, ms in log_of(lake, table)] == [1000, 5000, 5001, 7000, 7001]
    writer.append(rows_of(100))
    set_written(writer, 5, 1_700_000_000_500)
    assert [ms - 1_700_000_000_000 for _, ms in log_of(lake, table)] == [1000, 5000, 5001, 7000, 7001, 7002]
