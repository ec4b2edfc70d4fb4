"""The services of connectors."""

from __future__ import annotations

from dataclasses import dataclass

from floecat.auth.deadlines import trusting
from floecat.catalog.open_catalog import CatalogServices
from floecat.connectors.adoption import Adoption
from floecat.connectors.connector_service import ConnectorService
from floecat.connectors.followed_format import FOLLOWED, FollowedFormat
from floecat.connectors.followed_tables import DropTable, FollowedTables
from floecat.connectors.registrations import TableRegistrations
from floecat.connectors.registry import ConnectorRegistry
from floecat.connectors.scanning.captures import AskForCaptures
from floecat.connectors.scanning.scan_jobs import ScanJobs
from floecat.connectors.scanning.scans import ConnectorScans
from floecat.connectors.upstream_http import CA_FILE
from floecat.connectors.validation import ConnectorTrial
from floecat.credentials.secrets import Encryption
from floecat.entries.open_entries import EntryParts
from floecat.identifiers.encoding import NamespaceSeparator
from floecat.jobs.background import Background
from floecat.settings import Settings

__all__ = ["FOLLOWED", "ConnectorServices", "FollowedFormat", "open_connectors"]


@dataclass(frozen=True, slots=True)
class ConnectorServices:
    """The services."""

    connectors: ConnectorService
    scans: ConnectorScans
    jobs: ScanJobs
    trial: ConnectorTrial
    adoption: Adoption


def open_connectors(
    parts: EntryParts,
    catalog: CatalogServices,
    registrations: TableRegistrations,
    drop_table: DropTable,
    ask_for_captures: AskForCaptures,
    encryption: Encryption,
    separator: NamespaceSeparator,
    settings: Settings,
    background: Background,
) -> ConnectorServices:
    """The services over the parts of entries.

    Args:
        catalog: finds catalogs and makes namespaces.
        registrations: register what a scan finds.
        drop_table: removes a table.
        ask_for_captures: has tables captured.
        encryption: of credentials.
        separator: how namespace levels are joined on the wire.
        background: knows jobs of all kinds.

    Raises:
        SettingsError: a kind of connector that is set is malformed, or the file of authorities holds none.
    """
    if settings.connectors.ca_file:
        trusting(settings.connectors.ca_file, CA_FILE)  # refuses the file now rather than with every scan
    connectors = ConnectorService(
        parts.store,
        parts.transactions,
        parts.clock,
        parts.keys,
        ConnectorRegistry(settings.connectors.kinds),
        encryption,
        settings.connectors,
        reserved=separator.reserved,
        most=settings.limits.connectors,
    )
    followed = FollowedTables(parts, catalog, drop_table, grace_ms=settings.connectors.gone_table_grace.ms)
    scans = ConnectorScans(
        parts.store,
        parts.clock,
        connectors,
        catalog.namespaces,
        registrations,
        followed,
        ask_for_captures,
        reading_s=settings.gateway.delta_compat.wait.seconds,
        limits=settings.limits,
    )
    scan_jobs = ScanJobs(parts.store, parts.clock, catalog.catalogs, connectors, scans, settings)
    background.jobs.add(scan_jobs.kind)
    background.add(stop=scan_jobs.stop)
    trial = ConnectorTrial(connectors, registrations)
    return ConnectorServices(connectors, scans, scan_jobs, trial, Adoption(parts, connectors, followed))
