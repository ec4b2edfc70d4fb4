from __future__ import annotations

import json
import socket
import uuid
from typing import Any

import dagster as dg
import pytest

from floecat.errors import BadRequestError
from floecat.events.catalog_events import STATISTICS_PRINCIPAL, CatalogEvents
from floecat.events.commit_cursor import CommitCursor
from floecat_assets.defs.catalog import sensors
from floecat_assets.tables.definitions import load_specs

TABLES = dg.AssetKey(["catalog", "tables"])
Event = dg.AssetMaterialization | dg.AssetObservation


def value(event: Event, key: str) -> Any:
    return event.metadata[key].value


def told(events: list[Event]) -> list[tuple[str, str, int]]:
    return [
        (type(event).__name__, value(event, "floecat/operation"), int(value(event, "floecat/commit_version")))
        for event in events
    ]


def test_a_new_table_has_its_partition_before_its_first_event_is_stored(lakehouse, follower):
    table = lakehouse.create("orders")
    result = follower.evaluate()
    assert follower.instance.get_dynamic_partitions("tables") == [lakehouse.partition(table)]
    own, shared = follower.events_of(result)
    assert (own.asset_key, own.partition) == (dg.AssetKey(["floecat", "sales", "orders"]), None)
    assert shared.asset_key == dg.AssetKey(["catalog", "tables"])
    assert shared.partition == lakehouse.partition(table)
    assert shared.partition == f"floecat.sales.orders~~{lakehouse.entry_id(table)}~~orders"
    assert follower.instance.get_dynamic_partitions("delta_tables") == []
    assert follower.instance.get_dynamic_partitions("captured_tables") == [lakehouse.partition(table)]


def test_a_lance_table_is_no_partition_of_statistics(lakehouse, follower):
    table = lakehouse.create("vectors", table_type="lance")
    follower.tick()
    assert follower.instance.get_dynamic_partitions("tables") == [lakehouse.partition(table)]
    assert follower.instance.get_dynamic_partitions("captured_tables") == []
    lakehouse.create("odd", table_type="no format")
    kinds = {spec.key.path[-1]: spec.kinds for spec in load_specs()}
    assert kinds == {"vectors": {"iceberg", "lance"}, "odd": {"iceberg"}}


def test_a_delta_table_has_a_partition_among_those_too(lakehouse, follower):
    lakehouse.create("orders")
    table = lakehouse.register_delta(lakehouse.delta("orders"), read=False)
    follower.tick()
    assert follower.instance.get_dynamic_partitions("delta_tables") == [lakehouse.partition(table)]
    assert len(follower.instance.get_dynamic_partitions("tables")) == 2
    renamed = table._replace(name="bookings")
    lakehouse.kernel.catalog.tables.rename(lakehouse.call(), table, renamed)
    follower.tick()
    assert follower.instance.get_dynamic_partitions("delta_tables") == [lakehouse.partition(renamed)]
    lakehouse.kernel.catalog.tables.drop(lakehouse.call(), renamed)
    follower.tick()
    assert follower.instance.get_dynamic_partitions("delta_tables") == []


