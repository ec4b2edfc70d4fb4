"""Jobs as the store has them."""

from __future__ import annotations

from itertools import product

from floecat.entries.calls import Call
from floecat.runtime import Kernel
from floecat.store.jobs import jobs
from floecat.store.jobs.jobs import FINISHED_STATES, OPEN_STATES, JobFilter, JobRow

__all__ = ["job_rows"]


def job_rows(kernel: Kernel, call: Call, *kinds: str) -> list[JobRow]:
    """The jobs of a catalog, of some kinds or all, oldest first."""
    wanted = list(product(kinds or kernel.jobs.kinds, (*OPEN_STATES, *FINISHED_STATES)))
    with kernel.store.read() as conn:
        return jobs.list_all(conn, JobFilter(call.catalog.id, wanted))
