"""The folders that an entry has files in.

Two tables can share a file only if their areas overlap, so areas say cheaply which tables need a closer look.
An area may be larger than the folders it stands for, never smaller.

On the local disk a folder is named as it is written and as it is once links are followed: one of the two is
the same for two tables in one folder, even if a link was made after the area of one was found.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from floecat.errors import (
    BadRequestError,
    BoundExceededError,
    FileMissingError,
    FloecatError,
    InvalidMetadataError,
    LocationNotAllowedError,
    PayloadTooLargeError,
)
from floecat.fileio.locations import Location, cut_location, normalize_location, same_file_location
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds, exceeded
from floecat.memory_budget import LruCache
from floecat.storage.catalog_storage import CatalogStorage

if TYPE_CHECKING:
    from floecat.iceberg.manifests.lists import ManifestFile

__all__ = [
    "EVERYWHERE",
    "Area",
    "AreaReader",
    "FoundArea",
    "file_area",
    "folder_area",
    "folder_of_text",
    "folder_text",
    "folders_above",
    "overlapping_ranges",
    "overlaps",
]

Area = frozenset[Location]
"""Folders; all that lies below them belongs to the area."""

EVERYWHERE: Final = Location("", "", "")
"""The folder above all others."""

_MAX_FOLDERS = 32
_FOLDERS_AT_ONCE = 10_000
_PARALLEL_READS = 8
_MOST_ADDED = 64
_SMALL_FILE_BYTES = 8 * 1024 * 1024
"""Larger files are read one at a time."""
_LONGEST_AUTHORITY_BYTES = 255
_LONGEST_PATH_BYTES = 1000
"""Longer ones are cut at a folder: PostgreSQL keeps at most 2,704 bytes in an entry of an index."""
_LAST = "\U0010ffff"


def _no_check() -> None:
    """Ends nothing."""


def folder_area(folders: Iterable[str]) -> Area:
    """The area of some folders."""
    return file_area(f"{folder.rstrip('/')}/_" for folder in folders)


def file_area(files: Iterable[str]) -> Area:
    """The area of some files."""
    found: set[Location] = set()
    for name in files:
        file = cut_location(name) or name
        try:
            found |= {_folder_of(normalize_location(file)), _folder_of(same_file_location(file))}
        except BadRequestError:
            # no file that can be deleted has this location
            continue
        if len(found) > _FOLDERS_AT_ONCE:
            found = set(_collapsed(Area(found)))
    return Area(found)


def overlaps(first: Area, second: Area) -> bool:
    """Whether a file can lie in both areas."""
    return _any_inside(first, second) or _any_inside(second, first)


def folder_text(folder: Location) -> str:
    """A folder of an area as text, that of a folder in it followed by a slash and more."""
    return f"{folder.scheme}://{folder.authority}{folder.path}" if folder.scheme else ""


def folder_of_text(text: str) -> Location:
    """The folder that `folder_text` wrote."""
    scheme, _, rest = text.partition("://")
    authority, slash, key = rest.partition("/")
    return Location(scheme, authority, slash + key)


def folders_above(location: Location) -> list[str]:
    """The texts of all folders that hold a location, and of itself."""
    return [folder_text(each) for each in _self_and_above(location)]


def overlapping_ranges(area: Area) -> list[tuple[str, str]]:
    """Ranges of `folder_text`, first and last by code points, that hold all folders which overlap an area."""
    above = {text for folder in area for text in folders_above(folder)}
    below = [f"{folder_text(folder)}/" for folder in area] if EVERYWHERE not in area else [""]
    return [(text, text) for text in sorted(above)] + [(text, text + _LAST) for text in sorted(below)]


def _any_inside(inner: Area, outer: Area) -> bool:
    return any(ancestor in outer for folder in inner for ancestor in _self_and_above(folder))


def _self_and_above(folder: Location) -> list[Location]:
    path = folder.path
    found = [folder]
    while path:
        path = path.rpartition("/")[0]
        found.append(folder._replace(path=path))
    return [*found, EVERYWHERE]


class FoundArea(NamedTuple):
    """The area of a table, and for how long it is valid."""

    folders: Area
    depends_on_roots: bool = False
    """A file was not read because it lies outside the allowed locations."""
    is_settled: bool = True
    """False if a file is missing: it may come back."""


class _Reading:
    """The findings of the threads that read the files of one table."""

    def __init__(self, storage: CatalogStorage, check: Callable[[], None] = _no_check) -> None:
        self._storage = storage
        self._check = check
        self.has_refused = self.has_missed = False

    def read(self, location: str, max_bytes: int) -> bytes | None:
        """The bytes of a file; `None` if nothing is reachable through it.

        Raises:
            PayloadTooLargeError: it is longer.
            ForbiddenError: storage refuses it, today.
            StorageUnavailableError: storage fails.
        """
        self._check()
        location = cut_location(location) or location
        try:
            self._storage.allowed.check(location)
            return self._storage.files(location).read(location, max_bytes=max_bytes)
        except PayloadTooLargeError:
            raise
        except LocationNotAllowedError:
            self.has_refused = True
        except FileMissingError:
            self.has_missed = True
        except BadRequestError:
            pass  # no file has this location
        return None


class AreaReader:
    """Finds areas, and remembers those of the manifests of live entries: no file of theirs ever changes.

    Between the lives of two entries one may: a table can be dropped, written anew under the same names of
    files and registered again. So nothing is remembered by the location of a file alone.

    Safe to share between threads. A file that is missing, damaged or outside the allowed locations is left
    out: no file is reachable through it.
    """

    def __init__(self, bounds: Bounds = DEFAULT_BOUNDS, *, cached_bytes: int) -> None:
        self.bounds: Final = bounds
        self._larger_file = threading.Lock()
        self._known: LruCache[Area] = LruCache(cached_bytes)

    def area(
        self,
        storage: CatalogStorage,
        location: str,
        metadata_location: str,
        metadata: TableMetadata | None,
        entry_id: UUID | None = None,
        *,
        expired: Sequence[SnapshotSummary] = (),
        check: Callable[[], None] = _no_check,
    ) -> FoundArea:
        """The area of a table.

        Args:
            storage: of its catalog; nothing outside its allowed locations is read.
            location: base location of the table.
            metadata_location: its metadata file.
            metadata: what it says, `None` if it cannot be read.
            entry_id: under which areas of manifests are remembered; `None` for a table that was dropped, of
                which everything is read.
            expired: snapshots of the table that `metadata` has no more.
            check: called before each file is read; raises what ends the work.

        Raises:
            BoundExceededError: a file of the table exceeds a bound, so the area is unknown.
            ForbiddenError: storage refuses a file to the catalog, so the area is unknown.
            StorageUnavailableError: storage fails.
        """
        folders, reading = file_area([metadata_location]), _Reading(storage, check)
        if metadata is not None:
            try:
                folders |= self._named_area(reading, metadata, entry_id, metadata_location, expired)
            except BoundExceededError:
                raise
            except InvalidMetadataError:
                pass  # engines cannot read it either
        home = folder_area([location])
        area = _collapsed(home | {folder for folder in folders if not _any_inside(Area({folder}), home)})
        return FoundArea(area, reading.has_refused, not reading.has_missed)

    def added_area(
        self, storage: CatalogStorage, snapshots: Sequence[SnapshotSummary], *, all_manifests: bool
    ) -> Area:
        """The area of the files that new snapshots add to a table.

        It is read while a commit waits. What takes long, or cannot be read, may be everywhere.

        Args:
            snapshots: new to the table.
            all_manifests: whether their manifests are new too, whatever the lists say of them.
        """
        if len(snapshots) > _MOST_ADDED:
            return Area({EVERYWHERE})
        reading, manifests, folders = _Reading(storage), set[str](), set[str]()
        try:
            for snapshot in snapshots:
                added = self._added_manifests(reading, snapshot, folders, all_manifests=all_manifests)
                manifests |= added
            if len(manifests) > _MOST_ADDED:
                return Area({EVERYWHERE})
            read = partial(self._manifest_area, reading, None)
            if len(manifests) < 2:
                areas = list(map(read, manifests))
            else:
                with ThreadPoolExecutor(_PARALLEL_READS) as pool:
                    areas = list(pool.map(read, manifests))
        except FloecatError:
            return Area({EVERYWHERE})
        lists = [snapshot.manifest_list for snapshot in snapshots if snapshot.manifest_list]
        return _collapsed((file_area(lists) | folder_area(folders)).union(*areas))

    def _added_manifests(
        self, reading: _Reading, snapshot: SnapshotSummary, folders: set[str], *, all_manifests: bool
    ) -> set[str]:
        """The manifests that a snapshot adds; `folders` gets those of all its manifests.

        A manifest that the list says is older may be new to the table: that of a table that was copied.
        """
        from floecat.iceberg.manifests.lists import read_manifest_list

        location = snapshot.manifest_list
        if not location:
            added = set(snapshot.manifests or ())
            folders.update(_folder_name(path) for path in added)
            return added
        added = set[str]()
        with self._opened(reading, "manifest list", location) as data:
            listed = read_manifest_list(data, location=location, bounds=self.bounds) if data else ()
            for manifest in listed:
                folders.add(_folder_name(manifest.manifest_path))
                if all_manifests or _is_added(manifest, snapshot):
                    added.add(manifest.manifest_path)
        return added

    def _named_area(
        self,
        reading: _Reading,
        metadata: TableMetadata,
        entry_id: UUID | None,
        location: str,
        expired: Sequence[SnapshotSummary],
    ) -> Area:
        snapshots = [*metadata.snapshots, *expired]
        lists = [snapshot.manifest_list for snapshot in snapshots if snapshot.manifest_list]
        manifests = {path for snapshot in snapshots for path in snapshot.manifests or ()}
        read = Area()
        with ThreadPoolExecutor(_PARALLEL_READS) as pool:
            for found in pool.map(partial(self._manifests, reading), lists):
                manifests |= found
                self._check_number(manifests, location)
            for area in pool.map(partial(self._manifest_area, reading, entry_id), manifests):
                read = _widened(read | area)
        named = [entry.metadata_file for entry in metadata.metadata_log]
        named += [statistics.statistics_path for statistics in metadata.statistics]
        named += [statistics.statistics_path for statistics in metadata.partition_statistics]
        return read | file_area([*named, *lists, *manifests])

    def _manifests(self, reading: _Reading, manifest_list: str) -> set[str]:
        from floecat.iceberg.manifests.lists import read_manifest_list

        found: set[str] = set()
        try:
            with self._opened(reading, "manifest list", manifest_list) as data:
                for manifest in read_manifest_list(data, location=manifest_list, bounds=self.bounds):
                    found.add(manifest.manifest_path)
                    self._check_number(found, manifest_list)
        except BoundExceededError:
            raise
        except InvalidMetadataError:
            pass  # paths before the damage count
        return found

    def _check_number(self, manifests: set[str], location: str) -> None:
        if len(manifests) > self.bounds.table_manifests:
            raise exceeded(
                self.bounds, "table_manifests", f"table metadata {location}", "there are more manifests than"
            )

    def _manifest_area(self, reading: _Reading, entry_id: UUID | None, manifest: str) -> Area:
        from floecat.iceberg.manifests.reader import read_file_paths

        known = None if entry_id is None else self._known.get((entry_id, manifest))
        if known is not None:
            return known
        area, folders = Area(), set[str]()
        try:
            with self._opened(reading, "manifest", manifest) as data:
                for path in read_file_paths(data, location=manifest, bounds=self.bounds):
                    folders.add(f"{_folder_name(path)}/_")
                    if len(folders) > _FOLDERS_AT_ONCE:
                        area = _collapsed(area | file_area(folders))
                        folders.clear()
        except BoundExceededError:
            raise
        except InvalidMetadataError:
            # paths before the damage count
            return _collapsed(area | file_area(folders))
        area = _collapsed(area | file_area(folders))
        if entry_id is not None:
            self._known.put((entry_id, manifest), area, _weight(area) + len(manifest))
        return area

    @contextmanager
    def _opened(self, reading: _Reading, what: str, location: str) -> Iterator[bytes]:
        """The bytes of a file; of a large one while no other thread holds one."""
        most = self.bounds.manifest_bytes
        try:
            data = reading.read(location, min(most, _SMALL_FILE_BYTES))
        except PayloadTooLargeError:
            pass
        else:
            yield data or b""
            return
        with self._larger_file:
            try:
                data = reading.read(location, most)
            except PayloadTooLargeError:
                file = f"{what} {location}"
                raise exceeded(self.bounds, "manifest_bytes", file, "it has more bytes than") from None
            yield data or b""


def _is_added(manifest: ManifestFile, snapshot: SnapshotSummary) -> bool:
    # format version 1 has no sequence numbers
    is_newest = 0 < snapshot.sequence_number <= manifest.sequence_number
    return is_newest or manifest.added_snapshot_id in (None, snapshot.snapshot_id)


def _folder_name(path: str) -> str:
    return path.rpartition("/")[0]


def _folder_of(file: Location) -> Location:
    # names on the local disk need not be text
    path = file.path.rpartition("/")[0].encode(errors="backslashreplace").decode()
    while len(path.encode()) > _LONGEST_PATH_BYTES:
        path = path.rpartition("/")[0]
    is_short = len(file.authority) <= _LONGEST_AUTHORITY_BYTES
    return file._replace(path=path) if is_short else EVERYWHERE


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
            return Area({EVERYWHERE})
        area = Area(
            folder._replace(path=folder.path.rpartition("/")[0])
            if folder.path.count("/") == deepest
            else folder
            for folder in area
        )
    return area
