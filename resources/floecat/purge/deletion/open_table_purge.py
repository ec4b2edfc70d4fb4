"""The purge of Iceberg tables over a store: the same in the service, in its purge processes, and in runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from uuid import UUID

from floecat.entries.open_entries import EntryParts
from floecat.errors import LocationNotAllowedError
from floecat.purge.deletion.earlier_metadata import EarlierMetadata
from floecat.purge.deletion.table_purge import FormatPurge, PurgeTarget, Sidecars, TablePurge
from floecat.purge.sharing.artifact_locations import ArtifactLocations
from floecat.purge.sharing.live_tables import StoredTables, all_folders
from floecat.purge.sharing.shared_files import SharedFiles
from floecat.settings import Settings
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["open_shared_files", "open_table_purge", "sidecars_of_artifacts", "storage_finder"]


def open_shared_files(
    parts: EntryParts, settings: Settings, formats: Iterable[str], *, processes: int = 1
) -> SharedFiles:
    """The service that finds files that live tables need.

    Args:
        parts: what services share.
        formats: names of the formats other than Iceberg.
        processes: how many share the memory for areas.
    """
    return SharedFiles(
        StoredTables(parts.store, parts.storages, parts.clock),
        dict.fromkeys(formats, all_folders),
        bounds=settings.limits,
        area_bytes=parts.memory.share("purge-areas") // processes,
    )


def open_table_purge(
    parts: EntryParts, settings: Settings, shared: SharedFiles, others: Mapping[str, FormatPurge]
) -> TablePurge:
    """The purge.

    Args:
        parts: what services share.
        shared: as of `open_shared_files`.
        others: purges of other formats, by name.
    """
    purge = settings.purge
    return TablePurge(
        parts.files,
        shared,
        batch_size=purge.files_per_call,
        threads=purge.delete_threads_per_job,
        large_from=purge.large_job_files,
        # a worker that gives out ranges has renewed its lease; they end before it can be another's
        range_s=purge.lease_timeout_ms / 2000,
        bounds=settings.limits,
        sidecars=(EarlierMetadata(parts.store), *sidecars_of_artifacts(parts)),
        others=others,
    )


def sidecars_of_artifacts(parts: EntryParts) -> Sequence[Sidecars]:
    """Finds files of index artifacts of a dropped table."""
    artifacts = ArtifactLocations(parts.store)

    def artifacts_of(target: PurgeTarget) -> Iterator[str]:
        return iter(()) if target.lease is None else artifacts.of_purge(target.lease.job_id)

    return (artifacts_of,)


def storage_finder(parts: EntryParts) -> Callable[[UUID], CatalogStorage]:
    """Finds the storage of a catalog, with the keys of this moment.

    Raises:
        LocationNotAllowedError: the catalog is gone.
    """

    def storage(catalog_id: UUID) -> CatalogStorage:
        with parts.store.read() as conn:
            found = parts.storages.by_id(conn, catalog_id)
        if found is None:
            raise LocationNotAllowedError("the catalog of the table was deleted, and its locations with it")
        return found

    return storage
