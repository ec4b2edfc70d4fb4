"""The composition root: settings in, one `Kernel` out. Front ends call its services, nothing below them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from floecat.auth.authorizer import AllowAll, Authorizer
from floecat.catalog.open_catalog import open_catalog
from floecat.clock import Clock, SystemClock
from floecat.commits.open_commits import open_commits
from floecat.connectors.open_connectors import open_connectors
from floecat.connectors.registrations import TableRegistrations
from floecat.entries.calls import Catalog
from floecat.entries.formats import TableFormats, TurnedOffFormat
from floecat.entries.open_entries import EntryParts, open_entries
from floecat.errors import BadRequestError, SettingsError
from floecat.events.catalog_events import CatalogEvents
from floecat.events.listeners import EventListeners
from floecat.events.live_entries import LiveEntries
from floecat.events.lost_files import LostFiles
from floecat.events.view_queries import ViewQueries
from floecat.fileio.base import FileIO
from floecat.fileio.locations import check_new_location, normalize_location
from floecat.fileio.opening import open_fileio
from floecat.identifiers.encoding import NamespaceSeparator
from floecat.jobs.operations import JobOperations
from floecat.jobs.workers import JobWorkers
from floecat.planning.open_planning import open_planning
from floecat.purge.deletion.table_purge import DeferredPurge, FormatPurge
from floecat.purge.open_purge import open_purge
from floecat.purge.purge_operations import PurgeOperations
from floecat.purge.sharing.shared_files import SharedFiles
from floecat.settings import Settings
from floecat.statistics.capture.control import CaptureControl
from floecat.statistics.open_statistics import CommitSearch, open_statistics
from floecat.storage.catalog_storages import object_store_options
from floecat.store.database.engine import Store
from floecat.store_expiry import Expiry
from floecat.struct_types import prepare_struct_types

if TYPE_CHECKING:
    from floecat.delta.delta_format import DeltaLoads, DeltaTableService
    from floecat.delta.open_delta import DeltaServices
    from floecat.delta.refresh.pipeline import DeltaPipeline
    from floecat.delta.refresh.refresh_service import DeltaRefreshService
    from floecat.delta.registration import RegisterDeltaService

__all__ = ["Kernel", "check_locations", "kernel", "open_kernel", "prepare_store"]

_SPARE_CONNECTIONS = 4
_EXPIRY_INTERVAL_MS = 60_000


class Kernel:
    """Every service of the catalog over one store and one storage.

    Attributes:
        settings: what the kernel was opened with.
        store: the SQL store.
        files: storage of catalogs that have none of their own in the settings.
        clock: the time.
        separator: how namespace levels are joined on the wire.
        parts: what the services share; `storages`, `memory`, `transactions`, `entries`, `keys` and
            `metadata_files` are of it.
        calls: makes the calls that every service takes.
        catalogs, catalog_changes, catalog_directory, resolver, namespaces, tables, views, metrics, loader,
            fast_loads: services of `floecat.catalog`.
        commits, view_commits, registration: services of `floecat.commits`.
        listeners: are called with drops and with the stages of purges.
        drops, purge_queue, entry_file_queue, purgers, large_purges, orphans: services of `floecat.purge`.
        statistics, constraints, index_artifacts, captures, capture_policies: services of
            `floecat.statistics`.
        statistics_pipeline: captures, as the pipeline works on them.
        connectors, connector_scans: services of `floecat.connectors`.
        plans, plan_tasks, explanations, queries, plan_queue: services of `floecat.planning`.
        delta_loads, delta_tables, delta_registration: services of `floecat.delta`, or what refuses in their
            place where Delta tables are turned off.
        registrations: register tables of any format by their location.
        events, live_entries, view_queries, lost_files: services of `floecat.events`.
        jobs: jobs of all kinds, as operators see them.
        purges: purges, as operators see them.
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
        self.settings, self.store, self.files, self.clock = settings, store, files, clock
        self.separator = NamespaceSeparator(unquote(settings.gateway.namespace_separator))
        self._workers: list[Expiry | JobWorkers | CommitSearch] = []
        self._capture_workers: list[JobWorkers] = []
        self._purge_workers: list[JobWorkers] = []
        self._plan_workers: JobWorkers | None = None

        self.parts = open_entries(settings, store, files, clock)
        self.storages, self.memory = self.parts.storages, self.parts.memory
        self.transactions, self.entries = self.parts.transactions, self.parts.entries
        self.keys, self.metadata_files = self.parts.keys, self.parts.files

        self._delta = _open_delta(self.parts, settings)
        off = self._off = TurnedOffFormat("Delta", "floecat.gateway.delta-compat.enabled")
        self.delta_loads: DeltaLoads | TurnedOffFormat = self._delta.format if self._delta else off
        self.delta_tables: DeltaTableService | TurnedOffFormat = self._delta.tables if self._delta else off
        self.delta_registration: RegisterDeltaService | TurnedOffFormat = (
            self._delta.registration if self._delta else off
        )
        formats = TableFormats({"delta": self.delta_loads})
        self.registrations = TableRegistrations({"delta": self.delta_registration})

        catalog = open_catalog(self.parts, formats, authorizer or AllowAll(), self.separator, settings)
        self.catalogs, self.calls = catalog.catalogs, catalog.calls
        self.catalog_changes = catalog.catalog_changes
        self.catalog_directory = catalog.catalog_directory
        self.resolver, self.metrics = catalog.resolver, catalog.metrics
        self.namespaces, self.tables, self.views = catalog.namespaces, catalog.tables, catalog.views
        self.loader, self.fast_loads = catalog.loader, catalog.fast_loads
        self._loads = catalog.loads

        commits = open_commits(self.parts, catalog, formats, settings)
        self.commits, self.view_commits = commits.commits, commits.view_commits
        self.registration = commits.registration

        self.listeners = EventListeners.named(settings.events.listeners)
        self._planning = planning = open_planning(self.parts, formats, settings, wake=self._wake_plan_workers)
        self.plans, self.plan_tasks = planning.plans, planning.tasks
        self.explanations, self.queries, self.plan_queue = (
            planning.explanations,
            planning.queries,
            planning.queue,
        )

        purge = open_purge(
            self.parts,
            catalog.namespaces,
            catalog.tables,
            settings,
            self.listeners,
            others={"delta": lambda shared: _artifact_purge(shared, settings)},
            wake=self._wake_purge_workers,
        )
        self.drops, self.purge_queue, self.purgers = purge.drops, purge.queue, purge.purgers
        self.large_purges, self.orphans = purge.large_jobs, purge.orphans
        self.entry_file_queue = purge.entry_files
        self._purge_processes = purge.processes

        connectors = open_connectors(self.parts, catalog, self.registrations, self.separator, settings)
        self.connectors, self.connector_scans = connectors.connectors, connectors.scans

        account_id = settings.gateway.default_account_id
        made = open_statistics(
            self.parts,
            formats,
            planning.planner,
            self.calls,
            self.commits,
            catalog.loads,
            self.catalog_changes,
            settings,
            wake=self._wake_capture_workers,
        )
        self.statistics, self.constraints = made.targets, made.constraints
        self.index_artifacts, self.statistics_pipeline = made.index_artifacts, made.pipeline
        self.capture_policies = made.policies
        self._captures = made.jobs
        self._capture_processes = made.processes

        self.events = CatalogEvents(
            store,
            self.metadata_files,
            self.storages,
            default_account_id=account_id,
            memory_bytes=settings.limits.working_memory_bytes,
        )
        self.live_entries = LiveEntries(store, default_account_id=account_id)
        self.view_queries = ViewQueries(store)
        self.lost_files = LostFiles(store, self.metadata_files, self.storages)
        kinds = [self.purge_queue.kind, self.orphans.kind, self.connector_scans.kind, self.plan_queue.kind]
        kinds += [self.entry_file_queue.kind, *(queue.kind for queue in made.jobs.queues)]
        self.jobs = JobOperations(store, clock, kinds)
        self.captures = CaptureControl(store, clock, made.snapshots, made.jobs, self.jobs)
        self.purges = PurgeOperations(self.jobs, self.purge_queue.kind)

    @property
    def compat(self) -> DeltaRefreshService | None:
        """Makes Delta tables readable; `None` where that is turned off."""
        return None if self._delta is None else self._delta.engine.open()

    @property
    def delta_refreshes(self) -> Mapping[str, int]:
        """Looks at logs of Delta tables by loads, by what became of them."""
        return {} if self._delta is None else self._delta.engine.refreshes

    def delta_pipeline(self) -> DeltaPipeline:
        """What the pipeline asks about Delta tables.

        Raises:
            UnsupportedOperationError: Delta tables are turned off.
        """
        if self._delta is None:
            self._off.refuse()
        return self._delta.pipeline(self.parts)

    def start_workers(self) -> None:
        """Starts the threads behind the requests: purges, long plans, captures, removal of what expired."""
        settings = self.settings
        expiry = Expiry(
            self.store,
            self.clock,
            self.jobs,
            interval_ms=_EXPIRY_INTERVAL_MS,
            keep_reports_ms=settings.gateway.metrics_report_retention.ms,
        )
        self._workers.append(expiry)
        if self._purge_processes is not None:
            self._purge_processes.start()
        if settings.purge.enabled:
            self._purge_workers = [
                JobWorkers(
                    queue,
                    threads=threads,
                    poll_interval_ms=settings.purge.poll_interval_ms,
                    claim_batch=settings.purge.claim_batch,
                )
                for queue, threads in (
                    (self.purge_queue, settings.purge.worker_threads),
                    (self.entry_file_queue, 1),
                )
            ]
            self._workers += self._purge_workers
        if settings.planning.workers:
            self._plan_workers = JobWorkers(
                self.plan_queue,
                threads=settings.planning.workers,
                poll_interval_ms=settings.planning.poll_interval_ms,
            )
            self._workers.append(self._plan_workers)
        looks: list[Callable[[], object]] = [partial(self._captures.hold_publications, self._loads)]
        if settings.statistics.workers:
            self._capture_workers = [
                JobWorkers(
                    queue,
                    threads=settings.statistics.workers,
                    poll_interval_ms=settings.statistics.poll_interval_ms,
                )
                for queue in self._captures.queues
            ]
            self._workers += self._capture_workers
            if settings.statistics.enabled:
                looks.append(self._captures.requests.search_commits)
        self._workers.append(CommitSearch(looks, interval_ms=settings.statistics.poll_interval_ms))
        for worker in self._workers:
            worker.start()

    def _wake_capture_workers(self) -> None:
        for workers in self._capture_workers:
            workers.wake()

    def _wake_plan_workers(self) -> None:
        if self._plan_workers is not None:
            self._plan_workers.wake()

    def _wake_purge_workers(self) -> None:
        for workers in self._purge_workers:
            workers.wake()

    def close(self) -> None:
        """Stops the workers and what refreshes Delta tables, and closes the connections to the store."""
        for worker in self._workers:
            worker.stop()
        self._workers.clear()
        self.purgers.close()
        if self._purge_processes is not None:
            self._purge_processes.close()
        self._capture_processes.close()
        self._planning.planner.close()
        if self._delta is not None:
            self._delta.engine.close()
        self.store.close()


