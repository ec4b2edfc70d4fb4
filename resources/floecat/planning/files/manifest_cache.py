"""Decoded manifests, kept in memory and maybe on local disk, by table and location."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from floecat.iceberg.manifests.lists import ManifestFile
from floecat.iceberg.values.bounds import Bounds
from floecat.memory_budget import LruCache
from floecat.planning.files.manifest_disk import ManifestDisk
from floecat.planning.files.manifest_files import (
    COLUMN_SIZES,
    ManifestColumns,
    SpecTypes,
    decode_manifest,
    read_bounded,
    with_metrics,
)
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["ManifestCache"]


class ManifestCache:
    """Manifests in memory, within a budget, and on disk beneath. Thread-safe."""

    def __init__(
        self, cache: LruCache[ManifestColumns], bounds: Bounds, disk: ManifestDisk | None = None
    ) -> None:
        self._cache = cache
        self._bounds = bounds
        self._disk = disk

    def held(
        self,
        storage: CatalogStorage,
        table_uuid: str,
        listed: ManifestFile,
        spec: SpecTypes,
        column_ids: frozenset[int],
    ) -> ManifestColumns | None:
        """The result of `load`, if it is in memory."""
        found = self._cache.get(_key(storage, table_uuid, listed, spec))
        return found if found is not None and column_ids <= found.metric_ids else None

    def keep(
        self,
        storage: CatalogStorage,
        table_uuid: str,
        listed: ManifestFile,
        spec: SpecTypes,
        files: ManifestColumns,
    ) -> None:
        """Keeps what another planner decoded in memory."""
        if self.held(storage, table_uuid, listed, spec, files.metric_ids) is None:
            self._cache.put(_key(storage, table_uuid, listed, spec), files, files.size_bytes)

    def load(
        self,
        storage: CatalogStorage,
        table_uuid: str,
        listed: ManifestFile,
        spec: SpecTypes,
        column_ids: Collection[int],
    ) -> ManifestColumns:
        """The live files of a manifest.

        Args:
            listed: the manifest's entry in the manifest list.
            spec: of the manifest.
            column_ids: columns whose metrics are needed, and maybe `COLUMN_SIZES`.

        Raises:
            FileMissingError: it is gone.
            InvalidMetadataError: it is damaged, or exceeds a bound.
            LocationNotAllowedError: it is outside the allowed locations.
        """
        wanted = frozenset(column_ids)
        key = _key(storage, table_uuid, listed, spec)
        held = self._cache.get(key)
        if held is not None and wanted <= held.metric_ids:
            return held
        disk_key = None if self._disk is None else _disk_key(storage, table_uuid, listed, spec)
        held = self._fuller(held, disk_key)
        if held is None or not wanted <= held.metric_ids:
            held = self._read(held, storage, listed, spec, wanted)
            if self._disk is not None and disk_key is not None:
                self._disk.put(disk_key, held)
        self._cache.put(key, held, held.size_bytes)
        return held

    def _fuller(self, held: ManifestColumns | None, disk_key: str | None) -> ManifestColumns | None:
        """The columns in memory, or those on disk if these have more metrics."""
        found = None if self._disk is None or disk_key is None else self._disk.get(disk_key)
        if held is None or (found is not None and found.metric_ids >= held.metric_ids):
            return found
        return held

    def _read(
        self,
        held: ManifestColumns | None,
        storage: CatalogStorage,
        listed: ManifestFile,
        spec: SpecTypes,
        wanted: frozenset[int],
    ) -> ManifestColumns:
        data = read_bounded(storage, listed.manifest_path, "manifest", self._bounds)
        if held is None:
            return decode_manifest(data, listed, spec, wanted, self._bounds)
        missing = wanted - held.metric_ids
        if COLUMN_SIZES in missing:
            missing |= held.metric_ids
        return with_metrics(held, data, listed, missing, self._bounds)


def _key(storage: CatalogStorage, table_uuid: str, listed: ManifestFile, spec: SpecTypes) -> Hashable:
    # of the roots it was checked that they hold the file
    return (storage.access_key, storage.allowed.roots, *_decoded_key(table_uuid, listed, spec))


def _decoded_key(table_uuid: str, listed: ManifestFile, spec: SpecTypes) -> tuple[object, ...]:
    return (
        table_uuid,  # a table that is made at the place of a dropped one may use its file names
        listed.manifest_path,
        listed.manifest_length,
        # entries inherit these, and a list may give a manifest new ones
        listed.sequence_number,
        listed.added_snapshot_id,
        listed.first_row_id,
        spec.types,
    )


def _disk_key(storage: CatalogStorage, table_uuid: str, listed: ManifestFile, spec: SpecTypes) -> str:
    """The same for any process. Checks that the location is allowed, as reading the manifest does."""
    storage.allowed.check(listed.manifest_path)
    # who reaches the store as someone else reads for himself; no secrets show in this
    reached = (storage.store_key, storage.options(listed.manifest_path))
    return repr((*reached, *_decoded_key(table_uuid, listed, spec), spec.spec))
