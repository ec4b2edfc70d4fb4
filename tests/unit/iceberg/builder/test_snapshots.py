from __future__ import annotations

import json

import pytest

from floecat.errors import CommitFailedError, IllegalArgumentError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from tests.unit.iceberg.table_documents import (
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
        ([add(14, 4, 13, **{"manifest-list": None})], "manifest-list"),
    ],
)
def test_refuses(table: TableMetadata, updates: list[dict], message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        commit(table, *updates)


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
