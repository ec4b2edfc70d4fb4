"""Events that listeners get: the drop of a table, and the stages of its purge."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import msgspec

from floecat.identifiers.namespace import TableIdentifier

__all__ = ["PurgeCompleted", "PurgeFailed", "PurgeStarted", "TableDropped", "TableEvent"]


class TableEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of every event. Times are in ms since the epoch."""

    catalog: str
    """Name of the catalog; empty where only its id is known."""
    catalog_id: UUID
    identifier: TableIdentifier
    logical_name: str
    """Namespace and name for people: `A:B.orders`."""
    table_uuid: str
    location: str
    principal: str
    """Principal that dropped the table."""
    request_id: str | None = None
    """Id of the request that dropped it."""
    at_ms: int


class TableDropped(TableEvent, frozen=True, kw_only=True):
    """A table was removed from its catalog. Called on the request's thread, after COMMIT."""

    purge_requested: bool
    metadata_location: str


class PurgeStarted(TableEvent, frozen=True, kw_only=True):
    """An attempt to purge a dropped table begins. One that is put back for a run on Spark begins twice."""

    job_id: UUID
    purger: str
    attempt: int
    """Number of the attempt, from 1."""


class PurgeCompleted(TableEvent, frozen=True, kw_only=True):
    """A purge has succeeded."""

    job_id: UUID
    purger: str
    elapsed_ms: int
    """Time since the drop."""
    counts: Mapping[str, int]
    """Files by what became of them, and bytes: as `purge.deletion.progress.PurgeProgress` names them."""


class PurgeFailed(TableEvent, frozen=True, kw_only=True):
    """A purge has used up its attempts; an operator may retry it."""

    job_id: UUID
    purger: str
    attempts: int
    error: str
