"""Snapshots of other writers become what every reader reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from floecat.errors import IllegalArgumentError
from floecat.iceberg.normalization.foreign_snapshots import normalize_snapshots
from tests.unit.iceberg.table_documents import encode, snapshot

FIRST, SECOND = snapshot(11, 1), snapshot(12, 2, 11)


def _second(**changes: Any) -> dict[str, Any]:
    made = SECOND | {name.replace("_", "-"): value for name, value in changes.items()}
    return {name: value for name, value in made.items() if value is not ...}


def _normalized(*snapshots: dict) -> list[dict[str, Any]]:
    return json.loads(bytes(normalize_snapshots(encode(list(snapshots)), {0, 1}, 1)))


def test_readable_ones_stay_the_same_object() -> None:
    rows = _second(first_row_id=0, added_rows=1, key_id="k", schema_id=1)
    for data in (encode([FIRST, rows]), json.dumps([FIRST, rows], indent=1).encode(), b"[]"):
        assert normalize_snapshots(data, {0, 1}, 1) is data


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"parent_snapshot_id": None}, {"parent-snapshot-id": ...}),
        ({"parent_snapshot_id": -1}, {"parent-snapshot-id": ...}),
        ({"key_id": None, "first_row_id": None, "added_rows": None}, {"key-id": ..., "first-row-id": ...}),
        ({"schema_id": ...}, {"schema-id": 1}),
        ({"schema_id": None}, {"schema-id": 1}),
        ({"schema_id": 7}, {"schema-id": 1}),
        ({"snapshot_id": "12", "timestamp_ms": "5", "sequence_number": 2.0}, {"snapshot-id": 12}),
        ({"summary": ...}, {"summary": {"operation": "overwrite"}}),
        ({"summary": None}, {"summary": {"operation": "overwrite"}}),
        ({"summary": {}}, {"summary": {"operation": "overwrite"}}),
        ({"summary": {"operation": "APPEND"}}, {"summary": {"operation": "append"}}),
        (
            {"summary": {"operation": "update", "a": 1}},
            {"summary": {"operation": "overwrite", "a": "1", "original-operation": "update"}},
        ),
        (
            {"summary": {"operation": None, "a": True, "b": None}},
            {"summary": {"operation": "overwrite", "a": "true"}},
        ),
        ({"later": {"a": [None, 1.50]}, "schema_id": ...}, {"later": {"a": [None, 1.50]}}),
    ],
)
def test_what_is_answered(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    first, made = _normalized(FIRST, _second(**changes))
    assert first == FIRST
    assert {name: made.get(name, ...) for name in expected} == expected


@pytest.mark.parametrize(
    ("summary", "operation"),
    [
        ({"added-data-files": "2", "deleted-data-files": "0"}, "append"),
        ({"added-data-files": "2"}, "overwrite"),
        ({"added-data-files": "2", "deleted-data-files": "0", "added-delete-files": "1"}, "overwrite"),
        ({"added-data-files": "2", "deleted-data-files": "1"}, "overwrite"),
        ({"added-data-files": "0", "deleted-data-files": "1"}, "delete"),
        ({"added-data-files": "0", "deleted-data-files": "0", "added-delete-files": "1"}, "delete"),
        ({"added-data-files": "0", "deleted-data-files": "0"}, "overwrite"),
        ({"deleted-data-files": "1"}, "overwrite"),
        ({"added-data-files": "x", "deleted-data-files": "0"}, "overwrite"),
    ],
)
def test_operation_is_what_the_counts_prove(summary: dict[str, str], operation: str) -> None:
    _, made = _normalized(FIRST, _second(summary=summary))
    assert made["summary"] == {"operation": operation} | summary


def test_first_snapshot_without_counts_is_an_append() -> None:
    bare = {name: value for name, value in FIRST.items() if name != "summary"}
    later = _second(summary=..., parent_snapshot_id=...)
    assert [each["summary"]["operation"] for each in _normalized(later, bare)] == ["overwrite", "append"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"manifest_list": ...}, "snapshot 12 names no manifests"),
        ({"manifest_list": ..., "manifests": ["s3://m"]}, "snapshot 12 names its manifests itself"),
        ({"first_row_id": 1}, "snapshot 12 has row ids that cannot be"),
        ({"first_row_id": -1, "added_rows": 1}, "snapshot 12 has row ids that cannot be"),
        ({"added_rows": -1}, "snapshot 12 has row ids that cannot be"),
        ({"timestamp_ms": ...}, "timestamp-ms"),
        ({"summary": []}, "summary"),
    ],
)
def test_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(IllegalArgumentError, match=words):
        _normalized(FIRST, _second(**changes))


def test_key_that_comes_twice_is_refused() -> None:
    data = encode([FIRST, SECOND]).replace(b'"schema-id":0', b'"schema-id":0,"schema-id":1')
    with pytest.raises(IllegalArgumentError, match="a key more than once"):
        normalize_snapshots(data, {0, 1}, 1)


@pytest.mark.parametrize("again", [b',"manifest-list":"s3://y"', b',"manifest-list"\n:"s3://y"'])
@pytest.mark.parametrize("changes", [{}, {"schema_id": ...}])
def test_a_key_that_comes_twice_is_refused(changes: dict[str, Any], again: bytes) -> None:
    data = encode([_second(**changes)])
    with pytest.raises(IllegalArgumentError, match="a key more than once"):
        normalize_snapshots(data[:-2] + again + data[-2:], {0, 1}, 1)
