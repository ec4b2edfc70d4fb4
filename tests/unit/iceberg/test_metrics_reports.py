from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from floecat.errors import BadRequestError
from floecat.iceberg.metrics_reports import (
    CommitReport,
    CounterResult,
    ScanReport,
    TimerResult,
    parse_report,
)

SCAN: dict[str, Any] = {
    "report-type": "scan-report",
    "table-name": "prod.db.events",
    "snapshot-id": 23,
    "filter": {"type": "gt", "term": "x", "value": 3},
    "schema-id": 4,
    "projected-field-ids": [1, 2],
    "projected-field-names": ["a", "b"],
    "metrics": {
        "total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 2_644_235_116},
        "result-data-files": {"unit": "count", "value": 1},
    },
    "metadata": {"engine-name": "spark"},
}
COMMIT: dict[str, Any] = {
    "report-type": "commit-report",
    "table-name": "prod.db.events",
    "snapshot-id": 23,
    "sequence-number": 4,
    "operation": "append",
    "metrics": {"attempts": {"unit": "count", "value": 2}},
}


def parse(body: dict[str, Any]) -> ScanReport | CommitReport:
    return parse_report(json.dumps(body).encode())


def test_a_scan_report() -> None:
    report = parse(SCAN)
    assert isinstance(report, ScanReport)
    assert (report.table_name, report.snapshot_id, report.schema_id) == ("prod.db.events", 23, 4)
    assert report.measurements() == {
        "total-planning-duration": TimerResult("nanoseconds", 1, 2_644_235_116),
        "result-data-files": CounterResult("count", 1),
    }


def test_a_commit_report() -> None:
    report = parse(COMMIT)
    assert isinstance(report, CommitReport)
    assert (report.operation, report.sequence_number) == ("append", 4)
    assert report.measurements() == {"attempts": CounterResult("count", 2)}


@pytest.mark.parametrize(
    "change",
    [
        {"snapshot-id": -1},
        {"filter": True},
        {"metrics": {}},
        {"metrics": {"invented-by-an-engine": {"unit": "bytes", "value": 9}}},
        {"metadata": None},
        {"x-new-field": {"a": [1]}},
    ],
)
def test_accepts(change: dict[str, Any]) -> None:
    assert isinstance(parse(SCAN | change), ScanReport)


@pytest.mark.parametrize("body", [SCAN, COMMIT])
def test_names_the_missing_field(body: dict[str, Any]) -> None:
    for field in set(body) - {"metadata"}:
        with pytest.raises(BadRequestError, match=f"`{field}`"):
            parse({name: value for name, value in body.items() if name != field})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("table-name", 3),
        ("snapshot-id", "23"),
        ("snapshot-id", 2**70),
        ("filter", "x > 3"),
        ("projected-field-ids", ["a"]),
        ("projected-field-names", "a"),
        ("metrics", []),
        ("metadata", {"a": 1}),
    ],
)
def test_names_the_field_of_the_wrong_type(field: str, value: object) -> None:
    with pytest.raises(BadRequestError, match=field):
        parse(SCAN | {field: value})


@pytest.mark.parametrize(
    "metric",
    [
        3,
        None,
        {"unit": "count"},
        {"unit": "count", "value": "1"},
        {"time-unit": "seconds", "count": 1},
        {"time-unit": "seconds", "count": 1, "total-duration": 1.5},
    ],
)
def test_names_the_metric(metric: object) -> None:
    body = copy.deepcopy(COMMIT) | {"metrics": {"total-duration": metric}}
    with pytest.raises(BadRequestError, match="'total-duration'"):
        parse(body)


def test_refuses_a_key_that_comes_twice() -> None:
    body = json.dumps(SCAN).encode()
    with pytest.raises(BadRequestError, match="a key more than once"):
        parse_report(body[:-1] + b',"metadata":{"a":"b","a":"c"}}')


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"report-type":"row-report"}', b"{}"])
def test_refuses_what_is_no_report(body: bytes) -> None:
    with pytest.raises(BadRequestError, match="Malformed metrics report"):
        parse_report(body)
