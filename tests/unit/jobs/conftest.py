"""Jobs of a kind that a test makes up, in a store of SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import msgspec
import pytest
import uuid_utils.compat as uuids

from floecat.jobs.kinds import Backoff, JobKind, Work
from floecat.jobs.queue import JobQueue
from floecat.store.database.engine import Store
from floecat.store.jobs import job_trees, jobs
from floecat.store.jobs.jobs import JobRow
from tests.clocks import SetClock

LEASE_MS = 60_000
RETRY_MS = 1_000


class Number(msgspec.Struct, frozen=True):
    """What a job is about."""

    number: int


class Bench:
    """Jobs, and who works on them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock = SetClock(1_700_000_000_000)

    def kind(self, name: str, work: Work, lock: str | None = None) -> JobKind:
        return JobKind(
            name=name,
            work=work,
            lease_ms=LEASE_MS,
            max_attempts=2,
            backoff=Backoff(base_ms=RETRY_MS, random_fraction=lambda: 0.0),
            retention_ms=1,
            lock=lock,
        )

    def queue(self, name: str, work: Work, lock: str | None = None) -> JobQueue:
        return JobQueue(self.store, self.clock, self.kind(name, work, lock))

    def insert(self, queue: JobQueue, subject: str = "t", parent_id: UUID | None = None) -> JobRow:
        made = queue.kind.new_job(
            account_id=uuids.uuid7(),
            catalog_id=uuids.uuid7(),
            title=f"ns.{subject}",
            subject=subject,
            payload=Number(0),
            created_by="anna",
            now_ms=self.clock.ms,
            parent_id=parent_id,
        )
        self.store.run(lambda conn: jobs.insert(conn, made))
        return made

    def row(self, job: JobRow) -> JobRow:
        with self.store.read() as conn:
            found = jobs.get(conn, job.id)
        assert found is not None
        return found

    def groups(self, job: JobRow) -> list[JobRow]:
        with self.store.read() as conn:
            found = jobs.children(conn, job.id)
        return sorted(found, key=lambda group: (group.id, group.dedup_key))

    def states(self, job: JobRow) -> list[str]:
        return [group.state for group in self.groups(job)]

    def cancel(self, job: JobRow) -> None:
        assert self.store.run(lambda conn: job_trees.cancel(conn, job.id, self.clock.ms))


@pytest.fixture
def bench(upgraded_store: Callable[[str], str]) -> Iterator[Bench]:
    store = Store.open(upgraded_store("sqlite"))
    yield Bench(store)
    store.close()
