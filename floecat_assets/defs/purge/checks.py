"""Checks of purges."""

from __future__ import annotations

from floecat.purge.purge_jobs import PURGE
from floecat_assets.defs.failed_jobs import FailedJobs
from floecat_assets.defs.purge.assets import OUTCOMES

__all__ = ["DEAD_LETTERS", "no_dead_letters"]

DEAD_LETTERS = FailedJobs(OUTCOMES, "no_dead_letters", "purges", (PURGE,))
no_dead_letters = DEAD_LETTERS.check()
