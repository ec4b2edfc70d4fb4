from __future__ import annotations

import json
import uuid

import pytest

from floecat.errors import InvalidMetadataError
from floecat.iceberg.metadata.integrity import check_integrity
from floecat.iceberg.metadata.refs_and_logs import SnapshotRef
from floecat.iceberg.metadata.table_metadata import TableMetadata
from tests.unit.iceberg.table_documents import (
    BASE_MS,
    ID,
    TEXT,
    TS,
    append,
    commit,
    document,
    empty,
    encode,
    order,
    parse,
    partition_field,
    read,
    schema,
    snapshot,
    sort_field,
    spec,
)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_reads_the_scalars(version: int) -> None:
    metadata = parse(document(version, location="s3://lake/db/t//"))

    assert metadata.format_version == version
    assert metadata.table_uuid == "9c12d441-03fe-4693-9a96-a0705ddf69c1"
    assert metadata.location == "s3://lake/db/t"
    assert metadata.last_sequence_number == (0 if version == 1 else 3)
    assert metadata.last_updated_ms == BASE_MS + 5000
    assert metadata.last_column_id == 3
    assert (metadata.current_schema_id, metadata.default_spec_id, metadata.default_sort_order_id) == (0, 0, 0)
    assert metadata.last_partition_id == 999
    assert metadata.next_row_id == (100 if version == 3 else 0)
    assert metadata.current_snapshot_id == 13
    assert metadata.properties == {"owner": "ops"}
    assert metadata.refs == {"main": SnapshotRef(13, "branch")}


def test_reads_the_parts() -> None:
    file = {"snapshot-id": 11, "statistics-path": "s3://a", "file-size-in-bytes": 5}
    statistics = file | {"file-footer-size-in-bytes": 3, "blob-metadata": [], "key-metadata": "eA=="}
    metadata = parse(
        document(**{"statistics": [statistics], "partition-statistics": [file]})
        | {"metadata-log": [{"timestamp-ms": 5, "metadata-file": "s3://b"}]}
    )

    assert [item.snapshot_id for item in metadata.snapshots] == [11, 12, 13]
    assert metadata.snapshot(12) is metadata.snapshots[1]
    assert metadata.snapshot(99) is None
    assert json.loads(bytes(metadata.snapshot_bytes(12))) == snapshot(12, 2, 11)
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == [11, 12, 13]
    assert [entry.metadata_file for entry in metadata.metadata_log] == ["s3://b"]
    assert metadata.current_schema.names_by_id == {1: "id", 2: "text", 3: "ts"}
    assert metadata.partition_specs[0].fields == ()
    assert metadata.sort_orders[0].is_unsorted
    assert [item.statistics_path for item in metadata.statistics] == ["s3://a"]
    assert [item.file_size_in_bytes for item in metadata.partition_statistics] == [5]


@pytest.mark.parametrize("sentinel", [-1, None, ...])
def test_all_ways_to_say_no_snapshot(sentinel: object) -> None:
    metadata = parse(empty(**{"current-snapshot-id": sentinel, "refs": ...}))
    assert metadata.current_snapshot_id is None
    assert metadata.refs == {}


def test_snapshot_0_can_be_current() -> None:
    metadata = parse(document(**{"current-snapshot-id": 0, "refs": ..., "snapshots": [snapshot(0, 1)]}))
    assert metadata.current_snapshot_id == 0
    assert metadata.refs["main"].snapshot_id == 0


def test_an_unchanged_document_is_the_bytes_it_was() -> None:
    raw = json.dumps(document(x={"later": 1.10}), indent=2).encode()
    metadata = TableMetadata.parse(raw)

    assert metadata.to_bytes() is raw
    assert metadata.pieces() == (raw,)
    assert metadata.size_bytes == len(raw)


def test_untouched_parts_keep_their_bytes() -> None:
    odd = b'{"snapshot-id" :\t1152921504606846977, "timestamp-ms":5,"manifest-list":"m\\u00e9", "x": 1.10}'
    body = encode(empty(**{"x-later": "@"})).replace(b'"snapshots":[]', b'"snapshots": [ ' + odd + b" ]")
    body = body.replace(b'"@"', b'{"deep" : [ 1e2 ,null]}')

    metadata = commit(TableMetadata.parse(body), *append(5, 1, None)).metadata

    written = metadata.to_bytes()
    assert b'"snapshots":[ ' + odd + b" ,{" in written
    assert b'"x-later":{"deep" : [ 1e2 ,null]}' in written
    assert metadata.size_bytes == len(written)
    assert b"".join(metadata.pieces()) == written
    assert metadata.snapshot_bytes(1152921504606846977) == odd


