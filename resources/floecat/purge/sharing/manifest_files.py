"""Reads manifest lists and manifests of tables that are purged, and of those that may share files with them.

What is missing, located elsewhere or damaged is kept in mind and raises nothing: a purge deletes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from floecat.errors import (
    BadRequestError,
    FileMissingError,
    FloecatError,
    ForbiddenError,
    InvalidMetadataError,
    LocationNotAllowedError,
    PayloadTooLargeError,
)
from floecat.iceberg.values.bounds import DEFAULT_BOUNDS, Bounds, exceeded
from floecat.purge.sharing.location_set import LocationSet, file_key
from floecat.storage.catalog_storage import CatalogStorage

if TYPE_CHECKING:
    from floecat.iceberg.manifests.lists import ManifestFile

__all__ = ["FileKind", "ManifestReader", "ReachableFile", "Unreadable"]

_KEPT_LIST_BYTES = 16 << 20
_SMALL_FILE_BYTES = 8 << 20
_MOST_NOTED = 1_000

T = TypeVar("T")


class FileKind(IntEnum):
    """The kind of a file. A kind only leads to files of lower kinds."""

    DATA = 0
    """A data file, a delete file, or a Puffin file with deletion vectors."""
    MANIFEST = 1
    MANIFEST_LIST = 2
    STATISTICS = 3
    """Statistics, partition statistics, and sidecars."""
    OLD_METADATA = 4
    """A file of the metadata log."""
    ROOT_METADATA = 5


class ReachableFile(NamedTuple):
    """A file, and the one that leads to it."""

    location: str
    """Location as its parent writes it."""
    kind: FileKind
    parent: str | None
    """None for the root. A file with several parents comes once, with the first of them."""
    complete: bool = True
    """False if what it leads to could not be read; the file must stay then."""
    size_bytes: int = 0
    """Size by metadata; 0 if it does not say one."""


class Unreadable(NamedTuple):
    """A file that leads to others and could not be read."""

    location: str
    kind: FileKind
    error: FloecatError


class ManifestReader:
    """Reads manifest lists and manifests, and no data files.

    Attributes:
        missing: the first manifest lists and manifests that are gone. What they led to cannot be found; after
            a deletion that stopped halfway it is gone too.
        unreachable: the first that are not read because they lie outside the allowed locations, or where this
            storage has nothing.
        lost: how many are missing or unreachable.
        unreadable: the first of those that exist and cannot be read.
        failures: how many cannot be read.
        emptied: manifests all of whose files are gone, by `file_key`; they are not read.
    """

    def __init__(
        self,
        storage: CatalogStorage,
        bounds: Bounds = DEFAULT_BOUNDS,
        renew: Callable[[], CatalogStorage] | None = None,
        large_file: AbstractContextManager[object] | None = None,
    ) -> None:
        """Reads nothing yet.

        Args:
            storage: of the catalog; nothing outside its allowed locations is read.
            bounds: of manifest lists and manifests.
            renew: finds the storage again, with the keys of this moment, if it refuses access.
            large_file: held while a manifest of more than 8 MiB is in memory; a lock, for one at a time.
        """
        self._storage = storage
        self._bounds = bounds
        self._renew = renew
        self._large_file = large_file or nullcontext()
        self._lists: dict[str, bytes] = {}
        self.emptied: Set[bytes] = frozenset()
        self.lost = self.failures = 0
        self.missing: list[str] = []
        self.unreachable: list[str] = []
        self.unreadable: list[Unreadable] = []

    def files_of(
        self, manifest: str, parent: str | None, seen: LocationSet, size_bytes: int = 0
    ) -> Iterator[ReachableFile]:
        """Yields the files of a manifest and then the manifest; nothing if it was seen, or is missing.

        Args:
            manifest: its location.
            parent: what leads to it.
            seen: files that came before; those that are yielded are added.
            size_bytes: of the manifest.
        """
        if not seen.add(manifest):
            return
        if self.emptied and file_key(manifest) in self.emptied:
            yield ReachableFile(manifest, FileKind.MANIFEST, parent, size_bytes=size_bytes)
            return
        with self._opened(manifest) as data:
            if data is None:
                return
            complete = True
            try:
                for path, its_bytes in self._paths(data, manifest):
                    if seen.add(path):
                        yield ReachableFile(path, FileKind.DATA, manifest, size_bytes=its_bytes)
            except InvalidMetadataError as error:
                self._fail(manifest, FileKind.MANIFEST, error)
                complete = False
        yield ReachableFile(manifest, FileKind.MANIFEST, parent, complete, size_bytes or len(data))

    def listed(self, data: bytes, location: str) -> Iterator[ManifestFile]:
        """Yields the entries of a manifest list.

        Raises:
            InvalidMetadataError: it is damaged; entries before the damage may have been yielded.
        """
        from floecat.iceberg.manifests.lists import read_manifest_list

        return read_manifest_list(data, location=location, bounds=self._bounds)

    def list_bytes(self, location: str, *, keep: bool = False) -> bytes | None:
        """The content of a manifest list, `None` if there is none.

        Args:
            keep: keep it for the next call, if it is short.
        """
        data = self._lists.pop(location, None) or self._read_whole(location, FileKind.MANIFEST_LIST)
        if keep and data is not None and sum(map(len, self._lists.values())) + len(data) <= _KEPT_LIST_BYTES:
            self._lists[location] = data
        return data

    def _paths(self, data: bytes, location: str) -> Iterator[tuple[str, int]]:
        """Paths and sizes; a manifest whose sizes are damaged is read without them."""
        from floecat.iceberg.manifests.reader import read_file_paths, read_manifest

        try:
            fields = ("file_path", "file_size_in_bytes")
            for entries in read_manifest(data, location=location, fields=fields, bounds=self._bounds):
                columns = (entries.column(name).to_pylist() for name in fields)
                yield from zip(*columns, strict=True)
        except InvalidMetadataError:
            # paths that came before come again, and are told apart by the caller
            for path in read_file_paths(data, location=location, bounds=self._bounds):
                yield path, 0

    def _fail(self, location: str, kind: FileKind, error: FloecatError) -> None:
        self.failures += 1
        _note(self.unreadable, Unreadable(location, kind, error))

    @contextmanager
    def _opened(self, manifest: str) -> Iterator[bytes | None]:
        """The content of a manifest; of a large one while no other has one in memory."""
        most = self._bounds.manifest_bytes
        try:
            data = self._read(manifest, FileKind.MANIFEST, min(most, _SMALL_FILE_BYTES))
        except PayloadTooLargeError:
            pass
        else:
            yield data
            return
        with self._large_file:
            yield self._read_whole(manifest, FileKind.MANIFEST)

    def _read_whole(self, location: str, kind: FileKind) -> bytes | None:
        try:
            return self._read(location, kind, self._bounds.manifest_bytes)
        except PayloadTooLargeError:
            what = "manifest" if kind is FileKind.MANIFEST else "manifest list"
            error = exceeded(self._bounds, "manifest_bytes", f"{what} {location}", "it has more bytes than")
            self._fail(location, kind, error)
        return None

    def _read(self, location: str, kind: FileKind, most: int) -> bytes | None:
        try:
            self._storage.allowed.check(location)
            return self._read_renewed(location, most)
        except FileMissingError:
            self.lost += 1
            _note(self.missing, location)
        except PayloadTooLargeError:
            raise
        except (LocationNotAllowedError, BadRequestError):
            self.lost += 1
            _note(self.unreachable, location)
        except ForbiddenError as refusal:
            self._fail(location, kind, refusal)
        return None

    def _read_renewed(self, location: str, most: int) -> bytes:
        try:
            return self._storage.files(location).read(location, max_bytes=most)
        except ForbiddenError:
            if self._renew is None:
                raise
            self._storage = self._renew()
            return self._storage.files(location).read(location, max_bytes=most)


def _note(noted: list[T], problem: T) -> None:
    if len(noted) < _MOST_NOTED:
        noted.append(problem)
