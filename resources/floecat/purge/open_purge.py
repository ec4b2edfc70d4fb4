"""The purge of dropped tables: the service that drops them, and the queue of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from floecat.catalog.namespaces import NamespaceService
from floecat.catalog.tables import TableService
from floecat.entries.open_entries import EntryParts
from floecat.events.listeners import EventListeners
from floecat.jobs.background import Background
from floecat.jobs.operations import JobOperations
from floecat.jobs.queue import JobQueue, server_identity
from floecat.purge.deletion.open_table_purge import (
    open_shared_files,
    open_table_purge,
    sidecars_of_artifacts,
    storage_finder,
)
from floecat.purge.deletion.table_purge import FormatPurge, NoPurge, TablePurge
from floecat.purge.drops import DropService
from floecat.purge.entry_file_jobs import EntryFileJobs
from floecat.purge.large_jobs import LargeJobs
from floecat.purge.orphans.needed_files import NeededFilesReader
from floecat.purge.orphans.orphan_files import OrphanFiles
from floecat.purge.orphans.orphan_jobs import OrphanJobs
from floecat.purge.processes import PurgeProcesses
from floecat.purge.purge_jobs import PURGE, PurgeInfo, PurgeWork, purge_kind
from floecat.purge.purgers import SQL_ASYNC, SYNCHRONOUS, Purgers, ReachableFilesPurger
from floecat.purge.sharing.live_tables import StoredTables
from floecat.purge.sharing.shared_files import SharedFiles
from floecat.purge.spi import PurgerContext, PurgerRows
from floecat.settings import PurgeSettings, Settings

__all__ = ["OpenFormatPurge", "PurgeServices", "no_purge", "open_purge"]

OpenFormatPurge: TypeAlias = Callable[[SharedFiles], FormatPurge]
"""Makes the purge of a format, from what finds files that live tables need."""


def no_purge(_shared: SharedFiles) -> FormatPurge:
    """The purge of a format whose files are all another catalog's."""
    return NoPurge()


@dataclass(frozen=True, slots=True)
class PurgeServices:
    """The services."""

    drops: DropService
    queue: JobQueue
    """Queue of purges."""
    entry_files: JobQueue
    """Queue of files that the catalog wrote about removed tables for itself."""
    operations: JobOperations[PurgeInfo]
    """Purges, as operators see them."""
    purgers: Purgers
    large_jobs: LargeJobs
    orphans: OrphanFiles


def open_purge(
    parts: EntryParts,
    namespaces: NamespaceService,
    tables: TableService,
    settings: Settings,
    listeners: EventListeners,
    background: Background,
    *,
    others: Mapping[str, OpenFormatPurge],
) -> PurgeServices:
    """The services over the parts of entries.

    Args:
        namespaces: list namespaces.
        tables: list and remove entries.
        listeners: are called with drops and with the stages of purges.
        background: works on purges.
        others: open the purges of other formats than Iceberg, by name of the format.

    Raises:
        SettingsError: the purger that is set cannot be imported.
    """
    sidecars = sidecars_of_artifacts(parts)
    shared = open_shared_files(parts, settings, others)
    format_purges = {name: open_purge_of(shared) for name, open_purge_of in others.items()}
    purge = open_table_purge(parts, settings, shared, format_purges)
    processes = PurgeProcesses(settings, tuple(others)) if settings.purge.process_per_job else None
    purgers = _purgers(parts, settings.purge, listeners, purge, processes)
    work = PurgeWork(
        purgers,
        listeners,
        parts.clock,
        lambda lease: PurgerRows(parts.store, lease, settings.purge.purger_rows_bytes),
    )
    kind = purge_kind(work, settings.purge)
    queue = JobQueue(parts.store, parts.clock, kind)
    entry_files = EntryFileJobs(parts.store, parts.storages, parts.clock, settings.purge)
    drops = DropService(tables, parts.clock, queue, listeners, entry_files, purger=purgers.selected)
    large_jobs = LargeJobs(queue, work)
    live = StoredTables(parts.store, parts.storages, parts.clock)
    needed = NeededFilesReader(parts.store, parts.storages, live, shared, parts.clock, settings.limits)
    runs = OrphanJobs(parts.store, parts.clock, lease_ms=kind.lease_ms, retention_ms=kind.retention_ms)
    orphans = OrphanFiles(
        parts, namespaces, tables, needed, runs, batch_size=settings.purge.files_per_call, sidecars=sidecars
    )
    if processes is not None:
        background.add(start=processes.start, stop=processes.close)
    background.add(stop=purgers.close)
    for jobs, threads in ((queue, settings.purge.worker_threads), (entry_files.queue, 1)):
        background.add_queue(
            jobs,
            threads=threads if settings.purge.enabled else 0,
            poll_interval_ms=settings.purge.poll_interval_ms,
            claim_batch=settings.purge.claim_batch,
        )
    background.jobs.add(orphans.kind)
    return PurgeServices(
        drops=drops,
        queue=queue,
        entry_files=entry_files.queue,
        operations=background.jobs.of(PURGE),
        purgers=purgers,
        large_jobs=large_jobs,
        orphans=orphans,
    )


def _purgers(
    parts: EntryParts,
    settings: PurgeSettings,
    listeners: EventListeners,
    purge: TablePurge,
    processes: PurgeProcesses | None,
) -> Purgers:
    context = PurgerContext(
        server_identity=server_identity(), storage=storage_finder(parts), emit=listeners.emit
    )
    built_in = (
        ReachableFilesPurger(SQL_ASYNC, purge, parts.clock, settings.large_job_offer.ms, processes),
        ReachableFilesPurger(SYNCHRONOUS, purge, parts.clock, processes=processes),
    )
    return Purgers(settings.purger, settings.properties, context, built_in)
