from __future__ import annotations

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from tests.unit.iceberg.table_documents import (
    BASE_MS,
    NOW_MS,
    append,
    commit,
    document,
    empty,
    parse,
    read,
    set_ref,
    snapshot,
    update,
)


def log(metadata: TableMetadata) -> list[tuple[int, int]]:
    return [(entry.timestamp_ms, entry.snapshot_id) for entry in metadata.snapshot_log]


BEFORE = [(BASE_MS + 1000, 11), (BASE_MS + 2000, 12), (BASE_MS + 3000, 13)]


@pytest.fixture
def table() -> TableMetadata:
    return parse(document())


def test_branches_and_tags(table: TableMetadata) -> None:
    result = commit(
        table,
        set_ref("v1", 11, "tag", max_ref_age_ms=5),
        set_ref("dev", 12, min_snapshots_to_keep=2, max_snapshot_age_ms=3, max_ref_age_ms=4),
    )

    assert result.refs_changed
    assert read(result.metadata)["refs"] == {
        "main": {"snapshot-id": 13, "type": "branch"},
        "v1": {"snapshot-id": 11, "type": "tag", "max-ref-age-ms": 5},
        "dev": {
            "snapshot-id": 12,
            "type": "branch",
            "min-snapshots-to-keep": 2,
            "max-snapshot-age-ms": 3,
            "max-ref-age-ms": 4,
        },
    }
    assert log(result.metadata) == BEFORE


def test_a_rollback_happens_now(table: TableMetadata) -> None:
    metadata = commit(table, set_ref("main", 11)).metadata
    assert metadata.current_snapshot_id == 11
    assert log(metadata) == [*BEFORE, (NOW_MS, 11)]


def test_new_retention_of_main_is_a_change(table: TableMetadata) -> None:
    metadata = commit(table, set_ref("main", 13, min_snapshots_to_keep=5)).metadata
    assert metadata.refs["main"].min_snapshots_to_keep == 5


def test_intermediate_snapshots_never_were_current(table: TableMetadata) -> None:
    updates = [*append(14, 4, 13), *append(15, 5, 14), *append(16, 6, 15)]
    metadata = commit(table, *updates).metadata
    assert log(metadata) == [*BEFORE, (NOW_MS, 16)]
    assert len(metadata.snapshots) == 6


def test_a_replaced_table_keeps_its_history(table: TableMetadata) -> None:
    replaced = commit(table, update("remove-snapshot-ref", ref_name="main"), *append(14, 4, None)).metadata
    assert log(replaced) == [*BEFORE, (NOW_MS, 14)]


def test_without_main_there_is_no_current_snapshot(table: TableMetadata) -> None:
    metadata = commit(table, update("remove-snapshot-ref", ref_name="main")).metadata
    assert metadata.current_snapshot_id is None
    assert metadata.refs == {}
    assert log(metadata) == BEFORE

    again = commit(metadata, set_ref("main", 13)).metadata
    assert log(again) == [*BEFORE, (NOW_MS, 13)]


