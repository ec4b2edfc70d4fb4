"""Processes in which tables are purged, so that a purge does not hold the interpreter that answers requests.

A process opens the store and purges one table at a time, at lower priority. The job and its lease stay with
this process, which says before each batch whether the purge may go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import msgspec

from floecat.child_process import ChildPool, PoolSetup, ProcessEndedError, WorkStep
from floecat.clock import SystemClock
from floecat.entries.open_entries import EntryParts, open_entries
from floecat.fileio.opening import open_fileio
from floecat.jobs.running_job import JobAbandonedError, JobPostponedError
from floecat.purge.deletion.open_table_purge import open_shared_files, open_table_purge, storage_finder
from floecat.purge.deletion.progress import PurgeProgress
from floecat.purge.deletion.table_purge import TablePurge
from floecat.purge.requested_purges import purge_requested
from floecat.purge.spi import PurgeRequest
from floecat.settings import Settings
from floecat.storage.catalog_storages import object_store_options
from floecat.store.database.engine import Store
from floecat.store.jobs import jobs
from floecat.struct_types import prepare_struct_types

__all__ = ["PurgeProcesses"]


class PurgeProcesses:
    """The processes. Thread-safe."""

    def __init__(self, settings: Settings, formats: tuple[str, ...]) -> None:
        """Starts nothing yet: a process starts with the first table that finds no free one.

        Args:
            settings: of this process. As many tables are purged at a time as there are threads for jobs.
            formats: names of the formats other than Iceberg.
        """
        setup = PoolSetup(partial(_open, settings, formats), passed=(JobPostponedError,))
        self._pool = ChildPool("purge", lambda: setup, most=settings.purge.worker_threads)
        self._is_on = False

    @property
    def is_on(self) -> bool:
        """Whether tables are purged in processes."""
        return self._is_on

    def start(self) -> None:
        """Has tables purged in processes from now on, as it pays where requests are answered meanwhile."""
        self._is_on = True

    def purge(self, request: PurgeRequest, offer_ms: int) -> None:
        """Purges an Iceberg table; see `purge_requested`.

        Raises:
            UnavailableError: the process ended before it deleted anything, or cannot be started.
            JobAbandonedError: the process ended later: its calls may be on their way to storage.
        """

        def check(progress: PurgeProgress | None) -> None:
            if progress is not None:
                _copy(progress, request.progress)
            request.check()

        # what is called here stays here
        sent = msgspec.structs.replace(request, check=_nothing, attachment=_nothing, rows=_nothing)
        try:
            for progress in self._pool.run(partial(_purge, sent, offer_ms), check):
                _copy(progress, request.progress)
        except ProcessEndedError as error:
            if error.value is None:
                raise
            raise JobAbandonedError("The purge process ended while it deleted files") from error

    def close(self) -> None:
        """Ends the processes that purge nothing; the others end when their table is done."""
        self._pool.close()


class _Opened(NamedTuple):
    """The services of a process."""

    parts: EntryParts
    purge: TablePurge


def _open(settings: Settings, formats: tuple[str, ...]) -> _Opened:
    store = Store.open(
        settings.store_url,
        pool_size=settings.store.pool_size,
        timeout_s=settings.store.timeout_ms / 1000,
        creates=False,
    )
    files = open_fileio(object_store_options(settings.storage), fsync=settings.storage.fsync)
    parts = open_entries(settings, store, files, SystemClock())
    prepare_struct_types()
    shared = open_shared_files(parts, settings, formats, processes=settings.purge.worker_threads)
    return _Opened(parts, open_table_purge(parts, settings, shared, {}))


def _purge(sent: PurgeRequest, offer_ms: int, opened: _Opened, step: WorkStep) -> Iterator[PurgeProgress]:
    """Runs in a process."""
    parts, purge = opened

    def attachment() -> bytes | None:
        with parts.store.read() as conn:
            return jobs.attachment(conn, sent.job_id)

    request = msgspec.structs.replace(sent, check=lambda: step(sent.progress), attachment=attachment)
    try:
        purge_requested(purge, request, storage_finder(parts), parts.clock, offer_ms)
    finally:
        yield sent.progress


def _nothing() -> None:
    """Stands for what only the other process can call."""


def _copy(progress: PurgeProgress, into: PurgeProgress) -> None:
    for name in progress.__struct_fields__:
        setattr(into, name, getattr(progress, name))
