"""The services of what happened in the catalogs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from floecat.events.catalog_events import CatalogEvents
from floecat.events.committed_tables import MetadataReader
from floecat.events.live_entries import LiveEntries
from floecat.events.lost_files import LostFiles, MetadataFileLookup
from floecat.events.view_queries import ViewQueries
from floecat.settings import Settings
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store.database.engine import Store

__all__ = ["EventServices", "open_events"]


class _MetadataFiles(MetadataReader, MetadataFileLookup, Protocol):
    """Reads metadata files, and says which are there."""


@dataclass(frozen=True, slots=True)
class EventServices:
    """The services."""

    commits: CatalogEvents
    live_entries: LiveEntries
    view_queries: ViewQueries
    lost_files: LostFiles


def open_events(
    store: Store, files: _MetadataFiles, storages: CatalogStorages, settings: Settings
) -> EventServices:
    """The services over the store; `files` read metadata files."""
    account_id = settings.gateway.default_account_id
    return EventServices(
        commits=CatalogEvents(
            store,
            files,
            storages,
            default_account_id=account_id,
            memory_bytes=settings.limits.working_memory_bytes,
        ),
        live_entries=LiveEntries(store, default_account_id=account_id),
        view_queries=ViewQueries(store),
        lost_files=LostFiles(store, files, storages),
    )
