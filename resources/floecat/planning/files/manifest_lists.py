"""Manifest lists of snapshots, decoded once and kept in memory by table and location."""

from __future__ import annotations

from floecat.errors import InvalidMetadataError
from floecat.iceberg.avro.container import read_header
from floecat.iceberg.manifests.lists import ManifestFile, read_manifest_list
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.iceberg.values.bounds import Bounds
from floecat.memory_budget import LruCache
from floecat.planning.files.manifest_files import read_bounded
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["ManifestLists"]


class ManifestLists:
    """Manifest lists in memory, within a budget. Thread-safe."""

    def __init__(self, cache: LruCache[tuple[ManifestFile, ...]], bounds: Bounds) -> None:
        self._cache = cache
        self._bounds = bounds

    def load(
        self,
        storage: CatalogStorage,
        table_uuid: str,
        snapshot: SnapshotSummary,
        *,
        at_most: int | None = None,
    ) -> tuple[ManifestFile, ...] | None:
        """The manifests of a snapshot, those that hold no live files included.

        Args:
            table_uuid: of the table: one that is made at the place of a dropped one may use its file names.
            snapshot: whose manifests.
            at_most: a list of more bytes is not decoded; None is given then.

        Raises:
            FileMissingError: the list, or a manifest that an old table names itself, is gone.
            InvalidMetadataError: one of these is damaged or exceeds a bound.
            LocationNotAllowedError: it is outside the allowed locations.
        """
        location = snapshot.manifest_list
        if not location:
            return tuple(self._embedded(storage, path) for path in snapshot.manifests or ())

        # the roots were checked to hold the file
        key = (storage.access_key, storage.allowed.roots, table_uuid, location)
        held = self._cache.get(key)
        if held is not None:
            return held
        data = read_bounded(storage, location, "manifest list", self._bounds)
        if at_most is not None and len(data) > at_most:
            return None
        found = tuple(read_manifest_list(data, location=location, bounds=self._bounds, is_metered=True))
        self._cache.put(key, found, 1024 * (1 + len(found)))
        return found

    def _embedded(self, storage: CatalogStorage, path: str) -> ManifestFile:
        """A manifest that the metadata of a v1 table names: only its header tells its spec."""
        data = read_bounded(storage, path, "manifest", self._bounds)
        header = read_header(data, location=path, what="manifest")
        try:
            spec_id = int(header.metadata.get("partition-spec-id", b"0"))
        except ValueError:
            raise InvalidMetadataError(f"Cannot read manifest {path}: it has no partition spec id") from None
        return ManifestFile(path, len(data), spec_id)
