"""Spark's maintenance procedures, and what a purge takes of a table that Spark wrote."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from floecat.runtime import kernel
from floecat.settings import load_settings
from tests.clients.connections import Connections
from tests.clients.spark_lake import Lake, new_lake
from tests.clients.warehouses import Warehouse, unique

pytestmark = pytest.mark.spark

_DAY_S = 86_400
_NAME_OF_ITS_OWN = re.compile(r"^.*/|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+")


@pytest.fixture
def lake(connections: Connections, warehouse: Warehouse) -> Lake:
    """A new namespace."""
    return new_lake(connections, warehouse)


@pytest.mark.parametrize("warehouse", ["disk"], indirect=True)
def test_maintenance(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE {ns}.t (id BIGINT, kind STRING) USING iceberg"
        " TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', 'commit.manifest-merge.enabled' = 'false')"
    )
    for start in (0, 10, 20):
        lake.sql(f"INSERT INTO {{ns}}.t SELECT id, 'x' FROM range({start}, {start + 10}, 1, 1)")
    lake.sql("DELETE FROM {ns}.t WHERE id IN (1, 2)")
    lake.sql("DELETE FROM {ns}.t WHERE id IN (3, 4)")
    name = f"table => '{lake.ns}.t'"
    expected = [number for number in range(30) if number not in (1, 2, 3, 4)]
    assert (
        lake.call("rewrite_position_delete_files", f"{name}, options => map('rewrite-all', 'true')")[0] >= 1
    )
    assert lake.call("rewrite_manifests", name)[0] >= 2
    rewritten = lake.call("rewrite_data_files", f"{name}, options => map('rewrite-all', 'true')")
    assert rewritten[:2] == (3, 1)
    assert lake.ids("{ns}.t") == expected
    expired = lake.call("expire_snapshots", f"{name}, older_than => TIMESTAMP '2999-01-01', retain_last => 1")
    assert expired[0] >= 3
    assert len(lake.sql("SELECT * FROM {ns}.t.snapshots")) == 1
    assert lake.ids("{ns}.t") == expected


def test_orphans_on_disk(connections: Connections, disk_warehouse: Warehouse) -> None:
    lake = new_lake(connections, disk_warehouse)
    lake.sql("CREATE TABLE {ns}.t USING iceberg AS SELECT 1 AS id")
    lake.sql("INSERT INTO {ns}.t VALUES (2)")
    location = lake.location("t")
    live = disk_warehouse.files_below(location)
    disk_warehouse.put(f"{location}/data/stray.parquet")
    # The live files get old too: the procedure must know each of them.
    _make_older(location, days=3)
    disk_warehouse.put(f"{location}/data/just-written.parquet")
    older_than = datetime.now(UTC) - timedelta(days=2)
    arguments = f"table => '{lake.ns}.t', older_than => TIMESTAMP '{older_than:%Y-%m-%d %H:%M:%S}'"
    found = lake.rows_of("remove_orphan_files", f"{arguments}, dry_run => true")
    assert [urlsplit(row[0]).path for row in found] == [f"{urlsplit(location).path}/data/stray.parquet"]
    young = {"data/just-written.parquet"}
    assert disk_warehouse.files_below(location) == live | young | {"data/stray.parquet"}
    assert lake.rows_of("remove_orphan_files", arguments) == found
    assert disk_warehouse.files_below(location) == live | young
    assert lake.ids("{ns}.t") == [1, 2]


@pytest.mark.parametrize("statement", ["DROP TABLE {ns}.t PURGE", "DROP TABLE {ns}.t"])
def test_files_of_captures_are_no_orphans_and_go_with_the_table(
    connections: Connections, disk_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """Spark deletes what is reachable itself, and then drops without purge."""
    lake = new_lake(connections, disk_warehouse)
    lake.sql("CREATE TABLE {ns}.t USING iceberg AS SELECT 1 AS id")
    location = lake.location("t")
    monkeypatch.setenv("FLOECAT_DATA_DIR", str(disk_warehouse.server.data_dir))
    with kernel(load_settings()) as here:
        (entry_id,) = (
            each.entry_id for each in here.events.live_entries if lake.ns in each.identifier.namespace
        )
        here.statistics.pipeline.search_commits()
        here.statistics.pipeline.drain(entry_id)
        here.statistics.pipeline.build_page_indexes(entry_id)
        warehouse = here.settings.warehouse_location
    own = f"{warehouse}/_floecat/{entry_id}"
    written = disk_warehouse.files_below(own)
    assert {name.partition(".")[2] for name in written} == {"stats", "page-index.parquet"}
    for place in (location, own):
        _make_older(place, days=3)
    older_than = datetime.now(UTC) - timedelta(days=2)
    for place in (location, warehouse):
        found = lake.rows_of(
            "remove_orphan_files",
            f"table => '{lake.ns}.t', location => '{place}', dry_run => true,"
            f" older_than => TIMESTAMP '{older_than:%Y-%m-%d %H:%M:%S}'",
        )
        assert not [row for row in found if "_floecat" in row[0] or place == location]
    assert lake.remove_orphans("t", location) == []
    assert disk_warehouse.files_below(own) == written
    lake.sql(statement)
    assert not disk_warehouse.wait_until_empty(own)
    if "PURGE" in statement:
        assert not disk_warehouse.wait_until_empty(location)
    else:
        assert disk_warehouse.files_below(location)


def _make_older(location: str, *, days: int) -> None:
    then_s = time.time() - days * _DAY_S
    for path in Path(urlsplit(location).path).rglob("*"):
        os.utime(path, (then_s, then_s))


@pytest.mark.s3
@pytest.mark.parametrize("warehouse", ["s3"], indirect=True)
def test_every_kind_of_file_is_kept_by_cleaning_and_taken_by_a_purge(lake: Lake) -> None:
    """Cases O23 and O27: statistics and the metadata log are live files, and go with the table."""
    data = f"{lake.warehouse.root}/{unique('elsewhere')}"
    lake.sql(
        "CREATE TABLE {ns}.t (id BIGINT, kind STRING) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES"
        f" ('write.data.path' = '{data}', 'format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    lake.sql("INSERT INTO {ns}.t SELECT id, 'a' FROM range(0, 5, 1, 1)")
    lake.sql("DELETE FROM {ns}.t WHERE id = 1")
    lake.call("compute_table_stats", f"'{lake.ns}.t'")
    lake.call("compute_partition_stats", f"'{lake.ns}.t'")
    lake.sql("ALTER TABLE {ns}.t SET TBLPROPERTIES ('format-version' = '3')")
    lake.sql("INSERT INTO {ns}.t SELECT id, 'a' FROM range(5, 10, 1, 1)")
    lake.sql("DELETE FROM {ns}.t WHERE id = 6")
    places = {"metadata": lake.location("t"), "data": data}
    live = {kind: lake.warehouse.files_below(location) for kind, location in places.items()}
    kinds = {_NAME_OF_ITS_OWN.sub("", file) for files in live.values() for file in files}
    assert kinds == {
        "----.parquet",
        "----deletes.parquet",
        "----deletes.puffin",
        "-m.avro",
        "snap---.avro",
        "-.stats",
        "partition-stats--.parquet",
        "-.metadata.json",
    }
    for kind, location in places.items():
        lake.warehouse.put(f"{location}/{kind}/stray")
        [found] = lake.remove_orphans("t", location)
        assert urlsplit(found).path == f"{urlsplit(location).path}/{kind}/stray"
        assert lake.warehouse.files_below(location) == live[kind]
    assert lake.ids("{ns}.t") == [0, 2, 3, 4, 5, 7, 8, 9]
    lake.others.purge_table(f"{lake.ns}.t")
    for location in places.values():
        assert not lake.warehouse.wait_until_empty(location)


@pytest.mark.s3
def test_orphans_of_a_table_with_mixed_schemes(connections: Connections, s3_warehouse: Warehouse) -> None:
    """Case O27: `s3a`, `s3n` and `s3` name the same objects, and an unknown scheme ends the work."""
    lake = new_lake(connections, s3_warehouse)
    place = f"{s3_warehouse.bucket}/warehouse/{unique('mixed')}"
    lake.sql(f"CREATE TABLE {{ns}}.t (id BIGINT) USING iceberg LOCATION 's3a://{place}'")
    lake.sql("INSERT INTO {ns}.t VALUES (1)")
    lake.sql(f"ALTER TABLE {{ns}}.t SET LOCATION 's3://{place}'")
    lake.sql("INSERT INTO {ns}.t VALUES (2)")
    for column, relation in (("file_path", "files"), ("path", "manifests"), ("file", "metadata_log_entries")):
        written = {urlsplit(row[0]).scheme for row in lake.sql(f"SELECT {column} FROM {{ns}}.t.{relation}")}
        assert written == {"s3", "s3a"}, relation
    live = s3_warehouse.files_below(f"s3://{place}")
    for listed in ("s3", "s3a", "s3n"):
        s3_warehouse.put(f"s3://{place}/data/stray.parquet")
        with pytest.raises(Exception, match="Conflicting authorities/schemes"):
            lake.remove_orphans("t", f"{listed}://{place}", {"s3": "s3", "s3a": "s3a", "s3n": "s3n"})
        found = lake.remove_orphans("t", f"{listed}://{place}", {"s3n,s3a": "s3"})
        assert found == [f"{listed}://{place}/data/stray.parquet"]
        assert s3_warehouse.files_below(f"s3://{place}") == live
        assert lake.ids("{ns}.t") == [1, 2]
