"""Runs that sensors and schedules start."""

from __future__ import annotations

from typing import Final

import dagster as dg

__all__ = ["SPARK_TAG", "UNFINISHED", "run_unless_under_way"]

SPARK_TAG: Final = "floecat/spark"
"""Tag of runs that open Spark; `dagster.yaml` limits how many there are at once."""

UNFINISHED: Final = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
"""States of runs that have not ended."""


def run_unless_under_way(
    context: dg.ScheduleEvaluationContext, job_name: str
) -> dg.RunRequest | dg.SkipReason:
    """A run of the job of a schedule, or why there is none: one run at a time is enough."""
    if context.instance.get_runs(dg.RunsFilter(job_name=job_name, statuses=UNFINISHED), limit=1):
        return dg.SkipReason(f"A run of {job_name} is under way")
    return dg.RunRequest()
