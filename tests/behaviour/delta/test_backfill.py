"""Older versions, brought in after the newest: what they may change, and who else works meanwhile."""

from __future__ import annotations

import json

import msgspec
import pyarrow as pa
import pytest

from floecat.delta.log.delta_log import DeltaLog
from floecat.delta.refresh import builds, refresher
from floecat.store.entries import tables
from floecat.store.entries.documents import decompress
from tests.behaviour.delta.actions import column, metadata, protocol
from tests.behaviour.delta.conftest import as_rows, delta_table, rows_of
from tests.clients.delta.writer import DeltaWriter

PAIR = pa.schema([("a", pa.int64()), ("b", pa.int64())])


def document(lake, table):
    return msgspec.json.decode(lake.load(table).metadata)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(builds, "PART_VERSIONS", 2)


@pytest.mark.usefixtures("small_parts")
def test_loads_get_in_between_the_parts(open_lake, tmp_path):
    lake = open_lake(max_versions_in_request=2)
    writer = delta_table(tmp_path / "t", files=8, rows=1)
    table = lake.register(writer.folder)
    assert lake.versions(table) == [7, 8]
    told = []

    def progress(done, wanted):
        told.append((done, wanted))
        if len(told) == 1:
            writer.append(rows_of(100))

    assert lake.kernel.delta.refresh_service.materialise(lake.delta_entry(table), progress)
    assert lake.versions(table) == list(range(10))
    assert told[-1] == (7, 7)
    assert lake.rows(table, 3) == as_rows(writer.rows[3])
    assert not lake.materialise(table)


@pytest.mark.usefixtures("small_parts")
def test_the_history_is_read_once_for_all_parts(open_lake, tmp_path, monkeypatch):
    """It is as long as the log: with every part anew, many versions would cost their square."""
    lake = open_lake(max_versions_in_request=2)
    writer = delta_table(tmp_path / "t", files=12, rows=1)
    table = lake.register(writer.folder)
    read = DeltaLog.metadata_history
    listings = []

    def noted(log, listing):
        listings.append(listing)
        return read(log, listing)

    monkeypatch.setattr(DeltaLog, "metadata_history", noted)
    lake.materialise(table)
    assert len(listings) == 1
    assert lake.versions(table) == list(range(13))


def test_a_version_that_comes_while_a_part_begins_is_left_to_the_next_refresh(
    open_lake, tmp_path, monkeypatch
):
    lake = open_lake(max_versions_in_request=2)
    writer = delta_table(tmp_path / "t", files=4, rows=1)
    table = lake.register(writer.folder)
    refresh = refresher.Refresher.refresh

    def refresh_before_a_commit(*args, **kwargs):
        changed = refresh(*args, **kwargs)
        writer.append(rows_of(100))
        return changed

    monkeypatch.setattr(refresher.Refresher, "refresh", refresh_before_a_commit)
    lake.materialise(table)
    monkeypatch.undo()
    with lake.kernel.store.read() as conn:
        row = tables.find(conn, lake.call.catalog.id, table)
        body = msgspec.json.decode(decompress(tables.document(conn, row.id)))
    assert [each["snapshot-id"] for each in body["snapshots"]] == [0, 1, 2, 3, 4]
    assert body["current-snapshot-id"] == 4
    assert lake.versions(table) == [0, 1, 2, 3, 4, 5]


def test_a_load_of_the_same_process_is_kept_out_while_a_part_is_made(open_lake, tmp_path):
    """Else what the part made would be published over what the load published, or thrown away."""
    lake = open_lake(max_versions_in_request=2, wait="PT0.2S")
    writer = delta_table(tmp_path / "t", files=4, rows=1)
    table = lake.register(writer.folder)
    met = []

    def progress(_done, _wanted):
        if not met:
            writer.append(rows_of(100))
            with pytest.raises(Exception, match=r"up to its Delta log .*compat.wait") as raised:
                lake.load(table)
            met.append(raised.value.retry_after_s)

    assert lake.kernel.delta.refresh_service.materialise(lake.delta_entry(table), progress)
    assert met == [5]
    assert lake.versions(table) == list(range(6))


