"""Registration: an entry for metadata that is already in storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from floecat.auth.authorizer import Privilege
from floecat.catalog.open_catalog import CatalogServices
from floecat.catalog.request_files import RequestFiles
from floecat.commits.normalized_files import write_normalized
from floecat.entries.calls import Call, LoadedTable
from floecat.entries.entry_locations import check_locations
from floecat.entries.formats import TableFormats
from floecat.entries.lookup import Entry
from floecat.entries.metadata_files import MetadataFiles
from floecat.entries.names import name_taken, namespace_row, protected
from floecat.entries.open_entries import EntryParts
from floecat.entries.overlaps import entry_folders
from floecat.entries.prepared_changes import AnyPrepared, Prepared, SnapshotRowChanges
from floecat.errors import BadRequestError, ConflictError, FileMissingError
from floecat.fileio.base import FileIO
from floecat.iceberg.metadata.integrity import check_integrity
from floecat.iceberg.metadata.snapshots import check_stored_texts
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.normalization import normalize_table, read_foreign_table
from floecat.iceberg.values.text_limits import check_stored_text
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.identifiers.namespace import Namespace, TableIdentifier, check_name

__all__ = ["RegisterService", "checked_table", "read_metadata_file", "snapshot_changes"]


class RegisterService:
    """Registers tables, also over existing ones."""

    def __init__(
        self,
        parts: EntryParts,
        catalog: CatalogServices,
        formats: TableFormats,
        request_files: RequestFiles,
    ) -> None:
        self._store = parts.store
        self._entries = parts.entries
        self._files = parts.files
        self._loader = catalog.loader
        self._answers = catalog.answers
        self._formats = formats
        self._writes = parts.writes
        self._request_files = request_files

    def register_table(
        self,
        call: Call,
        namespace: Namespace,
        name: str,
        metadata_location: str,
        *,
        overwrite: bool = False,
        storage_properties: Mapping[str, str] | None = None,
    ) -> LoadedTable:
        """Makes a table of a metadata file.

        Args:
            namespace: where the table will be.
            metadata_location: absolute URI of the metadata file.
            overwrite: whether an existing table is pointed at the file. It keeps its identity in the catalog;
                snapshots that it shares with the file stay, others come and go.
            storage_properties: access to the file's storage, for this one read.

        Raises:
            BadRequestError: a name or the location is malformed, or there is no such file.
            InvalidMetadataError: the file is not table metadata.
            ForbiddenError: the principal may not register the table, or not write it with `overwrite`.
            LocationNotAllowedError: the file or the table lies outside the allowed locations.
            NoSuchNamespaceError: the namespace does not exist.
            AlreadyExistsError: the name is taken, by a view or, without `overwrite`, by a table.
            UnsupportedOperationError: the table to overwrite is a Delta table.
            ConflictError: the table to overwrite is protected, its files are being purged, or the file was
                changed in place.
        """
        identifier = TableIdentifier(namespace, name)

        def prepare() -> Sequence[AnyPrepared]:
            own = call.catalog.storage.options(metadata_location)
            files = self._request_files.open(own, metadata_location, storage_properties or {})
            return [self._prepare(call, identifier, metadata_location, overwrite, files)]

        codec = self._answers.of_table(call, identifier)
        needed = (Privilege.REGISTER_TABLE, call.on_entry("table", identifier))
        return self._writes.apply(
            call, [identifier], prepare, partial(self._loader.made_by, call), codec, needed
        )

    def _prepare(
        self,
        call: Call,
        identifier: TableIdentifier,
        metadata_location: str,
        overwrite: bool,
        files: FileIO | None,
    ) -> Prepared[TableMetadata]:
        check_name(identifier.name, "table name")
        privileges = [Privilege.REGISTER_TABLE, *([Privilege.WRITE_TABLE] if overwrite else [])]
        found = self._entries.find_many(call, [(privilege, identifier) for privilege in privileges])
        namespace = namespace_row(self._store, call, "table", identifier, Privilege.REGISTER_TABLE)
        entry = found.get(identifier)
        if entry is not None and (entry.row.kind == "view" or not overwrite):
            raise name_taken("table", entry.row.kind, identifier)
        if entry is not None:
            if entry.row.protected:
                raise protected(call.on_entry("table", identifier))
            self._formats.of(entry.row).check_writable(entry.row, identifier)
        named = metadata_location
        data = read_metadata_file(self._files, call, named, files)
        metadata = checked_table(call, data)
        if entry is not None and entry.row.metadata_location == metadata_location:
            _check_unchanged(entry, metadata.to_bytes())
        if metadata.to_bytes() != data:
            metadata, metadata_location = write_normalized(self._files, call, metadata, metadata_location)
        before = entry.document.parsed() if entry is not None else None
        return Prepared(
            identifier=identifier,
            kind="table",
            operation="register",
            metadata=metadata,
            metadata_location=metadata_location,
            object_uuid=metadata.table_uuid,
            location=metadata.location,
            format_version=metadata.format_version,
            base=entry.row if entry is not None else None,
            folders=entry_folders(metadata.location, metadata.properties, named),
            namespace_id=namespace.id,
            snapshot_id=metadata.current_snapshot_id,
            snapshots=snapshot_changes(before if isinstance(before, TableMetadata) else None, metadata),
            writes_file=False,
        )


def checked_table(call: Call, data: bytes) -> TableMetadata:
    """The document of a table that another writer made, normalised.

    Raises:
        InvalidMetadataError: it is no table metadata.
        LocationNotAllowedError: the table lies outside the allowed locations.
    """
    metadata = read_foreign_table(data)
    check_integrity(metadata)
    _check_stored_texts(metadata)
    check_locations(call.catalog.allowed, metadata.location, metadata.properties, is_new=False)
    return metadata


def _check_unchanged(entry: Entry[TableMetadata] | Entry[ViewMetadata], data: bytes) -> None:
    known = entry.document.data
    # what was registered before documents were normalised is compared as it would be registered now
    if known != data and normalize_table(known) != data:
        raise ConflictError(
            f"Cannot register {entry.identifier}: the file at {entry.row.metadata_location} is not the one"
            " that the table was read from; metadata files never change, write a new one"
        )


def _check_stored_texts(metadata: TableMetadata) -> None:
    check_stored_text(metadata.table_uuid, "table-uuid")
    for name in metadata.refs:
        check_stored_text(name, "reference name")
    for snapshot in metadata.snapshots:
        check_stored_texts(snapshot)


def read_metadata_file(
    metadata_files: MetadataFiles, call: Call, location: str, files: FileIO | None = None
) -> bytes:
    """The file that an entry is registered from. A 404 would say that the namespace is missing.

    Args:
        metadata_files: reads it.
        files: storage that the request describes; None for that of the catalog.

    Raises:
        BadRequestError: the location is empty, names a folder, or there is no such file.
        LocationNotAllowedError: it is outside the allowed locations.
    """
    if not location.strip() or location.endswith("/"):
        raise BadRequestError("Invalid metadata-location: must name a metadata file")
    try:
        return metadata_files.read(call.catalog.storage, location, files)
    except FileMissingError:
        raise BadRequestError(f"Invalid metadata-location: there is no file {location}") from None


def snapshot_changes(before: TableMetadata | None, metadata: TableMetadata) -> SnapshotRowChanges:
    """The changes to the rows of a table that is pointed at another document; `None` for a new one."""
    known = {snapshot.snapshot_id for snapshot in before.snapshots} if before else frozenset()
    now = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    return SnapshotRowChanges(
        added=[snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in known],
        removed_ids=sorted(known - now),
        refs=metadata.refs,
    )
