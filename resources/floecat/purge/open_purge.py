"""The purge of dropped tables: the service that drops them, and the queue of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from floecat.catalog.tables import TableService
from floecat.entries.open_entries import EntryParts
from floecat.jobs.queue import JobQueue
from floecat.purge.live_tables import SharedFiles, StoredTables, all_folders
from floecat.purge.purge_jobs import DropService, PurgeWork, purge_kind
from floecat.purge.purger import FormatPurge, Purger
from floecat.settings import Settings

__all__ = ["OpenFormatPurge", "PurgeServices", "open_purge"]

OpenFormatPurge: TypeAlias = Callable[[SharedFiles], FormatPurge]
"""Makes the purge of a format, from what finds files that live tables need."""


@dataclass(frozen=True, slots=True)
class PurgeServices:
    """The services."""

    queue: JobQueue
    drops: DropService


def open_purge(
    parts: EntryParts,
    tables: TableService,
    settings: Settings,
    *,
    others: Mapping[str, OpenFormatPurge],
    wake: Callable[[], None],
) -> PurgeServices:
    """The services over the parts of entries.

    Args:
        parts: what they share.
        tables: remove entries.
        settings: of the process.
        others: open the purges of other formats than Iceberg, by name of the format.
        wake: called after a drop that made a job.
    """
    shared = SharedFiles(
        StoredTables(parts.store, parts.storages),
        dict.fromkeys(others, all_folders),
        bounds=settings.limits,
        area_bytes=parts.memory.share("purge-areas"),
    )
    purger = Purger(
        parts.files,
        shared,
        batch_size=settings.purge.batch_size,
        bounds=settings.limits,
        others={name: open_purge_of(shared) for name, open_purge_of in others.items()},
    )
    kind = purge_kind(
        PurgeWork(parts.store, parts.storages, purger),
        lease_ms=settings.purge.lease_ms,
        max_attempts=settings.purge.max_attempts,
        retention_ms=settings.purge.retention.ms,
    )
    return PurgeServices(
        JobQueue(parts.store, parts.clock, kind), DropService(tables, parts.clock, kind, wake)
    )
