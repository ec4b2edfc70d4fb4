"""Bodies of the routes about purges; the command line prints the same JSON."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec

from floecat.purge.purge_operations import PurgeInfo

__all__ = ["ListPurgesResponse", "PurgeResponse", "list_response", "purge_response"]


class PurgedTable(msgspec.Struct):
    """The name that the table had."""

    namespace: tuple[str, ...]
    name: str


class FailedKeyResponse(msgspec.Struct):
    """A file that could not be deleted."""

    location: str
    reason: str


class ProgressResponse(msgspec.Struct, rename="kebab"):
    """Files by what became of them."""

    found: int
    deleted: int
    bytes: int
    """Size of the deleted ones, as far as metadata tells it."""
    kept: dict[str, int]
    """By reason."""
    failed: int
    files_per_second: float
    note: str
    failed_keys: Sequence[FailedKeyResponse]
    """The first 100; none in a listing."""


class PurgeResponse(msgspec.Struct, rename="kebab"):
    """A purge. Times in ms since the epoch."""

    id: UUID
    table: PurgedTable
    table_uuid: str
    location: str
    metadata_location: str
    format: str
    purger: str
    state: str
    attempts: int
    max_attempts: int
    progress: ProgressResponse
    cancel_requested: bool
    created_by: str
    request_id: str | None
    worker: str | None
    last_error: str | None
    created_at_ms: int
    started_at_ms: int | None
    due_at_ms: int | None
    updated_at_ms: int
    finished_at_ms: int | None


class ListPurgesResponse(msgspec.Struct, rename="kebab"):
    """Purges of a catalog, oldest first."""

    purges: Sequence[PurgeResponse]
    next_page_token: str | None


def purge_response(purge: PurgeInfo, *, with_failed_keys: bool = True) -> PurgeResponse:
    """Renders a purge."""
    progress = purge.progress
    keys = progress.failed_keys if with_failed_keys else []
    values = {
        name: getattr(purge, name)
        for name in PurgeResponse.__struct_fields__
        if name not in ("table", "progress")
    }
    return PurgeResponse(
        **values,
        table=PurgedTable(tuple(purge.identifier.namespace), purge.identifier.name),
        progress=ProgressResponse(
            found=progress.found,
            deleted=progress.deleted,
            bytes=progress.bytes,
            kept=dict(progress.kept),
            failed=progress.failed,
            files_per_second=round(progress.files_per_s, 1),
            note=progress.note,
            failed_keys=[FailedKeyResponse(key.location, key.reason) for key in keys],
        ),
    )


def list_response(purges: Sequence[PurgeInfo], *, more: bool) -> ListPurgesResponse:
    """Renders a page of purges."""
    return ListPurgesResponse(
        [purge_response(purge, with_failed_keys=False) for purge in purges],
        str(purges[-1].id) if more and purges else None,
    )