def test_a_commit_is_told_with_what_the_table_looks_like(lakehouse, follower):
    table = lakehouse.create("orders")
    snapshot_id = lakehouse.append(table, "42")
    created, appended = follower.own_ticks(1)

    assert isinstance(appended, dg.AssetMaterialization)
    assert (created.description, appended.description) == ("create by ada", "append by ada")
    assert appended.metadata["dagster/column_schema"].value == dg.TableSchema(
        columns=[
            dg.TableColumn(
                "id",
                "long",
                description="row key",
                constraints=dg.TableColumnConstraints(nullable=False, other=["identifier field"]),
                tags={"floecat/field_id": "1"},
            ),
            dg.TableColumn("price", "decimal(9, 2)", tags={"floecat/field_id": "2"}),
            dg.TableColumn("tags", "list<string>", tags={"floecat/field_id": "3"}),
        ]
    )
    location = lakehouse.metadata_file(table)
    plain = {key: item.value for key, item in appended.metadata.items() if key != "dagster/column_schema"}
    assert plain == {
        "dagster/table_name": "floecat.sales.orders",
        "dagster/storage_kind": "iceberg",
        "dagster/uri": location.parent.parent.as_uri(),
        "dagster/row_count": 42,
        "floecat/catalog_id": str(lakehouse.call().catalog.id),
        "floecat/table_id": lakehouse.entry_id(table),
        "floecat/commit_version": "2",
        "floecat/created_by": "ada",
        "floecat/committed_at": pytest.approx(location.stat().st_mtime, abs=60),
        "floecat/format_version": "2",
        "floecat/metadata_location": location.as_uri(),
        "floecat/name": "sales.orders",
        "floecat/operation": "commit",
        "floecat/principal": "ada",
        "floecat/sequence_number": "1",
        "floecat/snapshot_id": str(snapshot_id),
        "floecat/snapshot_operation": "append",
    }
    assert appended.tags == {"dagster/data_version": str(snapshot_id)}
    assert value(created, "dagster/row_count") == 0
    assert "floecat/snapshot_id" not in created.metadata


def test_commits_of_one_table_in_one_tick_are_all_told_in_order(lakehouse, follower):
    table = lakehouse.create("orders")
    follower.ticks(2)
    for total in range(1, 6):
        lakehouse.append(table, str(total))
    events = follower.own_ticks(1)
    assert [value(event, "dagster/row_count") for event in events] == [1, 2, 3, 4, 5]
    assert [value(event, "floecat/sequence_number") for event in events] == ["1", "2", "3", "4", "5"]
    assert follower.tick() == []


def test_a_description_says_what_a_commit_did(lakehouse, follower):
    table = lakehouse.create("orders")
    first = lakehouse.append(table, "3", added_records="3", added_data_files="1")
    changes = {
        "added_records": "1200",
        "deleted_records": "1",
        "added_data_files": "2",
        "deleted_data_files": "1",
    }
    lakehouse.append(table, "1202", operation="overwrite", added_delete_files="1", **changes)
    lakehouse.commit(table, {"action": "set-properties", "updates": {"owner": "ada"}})
    back = {"ref-name": "main", "type": "branch", "snapshot-id": first}
    lakehouse.commit(table, {"action": "set-snapshot-ref", **back})
    lakehouse.kernel.catalog.tables.drop(lakehouse.call(), table, purge=True)
    lakehouse.register_delta(lakehouse.delta("events"))
    lakehouse.create_view("recent")
    assert [event.description for event in follower.own_ticks(1)] == [
        "create by ada",
        "append: +3 rows, 1 file, by ada",
        "overwrite: +1,200 rows, -1 row, 2 files, 1 removed file, 1 delete file, by ada",
        "commit without new data by ada",
        "back to an earlier append by ada",
        "drop with purge by ada",
        "register by ada",
        "refresh: 20 rows, 2 files, by ada",
        "version 1, built by the service",
        "create by ada",
    ]


