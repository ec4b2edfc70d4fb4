"""The composition root: settings in, one `Kernel` out. Front ends call its services, nothing below them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from floecat.access.open_access import open_access
from floecat.auth.authorizer import Authorizer
from floecat.catalog.open_catalog import open_catalog
from floecat.clock import Clock, SystemClock
from floecat.commits.open_commits import open_commits
from floecat.connectors.open_connectors import FOLLOWED, FollowedFormat, open_connectors
from floecat.connectors.registrations import TableRegistrations
from floecat.credentials.open_credentials import open_credentials
from floecat.delta.open_delta import artifact_purge, open_delta
from floecat.entries.calls import Catalog
from floecat.entries.formats import TableFormats
from floecat.entries.open_entries import open_entries
from floecat.events.listeners import EventListeners
from floecat.events.open_events import open_events
from floecat.fileio.base import FileIO
from floecat.fileio.opening import open_fileio
from floecat.identifiers.encoding import NamespaceSeparator
from floecat.jobs.background import Background
from floecat.planning.open_planning import open_planning
from floecat.purge.open_purge import no_purge, open_purge
from floecat.settings import Settings
from floecat.statistics.open_statistics import open_statistics
from floecat.storage.catalog_storages import check_locations, object_store_options
from floecat.store.database.engine import Store
from floecat.struct_types import prepare_struct_types

__all__ = ["Kernel", "kernel", "open_kernel", "prepare_store"]

_REFUSALS_INTERVAL_MS = 5_000
_SPARE_CONNECTIONS = 4


class Kernel:
    """Every service of the catalog over one store and one storage.

    Attributes:
        settings: what the kernel was opened with.
        store: the SQL store.
        files: storage of catalogs that have none of their own in the settings.
        clock: the time.
        separator: how namespace levels are joined on the wire.
        parts: what the services share.
        access, credentials, catalog, commits, delta, planning, purge, connectors, statistics, events: of each
            package.
        registrations: register tables of any format by their location.
        listeners: are called with drops and with the stages of purges.
        background: the work behind the requests, which `start` of it starts.
        jobs: jobs of all kinds, as operators see them.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        files: FileIO,
        clock: Clock,
        authorizer: Authorizer | None = None,
    ) -> None:
        """Wires the services; opens nothing. Without an authorizer, the settings choose one."""
        self.settings, self.store, self.files, self.clock = settings, store, files, clock
        self.separator = NamespaceSeparator(unquote(settings.gateway.namespace_separator))
        self.listeners = EventListeners.named(settings.events.listeners)
        self.background = background = Background(store, clock)
        self.jobs = background.jobs
        self.parts = parts = open_entries(settings, store, files, clock)
        self.access = open_access(settings, store, parts.memory, clock, authorizer)
        refusals = self.access.refusals
        background.sweeps["refusals"] = refusals.sweep
        background.add_loop("refusals", refusals.flush, _REFUSALS_INTERVAL_MS)
        background.add(stop=refusals.flush)
        background.add(stop=self.access.authorizer.close)
        self.credentials = open_credentials(parts, settings, self.access.changes)
        self.delta = open_delta(parts, settings, background)
        formats = TableFormats({"delta": self.delta.format, FOLLOWED: FollowedFormat(store)})
        self.registrations = TableRegistrations({"delta": self.delta.registration})
        self.catalog = open_catalog(
            parts, formats, self.access, self.credentials, self.separator, settings, background
        )
        self.commits = open_commits(parts, self.catalog, formats, settings, background)
        self.planning = open_planning(parts, formats, settings, background)
        self.purge = open_purge(
            parts,
            self.catalog.namespaces,
            self.catalog.tables,
            settings,
            self.listeners,
            background,
            others={"delta": lambda shared: artifact_purge(shared, settings), FOLLOWED: no_purge},
        )
        self.statistics = open_statistics(
            parts, formats, self.planning.planner, self.catalog, self.commits.tables, settings, background
        )
        self.connectors = open_connectors(
            parts,
            self.catalog,
            self.registrations,
            self.purge.drops.drop,
            self.statistics.jobs.requests.request_tables,
            self.credentials.encryption,
            self.separator,
            settings,
            background,
        )
        self.events = open_events(store, parts.files, parts.storages, settings)

    def close(self) -> None:
        """Stops the work behind the requests, and closes the connections to the store."""
        self.background.stop()
        self.store.close()


def open_kernel(
    settings: Settings, *, clock: Clock | None = None, authorizer: Authorizer | None = None
) -> Kernel:
    """Opens the store and storage that the settings name.

    Args:
        authorizer: decides what principals may do. Without one, the settings choose it.

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
        return opened.catalog.catalogs.ensure(
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
