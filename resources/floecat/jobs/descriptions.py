"""Jobs as operators see them. A kind whose jobs have more to show describes them by a class of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self
from uuid import UUID

import msgspec

from floecat.store.jobs.jobs import JobRow

__all__ = ["JobInfo"]


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A job. Times in ms since the epoch."""

    id: UUID
    parent_id: UUID | None
    """The job that it belongs to."""
    kind: str
    title: str
    """Name for people: that of its table, for most."""
    subject: str
    """The id of what it is about, which does not change."""
    location: str
    """The location of its work; empty for none."""
    lane: str
    state: str
    """One of `store.jobs.jobs.OPEN_STATES` and `FINISHED_STATES`."""
    attempts: int
    max_attempts: int
    cancel_requested: bool
    created_by: str
    request_id: str | None
    worker: str | None
    """`host:pid:uuid` of who works on it."""
    lease_expires_at_ms: int | None
    last_error: str | None
    """The error of the last attempt, or the reason why the job waits."""
    created_at_ms: int
    started_at_ms: int | None
    due_at_ms: int | None
    """Time from which a worker may take it; none if one has it, or it has ended."""
    updated_at_ms: int
    finished_at_ms: int | None
    children: Sequence[JobInfo] = ()
    """The jobs that it waits for, as many as one answer may have; none in a listing."""

    @classmethod
    def of(cls, row: JobRow, children: Sequence[JobInfo] | None = None, **own: Any) -> Self:
        """Describes a job.

        Args:
            children: the jobs that it waits for; None in a listing.
            own: what the class adds, or knows better.
        """
        described = {
            **{name: getattr(row, name) for name in _OF_ROW},
            "location": row.resource,
            "worker": row.lease_owner,
            "due_at_ms": row.not_before_ms if row.state in ("queued", "waiting") else None,
            "children": children or (),
        }
        return cls(**(described | own))

    @property
    def is_open(self) -> bool:
        """Whether it will be worked on, or is."""
        return self.finished_at_ms is None

    @property
    def counts(self) -> Mapping[str, int]:
        """The progress, as numbers by name."""
        return {}


_OF_ROW: Final = frozenset(JobInfo.__struct_fields__).intersection(JobRow.__struct_fields__)
