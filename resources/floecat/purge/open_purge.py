"""The purge of dropped tables: the service that drops them, and the queue of its jobs."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from floecat.catalog.namespaces import NamespaceService
from floecat.catalog.tables import TableService
from floecat.entries.open_entries import EntryParts
from floecat.errors import LocationNotAllowedError
from floecat.events.listeners import EventListeners
from floecat.jobs.queue import JobQueue, server_identity
from floecat.purge.artifact_locations import ArtifactLocations
from floecat.purge.drops import DropService
from floecat.purge.earlier_metadata import EarlierMetadata
from floecat.purge.entry_file_jobs import EntryFileJobs
from floecat.purge.large_jobs import LargeJobs
from floecat.purge.live_tables import StoredTables, all_folders
from floecat.purge.orphans.needed_files import NeededFilesReader
from floecat.purge.orphans.orphan_files import OrphanFiles
from floecat.purge.orphans.orphan_jobs import OrphanJobs
from floecat.purge.process_worker import PurgeSetup
from floecat.purge.processes import PurgeProcesses
from floecat.purge.purge_jobs import PurgeWork, purge_kind
from floecat.purge.purgers import SQL_ASYNC, SYNCHRONOUS, Purgers, ReachableFilesPurger
from floecat.purge.shared_files import SharedFiles
from floecat.purge.spi import PurgerContext, PurgerRows
from floecat.purge.table_purge import FormatPurge, PurgeTarget, Sidecars, TablePurge
from floecat.settings import PurgeSettings, Settings
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["OpenFormatPurge", "PurgeServices", "open_purge"]

_NICENESS: Final = 10

OpenFormatPurge: TypeAlias = Callable[[SharedFiles], FormatPurge]
"""Makes the purge of a format, from what finds files that live tables need."""


@dataclass(frozen=True, slots=True)
class PurgeServices:
    """The services."""

    queue: JobQueue
    drops: DropService
    purgers: Purgers
    processes: PurgeProcesses | None
    """`None` where purges are done in this process alone."""
    large_jobs: LargeJobs
    orphans: OrphanFiles
    entry_files: JobQueue


def open_purge(
    parts: EntryParts,
    namespaces: NamespaceService,
    tables: TableService,
    settings: Settings,
    listeners: EventListeners,
    *,
    others: Mapping[str, OpenFormatPurge],
    wake: Callable[[], None],
) -> PurgeServices:
    """The services over the parts of entries.

    Args:
        parts: what they share.
        namespaces: list namespaces.
        tables: list and remove entries.
        settings: of the process.
        listeners: are called with drops and with the stages of purges.
        others: open the purges of other formats than Iceberg, by name of the format.
        wake: called after a table was removed, which may have made jobs for workers.

    Raises:
        SettingsError: the purger that is set cannot be imported.
    """
    artifacts = ArtifactLocations(parts.store)

    def artifacts_of(target: PurgeTarget) -> Iterator[str]:
        return iter(()) if target.lease is None else artifacts.of_purge(target.lease.job_id)

    sidecars: Sequence[Sidecars] = (artifacts_of,)
    live = StoredTables(parts.store, parts.storages, parts.clock)
    shared = SharedFiles(
        live,
        dict.fromkeys(others, all_folders),
        bounds=settings.limits,
        area_bytes=parts.memory.share("purge-areas"),
    )
    format_purges = {name: open_purge_of(shared) for name, open_purge_of in others.items()}
    purge = _table_purge(parts, settings, shared, sidecars, format_purges)
    processes = (
        _processes(parts, settings, live, sidecars, others) if settings.purge.process_per_job else None
    )
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
    drops = DropService(
        tables, parts.clock, queue, listeners, entry_files, purger=purgers.selected, wake=wake
    )
    large_jobs = LargeJobs(parts.store, parts.clock, queue, work)
    needed = NeededFilesReader(parts.store, parts.storages, live, shared, parts.clock, settings.limits)
    runs = OrphanJobs(parts.store, parts.clock, lease_ms=kind.lease_ms, retention_ms=kind.retention_ms)
    orphans = OrphanFiles(
        parts, namespaces, tables, needed, runs, batch_size=settings.purge.files_per_call, sidecars=sidecars
    )
    return PurgeServices(queue, drops, purgers, processes, large_jobs, orphans, entry_files.queue)


def _table_purge(
    parts: EntryParts,
    settings: Settings,
    shared: SharedFiles,
    sidecars: Sequence[Sidecars],
    others: Mapping[str, FormatPurge],
) -> TablePurge:
    purge = settings.purge
    return TablePurge(
        parts.files,
        shared,
        batch_size=purge.files_per_call,
        threads=purge.delete_threads_per_job,
        large_from=purge.large_job_files,
        # a worker that gives out ranges has renewed its lease; they end before it can be another's
        range_s=purge.lease_timeout_ms / 2000,
        bounds=settings.limits,
        sidecars=(EarlierMetadata(parts.store), *sidecars),
        others=others,
    )


def _processes(
    parts: EntryParts,
    settings: Settings,
    live: StoredTables,
    sidecars: Sequence[Sidecars],
    formats: Iterable[str],
) -> PurgeProcesses:
    purge = settings.purge
    setup = PurgeSetup(
        sys.path,
        _NICENESS,
        pickle.dumps(settings.limits),
        settings.gateway.max_metadata_file_bytes,
        purge.files_per_call,
        purge.delete_threads_per_job,
        purge.large_job_files,
        parts.memory.share("purge-areas") // purge.worker_threads,
        tuple(formats),
    )
    return PurgeProcesses(setup, live, (EarlierMetadata(parts.store), *sidecars), purge.worker_threads)


def _purgers(
    parts: EntryParts,
    settings: PurgeSettings,
    listeners: EventListeners,
    purge: TablePurge,
    processes: PurgeProcesses | None,
) -> Purgers:
    def storage(catalog_id: UUID) -> CatalogStorage:
        with parts.store.read() as conn:
            found = parts.storages.by_id(conn, catalog_id)
        if found is None:
            raise LocationNotAllowedError("the catalog of the table was deleted, and its locations with it")
        return found

    context = PurgerContext(server_identity=server_identity(), storage=storage, emit=listeners.emit)
    built_in = (
        ReachableFilesPurger(SQL_ASYNC, purge, parts.clock, settings.large_job_offer.ms, processes),
        ReachableFilesPurger(SYNCHRONOUS, purge, parts.clock, processes=processes),
    )
    return Purgers(settings.purger, settings.properties, context, built_in)
