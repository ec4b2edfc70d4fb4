"""Metadata files in storage: written once, read when the store does not hold the document.

A file whose name ends in `.gz.metadata.json` is gzip-compressed (Iceberg table specification, "Metadata
file naming").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import uuid_utils.compat as uuids

from floecat.compression.inflation import gunzip, is_gzip
from floecat.compression.pieces import gzip_member
from floecat.errors import (
    AlreadyExistsError,
    FileMissingError,
    ForbiddenError,
    LocationNotAllowedError,
    PayloadTooLargeError,
    StorageUnavailableError,
)
from floecat.fileio.base import FileIO
from floecat.iceberg.metadata.properties import metadata_version
from floecat.iceberg.metadata.table_metadata import TableMetadata, metadata_file_location
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.storage.catalog_storage import CatalogStorage
from floecat.working_memory import take_memory

__all__ = ["MetadataFiles"]

_SMALL_FILE_BYTES: Final = 1 << 20
"""Larger files are looked at first: memory for them is reserved before they are read."""


class MetadataFiles:
    """Reads and writes metadata files in the storage of a catalog, inside its allowed locations."""

    def __init__(
        self, *, max_bytes: int, max_inflated_bytes: int | None = None, gzip_above_bytes: int = 0
    ) -> None:
        """Sets bounds on what is read, and what is compressed.

        Args:
            max_bytes: bound on the size of a file, and of a document that is written.
            max_inflated_bytes: bound on the content of a compressed file; by default that of files.
            gzip_above_bytes: larger documents of tables that name no codec are compressed; 0 for none.
        """
        self._max_bytes = max_bytes
        self._max_inflated_bytes = max_bytes if max_inflated_bytes is None else max_inflated_bytes
        self._gzip_above_bytes = gzip_above_bytes

    def read(self, storage: CatalogStorage, location: str, files: FileIO | None = None) -> bytes:
        """The JSON document at a location, decompressed.

        Args:
            files: storage to read it from, in place of the catalog's own.

        Raises:
            LocationNotAllowedError: the location is outside the allowed ones.
            FileMissingError: there is no file.
            PayloadTooLargeError: the document is larger than the bound.
            InvalidMetadataError: the compressed file is broken.
            StorageUnavailableError: storage fails.
            UnavailableError: other requests take all of the working memory.
        """
        storage.allowed.check(location)
        data = self._read(files or storage.files(location), location)
        if is_gzip(data):
            return gunzip(data, f"metadata file {location}", max_bytes=self._max_inflated_bytes)
        return data

    def _read(self, files: FileIO, location: str) -> bytes:
        """The bytes of a file; of a large one after memory for it was reserved."""
        try:
            data = files.read(location, max_bytes=min(_SMALL_FILE_BYTES, self._max_bytes))
        except PayloadTooLargeError as error:
            size_bytes = self._max_bytes if error.size_bytes is None else error.size_bytes
        else:
            take_memory(len(data))
            return data
        if size_bytes > self._max_bytes:
            raise self._too_large(f"Cannot read metadata file {location}")
        take_memory(size_bytes)
        return files.read(location, max_bytes=size_bytes)

    def _too_large(self, problem: str) -> PayloadTooLargeError:
        return PayloadTooLargeError(
            f"{problem}: larger than {self._max_bytes} bytes (floecat.gateway.max-metadata-file-bytes)"
        )

    def next_location(
        self, metadata: TableMetadata, current: str | None, name_uuid: UUID | None = None
    ) -> str:
        """The location of the next metadata file of a table: one number up, under a unique name.

        Args:
            metadata: what will be written.
            current: the file before; None for the first.
            name_uuid: the UUID in the name; a random one by default.

        Raises:
            IllegalArgumentError: the table names an unknown codec.
        """
        version = metadata_version(current) + 1
        return metadata_file_location(
            metadata, version, name_uuid or uuids.uuid7(), gzip_above_bytes=self._gzip_above_bytes
        )

    def write(self, storage: CatalogStorage, location: str, metadata: TableMetadata | ViewMetadata) -> None:
        """Writes a document to a location of its own, as `metadata_file_name` makes it.

        Raises:
            LocationNotAllowedError: the location is outside the allowed ones.
            PayloadTooLargeError: the document is larger than the bound.
            BoundExceededError: it could not be read again, see `TableMetadata.check_bounds`.
            StorageUnavailableError: storage fails or refuses, or does not say whether it wrote.
        """
        if metadata.size_bytes > self._max_bytes:
            raise self._too_large("The metadata would be too large")
        if isinstance(metadata, TableMetadata):
            metadata.check_bounds()
        data = _encoded(location, metadata)
        with _OWN_FOLDERS:
            storage.files(location).write_new(location, data, unique_name=True, allowed=storage.allowed)

    def write_once(self, storage: CatalogStorage, location: str, metadata: TableMetadata) -> None:
        """Writes a document to a location that names its content; it may be there already.

        Raises:
            LocationNotAllowedError: the location is outside the allowed ones.
            StorageUnavailableError: storage fails or refuses, or another file is in the place.
        """
        data = _encoded(location, metadata)
        with _OWN_FOLDERS:
            try:
                storage.files(location).write_new(location, data, allowed=storage.allowed)
            except AlreadyExistsError:
                # the file that has the name may be a link
                storage.allowed.check(location)
                if storage.files(location).read_range(location, 0, len(data) + 1) != data:
                    raise

    def check_exists(self, storage: CatalogStorage, location: str) -> None:
        """Fails when the file is gone, with the text that the reference implementation gives.

        Raises:
            FileMissingError: there is no file.
        """
        storage.allowed.check(location)
        if not storage.files(location).exists(location):
            raise FileMissingError(f"Failed to open input stream for file: {location}")

    def delete(self, storage: CatalogStorage, location: str) -> None:
        """Deletes a file; a missing one is fine."""
        storage.allowed.check(location)
        storage.files(location).delete(location)

    def delete_many(self, storage: CatalogStorage, locations: Sequence[str]) -> None:
        """Deletes files where storage allows it; a location outside the allowed ones is refused first."""
        for location in locations:
            storage.allowed.check(location)
        if locations:
            storage.delete_many(locations)

    def prepare_table_location(self, storage: CatalogStorage, location: str) -> None:
        """Creates the folders that clients write to and do not create, on local storage only."""
        paths = [f"{location.rstrip('/')}/{folder}" for folder in ("metadata", "data")]
        with _OWN_FOLDERS:
            storage.files(paths[0]).make_directory(*paths, allowed=storage.allowed)


def _encoded(location: str, metadata: TableMetadata | ViewMetadata) -> bytes:
    compressed = location.endswith(".gz.metadata.json")
    return gzip_member(metadata.pieces()) if compressed else metadata.to_bytes()


class _OwnFolders:
    """A context for writes of the catalog itself: a refusal is a fault of storage, not of the request."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, AlreadyExistsError | ForbiddenError) and not isinstance(
            error, LocationNotAllowedError
        ):
            raise StorageUnavailableError(error.message) from error


_OWN_FOLDERS: Final = _OwnFolders()
