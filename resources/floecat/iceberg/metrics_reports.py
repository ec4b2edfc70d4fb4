"""Metrics reports of clients (Iceberg REST specification, `ReportMetricsRequest`).

A report is checked for its required fields and stored as received, unknown metrics included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from floecat.errors import BadRequestError, IllegalArgumentError
from floecat.iceberg.values.encoded_json import Int32, Int64
from floecat.iceberg.values.json_checks import check_json

__all__ = [
    "CommitReport",
    "CounterResult",
    "MetricResult",
    "MetricsReport",
    "ScanReport",
    "TimerResult",
    "parse_report",
]


class CounterResult(msgspec.Struct, frozen=True, rename="kebab"):
    """A counter."""

    unit: str
    value: Int64


class TimerResult(msgspec.Struct, frozen=True, rename="kebab"):
    """Total duration over all runs."""

    time_unit: str
    count: Int64
    total_duration: Int64
    """Duration in `time_unit`."""


MetricResult: TypeAlias = CounterResult | TimerResult
"""A measurement."""


class _Report(msgspec.Struct, frozen=True, tag_field="report-type", rename="kebab"):
    pass


class ScanReport(_Report, frozen=True, tag="scan-report"):
    """Metrics of planning a scan."""

    table_name: str
    snapshot_id: Int64
    """-1 if the table has no snapshot."""
    filter: bool | dict[str, object]
    """An expression of the REST specification."""
    schema_id: Int32
    projected_field_ids: list[Int32]
    projected_field_names: list[str]
    metrics: dict[str, msgspec.Raw]
    metadata: dict[str, str] | None = None

    def measurements(self) -> Mapping[str, MetricResult]:
        """The metrics, decoded."""
        return _measurements(self.metrics)


class CommitReport(_Report, frozen=True, tag="commit-report"):
    """Metrics of a commit."""

    table_name: str
    snapshot_id: Int64
    sequence_number: Int64
    operation: str
    metrics: dict[str, msgspec.Raw]
    metadata: dict[str, str] | None = None

    def measurements(self) -> Mapping[str, MetricResult]:
        """The metrics, decoded."""
        return _measurements(self.metrics)


MetricsReport: TypeAlias = ScanReport | CommitReport
"""A report, distinguished by `report-type`."""

_DECODER: msgspec.json.Decoder[MetricsReport] = msgspec.json.Decoder(MetricsReport)


def parse_report(body: bytes) -> MetricsReport:
    """Reads and checks the body of a report.

    Args:
        body: JSON object of a `ReportMetricsRequest`.

    Raises:
        BadRequestError: it is malformed; the message names the field that is missing or of the wrong type. Or
            an object has a key twice, or it is nested too deeply.
    """
    try:
        report = _DECODER.decode(body)
        report.measurements()
        check_json(body)
    except IllegalArgumentError as error:
        raise BadRequestError(f"Malformed metrics report: {error.message}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"Malformed metrics report: {error}") from None
    return report


def _measurements(encoded: Mapping[str, msgspec.Raw]) -> Mapping[str, MetricResult]:
    return {name: _measurement(name, raw) for name, raw in encoded.items()}


def _measurement(name: str, raw: msgspec.Raw) -> MetricResult:
    try:
        is_timer = "time-unit" in msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        kind: type[MetricResult] = TimerResult if is_timer else CounterResult
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - in `metrics`, {name[:100]!r}") from None
