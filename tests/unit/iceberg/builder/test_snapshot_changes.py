"""Changes of snapshots, branches and tags."""

from __future__ import annotations

import json

import pytest

from floecat.errors import CommitFailedError, IllegalArgumentError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from tests.unit.iceberg.table_documents import (
    BASE_MS,
    ID,
    NOW_MS,
    TEXT,
    TS,
    append,
    column,
    commit,
    document,
    empty,
    parse,
    read,
    schema,
    set_ref,
    snapshot,
    update,
)


def add(snapshot_id: int, sequence_number: int, parent: int | None, **more: object) -> dict:
    return update("add-snapshot", snapshot=snapshot(snapshot_id, sequence_number, parent, **more))


def remove(*snapshot_ids: int) -> dict:
    return update("remove-snapshots", snapshot_ids=list(snapshot_ids))


@pytest.fixture
def table() -> TableMetadata:
    return parse(document())


def test_an_append(table: TableMetadata) -> None:
    result = commit(table, *append(14, 4, 13))
    written = read(result.metadata)

    assert [item.snapshot_id for item in result.added_snapshots] == [14]
    assert result.removed_snapshot_ids == []
    assert result.refs_changed
    assert written["snapshots"][:3] == document()["snapshots"]
    assert written["last-sequence-number"] == 4
    assert written["current-snapshot-id"] == 14
    assert written["refs"]["main"] == {"snapshot-id": 14, "type": "branch"}
    assert written["snapshot-log"][-1] == {"timestamp-ms": NOW_MS, "snapshot-id": 14}
    assert result.metadata.snapshot(14) == result.added_snapshots[0]


def test_adding_alone_does_not_make_it_current(table: TableMetadata) -> None:
    result = commit(table, add(14, 4, 13))
    assert not result.refs_changed
    assert result.metadata.current_snapshot_id == 13
    assert len(result.metadata.snapshot_log) == 3


def test_snapshot_0_is_a_snapshot() -> None:
    metadata = commit(parse(empty()), *append(0, 1, None)).metadata
    assert metadata.current_snapshot_id == 0
    assert TableMetadata.parse(metadata.to_bytes()).current_snapshot_id == 0


@pytest.mark.parametrize("sequence_number", [3, 2, 0])
def test_a_stale_sequence_number_can_be_retried(table: TableMetadata, sequence_number: int) -> None:
    with pytest.raises(CommitFailedError) as caught:
        commit(table, add(14, sequence_number, 13))
    assert caught.value.message == (
        "Validation failed, please retry: Cannot add snapshot with sequence number"
        f" {sequence_number} older than last sequence number 3"
    )


def test_a_schema_that_is_gone_can_be_retried(table: TableMetadata) -> None:
    with pytest.raises(
        CommitFailedError, match="please retry: Cannot add snapshot 14, whose schema 1 the table"
    ):
        commit(table, add(14, 4, 13, **{"schema-id": 1}))
    wider = update("add-schema", schema=schema(ID, TEXT, TS, column(4, "more")))
    assert commit(table, add(14, 4, 13, **{"schema-id": 1}), wider).added_snapshots[0].schema_id == 1
    assert commit(table, add(14, 4, 13, **{"schema-id": None})).added_snapshots[0].schema_id is None


