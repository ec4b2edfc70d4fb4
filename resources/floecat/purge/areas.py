"""The folders that a table has files in.

Two tables can share a file only if their areas overlap, so areas say cheaply which tables need a closer look.
An area may be larger than the folders it stands for, never smaller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from uuid import UUID

from floecat.errors import (
    BadRequestError,
    BoundExceededError,
    FileMissingError,
    ForbiddenError,
    InvalidMetadataError,
    PayloadTooLargeError,
)
from floecat.fileio.locations import Location
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds, exceeded
from floecat.memory_budget import LruCache
from floecat.purge.location_set import same_file_location
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.tables import EntryState

__all__ = ["Area", "AreaReader", "folder_area", "overlaps"]

Area = frozenset[Location]
"""Folders; all that lies below them belongs to the area."""

_MAX_FOLDERS = 32
_FOLDERS_AT_ONCE = 10_000
_PARALLEL_READS = 8
_SMALL_FILE_BYTES = 8 * 1024 * 1024
"""Larger files are read one at a time."""


def folder_area(folders: Iterable[str]) -> Area:
    """The area of some folders."""
    return _folders(f"{folder.rstrip('/')}/_" for folder in folders)


def overlaps(first: Area, second: Area) -> bool:
    """Whether a file can lie in both areas."""
    return _any_inside(first, second) or _any_inside(second, first)


def _any_inside(inner: Area, outer: Area) -> bool:
    return any(ancestor in outer for folder in inner for ancestor in _self_and_above(folder))


def _self_and_above(folder: Location) -> list[Location]:
    path = folder.path
    found = [folder]
    while path:
        path = path.rpartition("/")[0]
        found.append(folder._replace(path=path))
    return found


class AreaReader:
    """Finds areas, and remembers those of live tables: no file of theirs ever changes.

    Between the lives of two entries one may: a table can be dropped, written anew under the same names of
    files and registered again. So nothing is remembered by the location of a file alone.

    Safe to share between threads. A file that is missing, damaged or refused is left out: no file is
    reachable through it.

    A file that was refused may be allowed later: a reader is valid for one set of allowed locations.
    """

    def __init__(self, bounds: Bounds = DEFAULT_BOUNDS, *, cached_bytes: int) -> None:
        self._bounds = bounds
        self._larger_file = threading.Lock()
        # or why it is unknown: the error itself would keep what was read
        self._known: LruCache[Area | str] = LruCache(cached_bytes)

    def area(
        self,
        storage: CatalogStorage,
        location: str,
        metadata_location: str,
        load: Callable[[], TableMetadata | None],
        state: EntryState | None = None,
    ) -> Area:
        """The area of a table.

        Args:
            storage: of its catalog; nothing outside its allowed locations is read.
            location: base location of the table.
            metadata_location: its metadata file.
            load: the metadata, `None` if it cannot be read; not called if the area is known.
            state: of its entry, under which the area is remembered; `None` for a table that was dropped, of
                which everything is read.

        Raises:
            BoundExceededError: a file of the table exceeds a bound, so the area is unknown.
            StorageUnavailableError: storage fails.
        """
        known = None if state is None else self._known.get(state)
        if isinstance(known, str):
            raise BoundExceededError(known)
        if known is not None:
            return known
        metadata = load()
        folders = _folders([metadata_location])
        if metadata is not None:
            try:
                folders |= self._named_area(storage, metadata, state, metadata_location)
            except BoundExceededError as error:
                if state is not None:
                    self._known.put(state, error.message, _weight(Area()) + len(error.message))
                raise
            except InvalidMetadataError:
                pass  # engines cannot read it either
        home = _folders([f"{location.rstrip('/')}/_"])
        area = _collapsed(home | {folder for folder in folders if not _any_inside(Area({folder}), home)})
        if state is not None:
            self._known.put(state, area, _weight(area))
        return area

    def _named_area(
        self, storage: CatalogStorage, metadata: TableMetadata, state: EntryState | None, location: str
    ) -> Area:
        entry_id = None if state is None else state.id
        lists = [snapshot.manifest_list for snapshot in metadata.snapshots if snapshot.manifest_list]
        manifests = {path for snapshot in metadata.snapshots for path in snapshot.manifests or ()}
        read = Area()
        with ThreadPoolExecutor(_PARALLEL_READS) as pool:
            for found in pool.map(partial(self._manifests, storage), lists):
                manifests |= found
                self._check_number(manifests, location)
            for area in pool.map(partial(self._manifest_area, storage, entry_id), manifests):
                read = _widened(read | area)
        named = [entry.metadata_file for entry in metadata.metadata_log]
        named += [statistics.statistics_path for statistics in metadata.statistics]
        named += [statistics.statistics_path for statistics in metadata.partition_statistics]
        return read | _folders([*named, *lists, *manifests])

    def _manifests(self, storage: CatalogStorage, manifest_list: str) -> set[str]:
        from floecat.iceberg.manifests.lists import read_manifest_list

        found: set[str] = set()
        try:
            with self._opened(storage, "manifest list", manifest_list) as data:
                for manifest in read_manifest_list(data, location=manifest_list, bounds=self._bounds):
                    found.add(manifest.manifest_path)
                    self._check_number(found, manifest_list)
        except BoundExceededError:
            raise
        except InvalidMetadataError:
            pass  # paths before the damage count
        return found

    def _check_number(self, manifests: set[str], location: str) -> None:
        if len(manifests) > self._bounds.table_manifests:
            raise exceeded(
                self._bounds, "table_manifests", f"table metadata {location}", "there are more manifests than"
            )

    def _manifest_area(self, storage: CatalogStorage, entry_id: UUID | None, manifest: str) -> Area:
        from floecat.iceberg.manifests.reader import read_file_paths

        known = None if entry_id is None else self._known.get((entry_id, manifest))
        if isinstance(known, frozenset):
            return known
        area, folders = Area(), set[str]()
        try:
            with self._opened(storage, "manifest", manifest) as data:
                for path in read_file_paths(data, location=manifest, bounds=self._bounds):
                    folders.add(path.rpartition("/")[0] + "/_")
                    if len(folders) > _FOLDERS_AT_ONCE:
                        area = _collapsed(area | _folders(folders))
                        folders.clear()
        except BoundExceededError:
            raise
        except InvalidMetadataError:
            # paths before the damage count
            return _collapsed(area | _folders(folders))
        area = _collapsed(area | _folders(folders))
        if entry_id is not None:
            self._known.put((entry_id, manifest), area, _weight(area) + len(manifest))
        return area

    @contextmanager
    def _opened(self, storage: CatalogStorage, what: str, location: str) -> Iterator[bytes]:
        """The bytes of a file; of a large one while no other thread holds one."""
        most = self._bounds.manifest_bytes
        try:
            data = _read(storage, location, min(most, _SMALL_FILE_BYTES))
        except PayloadTooLargeError:
            pass
        else:
            yield data
            return
        with self._larger_file:
            try:
                data = _read(storage, location, most)
            except PayloadTooLargeError:
                file = f"{what} {location}"
                raise exceeded(self._bounds, "manifest_bytes", file, "it has more bytes than") from None
            yield data


def _read(storage: CatalogStorage, location: str, max_bytes: int) -> bytes:
    try:
        storage.allowed.check(location)
        return storage.files(location).read(location, max_bytes=max_bytes)
    except PayloadTooLargeError:
        raise
    except (FileMissingError, ForbiddenError, BadRequestError):
        return b""


def _folders(files: Iterable[str]) -> Area:
    found: set[Location] = set()
    for file in files:
        try:
            location = same_file_location(file)
        except BadRequestError:
            # no file that can be deleted has this location
            continue
        found.add(location._replace(path=location.path.rpartition("/")[0]))
        if len(found) > _FOLDERS_AT_ONCE:
            found = set(_collapsed(Area(found)))
    return Area(found)


def _widened(area: Area) -> Area:
    """The area in bounded memory."""
    return area if len(area) <= _FOLDERS_AT_ONCE else _collapsed(area)


def _weight(area: Area) -> int:
    # with the key, and the set itself
    return 700 + sum(200 + len(folder.path) for folder in area)


def _collapsed(area: Area) -> Area:
    """The area with at most `_MAX_FOLDERS` folders, larger than before if it must be."""
    while len(area) > _MAX_FOLDERS:
        deepest = max(folder.path.count("/") for folder in area)
        if deepest == 0:
            break
        area = Area(
            folder._replace(path=folder.path.rpartition("/")[0])
            if folder.path.count("/") == deepest
            else folder
            for folder in area
        )
    return area