def test_a_document_written_once_is_the_same_ever_after() -> None:
    metadata = commit(parse(document()), *append(14, 4, 13)).metadata
    before = b"".join(metadata.pieces())

    assert metadata.to_bytes() == before
    assert metadata.to_bytes() is metadata.to_bytes()
    assert json.loads(bytes(metadata.snapshot_bytes(14)))["snapshot-id"] == 14
    later = commit(metadata, *append(15, 5, 14)).metadata
    assert [item["snapshot-id"] for item in read(later)["snapshots"]] == [11, 12, 13, 14, 15]


def test_large_pieces_stay_the_same_objects_and_let_go_of_the_document_before() -> None:
    snapshots = [snapshot(number, number) for number in range(1, 6000)]
    base = parse(document(snapshots=snapshots, **{"current-snapshot-id": 1, "refs": ...}))
    first = commit(base, *append(6000, 6000, 1)).metadata
    second = commit(first, *append(6001, 6001, 6000)).metadata

    large = [piece for piece in second.pieces() if len(piece) >= 64 * 1024]
    shared = [piece for piece in large if any(piece is other for other in first.pieces())]
    assert len(shared) >= len(large) - 1 > 2
    assert all(isinstance(piece, bytes) for piece in second.pieces())
    assert json.loads(b"".join(second.pieces()))["snapshots"][:5999] == snapshots


def test_commits_can_fork_from_one_base() -> None:
    base = parse(document())

    left = commit(base, *append(14, 4, 13)).metadata
    right = commit(base, *append(15, 4, 13)).metadata

    assert [item.snapshot_id for item in base.snapshots] == [11, 12, 13]
    assert [item["snapshot-id"] for item in read(left)["snapshots"]] == [11, 12, 13, 14]
    assert [item["snapshot-id"] for item in read(right)["snapshots"]] == [11, 12, 13, 15]


def test_only_referenced_snapshots() -> None:
    refs = {"main": {"snapshot-id": 13, "type": "branch"}, "v1": {"snapshot-id": 11, "type": "tag"}}
    body = document(refs=refs)
    metadata = parse(body)

    filtered = json.loads(metadata.refs_only_bytes())

    assert filtered == body | {"snapshots": [snapshot(11, 1), snapshot(13, 3, 12)]}
    assert list(filtered) == list(body)
    assert metadata.refs_only_bytes() is metadata.refs_only_bytes()


def test_only_referenced_snapshots_after_commits() -> None:
    metadata = parse(document())
    for number in range(14, 20):
        metadata = commit(metadata, *append(number, number - 10, number - 1)).metadata

    filtered = json.loads(metadata.refs_only_bytes())

    assert [item["snapshot-id"] for item in filtered["snapshots"]] == [19]
    assert filtered["snapshot-log"] == read(metadata)["snapshot-log"]


@pytest.mark.parametrize(
    "body", [empty(), document(snapshots=[snapshot(13, 3)]), empty(snapshots=..., refs=...)]
)
def test_nothing_to_filter(body: dict) -> None:
    metadata = parse(body)
    assert metadata.refs_only_bytes() == metadata.to_bytes()


def old_v1(**changes: object) -> dict:
    """What early writers of version 1 left behind."""
    dropped = (
        "table-uuid",
        "current-schema-id",
        "schemas",
        "default-spec-id",
        "partition-specs",
        "last-partition-id",
        "default-sort-order-id",
        "sort-orders",
        "refs",
        "statistics",
        "partition-statistics",
        "properties",
    )
    field = {"name": "ts_day", "transform": "day", "source-id": 3}
    body = document(1, **dict.fromkeys(dropped, ...))
    body["schema"] = {"type": "struct", "fields": [ID, TEXT, TS]}
    body["partition-spec"] = [field]
    body["snapshots"][0]["manifests"] = ["s3://lake/m1.avro", "s3://lake/m2.avro"]
    del body["snapshots"][0]["manifest-list"]
    return body | changes


