"""Groups: the parts of a job that is too large for one worker, each a job of another kind.

A claim of the job makes its groups in a round, and the job is put back until all of them have ended. The next
claim finds them in `Round.before`. A worker that dies while it makes groups leaves no round: the next claim
waits for those that it made, and makes a round of what is missing then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, NoReturn

import msgspec

from floecat.clock import Clock
from floecat.errors import FloecatError
from floecat.jobs.kinds import Ended, JobKind
from floecat.jobs.queue import JobQueue
from floecat.jobs.running_job import JobPostponedError, RunningJob
from floecat.store.database.engine import Connection, Store
from floecat.store.jobs import jobs
from floecat.store.jobs.jobs import JobRow

__all__ = ["WAIT_MS", "Group", "Groups", "Offer", "Round", "makes_parent_due"]

WAIT_MS: Final = 5_000
"""A job looks by itself whether those that it waits for have ended, should the last worker not say so."""

_ROUND: Final = "round"
"""Key in the progress of a job that waits: the lease epoch of the claim that made its groups."""

_log = logging.getLogger(__name__)


class Group(NamedTuple):
    """A group that is to be made."""

    payload: msgspec.Struct
    attachment: bytes | None = None


class Offer(NamedTuple):
    """Certain workers may take a job before it is due for all."""

    lane: str
    for_ms: int


class Groups:
    """Divides jobs. Safe to share between threads.

    Attributes:
        queue: of the groups.
    """

    def __init__(self, store: Store, clock: Clock, kind: JobKind, *, wake: Callable[[], None]) -> None:
        """Takes the kind of the groups, and what is called when groups, or the job that waits, are due."""
        self._wake = wake
        ended = makes_parent_due(store, clock, wake)
        self.queue: Final = JobQueue(store, clock, msgspec.structs.replace(kind, ended=ended, is_part=True))

    def round(self, job: RunningJob) -> Round:
        """The round of groups that a claim of a job may make."""
        return Round(job, self.queue.kind, self._wake)


class Round:
    """The groups that one claim of a job makes, and those of the round before. For one thread.

    Attributes:
        made: how many groups this claim has made.
    """

    def __init__(self, job: RunningJob, kind: JobKind, wake: Callable[[], None]) -> None:
        self._job = job
        self._kind = kind
        self._wake = wake
        self._before: Sequence[JobRow] | None = None
        self.made = 0

    @property
    def before(self) -> Sequence[JobRow]:
        """The groups of the round before, where all were worked on: what is missing after them stays so.

        Raises:
            JobPostponedError: some groups are open.
        """
        if self._before is None:
            job, epoch = self._job, self._job.progress.get(_ROUND)
            with job.store.read() as conn:
                open_groups = jobs.count_open_children(conn, job.row.id)
                groups = [] if open_groups or epoch is None else jobs.children(conn, job.row.id)
            if open_groups:
                raise self._waits_for(open_groups)
            ended = [group for group in groups if f":{epoch}:" in (group.dedup_key or "")]
            self._before = [] if any(group.state == "cancelled" for group in ended) else ended
        return self._before

    def make(self, groups: Iterable[Group], offer: Offer | None = None) -> None:
        """Makes the jobs of groups, in one transaction. The first ones replace those of earlier rounds.

        Args:
            groups: what they are about.
            offer: who may take them first.

        Raises:
            LeaseLostError: the job is another worker's.
            JobCancelledError: it is to be cancelled.
        """
        row, now_ms = self._job.row, self._job.clock.now_ms()
        made: list[tuple[JobRow, bytes | None]] = []
        for number, group in enumerate(groups, self.made):
            key = f"{row.id}:{row.lease_epoch}:{number}"
            new = self._kind.new_job_about(row, group.payload, now_ms, dedup_key=key, parent_id=row.id)
            if offer is not None:
                new = new.waiting_until(now_ms + offer.for_ms, offer.lane)
            made.append((new, group.attachment))

        def insert(conn: Connection) -> None:
            if not self.made:
                jobs.delete_finished_children(conn, row.id)
            for new, attachment in made:
                jobs.insert(conn, new, attachment)

        self._job.submit(insert)
        self.made += len(made)
        self._wake()

    def wait(self) -> NoReturn:
        """Puts the job back until the groups of this round have ended.

        Raises:
            JobPostponedError: always.
        """
        self._job.progress[_ROUND] = self._job.row.lease_epoch
        raise self._waits_for(self.made)

    def forget(self) -> None:
        """Forgets the round before: what goes missing from now on, the next claim works on."""
        self._job.progress.pop(_ROUND, None)

    def _waits_for(self, groups: int) -> JobPostponedError:
        until_ms = self._job.clock.now_ms() + WAIT_MS
        return JobPostponedError(f"waits for {groups} groups", until_ms)


def makes_parent_due(store: Store, clock: Clock, wake: Callable[[], None]) -> Ended:
    """What the end of a job does for the job that waits for it and others.

    Args:
        wake: called when that job is due.

    Returns:
        A function that makes it due with the end of the last one. If that is lost, the job looks by itself.
    """

    def ended(job: RunningJob, _state: str, _error: str | None) -> None:
        parent_id = job.row.parent_id
        if parent_id is None:
            return
        try:
            with store.read() as conn:
                left = jobs.count_open_children(conn, parent_id)
            if not left:
                store.run(lambda conn: jobs.make_due(conn, parent_id, clock.now_ms()))
                wake()
        except FloecatError as error:
            _log.warning("job %s was not made due at once: %s", parent_id, error.message)

    return ended
