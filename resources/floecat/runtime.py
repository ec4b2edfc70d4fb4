"""The composition root: settings in, one `Kernel` out. Front ends call its services, nothing below them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from floecat.auth.authorizer import AllowAll, Authorizer
from floecat.catalog.call_context import CallContext
from floecat.catalog.catalogs import CatalogService
from floecat.catalog.fast_loads import FastLoads
from floecat.catalog.listing import EntryListing
from floecat.catalog.load_table import TableLoader
from floecat.catalog.metrics import MetricsService
from floecat.catalog.namespaces import NamespaceService
from floecat.catalog.replayed_answers import TableAnswers
from floecat.catalog.request_files import RequestFiles
from floecat.catalog.tables import TableService
from floecat.catalog.views import ViewService
from floecat.clock import Clock, SystemClock
from floecat.commits.commit import CommitService
from floecat.commits.commit_services import CommitParts
from floecat.commits.staging import Staging
from floecat.commits.table_registration import RegisterService
from floecat.commits.view_commits import ViewCommitService
from floecat.compression.gzip_members import gzip_blocks
from floecat.connectors.connector_service import ConnectorService
from floecat.connectors.registrations import TableRegistrations
from floecat.connectors.registry import ConnectorRegistry
from floecat.connectors.scans import ConnectorScans
from floecat.delta.artifact_purge import ArtifactPurge, owned_folders
from floecat.delta.delta_format import DeltaLoads
from floecat.delta.delta_table_service import DeltaTableService
from floecat.delta.refresh.refresh_service import DeltaCompat
from floecat.delta.registration import RegisterDeltaService
from floecat.entries.formats import TableFormats
from floecat.entries.idempotency_keys import IdempotencyKeys
from floecat.entries.lookup import Entries
from floecat.entries.metadata_files import MetadataFiles
from floecat.entries.paging import Paging
from floecat.entries.path_readings import Resolver
from floecat.entries.removals import EntryChanges
from floecat.entries.writes import EntryWrites, Retries
from floecat.errors import BadRequestError, SettingsError
from floecat.events.catalog_events import CatalogEvents
from floecat.events.lost_files import LostFiles
from floecat.fileio.base import FileIO
from floecat.fileio.locations import normalize_location
from floecat.fileio.opening import open_fileio
from floecat.identifiers.separator import NamespaceSeparator
from floecat.jobs.operations import JobOperations
from floecat.jobs.queue import JobQueue
from floecat.jobs.workers import JobWorkers
from floecat.memory_budget import MemoryBudget
from floecat.purge.drops import DropService
from floecat.purge.jobs import PurgeWork, purge_kind
from floecat.purge.live_tables import SharedFiles, StoredTables
from floecat.purge.purger import Purger
from floecat.settings import Settings
from floecat.storage.catalog_storages import object_store_options, open_storages
from floecat.store.confirmed_transactions import Confirmation, ConfirmedTransactions
from floecat.store.database.engine import Store
from floecat.store.document_forms import normalize_documents
from floecat.store.documents import stored_frames
from floecat.store_expiry import Expiry
from floecat.struct_types import prepare_struct_types

__all__ = ["Kernel", "check_locations", "kernel", "open_kernel", "prepare_store"]

_log = logging.getLogger(__name__)


_SPARE_CONNECTIONS = 4
_EXPIRY_INTERVAL_MS = 60_000


class Kernel:
    """Every service of the catalog over one store and one storage.

    Attributes:
        settings: what the kernel was opened with.
        store: the SQL store.
        transactions: runs what changes a catalog.
        files: storage of catalogs that have none of their own in the settings.
        storages: storages of all catalogs.
        memory: what the caches may hold.
        separator: how namespace levels are joined on the wire.
        calls: makes the calls that every service takes.
        catalogs, resolver, namespaces, tables, views, drops, metrics, delta_tables, connectors: services of
            `floecat.catalog`.
        commits, view_commits, registration, delta_registration, connector_scans: services of
            `floecat.commits`.
        compat: makes Delta tables readable; None where that is turned off.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        files: FileIO,
        clock: Clock,
        authorizer: Authorizer | None = None,
    ) -> None:
        """Wires the services; opens nothing. Without an authorizer every principal may do everything."""
        gateway = settings.gateway
        self.settings = settings
        self.store = store
        self.files = files
        self.storages = open_storages(settings, files)
        self.clock = clock
        self._authorizer = authorizer or AllowAll()
        self.separator = NamespaceSeparator(unquote(gateway.namespace_separator))
        confirm = gateway.commit.confirm
        self.transactions = ConfirmedTransactions(
            store, Confirmation(confirm.max_attempts, confirm.initial_sleep_ms, confirm.max_sleep_ms)
        )
        self.memory = MemoryBudget(settings.cache.memory)
        gzip_blocks.resize(self.memory.share("gzip-blocks"))
        stored_frames.resize(self.memory.share("stored-frames"))
        self.entries = Entries(store, self.memory)
        self.keys = IdempotencyKeys(
            store,
            clock,
            lifetime_ms=gateway.idempotency_key_lifetime.ms,
            grace_ms=gateway.idempotency_grace.ms,
            stale_after_ms=gateway.idempotency_in_progress_timeout.ms,
        )
        self._workers: list[Expiry | JobWorkers] = []
        self._purge_workers: JobWorkers | None = None
        self._wire_catalog(settings)
        self._wire_transactions(settings)

    def _wire_catalog(self, settings: Settings) -> None:
        store, clock, gateway = self.store, self.clock, settings.gateway
        paging = Paging(default_size=gateway.default_page_size, max_size=gateway.max_page_size)
        listing = EntryListing(store, paging)
        changes = EntryChanges(self.transactions, clock)
        self.metadata_files = MetadataFiles(
            max_bytes=gateway.max_metadata_file_bytes,
            gzip_above_bytes=gateway.gzip_metadata_above_bytes,
        )
        compat = gateway.delta_compat
        self.compat = (
            DeltaCompat(store, self.transactions, clock, compat, self.memory) if compat.enabled else None
        )
        self.delta_loads = DeltaLoads(self.entries, self.compat)
        self.delta_tables = DeltaTableService(store, self.delta_loads)
        self.formats = TableFormats({"delta": self.delta_loads})
        self.loader = TableLoader(
            self.entries,
            self.metadata_files,
            self.formats,
            verify_metadata_file=gateway.verify_metadata_file,
        )
        self.fast_loads = FastLoads(
            store,
            self.entries,
            self.formats,
            self.loader,
            verify_metadata_file=gateway.verify_metadata_file,
        )
        self.answers = TableAnswers(self.entries, self.metadata_files, self.loader)
        self.catalogs = CatalogService(store, clock, self.memory, self.storages)
        self.calls = CallContext(self.catalogs, self._authorizer)
        self.resolver = Resolver(store, self.separator)
        self.namespaces = NamespaceService(
            store, self.transactions, clock, self.keys, paging, reserved=self.separator.reserved
        )
        self.tables = TableService(store, listing, self.loader, changes, self.keys, self.answers)
        self.views = ViewService(store, self.entries, listing, changes, self.keys)
        shared = SharedFiles(
            StoredTables(store, self.storages),
            {"delta": owned_folders},
            area_bytes=self.memory.share("purge-areas"),
        )
        batch_size = settings.purge.batch_size
        artifacts = ArtifactPurge(shared, batch_size=batch_size)
        purger = Purger(self.metadata_files, shared, batch_size=batch_size, others={"delta": artifacts})
        purge = purge_kind(
            PurgeWork(store, self.storages, purger),
            lease_ms=settings.purge.lease_ms,
            max_attempts=settings.purge.max_attempts,
            retention_ms=settings.purge.retention.ms,
        )
        self.purge_queue = JobQueue(store, clock, purge)
        self.drops = DropService(self.tables, clock, purge, self._wake_purge_workers)
        self.metrics = MetricsService(store, clock)
        self.events = CatalogEvents(store, self.metadata_files, self.storages)
        self.lost_files = LostFiles(store, self.metadata_files, self.storages)

    def _wire_transactions(self, settings: Settings) -> None:
        store, clock, gateway = self.store, self.clock, settings.gateway
        replan = gateway.commit.replan
        writes = EntryWrites(
            store,
            self.transactions,
            self.keys,
            self.entries,
            self.metadata_files,
            self.storages,
            clock,
            Retries(replan.max_attempts, replan.initial_sleep_ms, replan.max_sleep_ms),
        )
        parts = CommitParts(
            store=store,
            transactions=self.transactions,
            clock=clock,
            entries=self.entries,
            files=self.metadata_files,
            loader=self.loader,
            answers=self.answers,
            keys=self.keys,
            formats=self.formats,
            writes=writes,
            storages=self.storages,
        )
        self.commits = CommitService(parts, Staging(store, clock, ttl_ms=gateway.stage_ttl_seconds * 1000))
        self.view_commits = ViewCommitService(parts)
        self.registration = RegisterService(
            parts,
            RequestFiles(enabled=gateway.register_storage_properties),
        )

        self.delta_registration = RegisterDeltaService(
            parts,
            self.delta_loads,
            compat_location=_compat_location(settings),
        )
        self.registrations = TableRegistrations({"delta": self.delta_registration})
        self.connectors = ConnectorService(
            store,
            self.transactions,
            clock,
            self.keys,
            ConnectorRegistry(settings.connectors.kinds),
            reserved=self.separator.reserved,
        )
        self.connector_scans = ConnectorScans(
            store,
            clock,
            self.catalogs,
            self.connectors,
            self.namespaces,
            self.registrations,
            reading_s=gateway.delta_compat.wait.seconds,
        )
        self.jobs = JobOperations(store, clock, [self.purge_queue.kind, self.connector_scans.kind])

    def start_workers(self) -> None:
        """Starts the threads behind the requests: purge of dropped tables, removal of what expired."""
        settings = self.settings
        expiry = Expiry(
            self.store,
            self.clock,
            self.jobs,
            interval_ms=_EXPIRY_INTERVAL_MS,
            keep_reports_ms=settings.gateway.metrics_report_retention.ms,
        )
        self._workers.append(expiry)
        if settings.purge.enabled:
            self._purge_workers = JobWorkers(
                self.purge_queue,
                threads=settings.purge.workers,
                poll_interval_ms=settings.purge.poll_interval_ms,
            )
            self._workers.append(self._purge_workers)
        for worker in self._workers:
            worker.start()

    def _wake_purge_workers(self) -> None:
        if self._purge_workers is not None:
            self._purge_workers.wake()

    def close(self) -> None:
        """Stops the workers and what refreshes Delta tables, and closes the connections to the store."""
        for worker in self._workers:
            worker.stop()
        self._workers.clear()
        if self.compat is not None:
            self.compat.close()
        self.store.close()