def test_an_id_that_means_another_column_begins_anew(lake, tmp_path):
    """The version that gave the ids cannot be read, so only the whole history tells."""
    writer = DeltaWriter(tmp_path / "t", PAIR)
    writer.append(pa.table({"a": [1, 2], "b": [1000, 2000]}, schema=PAIR))
    table = lake.register(writer.folder)
    mapped = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    swapped = metadata([column("a", "long", 2), column("b", "long", 1)], **mapped)
    writer.commit([protocol("columnMapping", "aFeatureOfTomorrow"), swapped])
    writer.commit([protocol("deletionVectors"), metadata([column("a", "long"), column("b", "long")])])
    writer.append(pa.table({"a": [3], "b": [3000]}, schema=PAIR))
    wanted = [(1, 1000), (2, 2000), (3, 3000)]
    assert lake.rows(table) == wanted
    lake.materialise(table)
    assert lake.rows(table) == wanted
    ids = {field["name"]: field["id"] for field in document(lake, table)["schemas"][-1]["fields"]}
    assert lake.rows(table, 4) == wanted
    assert ids == {"a": 2, "b": 1}


@pytest.mark.parametrize("within", [2, 100], ids=["beyond the first load", "in the first load"])
def test_types_of_format_version_3_in_the_past_keep_no_reader_away(open_lake, tmp_path, within):
    lake = open_lake(max_versions_in_request=within)
    writer = DeltaWriter(tmp_path / "t", PAIR)
    columns = [column("a", "long"), column("b", "long")]
    writer.commit([protocol("variantType", "deletionVectors"), metadata([*columns, column("v", "variant")])])
    writer.commit([metadata(columns)])
    writer.append(pa.table({"a": [1], "b": [2]}, schema=PAIR))
    writer.append(pa.table({"a": [3], "b": [4]}, schema=PAIR))
    table = lake.register(writer.folder)
    lake.materialise(table)
    found = document(lake, table)
    assert found["format-version"] == 2
    assert "variant" not in json.dumps(found["schemas"])
    assert lake.versions(table) == [0, 2, 3, 4]
    assert lake.rows(table) == [(1, 2), (3, 4)]


def test_a_type_that_needs_format_version_3_raises_it_for_good(lake, tmp_path):
    writer = DeltaWriter(tmp_path / "t", PAIR)
    table = lake.register(writer.folder)
    columns = [column("a", "long"), column("b", "long")]
    writer.commit([protocol("variantType"), metadata([*columns, column("v", "variant")])])
    assert document(lake, table)["format-version"] == 3
    writer.commit([metadata(columns)])
    assert lake.kernel.delta.refresh_service.repair(lake.delta_entry(table)) is False
    (tmp_path / "t/metadata").rename(tmp_path / "gone")
    assert document(lake, table)["format-version"] == 3


def test_a_schema_of_the_past_that_iceberg_has_not_is_left_out(open_lake, tmp_path):
    writer = DeltaWriter(tmp_path / "t", PAIR)
    writer.append(pa.table({"a": [1], "b": [2]}, schema=PAIR))
    columns = [column("a", "long"), column("b", "long")]
    writer.commit([metadata([*columns, column("where", "geography")])])
    writer.commit([metadata(columns)])
    writer.append(pa.table({"a": [3], "b": [4]}, schema=PAIR))
    lake = open_lake()
    table = lake.register(writer.folder)
    assert lake.versions(table) == [0, 1, 3, 4]
    assert lake.rows(table) == [(1, 2), (3, 4)]
    writer.append(pa.table({"a": [5], "b": [6]}, schema=PAIR))
    assert lake.rows(table) == [(1, 2), (3, 4), (5, 6)]


def test_what_a_load_begins_anew_is_incomplete(open_lake, tmp_path):
    """A state of the log that was brought in whole before has older versions to bring in again."""
    lake = open_lake(max_versions_in_request=2)
    writer = delta_table(tmp_path / "t", files=6, rows=1)
    table = lake.register(writer.folder)
    lake.materialise(table)
    pipeline_state = lake.state(table).state
    assert b'"complete":true' in pipeline_state
    (tmp_path / "t/metadata").rename(tmp_path / "gone")
    assert lake.versions(table) == [5, 6]
    assert b'"complete":true' not in lake.state(table).state
    lake.materialise(table)
    assert lake.versions(table) == list(range(7))