def test_commits_of_statistics_are_observations_that_hide_no_commit(lakehouse, follower):
    table = lakehouse.create("orders")
    snapshot_id = lakehouse.append(table, "3")
    follower.ticks(1)
    statistics = {
        "snapshot-id": snapshot_id,
        "statistics-path": "file:///s.puffin",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    update = {"action": "set-statistics", "statistics": statistics}
    lakehouse.commit(table, update, by=STATISTICS_PRINCIPAL)
    own, shared = follower.events_of(follower.evaluate())
    assert isinstance(own, dg.AssetObservation)
    assert isinstance(shared, dg.AssetObservation)
    assert own.description == f"statistics of snapshot {snapshot_id}, set by Floecat"
    told_by_commits = {"floecat/operation", "floecat/principal", "floecat/committed_at", "dagster/row_count"}
    assert not told_by_commits & {*own.metadata, *shared.metadata}
    assert value(own, "floecat/metadata_location") == lakehouse.metadata_file(table).as_uri()
    follower.ticks(1)
    assert follower.evaluate() == dg.SkipReason("No commits to report")


@pytest.mark.parametrize("total", [None, "many", "-1", ""])
def test_a_snapshot_without_a_row_count_is_told_without_one(lakehouse, follower, total):
    table = lakehouse.create("orders")
    lakehouse.append(table, total)
    _, appended = follower.own_ticks(1)
    assert "dagster/row_count" not in appended.metadata
    assert "dagster/column_schema" in appended.metadata


def test_schema_changes_are_seen_commit_by_commit(lakehouse, follower):
    table = lakehouse.create("orders")
    lakehouse.commit(
        table,
        {
            "action": "add-schema",
            "schema": {
                "type": "struct",
                "fields": [
                    {"id": 1, "name": "id", "type": "long", "required": True},
                    {
                        "id": 5,
                        "name": "place",
                        "required": False,
                        "type": {
                            "type": "map",
                            "key-id": 6,
                            "key": "string",
                            "value-id": 7,
                            "value-required": True,
                            "value": {
                                "type": "struct",
                                "fields": [{"id": 8, "name": "x", "type": "double", "required": True}],
                            },
                        },
                    },
                ],
            },
        },
        {"action": "set-current-schema", "schema-id": -1},
    )
    created, changed = follower.own_ticks(1)
    assert [column.name for column in value(created, "dagster/column_schema").columns] == [
        "id",
        "price",
        "tags",
    ]
    assert [column.type for column in value(changed, "dagster/column_schema").columns] == [
        "long",
        "map<string, struct<x: double>>",
    ]


def test_a_rename_is_observed_under_both_names(lakehouse, follower):
    table = lakehouse.create("orders")
    follower.ticks(1)
    bookings = table._replace(name="bookings")
    lakehouse.kernel.catalog.tables.rename(lakehouse.call(), table, bookings)
    lakehouse.append(bookings, "7")
    result = follower.evaluate()
    assert [
        (type(event).__name__, event.asset_key.path[-1], event.description) for event in result.asset_events
    ] == [
        # the status of the partition goes with it
        ("AssetMaterialization", "tables", "create by ada"),
        ("AssetObservation", "orders", "renamed to floecat.sales.bookings"),
        ("AssetMaterialization", "bookings", "rename from floecat.sales.orders by ada"),
        ("AssetObservation", "tables", "rename from floecat.sales.orders by ada"),
        ("AssetMaterialization", "bookings", "append by ada"),
        ("AssetMaterialization", "tables", "append by ada"),
    ]
    moved, last, first = result.asset_events[:3]
    assert moved.partition == lakehouse.partition(bookings)
    assert value(last, "floecat/renamed_to") == dg.AssetKey(["floecat", "sales", "bookings"])
    assert value(first, "floecat/former_name") == "floecat.sales.orders"
    assert "dagster/column_schema" in first.metadata
    assert value(first, "floecat/table_id") == value(last, "floecat/table_id") == lakehouse.entry_id(bookings)
    follower.tick()
    assert follower.instance.get_dynamic_partitions("tables") == [lakehouse.partition(bookings)]


def test_a_dropped_table_is_observed_and_loses_its_partition(lakehouse, follower):
    table = lakehouse.create("orders")
    follower.ticks(2)
    lakehouse.kernel.catalog.tables.drop(lakehouse.call(), table)
    (event,) = follower.tick()
    assert told([event]) == [("AssetObservation", "drop", 2)]
    assert follower.instance.get_dynamic_partitions("tables") == []


def test_a_table_that_lived_between_two_ticks_is_told_whole(lakehouse, follower):
    table = lakehouse.create("orders")
    lakehouse.append(table, "1")
    lakehouse.kernel.catalog.tables.unregister(lakehouse.call(), table)
    assert told(follower.ticks(3)) == [
        ("AssetMaterialization", "create", 1),
        ("AssetMaterialization", "commit", 2),
        ("AssetObservation", "unregister", 3),
    ]
    assert follower.instance.get_dynamic_partitions("tables") == []


def test_a_new_table_under_an_old_name_is_another_partition(lakehouse, follower):
    table = lakehouse.create("orders")
    follower.ticks(2)
    lakehouse.kernel.catalog.tables.drop(lakehouse.call(), table)
    lakehouse.create("orders")
    again = lakehouse.partition(table)
    events = follower.ticks(3)
    assert told(events) == [("AssetObservation", "drop", 2), ("AssetMaterialization", "create", 3)]
    assert events[1].partition == again
    assert follower.instance.get_dynamic_partitions("tables") == [again]


def test_many_commits_take_several_ticks_and_none_is_missed_or_doubled(lakehouse, follower, monkeypatch):
    monkeypatch.setattr(sensors, "COMMITS_PER_TICK", 7)
    for number in range(6):
        table = lakehouse.create(f"t{number}")
        for total in range(3):
            lakehouse.append(table, str(total))
    events: list[Event] = []
    for _ in range(30):
        result = follower.evaluate()
        if isinstance(result, dg.SkipReason):
            break
        assert len(result.asset_events) <= 2 * 7
        events += follower.tick()
    assert [version for _, _, version in told(events)] == list(range(1, 25))
    assert follower.evaluate() == dg.SkipReason("No commits to report")


def test_two_catalogs_are_followed_apart_and_a_busy_one_leaves_room(lakehouse, follower, monkeypatch):
    monkeypatch.setattr(sensors, "COMMITS_PER_TICK", 6)
    busy = lakehouse.create("busy", catalog="north")
    for total in range(20):
        lakehouse.append(busy, str(total), catalog="north")
    quiet = lakehouse.create("quiet", catalog="south")
    lakehouse.append(quiet, "1", catalog="south")
    north, south = (str(lakehouse.call(name).catalog.id) for name in ("north", "south"))

    events = follower.tick()
    assert [
        int(value(event, "floecat/commit_version"))
        for event in events
        if value(event, "floecat/catalog_id") == south
    ] == [1, 2]
    assert json.loads(follower.cursor) == {"version": 1, "catalogs": {north: 4, south: 2}}

    events += follower.ticks(10)
    assert json.loads(follower.cursor) == {"version": 1, "catalogs": {north: 21, south: 2}}
    assert len(events) == 23


def test_a_catalog_that_is_added_later_is_followed_from_its_first_commit(lakehouse, follower):
    lakehouse.create("orders")
    follower.ticks(2)
    lakehouse.create("events", catalog="later")
    (event,) = follower.ticks(2)
    assert value(event, "floecat/table") == dg.AssetKey(["later", "sales", "events"])
    assert value(event, "floecat/commit_version") == "1"


def test_a_restart_goes_on_from_the_stored_cursor(lakehouse, follower):
    table = lakehouse.create("orders")
    follower.ticks(2)
    lakehouse.append(table, "1")
    restarted = type(follower)(follower.instance)
    restarted.cursor = follower.cursor
    assert told(restarted.tick()) == [("AssetMaterialization", "commit", 2)]


@pytest.mark.parametrize("stored", [2, 3, 6, 8])
def test_a_tick_that_was_cut_short_doubles_nothing(lakehouse, follower, stored):
    table = lakehouse.create("orders")
    follower.ticks(2)
    for total in range(3):
        lakehouse.append(table, str(total))
    lakehouse.kernel.catalog.tables.drop(lakehouse.call(), table)

    cut = follower.evaluate()
    for event in cut.asset_events[:stored]:  # the daemon died here, before partitions and cursor
        follower.instance.report_runless_asset_event(event)
    lakehouse.create("another")

    assert [version for _, _, version in told(follower.ticks(4))] == [*range(2 + stored // 2, 6), 6]
    assert len(follower.instance.get_dynamic_partitions("tables")) == 1
    records = follower.instance.fetch_materializations(TABLES, limit=100).records
    assert len(records) == 5


def test_a_tick_that_was_cut_short_doubles_nothing_when_other_catalogs_got_busy(
    lakehouse, follower, monkeypatch
):
    monkeypatch.setattr(sensors, "COMMITS_PER_TICK", 6)
    table = lakehouse.create("orders")
    follower.ticks(2)
    for total in range(6):
        lakehouse.append(table, str(total))
    follower.store_events(follower.evaluate())
    for name in ("north", "south"):
        other = lakehouse.create("orders", catalog=name)
        for total in range(6):
            lakehouse.append(other, str(total), catalog=name)
    events = follower.ticks(12)
    commits = [
        (value(event, "floecat/catalog_id"), int(value(event, "floecat/commit_version"))) for event in events
    ]
    north, south = (str(lakehouse.call(name).catalog.id) for name in ("north", "south"))
    assert sorted(commits) == sorted(
        (catalog, number) for catalog in (north, south) for number in range(1, 8)
    )


def test_events_of_catalogs_that_are_gone_hold_nothing_up(lakehouse, follower):
    gone = {"floecat/catalog_id": str(uuid.uuid4()), "floecat/commit_version": 99}
    tables = dg.AssetKey(["catalog", "tables"])
    follower.instance.report_runless_asset_event(dg.AssetMaterialization(tables, metadata=gone))
    follower.instance.report_runless_asset_event(dg.AssetMaterialization(tables))  # by hand, in the UI
    lakehouse.create("orders")
    assert told(follower.ticks(2)) == [("AssetMaterialization", "create", 1)]


def test_with_events_wiped_and_cursor_reset_everything_is_told_again(lakehouse, follower):
    table = lakehouse.create("orders")
    lakehouse.append(table, "1")
    before = told(follower.ticks(2))
    follower.instance.wipe_assets([dg.AssetKey(["catalog", "tables"])])
    follower.cursor = None
    assert told(follower.tick()) == before


def test_an_earlier_commit_whose_file_is_lost_is_told_without_schema(lakehouse, follower):
    table = lakehouse.create("orders")
    lost = lakehouse.metadata_file(table)
    lakehouse.append(table, "1")
    lost.unlink()
    created, appended = follower.own_ticks(1)
    assert "dagster/column_schema" not in created.metadata
    assert lost.name in value(created, "floecat/undescribed")
    assert value(created, "floecat/metadata_location") == lost.as_uri()
    assert value(appended, "dagster/row_count") == 1


def test_an_earlier_commit_whose_file_is_broken_is_told_without_schema(lakehouse, follower):
    table = lakehouse.create("orders")
    broken = lakehouse.metadata_file(table)
    lakehouse.append(table, "1")
    broken.write_text('{"format-version": 2, "password": "hunter2"')
    created, appended = follower.own_ticks(1)
    assert "hunter2" not in value(created, "floecat/undescribed")
    assert "dagster/column_schema" in appended.metadata


def test_an_earlier_commit_is_read_from_a_compressed_file_too(lakehouse, follower):
    table = lakehouse.create("orders")
    codec = {"write.metadata.compression-codec": "gzip"}
    lakehouse.commit(table, {"action": "set-properties", "updates": codec})
    assert lakehouse.metadata_file(table).name.endswith(".gz.metadata.json")
    lakehouse.append(table, "1")
    events = follower.own_ticks(1)
    assert ["dagster/column_schema" in event.metadata for event in events] == [True, True, True]


def test_an_idle_tick_costs_one_statement(lakehouse, follower):
    lakehouse.create("orders")
    lakehouse.create("events", catalog="other")
    follower.ticks(2)
    kernel = lakehouse.kernel
    events = CatalogEvents(kernel.store, kernel.parts.files, kernel.parts.storages, memory_bytes=1 << 20)
    with kernel.store.count_statements() as counter:
        batch = events.after(CommitCursor.parse(follower.cursor), limit=10)
    assert batch.events == ()
    assert counter.total == 1


def test_a_lost_file_of_the_current_metadata_does_not_matter(lakehouse, follower):
    table = lakehouse.create("orders")
    lakehouse.metadata_file(table).unlink()
    (created,) = follower.own_ticks(1)
    assert "dagster/column_schema" in created.metadata


def test_commits_of_views_are_events_of_their_own_assets_only(lakehouse, follower, monkeypatch):
    monkeypatch.setenv("FLOECAT_PIPELINE_CATALOG_URL", "https://lake.example.com")
    lakehouse.create("orders")
    lakehouse.create_view("recent")
    own = follower.own_ticks(1)
    assert [event.asset_key.path[-1] for event in own] == ["orders", "recent"]
    assert isinstance(own[1], dg.AssetMaterialization)
    namespace = "https://lake.example.com/v1/floecat/namespaces/sales"
    assert value(own[0], "floecat/load_table") == f"{namespace}/tables/orders"
    assert value(own[1], "floecat/load_view") == f"{namespace}/views/recent"
    assert len(follower.instance.get_dynamic_partitions("tables")) == 1
    lakehouse.create("more")
    assert [version for _, _, version in told(follower.tick())] == [3]


def test_with_the_store_away_the_tick_is_skipped_and_the_cursor_kept(lakehouse, follower, monkeypatch):
    lakehouse.create("orders")
    follower.ticks(2)
    cursor = follower.cursor
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"postgresql+psycopg://floecat:hunter2@127.0.0.1:{nobody.getsockname()[1]}/floecat"
        with monkeypatch.context() as away:
            away.setenv("FLOECAT_STORE_URL", url)
            result = follower.evaluate()
    assert isinstance(result, dg.SkipReason)
    assert result.skip_message.startswith("Nothing was read, the cursor stays: ")
    assert "hunter2" not in result.skip_message
    assert follower.cursor == cursor
    lakehouse.create("more")
    assert len(follower.ticks(2)) == 1


@pytest.mark.parametrize("cursor", ["17", "{}", '{"version":2,"catalogs":{}}'])
def test_a_cursor_that_is_none_fails_the_tick(lakehouse, follower, cursor):
    follower.cursor = cursor
    with pytest.raises(BadRequestError, match="cursor"):
        follower.evaluate()


def test_a_log_that_ends_before_the_cursor_is_told(lakehouse, follower):
    lakehouse.create("orders")
    follower.ticks(2)
    lakehouse.create("events", catalog="other")
    catalog_id = str(lakehouse.call().catalog.id)
    follower.cursor = ahead = json.dumps({"version": 1, "catalogs": {catalog_id: 50}})
    (event,) = follower.ticks(2)
    assert value(event, "floecat/table") == dg.AssetKey(["other", "sales", "events"])
    result = follower.evaluate()
    assert isinstance(result, dg.SkipReason)
    assert "the cursor is ahead of the commit log of catalog floecat," in result.skip_message
    assert json.loads(follower.cursor)["catalogs"][catalog_id] == json.loads(ahead)["catalogs"][catalog_id]


def test_events_that_users_report_stop_no_tick(lakehouse, follower):
    odd = {"floecat/catalog_id": dg.MetadataValue.text("nonsense"), "floecat/commit_version": 7}
    follower.instance.add_dynamic_partitions("tables", ["nonsense"])
    for metadata in ({}, odd):
        follower.instance.report_runless_asset_event(
            dg.AssetMaterialization(["catalog", "tables"], partition="nonsense", metadata=metadata)
        )
    lakehouse.create("orders")
    (event,) = follower.ticks(2)
    assert value(event, "floecat/operation") == "create"