def test_old_v1_documents_are_readable() -> None:
    metadata = parse(old_v1())
    check_integrity(metadata)

    assert metadata.refs == {"main": SnapshotRef(13, "branch")}
    assert metadata.current_schema.schema_id == 0
    assert metadata.partition_specs[0].fields[0].field_id == 1000
    assert metadata.last_partition_id == 1000
    assert metadata.sort_orders[0].is_unsorted
    assert metadata.properties == {}
    assert metadata.snapshots[0].manifests == ("s3://lake/m1.avro", "s3://lake/m2.avro")
    assert uuid.UUID(metadata.table_uuid) == uuid.UUID(parse(old_v1()).table_uuid)
    assert metadata.table_uuid != parse(old_v1(location="s3://lake/db/u")).table_uuid


def test_old_v1_documents_get_lists_with_the_first_commit() -> None:
    base = parse(old_v1())
    written = read(commit(base, {"action": "set-properties", "updates": {"a": "b"}}).metadata)

    assert written["table-uuid"] == base.table_uuid
    assert written["schema"] == old_v1()["schema"]
    assert written["schemas"] == [schema(ID, TEXT, TS)]
    assert written["partition-spec"] == old_v1()["partition-spec"]
    assert written["partition-specs"] == [spec(partition_field(1000, 3, "ts_day", "day"))]
    assert written["last-partition-id"] == 1000
    assert written["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert written["refs"] == {"main": {"snapshot-id": 13, "type": "branch"}}
    assert "last-sequence-number" not in written
    check_integrity(TableMetadata.parse(encode(written)))


def test_v1_keeps_writing_the_current_schema_and_the_default_spec() -> None:
    updates = [
        {"action": "add-schema", "schema": schema(ID, TEXT, TS, {**TS, "id": 4, "name": "more"})},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": spec(partition_field(1000, 1, "id"))},
        {"action": "set-default-spec", "spec-id": -1},
    ]
    written = read(commit(parse(document(1)), *updates).metadata)

    assert written["schema"] == written["schemas"][1]
    assert written["partition-spec"] == [partition_field(1000, 1, "id")]


def test_v1_upgrades_to_v2_and_v3() -> None:
    v2 = commit(parse(old_v1()), {"action": "upgrade-format-version", "format-version": 2}).metadata
    written = read(v2)

    assert written["last-sequence-number"] == 0
    assert not {"schema", "partition-spec", "next-row-id"} & written.keys()
    check_integrity(TableMetadata.parse(v2.to_bytes()))

    v3 = read(commit(v2, {"action": "upgrade-format-version", "format-version": 3}).metadata)
    assert v3["next-row-id"] == 0
    assert v3["format-version"] == 3


@pytest.mark.parametrize(("version", "written"), [(1, -1), (2, -1), (3, None)])
def test_how_no_snapshot_is_written(version: int, written: int | None) -> None:
    body = document(version)
    result = read(commit(parse(body), {"action": "remove-snapshot-ref", "ref-name": "main"}).metadata)
    assert result["current-snapshot-id"] == written
    assert "current-snapshot-id" in result


def test_an_empty_v2_table_that_becomes_v3_says_null() -> None:
    result = read(commit(parse(empty()), {"action": "upgrade-format-version", "format-version": 3}).metadata)
    assert result["current-snapshot-id"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format-version": 4}, "unsupported version 4"),
        ({"format-version": 0}, "unsupported version 0"),
        ({"format-version": "2"}, "format-version"),
        ({"format-version": ...}, "format-version"),
        ({"table-uuid": ...}, "table-uuid must exist in format v2"),
        ({"table-uuid": None}, "table-uuid must exist in format v2"),
        ({"location": ...}, "location"),
        ({"location": ""}, "location is required"),
        ({"last-sequence-number": ...}, "last-sequence-number must exist in format v2"),
        ({"last-sequence-number": 2**63}, "last-sequence-number"),
        ({"last-sequence-number": 1.0}, "last-sequence-number"),
        ({"last-updated-ms": ...}, "last-updated-ms"),
        ({"last-column-id": "3"}, "last-column-id"),
        ({"schemas": ...}, "schemas must exist in format v2"),
        ({"schemas": {}}, "schemas is not an array"),
        ({"partition-specs": ...}, "partition-specs must exist in format v2"),
        ({"default-spec-id": ...}, "default-spec-id must exist in format v2"),
        ({"last-partition-id": ...}, "last-partition-id must exist in format v2"),
        ({"sort-orders": ...}, "sort-orders must exist in format v2"),
        ({"default-sort-order-id": ...}, "default-sort-order-id must exist in format v2"),
        ({"properties": {"a": 1}}, "properties"),
        ({"properties": []}, "properties"),
        ({"refs": {"main": {"type": "branch"}}}, "refs"),
        ({"snapshots": "none"}, "snapshots is not an array"),
        ({"current-snapshot-id": "13"}, "current-snapshot-id"),
    ],
)
def test_refuses_broken_documents(changes: dict, message: str) -> None:
    body = {name: value for name, value in (document() | changes).items() if value is not ...}
    with pytest.raises(InvalidMetadataError, match=message):
        parse(body)