def open_kernel(
    settings: Settings, *, clock: Clock | None = None, authorizer: Authorizer | None = None
) -> Kernel:
    """Opens the store and storage that the settings name.

    Args:
        settings: of the process.
        clock: the time.
        authorizer: decides what principals may do. Without one they may do everything in their account.

    Raises:
        SettingsError: the schema of the store is not the one of this version; `floecat db upgrade` mends it.
            Or a location or a kind of connector that is set is malformed.
        StoreUnavailableError: the store does not answer.
    """
    check_locations(settings)
    store = Store.open(
        settings.store_url,
        # the threads of requests may take all of the pool; those behind them and the event loop read too
        pool_size=settings.store.pool_size + _SPARE_CONNECTIONS,
        timeout_s=settings.store.timeout_ms / 1000,
    )
    try:
        store.check_schema()
        files = open_fileio(object_store_options(settings.storage), fsync=settings.storage.fsync)
        opened = Kernel(settings, store, files, clock or SystemClock(), authorizer)
    except BaseException:
        store.close()
        raise
    prepare_struct_types()
    return opened


def check_locations(settings: Settings) -> None:
    """Refuses settings that name a location in a way that no storage could be found by.

    Raises:
        SettingsError: such a setting; the message names it.
    """
    gateway = settings.gateway
    named = [
        ("floecat.storage.allowed-locations", location) for location in settings.storage.allowed_locations
    ]
    if gateway.default_warehouse_path is not None:
        named.append(("floecat.gateway.default-warehouse-path", gateway.default_warehouse_path))
    if gateway.delta_compat.location is not None:
        named.append(("floecat.gateway.delta-compat.location", gateway.delta_compat.location))
    for key, location in named:
        try:
            normalize_location(location)
        except BadRequestError as error:
            raise SettingsError(f"{key}: {error.message}") from None


def _compat_location(settings: Settings) -> str | None:
    location = settings.gateway.delta_compat.location
    return None if location is None else str(normalize_location(location))


def prepare_store(settings: Settings, report: Callable[[str], None] = _log.info) -> None:
    """Brings the store to the schema and documents of this version, and makes the default catalog if missing.

    Safe when several processes do it at once.

    Args:
        settings: name the store.
        report: takes a line now and then while documents are brought up to date.

    Raises:
        SettingsError: the URL of the store or a location is malformed, or a newer version has upgraded the
            store.
        StoreUnavailableError: the store does not answer.
    """
    check_locations(settings)
    settings.data_path.mkdir(parents=True, exist_ok=True)
    store = Store.open(settings.store_url)
    try:
        store.upgrade()
        normalize_documents(store, report)
    finally:
        store.close()
    gateway = settings.gateway
    with kernel(settings) as opened:
        opened.catalogs.ensure(
            gateway.default_account_id, gateway.default_prefix, settings.warehouse_location
        )


@contextmanager
def kernel(settings: Settings) -> Iterator[Kernel]:
    """An open kernel for a block of code."""
    opened = open_kernel(settings)
    try:
        yield opened
    finally:
        opened.close()
