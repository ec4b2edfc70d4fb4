"""The parts that all services of entries share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from floecat.clock import Clock
from floecat.compression.pieces import gzip_blocks
from floecat.entries.areas import AreaReader
from floecat.entries.idempotency_keys import IdempotencyKeys
from floecat.entries.lookup import Entries
from floecat.entries.metadata_files import MetadataFiles
from floecat.entries.overlaps import Overlaps
from floecat.entries.purge_guard import PurgeGuard
from floecat.entries.writes import EntryWrites, Retries
from floecat.fileio.base import FileIO
from floecat.iceberg.values.bounds import process_bounds
from floecat.memory_budget import MemoryBudget
from floecat.settings import Settings
from floecat.storage.catalog_storage import CatalogStorage
from floecat.storage.catalog_storages import CatalogStorages, open_storages
from floecat.store.commits.confirmed_transactions import Confirmation, ConfirmedTransactions
from floecat.store.database.engine import Store
from floecat.store.entries.documents import stored_frames

__all__ = ["EntryParts", "open_entries"]


@dataclass(frozen=True, slots=True)
class EntryParts:
    """Parts that the services of all packages share.

    Attributes:
        store: the SQL store.
        transactions: runs what changes a catalog.
        guard: runs what adds files to entries.
        clock: the time.
        storages: of all catalogs.
        memory: bounds the caches.
        entries: look-ups by name.
        files: metadata files in storage.
        keys: runs changes once per idempotency key.
        writes: makes prepared changes.
        overlaps: finds entries in each other's folders.
    """

    store: Store
    transactions: ConfirmedTransactions
    guard: PurgeGuard
    clock: Clock
    storages: CatalogStorages
    memory: MemoryBudget
    entries: Entries
    files: MetadataFiles
    keys: IdempotencyKeys
    writes: EntryWrites
    overlaps: Overlaps

    def check_read(self, storage: CatalogStorage, entry_id: UUID, folders: Collection[str]) -> None:
        """See `Overlaps.check_read`."""
        with self.store.read() as conn:
            self.overlaps.check_read(conn, storage, entry_id, folders)


def open_entries(settings: Settings, store: Store, files: FileIO, clock: Clock) -> EntryParts:
    """The parts over a store and a storage. Sizes the caches that the process shares.

    Args:
        store: the SQL store.
        files: storage of catalogs that have none of their own in the settings.

    Raises:
        SettingsError: the access of a catalog to its storage lacks a part of its key.
    """
    gateway = settings.gateway
    process_bounds.limits = settings.limits
    memory = MemoryBudget(settings.cache.memory)
    gzip_blocks.resize(memory.share("gzip-blocks"))
    stored_frames.resize(memory.share("stored-frames"))
    confirm, replan = gateway.commit.confirm, gateway.commit.replan
    transactions = ConfirmedTransactions(
        store, Confirmation(confirm.max_attempts, confirm.initial_sleep_ms, confirm.max_sleep_ms)
    )
    storages = open_storages(settings, files)
    entries = Entries(store, memory)
    metadata_files = MetadataFiles(
        max_bytes=gateway.max_metadata_file_bytes,
        max_inflated_bytes=settings.limits.inflated_file_bytes,
        gzip_above_bytes=gateway.gzip_metadata_above_bytes,
    )
    keys = IdempotencyKeys(
        store,
        clock,
        lifetime_ms=gateway.idempotency_key_lifetime.ms,
        grace_ms=gateway.idempotency_grace.ms,
        stale_after_ms=gateway.idempotency_in_progress_timeout.ms,
    )
    retries = Retries(replan.max_attempts, replan.initial_sleep_ms, replan.max_sleep_ms)
    # a commit looks at its own manifests once
    areas = AreaReader(settings.limits, cached_bytes=0)
    wait_ms = gateway.commit.purge_wait_ms
    guard = PurgeGuard(store, transactions, storages, areas, clock, wait_ms=wait_ms)
    overlaps = Overlaps(storages, refuses=settings.storage.overlapping_locations == "refuse")
    writes = EntryWrites(store, guard, keys, entries, metadata_files, storages, overlaps, clock, retries)
    return EntryParts(
        store, transactions, guard, clock, storages, memory, entries, metadata_files, keys, writes, overlaps
    )
