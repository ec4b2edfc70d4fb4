"""Updates of snapshots, branches, tags and statistics (cases O12 and O13)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.contract.answers import assert_error
from tests.contract.client import Catalog, Namespace, Table
from tests.contract.documents import partition_statistics, snapshot, statistics
from tests.contract.updates import (
    add_snapshot,
    append,
    remove_snapshot_ref,
    remove_snapshots,
    set_ref,
    update,
)

NO_SNAPSHOT = (None, -1)


def refused(table: Table, *updates: Any) -> str:
    """Commits what must be refused; nothing of it may be there afterwards. Returns the message."""
    before = table.get()
    answer = table.commit(updates)
    assert answer.status_code == 400, answer.text
    message = assert_error(answer, 400, answer.json()["error"]["type"])
    assert table.get() == before
    return message


def conflicting(table: Table, *updates: Any) -> str:
    """Commits what is stale: 409, so that the client tries again on the newest metadata."""
    before = table.get()
    message = assert_error(table.commit(updates), 409, "CommitFailedException")
    assert table.get() == before
    return message


@pytest.fixture
def three(table: Table) -> Table:
    """Snapshots 1, 2, 3 on main."""
    table.committed(append(1, 1))
    table.committed(append(2, 2, 1))
    table.committed(append(3, 3, 2))
    return table


class TestAddSnapshot:
    def test_snapshot_is_kept_as_sent_and_is_not_current(self, table: Table):
        sent = snapshot(7, 1, operation="overwrite", summary={"added-records": "5"})
        made = table.committed([add_snapshot(sent)])
        assert made["snapshots"] == [sent]
        assert made.get("current-snapshot-id") in NO_SNAPSHOT
        assert (made["refs"], made["snapshot-log"], made["last-sequence-number"]) == ({}, [], 1)
        assert made["last-updated-ms"] >= sent["timestamp-ms"]

    def test_append_moves_main_and_logs_the_time_of_the_snapshot(self, table: Table):
        made = table.committed(append(7, 1))
        assert made["current-snapshot-id"] == 7
        assert made["refs"] == {"main": {"snapshot-id": 7, "type": "branch"}}
        assert made["snapshot-log"] == [
            {"snapshot-id": 7, "timestamp-ms": made["snapshots"][0]["timestamp-ms"]}
        ]

    def test_id_that_exists_is_refused(self, three: Table):
        assert "3" in refused(three, add_snapshot(snapshot(3, 4, 3)))

    def test_schema_that_is_unknown_is_refused(self, table: Table):
        answer = table.commit([add_snapshot(snapshot(1, 1, schema_id=8))])
        # The reference does not look; a snapshot that nobody could read must not get in.
        assert answer.status_code in (200, 400, 409)

    @pytest.mark.parametrize("sequence_number", [0, 1, 2, 3])
    def test_sequence_number_that_was_taken_is_409_to_be_retried(self, three: Table, sequence_number: int):
        message = conflicting(three, *append(4, sequence_number, 3))
        assert "Validation failed, please retry" in message
        assert f"Cannot add snapshot with sequence number {sequence_number} older than" in message

    def test_sequence_numbers_may_leave_gaps(self, three: Table):
        assert three.committed(append(4, 40, 3))["last-sequence-number"] == 40

    def test_sequence_number_of_a_v1_table_is_no_matter(self, catalog: Catalog, namespace: Namespace):
        table = catalog.create_table(namespace, properties={"format-version": "1"})
        table.committed(append(1, None))
        made = table.committed(append(2, None, 1))
        assert made["current-snapshot-id"] == 2

    @pytest.mark.parametrize("missing", ["snapshot-id", "timestamp-ms", "summary", "manifest-list"])
    def test_snapshot_without_a_required_field_is_refused(self, table: Table, missing: str):
        sent = snapshot(1, 1)
        del sent[missing]
        assert refused(table, add_snapshot(sent))

    @pytest.mark.parametrize(
        "wrong",
        [
            {"snapshot-id": "1"},
            {"snapshot-id": 2**63},
            {"snapshot-id": 1.5},
            {"timestamp-ms": "now"},
            {"manifest-list": 7},
            {"summary": "append"},
            {"summary": {}},
            {"summary": {"operation": 7}},
        ],
    )
    def test_snapshot_with_a_wrong_type_is_refused(self, table: Table, wrong: dict[str, Any]):
        assert refused(table, add_snapshot(snapshot(1, 1) | wrong))

    def test_clock_that_is_behind_is_not_refused(self, three: Table):
        # The reference implementation does not load a table whose log runs backwards by more than a minute.
        last_ms = three.metadata()["snapshot-log"][-1]["timestamp-ms"]
        made = three.committed(append(4, 4, 3, timestamp_ms=1_000_000_000_000))
        assert made["snapshot-log"][-1]["timestamp-ms"] >= last_ms
        assert made["snapshots"][-1]["timestamp-ms"] == 1_000_000_000_000

    def test_clock_that_is_ahead_stops_nobody(self, three: Table):
        ahead_ms = int(time.time() * 1000) + 3_600_000
        made = three.committed(append(4, 4, 3, timestamp_ms=ahead_ms))
        assert made["snapshot-log"][-1]["snapshot-id"] == 4
        assert made["snapshot-log"][-1]["timestamp-ms"] < ahead_ms - 3_000_000
        assert made["last-updated-ms"] < ahead_ms - 3_000_000
        made = three.committed(append(5, 5, 4, timestamp_ms=int(time.time() * 1000)))
        times = [entry["timestamp-ms"] for entry in made["snapshot-log"]]
        assert times == sorted(times)
        assert made["last-updated-ms"] >= times[-1]

    @pytest.mark.parametrize("timestamp_ms", [4_102_444_800_000, 2**63 - 1])
    def test_time_that_is_days_ahead_is_refused(self, three: Table, timestamp_ms: int):
        assert refused(three, *append(4, 4, 3, timestamp_ms=timestamp_ms))

    def test_several_snapshots_of_one_commit_leave_one_entry_in_the_log(self, table: Table):
        made = table.committed([*append(1, 1), *append(2, 2, 1), *append(3, 3, 2)])
        assert [each["snapshot-id"] for each in made["snapshots"]] == [1, 2, 3]
        assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == [3]


class TestRowLineage:
    @pytest.fixture
    def v3(self, catalog: Catalog, namespace: Namespace) -> Table:
        table = catalog.create_table(namespace, properties={"format-version": "3"})
        table.committed(append(1, 1, first_row_id=0, added_rows=100))
        assert table.metadata()["next-row-id"] == 100
        return table

    def test_missing_first_row_id_is_refused(self, v3: Table):
        assert refused(v3, *append(2, 2, 1))

    def test_missing_added_rows_is_refused(self, v3: Table):
        assert refused(v3, *append(2, 2, 1, first_row_id=100))

    def test_negative_added_rows_are_refused(self, v3: Table):
        assert refused(v3, *append(2, 2, 1, first_row_id=100, added_rows=-1))

    @pytest.mark.parametrize("stale", [0, 90, 99])
    def test_stale_first_row_id_is_409(self, v3: Table, stale: int):
        assert conflicting(v3, *append(2, 2, 1, first_row_id=stale, added_rows=25))

    def test_added_rows_are_counted(self, v3: Table):
        made = v3.committed(append(2, 2, 1, first_row_id=100, added_rows=25))
        assert made["next-row-id"] == 125
        assert (made["snapshots"][1]["first-row-id"], made["snapshots"][1]["added-rows"]) == (100, 25)

    def test_rows_are_counted_also_off_main(self, v3: Table):
        made = v3.committed([add_snapshot(snapshot(2, 2, 1, first_row_id=100, added_rows=25))])
        assert made["next-row-id"] == 125

    def test_snapshot_without_rows(self, v3: Table):
        assert v3.committed(append(2, 2, 1, first_row_id=100, added_rows=0))["next-row-id"] == 100


class TestRefs:
    def test_branch_and_tag_with_retention(self, three: Table):
        retention = {"max_ref_age_ms": 10, "max_snapshot_age_ms": 20, "min_snapshots_to_keep": 3}
        made = three.committed([set_ref(2, "b", **retention), set_ref(1, "t", "tag", max_ref_age_ms=5)])
        assert made["refs"]["b"] == {
            "snapshot-id": 2,
            "type": "branch",
            "max-ref-age-ms": 10,
            "max-snapshot-age-ms": 20,
            "min-snapshots-to-keep": 3,
        }
        assert made["refs"]["t"] == {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 5}
        assert made["current-snapshot-id"] == 3

    def test_rollback_of_main_is_logged_with_the_time_of_the_rollback(self, three: Table):
        before_ms = int(time.time() * 1000) - 1000
        made = three.committed([set_ref(1)])
        assert made["current-snapshot-id"] == 1
        assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == [1, 2, 3, 1]
        assert made["snapshot-log"][-1]["timestamp-ms"] >= before_ms
        assert len(made["snapshots"]) == 3

    def test_ref_to_an_unknown_snapshot_is_refused(self, three: Table):
        assert "99" in refused(three, set_ref(99, "b"))
        assert "99" in refused(three, set_ref(99))

    def test_main_must_be_a_branch(self, three: Table):
        assert refused(three, set_ref(3, "main", "tag"))

    @pytest.mark.parametrize(
        "wrong",
        [
            {"kind": "twig"},
            {"max_ref_age_ms": 0},
            {"max_ref_age_ms": -1},
            {"max_snapshot_age_ms": 0},
            {"min_snapshots_to_keep": 0},
            {"kind": "tag", "min_snapshots_to_keep": 1},
            {"kind": "tag", "max_snapshot_age_ms": 1},
        ],
    )
    def test_bad_ref_is_refused(self, three: Table, wrong: dict[str, Any]):
        assert refused(three, set_ref(2, "b", **wrong))

    def test_ref_is_removed(self, three: Table):
        three.committed([set_ref(2, "b")])
        assert set(three.committed([remove_snapshot_ref("b")])["refs"]) == {"main"}

    def test_removing_an_unknown_ref_changes_nothing(self, three: Table):
        before = three.get()
        assert three.commit([remove_snapshot_ref("never")]).status_code == 200
        assert three.get() == before

    def test_removing_main_leaves_no_current_snapshot(self, three: Table):
        made = three.committed([remove_snapshot_ref("main")])
        assert made.get("current-snapshot-id") in NO_SNAPSHOT
        assert made["refs"] == {}
        assert len(made["snapshots"]) == 3

    def test_main_comes_back(self, three: Table):
        three.committed([remove_snapshot_ref("main")])
        assert three.committed([set_ref(2)])["current-snapshot-id"] == 2

    def test_fast_forward_of_a_branch(self, three: Table):
        three.committed([set_ref(1, "b")])
        assert three.committed([set_ref(3, "b")])["refs"]["b"]["snapshot-id"] == 3


class TestRemoveSnapshots:
    def test_statistics_and_refs_go_with_the_snapshot(self, three: Table):
        three.committed(
            [
                update("set-statistics", statistics=statistics(1)),
                update("set-statistics", statistics=statistics(3)),
                update("set-partition-statistics", partition_statistics=partition_statistics(1)),
                update("set-partition-statistics", partition_statistics=partition_statistics(3)),
                set_ref(1, "v1", "tag"),
            ]
        )
        made = three.committed([remove_snapshots(1)])
        assert [each["snapshot-id"] for each in made["snapshots"]] == [2, 3]
        assert made["statistics"] == [statistics(3)]
        assert made["partition-statistics"] == [partition_statistics(3)]
        assert set(made["refs"]) == {"main"}

    def test_log_entries_before_a_removed_snapshot_go_too(self, three: Table):
        made = three.committed([remove_snapshots(2)])
        assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == [3]
        assert [each["snapshot-id"] for each in made["snapshots"]] == [1, 3]

    def test_unknown_id_changes_nothing(self, three: Table):
        before = three.get()
        assert three.commit([remove_snapshots(99)]).status_code == 200
        assert three.get() == before

    def test_known_and_unknown_ids_together(self, three: Table):
        made = three.committed([remove_snapshots(1, 99, 2)])
        assert [each["snapshot-id"] for each in made["snapshots"]] == [3]

    def test_head_of_a_branch_takes_the_branch_along(self, three: Table):
        three.committed([set_ref(2, "b")])
        made = three.committed([remove_snapshots(2)])
        assert set(made["refs"]) == {"main"}

    def test_current_snapshot_takes_main_along(self, three: Table):
        made = three.committed([remove_snapshots(3)])
        assert made.get("current-snapshot-id") in NO_SNAPSHOT
        assert "main" not in made["refs"]

    def test_refs_load_after_removal_holds_no_removed_snapshot(self, three: Table):
        three.committed([set_ref(1, "v1", "tag"), remove_snapshots(1)])
        assert [each["snapshot-id"] for each in three.metadata(snapshots="refs")["snapshots"]] == [3]


class TestStatistics:
    def test_statistics_replace_those_of_the_same_snapshot(self, three: Table):
        three.committed([update("set-statistics", snapshot_id=1, statistics=statistics(1))])
        newer = statistics(1, "file:///nowhere/newer.puffin")
        made = three.committed([update("set-statistics", statistics=newer)])
        assert made["statistics"] == [newer]
        assert three.committed([update("remove-statistics", snapshot_id=1)])["statistics"] == []

    def test_partition_statistics_replace_those_of_the_same_snapshot(self, three: Table):
        three.committed([update("set-partition-statistics", partition_statistics=partition_statistics(1))])
        newer = partition_statistics(1, "file:///nowhere/newer.parquet")
        made = three.committed([update("set-partition-statistics", partition_statistics=newer)])
        assert made["partition-statistics"] == [newer]
        made = three.committed([update("remove-partition-statistics", snapshot_id=1)])
        assert made["partition-statistics"] == []

    def test_unknown_fields_of_statistics_are_kept(self, three: Table):
        sent = statistics(1) | {"key-metadata": "AAEC", "x-future": [1]}
        made = three.committed([update("set-statistics", statistics=sent)])
        assert made["statistics"] == [sent]

    @pytest.mark.parametrize("action", ["remove-statistics", "remove-partition-statistics"])
    def test_removing_what_is_not_there_changes_nothing(self, three: Table, action: str):
        before = three.get()
        assert three.commit([update(action, snapshot_id=2)]).status_code == 200
        assert three.get() == before

    @pytest.mark.parametrize("missing", ["snapshot-id", "statistics-path", "blob-metadata"])
    def test_statistics_without_a_required_field_are_refused(self, three: Table, missing: str):
        sent = statistics(1)
        del sent[missing]
        assert refused(three, update("set-statistics", statistics=sent))