def test_a_removed_tag_is_gone(table: TableMetadata) -> None:
    tagged = commit(table, set_ref("v1", 11, "tag")).metadata
    assert commit(tagged, update("remove-snapshot-ref", ref_name="v1")).metadata.refs.keys() == {"main"}


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ([set_ref("dev", 99)], "Cannot set dev to unknown snapshot: 99"),
        ([set_ref("main", 99)], "Cannot set main to unknown snapshot: 99"),
        ([set_ref("main", 13, "tag")], "Cannot set main to a tag, it must be a branch"),
        ([set_ref("x", 13, "label")], "Invalid snapshot ref type: label"),
        ([set_ref("", 13)], "Invalid reference name"),
        (
            [set_ref("x", 13, "tag", min_snapshots_to_keep=1)],
            "Tags do not support setting minSnapshotsToKeep",
        ),
        ([set_ref("x", 13, "tag", max_snapshot_age_ms=1)], "Tags do not support setting maxSnapshotAgeMs"),
        ([set_ref("x", 13, min_snapshots_to_keep=0)], "Min snapshots to keep must be greater than 0"),
        ([set_ref("x", 13, max_snapshot_age_ms=-1)], "Max snapshot age must be greater than 0 ms"),
        ([set_ref("x", 13, max_ref_age_ms=0)], "Max reference age must be greater than 0"),
        (
            [update("remove-snapshots", snapshot_ids=[11]), set_ref("x", 11)],
            "Cannot set x to unknown snapshot: 11",
        ),
    ],
)
def test_refuses(table: TableMetadata, updates: list[dict], message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        commit(table, *updates)


LAST_MS = BASE_MS + 3000


@pytest.mark.parametrize(
    ("made_ms", "entry_ms"),
    [
        (LAST_MS, LAST_MS),
        (NOW_MS - 1, NOW_MS - 1),
        (NOW_MS + 60_000, NOW_MS + 60_000),
        (NOW_MS + 60_001, NOW_MS),
        (NOW_MS + 86_400_000, NOW_MS),
        (LAST_MS - 1, NOW_MS),
        (LAST_MS - 600_000, NOW_MS),
        (0, NOW_MS),
        (-(2**63), NOW_MS),
    ],
)
def test_the_log_takes_the_time_of_a_client_where_that_can_be(
    table: TableMetadata, made_ms: int, entry_ms: int
) -> None:
    metadata = commit(table, *append(14, 4, 13, **{"timestamp-ms": made_ms})).metadata
    assert log(metadata) == [*BEFORE, (entry_ms, 14)]
    assert metadata.last_updated_ms == max(NOW_MS, entry_ms)
    assert metadata.snapshots[-1].timestamp_ms == made_ms


def test_a_client_whose_clock_is_ahead_stops_nobody(table: TableMetadata) -> None:
    ahead = commit(table, *append(14, 4, 13, **{"timestamp-ms": NOW_MS + 3_600_000})).metadata
    honest = commit(ahead, *append(15, 5, 14, **{"timestamp-ms": NOW_MS + 5}), now_ms=NOW_MS + 9).metadata
    assert log(honest) == [*BEFORE, (NOW_MS, 14), (NOW_MS + 5, 15)]
    assert honest.last_updated_ms == NOW_MS + 9


def test_what_follows_a_clock_that_is_a_little_ahead_is_no_earlier(table: TableMetadata) -> None:
    ahead = commit(table, *append(14, 4, 13, **{"timestamp-ms": NOW_MS + 60_000})).metadata
    appended = commit(ahead, *append(15, 5, 14), now_ms=NOW_MS + 1).metadata
    assert log(appended) == [*BEFORE, (NOW_MS + 60_000, 14), (NOW_MS + 60_000, 15)]
    rolled_back = commit(ahead, set_ref("main", 11), now_ms=NOW_MS + 1).metadata
    assert log(rolled_back) == [*BEFORE, (NOW_MS + 60_000, 14), (NOW_MS + 60_000, 11)]
    renamed = commit(ahead, update("set-properties", updates={"a": "b"}), now_ms=NOW_MS + 1).metadata
    assert renamed.last_updated_ms == NOW_MS + 60_000


def test_the_first_snapshot_of_a_table_has_any_time_before(table: TableMetadata) -> None:
    empty_table = parse(empty())
    metadata = commit(empty_table, *append(1, 1, None, **{"timestamp-ms": 1})).metadata
    assert log(metadata) == [(1, 1)]
    # what a reader subtracts from it must fit 64 bits
    metadata = commit(empty_table, *append(1, 1, None, **{"timestamp-ms": -1})).metadata
    assert log(metadata) == [(NOW_MS, 1)]


@pytest.mark.parametrize("made_ms", [NOW_MS + 86_400_001, NOW_MS * 1000, 2**63 - 1])
@pytest.mark.parametrize("branch", ["main", "other"])
def test_a_time_that_is_more_than_a_day_ahead_is_an_error(
    table: TableMetadata, made_ms: int, branch: str
) -> None:
    sent = append(14, 4, 13, **{"timestamp-ms": made_ms})
    with pytest.raises(IllegalArgumentError, match=f"timestamp {made_ms}: more than a day ahead"):
        commit(table, sent[0], set_ref(branch, 14))


@pytest.mark.parametrize("future_ms", [NOW_MS + 3_600_000, NOW_MS * 1000, 2**63 - 1])
def test_a_registered_history_that_ends_in_the_future_takes_appends(future_ms: int) -> None:
    entry = {"timestamp-ms": future_ms, "snapshot-id": 13}
    base = parse(document(**{"snapshot-log": [entry], "last-updated-ms": future_ms}))
    metadata = commit(base, *append(14, 4, 13)).metadata
    assert log(metadata) == [(future_ms, 13), (future_ms, 14)]
    assert metadata.last_updated_ms == future_ms
    assert [entry.timestamp_ms for entry in metadata.metadata_log][-1] == future_ms


def test_entries_of_a_log_that_hold_more_are_kept() -> None:
    entry = {"timestamp-ms": BASE_MS + 3000, "snapshot-id": 13, "x-later": {"by": {"whom": "y" * 300}}}
    table = parse(document(**{"snapshot-log": [entry]}))
    metadata = commit(table, *append(14, 4, 13)).metadata
    assert read(metadata)["snapshot-log"][0] == entry
    expired = commit(metadata, update("remove-snapshots", snapshot_ids=[11])).metadata
    assert read(expired)["snapshot-log"][0] == entry


def test_a_log_that_never_was_complete_stops_no_expiry() -> None:
    table = parse(document(**{"snapshot-log": ..., "snapshots": [snapshot(11, 1), snapshot(13, 3)]}))
    metadata = commit(table, update("remove-snapshots", snapshot_ids=[11])).metadata
    assert metadata.current_snapshot_id == 13
    assert log(metadata) == []