def open_kernel(
    settings: Settings, *, clock: Clock | None = None, authorizer: Authorizer | None = None
) -> Kernel:
    """Opens the store and storage that the settings name.

    Args:
        authorizer: decides what principals may do. Without one they may do everything in their account.

    Raises:
        SettingsError: the schema of the store is not the one of this version; `floecat db upgrade` mends it.
            Or there is none, or a location or a kind of connector that is set is malformed.
        StoreUnavailableError: the store does not answer.
    """
    check_locations(settings)
    store = Store.open(
        settings.store_url,
        # the threads of requests may take all of the pool; those behind them and the event loop read too
        pool_size=settings.store.pool_size + _SPARE_CONNECTIONS,
        timeout_s=settings.store.timeout_ms / 1000,
        creates=False,
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
    """Refuses settings with a malformed location.

    Raises:
        SettingsError: such a setting; the message names it.
    """
    gateway = settings.gateway
    storage = settings.storage
    named = [("floecat.storage.allowed-locations", location) for location in storage.allowed_locations]
    named += [("floecat.storage.addable-locations", location) for location in storage.addable_locations]
    written = {
        "floecat.gateway.default-warehouse-path": gateway.default_warehouse_path,
        "floecat.gateway.delta-compat.location": gateway.delta_compat.location,
    }
    named += [(key, location) for key, location in written.items() if location is not None]
    for key, location in named:
        try:
            normalize_location(location)
            if key in written:
                check_new_location(location)
        except BadRequestError as error:
            raise SettingsError(f"{key}: {error.message}") from None


def _open_delta(parts: EntryParts, settings: Settings) -> DeltaServices | None:
    if not settings.gateway.delta_compat.enabled:
        return None
    from floecat.delta.open_delta import open_delta

    return open_delta(parts, settings)


def _artifact_purge(shared: SharedFiles, settings: Settings) -> FormatPurge:
    """Dropped tables are purged where Delta tables are turned off, too."""

    def open_purge() -> FormatPurge:
        from floecat.delta.artifact_purge import ArtifactPurge

        prepare_struct_types()
        return ArtifactPurge(
            shared, batch_size=settings.purge.files_per_call, threads=settings.purge.delete_threads_per_job
        )

    return DeferredPurge(open_purge)


def prepare_store(settings: Settings) -> Catalog:
    """Creates the schema and the default catalog where they are missing.

    Safe when several processes do it at once.

    Args:
        settings: name the store.

    Returns:
        The default catalog. One that was there keeps its location, whatever the settings say.

    Raises:
        SettingsError: the URL of the store or a location is malformed, or another version made the store.
        StoreUnavailableError: the store does not answer.
    """
    check_locations(settings)
    settings.data_path.mkdir(parents=True, exist_ok=True)
    store = Store.open(settings.store_url)
    try:
        store.upgrade()
    finally:
        store.close()
    gateway = settings.gateway
    with kernel(settings) as opened:
        return opened.catalogs.ensure(
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