def test_v3_needs_the_next_row_id() -> None:
    with pytest.raises(InvalidMetadataError, match="next-row-id must exist in format v3"):
        parse(document(3, **{"next-row-id": ...}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"last-sequence-number": 4}, "Sequence number must be 0 in v1"),
        ({"schemas": ..., "schema": ...}, "schema must exist in format v1"),
        ({"partition-specs": ..., "partition-spec": ...}, "partition-spec must exist in format v1"),
        ({"current-schema-id": ...}, "current-schema-id must exist in format v1"),
        ({"default-sort-order-id": ...}, "default-sort-order-id must exist in format v1"),
        ({"schemas": ..., "schema": 5}, "cannot parse schema"),
    ],
)
def test_refuses_broken_v1_documents(changes: dict, message: str) -> None:
    body = {name: value for name, value in (document(1) | changes).items() if value is not ...}
    with pytest.raises(InvalidMetadataError, match=message):
        parse(body)


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"null", b"{", b'{"format-version":2', b'{"a":"\xff"}', b'{"a":' + b"[" * 90000]
)
def test_refuses_what_is_no_json_object(raw: bytes) -> None:
    with pytest.raises(InvalidMetadataError):
        TableMetadata.parse(raw)


def test_messages_never_quote_the_document() -> None:
    for changes in (
        {"properties": {"password": ["hunter2"]}},
        {"location": ["hunter2"]},
        {"refs": "hunter2"},
    ):
        with pytest.raises(InvalidMetadataError) as caught:
            parse(document() | changes)
        assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"current-schema-id": 1}, "Cannot find current-schema-id=1 in schemas"),
        ({"default-spec-id": 1}, "Cannot find default-spec-id=1 in partition-specs"),
        ({"default-sort-order-id": 1}, "Cannot find default-sort-order-id=1 in sort-orders"),
        ({"schemas": [schema(ID), schema(ID)]}, "more than once in schemas"),
        ({"schemas": [5]}, "schema"),
        ({"partition-specs": [{"spec-id": 0, "fields": [{}]}]}, "partition spec"),
        ({"sort-orders": [order(sort_field(1) | {"direction": "x"}, order_id=0)]}, "direction"),
        ({"snapshots": [snapshot(13, 4)]}, "last-sequence-number is 3, and 4 is in use already"),
        ({"snapshots": [snapshot(13, 3), snapshot(13, 2)]}, "more than once"),
        ({"snapshots": [snapshot(12, 3)]}, "Cannot find current version"),
        ({"refs": {"v1": {"snapshot-id": 9, "type": "tag"}}}, "Snapshot for reference v1 does not exist"),
        (
            {"refs": {"main": {"snapshot-id": 12, "type": "branch"}}},
            r"Current snapshot ID does not match main branch \(13 != 12\)",
        ),
        ({"current-snapshot-id": -1}, "Current snapshot is not set, but main branch exists"),
        ({"snapshot-log": [{}]}, "snapshot-log"),
        ({"metadata-log": [{"timestamp-ms": 1}]}, "metadata-log"),
        ({"statistics": [{"snapshot-id": 11}]}, "statistics"),
        ({"partition-statistics": [{"snapshot-id": 11}]}, "partition-statistics"),
        ({"encryption-keys": [{"key-id": "a"}]}, "encryption-keys"),
    ],
)
def test_the_whole_check_finds_parts_that_do_not_agree(changes: dict, message: str) -> None:
    metadata = parse(document() | changes)
    with pytest.raises(InvalidMetadataError, match=message):
        check_integrity(metadata)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_whole_check_passes_good_documents(version: int) -> None:
    check_integrity(parse(document(version)))
    check_integrity(parse(empty(version)))


def test_a_missing_current_schema_is_told() -> None:
    with pytest.raises(InvalidMetadataError, match="current-schema-id=5"):
        _ = parse(document(**{"current-schema-id": 5})).current_schema
