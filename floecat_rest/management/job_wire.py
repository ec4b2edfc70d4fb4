"""Bodies of the routes about jobs, purges and captures; the command line prints the same JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from floecat.jobs.descriptions import JobInfo
from floecat.purge.deletion.progress import FailedKey

__all__ = [
    "CaptureResponse",
    "JobResponse",
    "ListCapturesResponse",
    "ListJobsResponse",
    "ListPurgesResponse",
    "PurgeResponse",
    "job_response",
    "kind_response",
]


class JobFields(msgspec.Struct, rename="kebab", kw_only=True):
    """Fields of every answer about a job. Times in ms since the epoch."""

    id: UUID
    state: str
    """`queued`, `waiting` (for an attempt), `running`, `cancelling`, `succeeded`, `failed` or `cancelled`."""
    attempts: int
    max_attempts: int
    cancel_requested: bool
    created_by: str
    request_id: str | None
    worker: str | None
    """`host:pid:uuid` of who works on it."""
    last_error: str | None
    """The error of the last attempt, or the reason why the job waits."""
    created_at_ms: int
    started_at_ms: int | None
    due_at_ms: int | None
    updated_at_ms: int
    finished_at_ms: int | None


R = TypeVar("R", bound=JobFields)


class JobResponse(JobFields, rename="kebab", kw_only=True):
    """A job of any kind."""

    parent_id: UUID | None
    """The job that it belongs to."""
    kind: str
    title: str
    """The name of its table, or connector."""
    subject: str
    location: str
    lane: str
    lease_expires_at_ms: int | None
    details: dict[str, Any]
    """Fields of its kind alone, as in the answers about purges and captures."""
    children: Sequence[JobResponse]
    """The jobs that it waits for; none in a listing."""


class ListJobsResponse(msgspec.Struct, rename="kebab"):
    """Jobs of a catalog, oldest first."""

    jobs: Sequence[JobResponse]
    next_page_token: str | None


class PurgedTable(msgspec.Struct):
    """The name that the table had."""

    namespace: tuple[str, ...]
    name: str


class ProgressResponse(msgspec.Struct, rename="kebab"):
    """Files by what became of them."""

    found: int
    deleted: int
    bytes: int
    """Size of the deleted ones, as far as metadata tells it."""
    kept: dict[str, int]
    """Files kept, by reason."""
    failed: int
    files_per_second: float
    note: str
    failed_keys: Sequence[FailedKey]
    """The first 100; none in a listing."""


class PurgeResponse(JobFields, rename="kebab", kw_only=True):
    """A purge."""

    table: PurgedTable
    table_uuid: str
    location: str
    metadata_location: str
    format: str
    purger: str
    progress: ProgressResponse


class ListPurgesResponse(msgspec.Struct, rename="kebab"):
    """Purges of a catalog, oldest first."""

    purges: Sequence[PurgeResponse]
    next_page_token: str | None


class SnapshotFields(JobFields, rename="kebab", kw_only=True):
    """The snapshot that a capture, or the publication of its statistics file, is about."""

    table: str
    table_id: UUID
    snapshot_id: int
    reason: str
    """`commit`, `request`, `backfill` or `scan`."""


class CaptureFields(SnapshotFields, rename="kebab", kw_only=True):
    """A capture without its groups."""

    files: int
    """Data files of the snapshot, as far as that is known."""
    stored: int
    """Files whose statistics were stored before."""
    done: int
    """Files that are captured."""
    problem: str | None
    """Reason why the statistics are partial."""


class TableCapturesResponse(JobFields, rename="kebab", kw_only=True):
    """Captures of a table that a connector found, in numbers of snapshots."""

    table_id: UUID
    snapshots: int
    captured: int
    problem: str | None
    """What is missing."""


class CaptureGroupResponse(JobFields, rename="kebab", kw_only=True):
    """A group of files of a capture."""

    number: int
    files: int
    done: int
    size_bytes: int


class CaptureResponse(CaptureFields, rename="kebab", kw_only=True):
    """A capture."""

    groups: Sequence[CaptureGroupResponse]
    """None in a listing."""


class ListCapturesResponse(msgspec.Struct, rename="kebab"):
    """Captures, oldest first."""

    captures: Sequence[CaptureResponse]
    next_page_token: str | None = None


class ScanFields(JobFields, rename="kebab", kw_only=True):
    """A scan of a connector, in numbers of folders and tables."""

    connector_id: UUID
    folders: int
    tables: int
    registered: int
    failed: int
    changed: int
    gone: int
    captures: int


_OF_KIND: Final[Mapping[str, type[JobFields]]] = {
    "purge": PurgeResponse,
    "capture": CaptureFields,
    "capture-table": TableCapturesResponse,
    "capture-group": CaptureGroupResponse,
    "statistics-file": SnapshotFields,
    "connector-scan": ScanFields,
}
# the name of the table is the title
_COMMON: Final = frozenset(field.encode_name for field in msgspec.structs.fields(JobResponse)) | {"table"}


def kind_response(job: JobInfo, kind: type[R]) -> R:
    """Renders a job as its own kind has it."""
    return msgspec.convert(job, kind, from_attributes=True)


def job_response(job: JobInfo) -> JobResponse:
    """Renders a job of any kind."""
    of_kind = msgspec.to_builtins(kind_response(job, _OF_KIND.get(job.kind, JobFields)))
    values = {
        name: getattr(job, name)
        for name in JobResponse.__struct_fields__
        if name not in ("details", "children")
    }
    return JobResponse(
        **values,
        details={name: value for name, value in of_kind.items() if name not in _COMMON},
        children=[job_response(child) for child in job.children],
    )
