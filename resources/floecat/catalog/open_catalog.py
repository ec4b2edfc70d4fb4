"""The services of a catalog that write no metadata."""

from __future__ import annotations

from dataclasses import dataclass

from floecat.access.open_access import AccessServices
from floecat.catalog.catalog_changes import CatalogChanges
from floecat.catalog.catalog_directory import CatalogDirectory
from floecat.catalog.catalogs import CallContext, CatalogService
from floecat.catalog.declared_access import AccessDeclarations
from floecat.catalog.load_table import FastLoads, TableLoader
from floecat.catalog.marks import Marks
from floecat.catalog.metrics import MetricsService
from floecat.catalog.namespaces import NamespaceService
from floecat.catalog.nested_catalogs import NestedCatalogs
from floecat.catalog.recent_loads import RecentLoads
from floecat.catalog.replayed_answers import TableAnswers
from floecat.catalog.tables import TableService
from floecat.catalog.view_chains import ViewChains
from floecat.catalog.views import ViewService
from floecat.credentials.open_credentials import CredentialServices
from floecat.entries.drops_and_renames import DropsAndRenames
from floecat.entries.formats import TableFormats
from floecat.entries.listing import EntryListing, ListStates, Paging
from floecat.entries.names import Resolver
from floecat.entries.open_entries import EntryParts
from floecat.identifiers.encoding import NamespaceSeparator
from floecat.jobs.background import Background
from floecat.settings import Settings
from floecat.store.commits import idempotency, metrics
from floecat.store.commits.confirmed_transactions import TRACES_KEPT_MS, delete_traces

__all__ = ["CatalogServices", "open_catalog"]


@dataclass(frozen=True, slots=True)
class CatalogServices:
    """The services."""

    catalogs: CatalogService
    changes: CatalogChanges
    directory: CatalogDirectory
    nested: NestedCatalogs
    marks: Marks
    access: AccessDeclarations
    view_chains: ViewChains
    calls: CallContext
    resolver: Resolver
    namespaces: NamespaceService
    loads: RecentLoads
    loader: TableLoader
    fast_loads: FastLoads
    list_states: ListStates
    answers: TableAnswers
    tables: TableService
    views: ViewService
    metrics: MetricsService


def open_catalog(
    parts: EntryParts,
    formats: TableFormats,
    access: AccessServices,
    credentials: CredentialServices,
    separator: NamespaceSeparator,
    settings: Settings,
    background: Background,
) -> CatalogServices:
    """The services over the parts of entries.

    Args:
        formats: bring tables up to date.
        access: decides what principals may do.
        credentials: adds keys to the storage to answers.
        separator: how namespace levels are joined on the wire.
        background: removes what expired.
    """
    gateway, store = settings.gateway, parts.store
    paging = Paging(default_size=gateway.default_page_size, max_size=gateway.max_page_size)
    listing = EntryListing(store, paging)
    changes = DropsAndRenames(parts.transactions, parts.clock)
    verify = gateway.verify_metadata_file
    loads = RecentLoads(parts.clock, settings.statistics.publish_after.ms)
    loader = TableLoader(
        parts.entries,
        parts.files,
        formats,
        loads,
        credentials.vending,
        verify_metadata_file=verify,
        scan_planning_mode=gateway.scan_planning_mode,
    )
    answers = TableAnswers(parts.entries, parts.files, loader)
    keep_reports_ms = gateway.metrics_report_retention.ms
    background.sweeps.update(
        idempotency_records=idempotency.delete_expired,
        transactions=lambda conn, now_ms, limit: delete_traces(conn, now_ms - TRACES_KEPT_MS, limit),
        metrics_reports=lambda conn, now_ms, limit: metrics.delete_before(
            conn, now_ms - keep_reports_ms, limit
        ),
        surplus_metrics_reports=metrics.Surplus(settings.limits.metrics_reports_bytes).delete,
    )
    names = settings.namespaces
    catalogs = CatalogService(
        store,
        parts.clock,
        parts.memory,
        parts.storages,
        clients_choose=gateway.client_locations == "allow",
        schema_separator=names.separator if names.nested else None,
    )
    return CatalogServices(
        catalogs=catalogs,
        changes=CatalogChanges(
            parts.transactions,
            parts.clock,
            catalogs,
            credentials.authorities,
            parts.keys,
            shared_locations=settings.storage.allowed_locations,
            addable_locations=settings.storage.addable_locations,
            most_locations=settings.limits.catalog_locations,
        ),
        directory=CatalogDirectory(
            catalogs,
            access.authorizer,
            credentials.authorities,
            addable_locations=settings.storage.addable_locations,
            most_locations=settings.limits.catalog_locations,
        ),
        nested=NestedCatalogs(store, parts.clock, catalogs, names),
        marks=Marks(store, parts.clock, catalogs),
        access=AccessDeclarations(access.access, access.roles, catalogs),
        calls=CallContext(catalogs, access.authorizer),
        view_chains=ViewChains(store, parts.entries, settings.auth.trusted_engines),
        resolver=Resolver(store, separator),
        namespaces=NamespaceService(
            store,
            parts.transactions,
            parts.clock,
            parts.keys,
            paging,
            reserved=separator.reserved,
            separator=names.separator if names.separator_policy == "predefined" else None,
            most_property_bytes=settings.limits.namespace_property_bytes,
        ),
        loads=loads,
        loader=loader,
        fast_loads=FastLoads(
            store, parts.entries, formats, loader, credentials.vending, verify_metadata_file=verify
        ),
        list_states=ListStates(store),
        answers=answers,
        tables=TableService(store, listing, loader, changes, parts.keys, answers),
        views=ViewService(store, parts.entries, listing, changes, parts.keys, credentials.vending),
        metrics=MetricsService(store, parts.clock, max_report_bytes=settings.limits.metrics_report_bytes),
    )
