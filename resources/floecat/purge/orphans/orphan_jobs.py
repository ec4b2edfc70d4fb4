"""The jobs of runs that delete orphan files: operators see and stop them, and commits wait for their batches.

No worker takes such a job up. One whose process died is given up with the next run, and stays as failed until
an operator cancels it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from floecat.clock import Clock
from floecat.entries.calls import Call
from floecat.errors import ConflictError, FloecatError, UnavailableError, UnsupportedOperationError
from floecat.identifiers.namespace import TableIdentifier
from floecat.identifiers.written_names import written
from floecat.jobs.kinds import Backoff, JobKind
from floecat.jobs.queue import JobQueue
from floecat.jobs.running_job import JobCancelledError, RunningJob
from floecat.store.database.engine import Store
from floecat.store.jobs import job_claims, jobs
from floecat.store.jobs.leases import LeaseLostError

__all__ = ["OrphanJobs"]


class _NoPayload(msgspec.Struct):
    """A run is not taken up by another process."""


class OrphanJobs:
    """Makes and ends the jobs.

    Attributes:
        kind: of the jobs.
    """

    def __init__(self, store: Store, clock: Clock, *, lease_ms: int, retention_ms: int) -> None:
        self.kind = JobKind(
            name="orphan-files",
            work=_refuse,
            lease_ms=lease_ms,
            max_attempts=1,
            backoff=Backoff(base_ms=1),
            retention_ms=retention_ms,
        )
        self._store = store
        self._clock = clock
        self._queue = JobQueue(store, clock, self.kind)

    @contextmanager
    def running(self, call: Call, identifier: TableIdentifier, location: str) -> Iterator[RunningJob]:
        """A job of this process for a block of code that deletes.

        Args:
            location: where files are deleted.

        Raises:
            ConflictError: an operator cancelled it.
            UnavailableError: its lease was lost, as after a long pause of the process.
        """
        self._queue.drain_once()  # gives up those whose process died
        made = self.kind.new_job(
            account_id=call.catalog.account_id,
            catalog_id=call.catalog.id,
            title=written(identifier, call.catalog.schema_separator),
            subject=str(identifier),
            resource=location,
            payload=_NoPayload(),
            created_by=call.principal.name,
            now_ms=self._clock.now_ms(),
        )
        row = self._queue.claimed(made)
        self._store.run(lambda conn: jobs.insert(conn, row))
        job = RunningJob(self._store, self._clock, row, self.kind.lease_ms, lambda: False)
        state, error = "cancelled", None
        try:
            with job:
                yield job
            state = "succeeded"
        except JobCancelledError:
            raise ConflictError("The deletion of orphan files was cancelled") from None
        except LeaseLostError:
            raise UnavailableError("The deletion of orphan files was interrupted: run it again") from None
        except FloecatError as failure:
            error = failure.message
            raise
        finally:
            now_ms = self._clock.now_ms()
            self._store.run(lambda conn: job_claims.finish(conn, job.lease, state, "{}", now_ms, error))


def _refuse(_: RunningJob) -> str | None:
    raise UnsupportedOperationError("Run `floecat table orphans` again: nothing is kept of an earlier run")
