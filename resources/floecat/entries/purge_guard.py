"""Commits that may add a file which a purge is deleting wait for that batch of files.

How commits and purges take turns is written in `store.jobs.purge_batches`. Here is what a commit does. It
pays for this only while a purge has a batch under way: the manifests that it adds are read, and if a batch
overlaps, it is rolled back and made again when that batch has ended. A first commit that meets batches is
rolled back before its manifests are read; the next ones of the process read them at once.

A file that the purge deleted before is gone: whoever adds a file of a table that was dropped with purge may
be too late, as without a wait. What the wait excludes is that a commit is acknowledged and the file goes
then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from floecat.clock import Clock
from floecat.entries.areas import (
    EVERYWHERE,
    Area,
    AreaReader,
    file_area,
    folder_area,
    folder_of_text,
    overlaps,
)
from floecat.entries.formats import is_derived
from floecat.entries.prepared_changes import Prepared
from floecat.errors import UnavailableError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store.commits.confirmed_transactions import ConfirmedTransactions
from floecat.store.database.engine import Connection, Store
from floecat.store.jobs import purge_batches
from floecat.store.jobs.purge_batches import Batch

__all__ = ["PurgeGuard"]

_HOLD_MS: Final = 1000
_HOLDS_AGAIN_AFTER_S: Final = 0.5
_LOOKS_AFTER_S: Final = 0.02
_RETRY_AFTER_S: Final = 5


class _UnderWayError(Exception):
    """Batches are under way in which files of the commit may be; the transaction is rolled back."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        super().__init__(f"{len(batches)} batches")
        self.batches = batches


class PurgeGuard:
    """Runs the transactions that add files to entries. Safe to share between threads."""

    def __init__(
        self,
        store: Store,
        transactions: ConfirmedTransactions,
        storages: CatalogStorages,
        areas: AreaReader,
        clock: Clock,
        *,
        wait_ms: int,
    ) -> None:
        """Puts it together.

        Args:
            transactions: run what changes a catalog.
            storages: of all catalogs.
            areas: reads manifests.
            wait_ms: how long a commit waits for purges.
        """
        self._store = store
        self._transactions = transactions
        self._storages = storages
        self._areas = areas
        self._clock = clock
        self._wait_ms = wait_ms
        self._has_seen_batches = False

    def run(
        self,
        catalog_id: UUID,
        changes: Sequence[Prepared[Any]],
        work: Callable[[Connection, UUID], bool],
    ) -> None:
        """Runs a transaction, as `ConfirmedTransactions.run`.

        Args:
            catalog_id: of the entries.
            changes: what the transaction makes of the entries; `work` may fill it when it runs.
            work: makes them; returns what `write_rows` returned.

        Raises:
            UnavailableError: a purge took longer than the wait; nothing was changed.
            FloecatError: as `ConfirmedTransactions.run`.
        """
        # spares a transaction that would be rolled back
        area = self._area_of(catalog_id, changes) if self._has_seen_batches and changes else None
        ends_at = time.monotonic() + self._wait_ms / 1000

        def guarded(conn: Connection, transaction_id: UUID) -> None:
            if work(conn, transaction_id):
                self._check(conn, catalog_id, area)
            else:
                self._has_seen_batches = False

        while True:
            try:
                return self._transactions.run(catalog_id, guarded)
            except _UnderWayError as error:
                batches = error.batches
            if area is None:
                area = self._area_of(catalog_id, changes)
            else:
                self._wait(batches, ends_at, catalog_id)

    def _check(self, conn: Connection, catalog_id: UUID, area: Area | None) -> None:
        batches = purge_batches.under_way(conn, self._clock.now_ms())
        self._has_seen_batches = bool(batches)
        if not batches:
            purge_batches.note_none(conn, catalog_id)
            return
        storages = self._storages.all(conn)
        storage = storages.get(catalog_id)
        found = [
            batch
            for batch in batches
            if area is None or _overlaps(area, storage, batch, storages.get(batch.catalog_id))
        ]
        if found:
            raise _UnderWayError(found)

    def _area_of(self, catalog_id: UUID, changes: Sequence[Prepared[Any]]) -> Area:
        with self._store.read() as conn:
            storage = self._storages.by_id(conn, catalog_id)
        if storage is None:
            return Area()
        return Area().union(*(self._area(storage.with_artifacts, change) for change in changes))

    def _area(self, storage: CatalogStorage, change: Prepared[Any]) -> Area:
        files, metadata, added = [change.metadata_location], change.metadata, change.snapshots.added
        is_new = change.base is None or change.operation == "register"
        if isinstance(metadata, TableMetadata):
            files += [entry.metadata_file for entry in metadata.metadata_log]
            files += [statistics.statistics_path for statistics in metadata.statistics]
            files += [statistics.statistics_path for statistics in metadata.partition_statistics]
            added = metadata.snapshots if is_new else added
        area = file_area(files) | self._areas.added_area(storage, added, all_manifests=is_new)
        format_ = change.format if change.base is None else change.base.format
        # a table of another format needs all files below its location
        return area | folder_area([change.location]) if is_derived(format_) else area

    def _wait(self, batches: Sequence[Batch], ends_at: float, catalog_id: UUID) -> None:
        """Returns when batches have ended, and keeps their purges from beginning another one before."""
        ids = {batch.job_id for batch in batches}
        holds_again_at = 0.0
        while True:
            now = time.monotonic()
            if now >= ends_at:
                shown = self._shown(batches[0], catalog_id)
                raise UnavailableError(
                    f"Files that the change may add are being deleted by {shown}; nothing was changed"
                    " (floecat.gateway.commit.purge-wait-ms)",
                    retry_after_s=_RETRY_AFTER_S,
                )
            if now >= holds_again_at:
                self._hold(sorted(ids))
                holds_again_at = now + _HOLDS_AGAIN_AFTER_S
            with self._store.read() as conn:
                under_way = purge_batches.under_way(conn, self._clock.now_ms())
            if not ids & {batch.job_id for batch in under_way}:
                return
            time.sleep(_LOOKS_AFTER_S)

    def _shown(self, batch: Batch, catalog_id: UUID) -> str:
        """A batch as the account of a catalog may know it."""
        with self._store.read() as conn:
            storages = self._storages.all(conn)
        own, its = storages.get(catalog_id), storages.get(batch.catalog_id)
        if own is None or its is None or own.account_id != its.account_id:
            return "a purge of another account"
        return f"purge job {batch.job_id} of {batch.title}"

    def _hold(self, job_ids: Sequence[UUID]) -> None:
        until_ms = self._clock.now_ms() + _HOLD_MS
        self._store.run(lambda conn: purge_batches.hold(conn, job_ids, until_ms))


def _overlaps(
    area: Area, storage: CatalogStorage | None, batch: Batch, its_storage: CatalogStorage | None
) -> bool:
    folders = Area(map(folder_of_text, batch.folders))
    if storage is not None and its_storage is not None:
        if EVERYWHERE in area and storage.account_id != its_storage.account_id:
            # as purges count a table of another account that they cannot read
            area = folder_area(map(str, storage.allowed.roots))
        folders = Area(folder for folder in folders if storage.shares_below(folder, its_storage))
    return overlaps(area, folders)
