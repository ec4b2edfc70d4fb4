"""Runs that Dagster knows of."""

from __future__ import annotations

from typing import Final

import dagster as dg

__all__ = ["UNFINISHED"]

UNFINISHED: Final = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
"""States of runs that will do something yet."""
