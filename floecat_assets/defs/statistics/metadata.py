"""Metadata of a captured table in the UI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

import dagster as dg

if TYPE_CHECKING:
    from floecat.statistics.capture.reading.page_indexes import BuiltIndexes
    from floecat.statistics.capture.reports import ColumnReport, TableReport

__all__ = ["index_metadata", "own_numbers", "report_metadata", "size_histogram"]

_SHOWN_COLUMNS: Final = 100
_SHOWN_PROBLEMS: Final = 20
_LONGEST_BOUND: Final = 60
_BAR: Final = 30
_COLUMNS: Final = (
    ("column", "string"),
    ("type", "string"),
    ("distinct", "float"),
    ("nulls", "int"),
    ("nans", "int"),
    ("min", "string"),
    ("max", "string"),
    ("average width", "int"),
)


def report_metadata(name: str, entry_id: UUID, report: TableReport) -> dict[str, dg.MetadataValue]:
    """Metadata of a partition.

    All is text or tables: Dagster would plot numbers as one line over unrelated tables.
    """
    found: dict[str, dg.MetadataValue] = {
        "floecat/table_name": dg.MetadataValue.text(name),
        "floecat/table_id": dg.MetadataValue.text(str(entry_id)),
        "floecat/snapshot_id": dg.MetadataValue.text(str(report.snapshot_id)),
        "statistics/rows": dg.MetadataValue.text(f"{report.rows:,}"),
        "statistics/files": dg.MetadataValue.text(f"{report.captured:,} of {report.files:,}"),
        "statistics/size": dg.MetadataValue.text(_size(report.size_bytes)),
        "statistics/captured_at": dg.MetadataValue.timestamp(report.finalized_at_ms / 1000),
        "statistics/columns": dg.MetadataValue.table(
            records=[dg.TableRecord(_values(column)) for column in report.columns[:_SHOWN_COLUMNS]],
            schema=dg.TableSchema([dg.TableColumn(column, type) for column, type in _COLUMNS]),
        ),
    }
    if report.file_sizes is not None:
        found["statistics/file_sizes"] = dg.MetadataValue.md(size_histogram(report.file_sizes))
    if report.statistics_file is not None:
        found["statistics/statistics_file"] = dg.MetadataValue.path(report.statistics_file)
    if report.problem is not None:
        found["statistics/problem"] = dg.MetadataValue.text(report.problem)
    return found


def own_numbers(entry_id: UUID, report: TableReport) -> dict[str, dg.MetadataValue]:
    """Numbers of one table, plotted over time on its own asset."""
    found: dict[str, dg.MetadataValue] = {
        "floecat/table_id": dg.MetadataValue.text(str(entry_id)),
        "statistics/snapshot_id": dg.MetadataValue.text(str(report.snapshot_id)),
        "statistics/rows": dg.MetadataValue.int(report.rows),
        "statistics/size_bytes": dg.MetadataValue.int(report.size_bytes),
        "statistics/files": dg.MetadataValue.int(report.captured),
    }
    for column in report.columns[:_SHOWN_COLUMNS]:
        if column.distinct is not None:
            found[f"distinct/{column.name}"] = dg.MetadataValue.float(float(round(column.distinct, 1)))
    return found


def index_metadata(entry_id: UUID, built: BuiltIndexes) -> dict[str, dg.MetadataValue]:
    """Metadata of a build of page-index sidecars."""
    problems = [
        dg.TableRecord({"file": problem.location, "reason": problem.reason})
        for problem in built.problems[:_SHOWN_PROBLEMS]
    ]
    return {
        "floecat/table_id": dg.MetadataValue.text(str(entry_id)),
        "floecat/snapshot_id": dg.MetadataValue.text(str(built.snapshot_id)),
        "statistics/built": dg.MetadataValue.text(f"{built.built:,}"),
        "statistics/kept": dg.MetadataValue.text(f"{built.kept:,}"),
        "statistics/size": dg.MetadataValue.text(_size(built.size_bytes)),
        "statistics/problems": dg.MetadataValue.table(
            records=problems, schema=dg.TableSchema([dg.TableColumn("file"), dg.TableColumn("reason")])
        ),
    }


def size_histogram(sizes: Sequence[int]) -> str:
    """Sizes of files as a table in Markdown: a line for each power of four, with its number of files."""
    if not sizes:
        return "No data files"
    steps = [max(size, 1).bit_length() // 2 for size in sizes]
    counts = {step: steps.count(step) for step in range(min(steps), max(steps) + 1)}
    most = max(counts.values())
    lines = [
        f"| < {_size(1 << (2 * step + 1))} | {count} | {'█' * round(_BAR * count / most)} |"
        for step, count in counts.items()
    ]
    return "\n".join(["| size | files | |", "|---|---|---|", *lines])


def _values(column: ColumnReport) -> dict[str, str | int | float]:
    values = (
        column.name,
        column.type,
        column.distinct,
        column.nulls,
        column.nans,
        _bound(column.min),
        _bound(column.max),
        column.avg_width_bytes,
    )
    names = (name for name, _ in _COLUMNS)
    return {name: "" if value is None else value for name, value in zip(names, values, strict=True)}


def _bound(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST_BOUND else f"{text[:_LONGEST_BOUND]}…"


def _size(size_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:,.0f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:,.1f} TiB"
