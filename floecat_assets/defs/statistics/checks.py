"""Checks of statistics."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import dagster as dg

from floecat.statistics.capture.requests import CAPTURE, GROUP, PUBLICATION
from floecat_assets.defs.asset_keys import TARGETS
from floecat_assets.defs.failed_jobs import FailedJobs
from floecat_assets.defs.partitions import CAPTURED_TABLES

if TYPE_CHECKING:
    from floecat.statistics.capture.reports import TableReport

__all__ = [
    "FAILED_CAPTURES",
    "TARGETS",
    "check_results",
    "check_specs",
    "no_failed_captures",
]

FAILED_CAPTURES: Final = FailedJobs(TARGETS, "no_failed_captures", "captures", (CAPTURE, GROUP, PUBLICATION))
no_failed_captures = FAILED_CAPTURES.check()

_CHECKS: Final[Mapping[str, str]] = {
    "manifests_match_summary": "Data files and rows of the manifests are those of the snapshot's summary.",
    "every_file_captured": "The statistics cover every live data file of the snapshot.",
}


def check_specs() -> Sequence[dg.AssetCheckSpec]:
    """The checks that come with the asset; each table has its own state."""
    with warnings.catch_warnings():
        # a check without partitions would only show the table that came last
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return [
            dg.AssetCheckSpec(name, asset=TARGETS, description=description, partitions_def=CAPTURED_TABLES)
            for name, description in _CHECKS.items()
        ]


def check_results(report: "TableReport | None") -> Iterator[dg.AssetCheckResult]:
    """A result for each of `check_specs`."""
    if report is None or report.file_sizes is None:
        for name in _CHECKS:
            yield dg.AssetCheckResult(check_name=name, passed=True, description="Nothing is captured")
        return
    files, rows = len(report.file_sizes), report.manifest_rows
    # a summary need not have counters
    matches = report.summary_files in (None, files) and report.summary_rows in (None, rows)
    yield dg.AssetCheckResult(
        check_name="manifests_match_summary",
        passed=matches,
        description=(
            f"{files} data files with {rows} rows in the manifests,"
            f" {_known(report.summary_files)} with {_known(report.summary_rows)} in the summary"
        ),
    )
    missing = max(files, report.files) - report.captured
    yield dg.AssetCheckResult(
        check_name="every_file_captured",
        passed=missing == 0,
        description=report.problem or f"{report.captured} of {files} data files are captured",
        metadata={"statistics/missing_files": dg.MetadataValue.text(str(missing))},
    )


def _known(number: int | None) -> str:
    return "an unknown number" if number is None else str(number)
