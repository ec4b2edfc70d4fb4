"""The services that write metadata."""

from __future__ import annotations

from dataclasses import dataclass

from floecat.catalog.open_catalog import CatalogServices
from floecat.catalog.request_files import RequestFiles
from floecat.commits.commit import CommitService
from floecat.commits.staging import Staging
from floecat.commits.table_registration import RegisterService
from floecat.commits.view_commits import ViewCommitService
from floecat.entries.formats import TableFormats
from floecat.entries.open_entries import EntryParts
from floecat.jobs.background import Background
from floecat.settings import Settings
from floecat.store.entries import staged_tables

__all__ = ["CommitServices", "open_commits"]


@dataclass(frozen=True, slots=True)
class CommitServices:
    """The services."""

    tables: CommitService
    views: ViewCommitService
    registration: RegisterService


def open_commits(
    parts: EntryParts,
    catalog: CatalogServices,
    formats: TableFormats,
    settings: Settings,
    background: Background,
) -> CommitServices:
    """The services over the parts of entries.

    Args:
        catalog: renders and replays answers.
        formats: say which tables take commits.
        background: removes staged tables that expired.
    """
    gateway = settings.gateway
    background.sweeps["staged_tables"] = staged_tables.delete_expired
    staging = Staging(parts.store, parts.clock, ttl_ms=gateway.stage_ttl_seconds * 1000)
    request_files = RequestFiles(enabled=gateway.register_storage_properties)
    return CommitServices(
        tables=CommitService(parts, catalog, formats, staging),
        views=ViewCommitService(parts, formats),
        registration=RegisterService(parts, catalog, formats, request_files),
    )
