from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.errors import IllegalArgumentError, InvalidMetadataError
from floecat.iceberg.metadata.snapshots import SnapshotIndex, read_new_snapshot
from floecat.iceberg.values.encoded_json import fragment_bytes
from tests.unit.iceberg.table_documents import encode, snapshot

SPACED = (
    b'[ {"snapshot-id": 1, "timestamp-ms": 5, "note": "a,{]"} ,\n'
    b'{"snapshot-id":2,"timestamp-ms":6},{"snapshot-id":3,"timestamp-ms":7}\t]'
)


def test_reads_what_it_needs() -> None:
    found = read_new_snapshot(encode(snapshot(5, 7, 4, **{"first-row-id": 10, "added-rows": 3}))).summary

    assert (found.snapshot_id, found.parent_snapshot_id, found.sequence_number) == (5, 4, 7)
    assert (found.operation, found.schema_id) == ("append", 0)
    assert found.manifest_list == "s3://lake/db/t/metadata/snap-5.avro"
    assert (found.first_row_id, found.added_rows) == (10, 3)


def test_keeps_the_bytes_of_a_new_snapshot() -> None:
    raw = b'{ "snapshot-id":9223372036854775807, "timestamp-ms":1,"manifest-list":"m","x":1.10,"key-id":"k" }'
    found = read_new_snapshot(raw)
    assert found.raw == raw
    assert found.summary.snapshot_id == 2**63 - 1
    assert found.summary.operation is None


def test_drops_nulls_of_optional_parts_only() -> None:
    raw = (
        b'{"snapshot-id":1,"parent-snapshot-id":null,"timestamp-ms":1,"manifest-list":"m",'
        b'"schema-id":null,"x":null}'
    )
    assert read_new_snapshot(raw).raw == b'{"snapshot-id":1,"timestamp-ms":1,"manifest-list":"m","x":null}'


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"snapshot-id": -1}, "stands for no snapshot"),
        ({"snapshot-id": 2**63}, "Invalid snapshot"),
        ({"snapshot-id": "1"}, "Invalid snapshot"),
        ({"snapshot-id": 1.0}, "Invalid snapshot"),
        ({"timestamp-ms": None}, "Invalid snapshot"),
        ({"manifest-list": None}, "manifest-list of snapshot 5"),
        ({"summary": {"operation": "append", "added-records": 7}}, "Invalid snapshot summary"),
        ({"first-row-id": 1}, "added-rows .required"),
        ({"first-row-id": -1, "added-rows": 1}, "first-row-id .cannot be negative"),
        ({"added-rows": -1}, "added-rows .cannot be negative"),
    ],
)
def test_refuses_broken_snapshots(changes: dict, message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        read_new_snapshot(encode(snapshot(5, 7) | changes))


def test_the_index_knows_where_snapshots_stand() -> None:
    index = SnapshotIndex.of(SPACED)

    assert [summary.snapshot_id for summary in index.summaries] == [1, 2, 3]
    assert index.slice(SPACED, 1) == b'{"snapshot-id": 1, "timestamp-ms": 5, "note": "a,{]"}'
    assert [bytes(piece) for piece in index.select(SPACED, {3, 2, 99})] == [
        b'{"snapshot-id":2,"timestamp-ms":6}',
        b'{"snapshot-id":3,"timestamp-ms":7}',
    ]
    assert 3 in index
    assert index.get(9) is None
    assert len(index) == 3


@pytest.mark.parametrize(
    "raw",
    [
        b'[{"snapshot-id":1,"timestamp-ms":1},{"snapshot-id":1,"timestamp-ms":2}]',
        b'[{"snapshot-id":1}]',
        b"[1]",
        b"[null]",
    ],
)
def test_refuses_arrays_of_other_things(raw: bytes) -> None:
    with pytest.raises(InvalidMetadataError):
        SnapshotIndex.of(raw)


@st.composite
def edits(draw: st.DrawFn) -> tuple[bytes, list[tuple[set[int], list[int]]]]:
    """An array with odd spacing, and rounds of ids to remove and to add."""
    space = st.sampled_from(["", " ", "\n  "])
    ids = draw(st.lists(st.integers(0, 30), unique=True, max_size=8))
    elements = [f'{draw(space)}{{"snapshot-id":{i},"timestamp-ms":{i}}}{draw(space)}' for i in ids]
    array = f"[{','.join(elements) or draw(space)}]".encode()
    fresh = iter(range(100, 200))
    rounds = []
    for size in draw(st.lists(st.integers(0, 3), max_size=4)):
        removed = draw(st.sets(st.integers(0, 110), max_size=6))
        rounds.append((removed, [next(fresh) for _ in range(size)]))
    return array, rounds


@given(edits())
def test_derived_indexes_equal_rebuilt_ones(case: tuple[bytes, list[tuple[set[int], list[int]]]]) -> None:
    raw, rounds = case
    array, index = (raw,), SnapshotIndex.of(raw)
    for removed, added in rounds:
        expected = [s.snapshot_id for s in index.summaries if s.snapshot_id not in removed] + added
        index, array = index.without(array, removed)
        new = [read_new_snapshot(encode(snapshot(i, i))) for i in added]
        index, array = index.appended(array, new)

        whole = fragment_bytes(array)
        rebuilt = SnapshotIndex.of(whole)
        assert [s.snapshot_id for s in index.summaries] == expected
        assert index.summaries == rebuilt.summaries
        for snapshot_id in expected:
            assert index.slice(whole, snapshot_id) == rebuilt.slice(whole, snapshot_id)
        assert [item["snapshot-id"] for item in json.loads(bytes(whole))] == expected