def test_without_parent_the_sequence_number_may_be_taken(table: TableMetadata) -> None:
    metadata = commit(table, *append(14, 2, None)).metadata
    assert metadata.last_sequence_number == 3
    assert metadata.current_snapshot_id == 14


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ([add(13, 4, 13)], "Snapshot already exists for id: 13"),
        ([add(14, 4, 13), add(14, 5, 13)], "Snapshot already exists for id: 14"),
        ([add(14, -1, None)], "cannot be negative"),
        ([add(14, 4, 14)], "Cannot add snapshot 14: it is its own ancestor"),
        ([add(15, 4, 14), add(14, 5, 15)], "Cannot add snapshot 14: it is its own ancestor"),
        ([remove(11), add(11, 4, 13)], "Cannot add snapshot 11: it is its own ancestor"),
        ([add(14, 4, 13, **{"manifest-list": None})], "manifest-list"),
    ],
)
def test_refuses(table: TableMetadata, updates: list[dict], message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        commit(table, *updates)


def test_a_snapshot_that_others_name_as_their_parent_is_no_descendant_of_them(table: TableMetadata) -> None:
    later = commit(table, add(15, 4, 14)).metadata
    assert later.snapshot_index.missing_parents == {14}
    later = commit(later, add(16, 5, 15)).metadata
    with pytest.raises(IllegalArgumentError, match="Cannot add snapshot 14: it is its own ancestor"):
        commit(later, add(14, 6, 16))
    filled = commit(later, add(14, 6, 13)).metadata
    assert filled.snapshot_index.missing_parents == frozenset()
    assert TableMetadata.parse(filled.to_bytes()).snapshot_index.missing_parents == frozenset()


def test_v1_has_no_sequence_numbers() -> None:
    table = parse(document(1))
    with pytest.raises(IllegalArgumentError, match="Sequence number must be 0 in v1: 4"):
        commit(table, add(14, 4, 13))

    body = {key: value for key, value in snapshot(14, 0, 13).items() if key != "sequence-number"}
    metadata = commit(table, update("add-snapshot", snapshot=body)).metadata
    assert "last-sequence-number" not in read(metadata)


# -- row lineage ----------------------------------------------------------------------------------------


@pytest.fixture
def lineage() -> TableMetadata:
    return parse(document(3))


def rows(first: int | None, added: int | None) -> dict[str, object]:
    return {"first-row-id": first, "added-rows": added}


def test_row_ids_must_be_there(lineage: TableMetadata) -> None:
    for missing in (rows(None, None), rows(None, 5)):
        with pytest.raises(IllegalArgumentError, match="Cannot add a snapshot: first-row-id is null"):
            commit(lineage, add(14, 4, 13, **missing))
    with pytest.raises(IllegalArgumentError, match="added-rows"):
        commit(lineage, add(14, 4, 13, **rows(100, None)))


def test_stale_row_ids_can_be_retried(lineage: TableMetadata) -> None:
    with pytest.raises(CommitFailedError) as caught:
        commit(lineage, add(14, 4, 13, **rows(90, 25)))
    assert caught.value.message == (
        "Validation failed, please retry: Cannot add a snapshot, first-row-id is behind table"
        " next-row-id: 90 < 100"
    )


def test_row_ids_are_counted_on_every_branch(lineage: TableMetadata) -> None:
    branch = commit(lineage, add(14, 4, 13, **rows(100, 25)), set_ref("dev", 14)).metadata
    assert (branch.next_row_id, read(branch)["next-row-id"]) == (125, 125)

    more = commit(branch, add(15, 5, 13, **rows(125, 0)), add(16, 6, 13, **rows(130, 5))).metadata
    assert more.next_row_id == 135


def test_row_ids_fit_64_bits(lineage: TableMetadata) -> None:
    with pytest.raises(IllegalArgumentError, match="exceed 64 bits"):
        commit(lineage, add(14, 4, 13, **rows(2**62, 2**62)))


def test_row_ids_count_from_the_upgrade_on(table: TableMetadata) -> None:
    upgrade = update("upgrade-format-version", format_version=3)
    with pytest.raises(IllegalArgumentError, match="first-row-id is null"):
        commit(table, upgrade, add(14, 4, 13))
    metadata = commit(table, upgrade, add(14, 4, 13, **rows(0, 7))).metadata
    assert read(metadata)["next-row-id"] == 7
    assert "first-row-id" not in read(metadata)["snapshots"][0]


# -- removal --------------------------------------------------------------------------------------------


def with_statistics() -> dict:
    file = {"statistics-path": "s3://p", "file-size-in-bytes": 5}
    puffin = {
        "statistics-path": "s3://s",
        "file-size-in-bytes": 5,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    return document(
        **{
            "statistics": [puffin | {"snapshot-id": i, "key-metadata": "eA=="} for i in (11, 13)],
            "partition-statistics": [file | {"snapshot-id": i} for i in (11, 12)],
            "refs": {
                "main": {"snapshot-id": 13, "type": "branch"},
                "v1": {"snapshot-id": 11, "type": "tag"},
                "dev": {"snapshot-id": 12, "type": "branch", "x-later": 1},
            },
        }
    )


def test_what_hangs_on_a_removed_snapshot_goes_too() -> None:
    result = commit(parse(with_statistics()), remove(11))
    written = read(result.metadata)

    assert result.removed_snapshot_ids == [11]
    assert [item["snapshot-id"] for item in written["snapshots"]] == [12, 13]
    assert written["refs"].keys() == {"main", "dev"}
    assert written["statistics"] == with_statistics()["statistics"][1:]
    assert written["partition-statistics"] == with_statistics()["partition-statistics"][1:]
    assert [item["snapshot-id"] for item in written["snapshot-log"]] == [12, 13]


def test_removing_the_current_snapshot_leaves_none() -> None:
    written = read(commit(parse(document()), remove(13)).metadata)
    assert written["current-snapshot-id"] == -1
    assert written["refs"] == {}
    assert written["snapshot-log"] == []


def test_history_before_a_removed_snapshot_goes_too(table: TableMetadata) -> None:
    written = read(commit(table, remove(12)).metadata)
    assert [item["snapshot-id"] for item in written["snapshots"]] == [11, 13]
    assert [item["snapshot-id"] for item in written["snapshot-log"]] == [13]


def test_unknown_ids_do_nothing(table: TableMetadata) -> None:
    assert not commit(table, remove(1, 2)).changed
    assert commit(table, remove(11, 99)).removed_snapshot_ids == [11]


def test_what_one_request_adds_and_removes_is_gone(table: TableMetadata) -> None:
    result = commit(table, *append(14, 4, 13), remove(14))
    assert result.added_snapshots == []
    assert result.removed_snapshot_ids == []
    assert result.metadata.current_snapshot_id is None
    assert result.metadata.last_sequence_number == 4
    assert [entry.snapshot_id for entry in result.metadata.snapshot_log] == [11, 12, 13]


def test_an_append_and_an_expiry_in_one_request(table: TableMetadata) -> None:
    metadata = commit(table, *append(14, 4, 13), remove(11, 12)).metadata
    written = read(metadata)
    assert [item["snapshot-id"] for item in written["snapshots"]] == [13, 14]
    assert [item["snapshot-id"] for item in written["snapshot-log"]] == [13, 14]
    assert json.loads(bytes(metadata.snapshot_bytes(14))) == written["snapshots"][1]


def log(metadata: TableMetadata) -> list[tuple[int, int]]:
    return [(entry.timestamp_ms, entry.snapshot_id) for entry in metadata.snapshot_log]


BEFORE = [(BASE_MS + 1000, 11), (BASE_MS + 2000, 12), (BASE_MS + 3000, 13)]


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
def test_refuses_refs(table: TableMetadata, updates: list[dict], message: str) -> None:
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
