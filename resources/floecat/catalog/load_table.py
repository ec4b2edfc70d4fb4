"""Loading a table: one statement, and bytes that are not parsed to be sent."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.compression.pieces import Piece
from floecat.entries.calls import Call, Catalog, LoadedTable
from floecat.entries.etags import SnapshotsMode, etag_of, matches
from floecat.entries.formats import TableFormats
from floecat.entries.lookup import Entries, Entry
from floecat.entries.metadata_files import MetadataFiles
from floecat.entries.names import missing_table
from floecat.errors import BadRequestError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.storage.catalog_storage import CatalogStorage
from floecat.store.tables import EntryRow, EntryState

__all__ = ["TableLoader"]


class TableLoader:
    """Loads tables for reading and after commits."""

    def __init__(
        self,
        entries: Entries,
        files: MetadataFiles,
        formats: TableFormats,
        *,
        verify_metadata_file: bool,
    ) -> None:
        """Takes where entries and files are.

        Args:
            entries: look-ups by name.
            files: metadata files.
            formats: bring tables up to date.
            verify_metadata_file: whether a load fails when the metadata file is gone from storage.
        """
        self._entries = entries
        self._files = files
        self._formats = formats
        self._verify = verify_metadata_file

    def load(
        self,
        call: Call,
        identifier: TableIdentifier,
        snapshots: str = "all",
        if_none_match: str | None = None,
    ) -> LoadedTable:
        """A table by name.

        Args:
            call: who asks.
            identifier: the table.
            snapshots: `all`, or `refs` for those that a branch or tag points at directly.
            if_none_match: entity tags that the caller holds.

        Raises:
            BadRequestError: `snapshots` has another value.
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table, or its namespace, does not exist.
            FileMissingError: the metadata file is gone, and loads are set to look.
            FloecatError: the table cannot be brought up to date; see `TableFormat.current`.
        """
        mode = _mode(snapshots)
        entry = self._entries.find_table(call, identifier, Privilege.READ_TABLE)
        format = None if entry is None else self._formats.of(entry.row)
        if entry is not None and format is not None:
            entry = format.current(call, entry)
        if entry is None or format is None:
            raise missing_table(identifier)
        # nothing is lost with a metadata file that is derived
        if self._verify and not format.derives_metadata:
            self._files.check_exists(call.catalog.storage, entry.row.metadata_location)
        return self.answer(call.catalog, entry, mode, if_none_match)

    def answer(
        self,
        catalog: Catalog,
        entry: Entry[TableMetadata],
        mode: SnapshotsMode,
        if_none_match: str | None,
    ) -> LoadedTable:
        """The answer of a load of a current entry: the table, or that the caller's copy is current."""
        state = entry.row.state
        location = state.metadata_location
        etag = etag_of(state, mode, entry.labels)
        if if_none_match is not None and matches(if_none_match, etag):
            return LoadedTable((), location, etag, not_modified=True)
        config = catalog.storage.client_config(entry.row.location)
        table_uuid = entry.row.object_uuid
        return LoadedTable(
            _pieces(entry, mode),
            location,
            etag,
            config,
            state=state,
            table_uuid=table_uuid,
            labels=entry.labels,
        )

    def loaded(
        self,
        storage: CatalogStorage,
        pieces: Sequence[Piece],
        state: EntryState | None,
        location: str,
        table_uuid: str,
    ) -> LoadedTable:
        """A table as a create, a commit or a registration answers it: with all snapshots.

        Args:
            storage: of the catalog.
            pieces: the document.
            state: of the entry; `None` for a staged table, which has neither file nor tag.
            location: where the table lives.
            table_uuid: its UUID.
        """
        metadata_location, etag = (None, None) if state is None else (state.metadata_location, etag_of(state))
        config = storage.client_config(location)
        return LoadedTable(pieces, metadata_location, etag, config, state=state, table_uuid=table_uuid)

    def removed(self, storage: CatalogStorage, row: EntryRow, document: bytes) -> LoadedTable:
        """A table as it was when its entry was removed.

        Args:
            storage: of the catalog.
            row: its entry.
            document: its metadata document, JSON.
        """
        answer = self.loaded(storage, (document,), row.state, row.location, row.object_uuid)
        return msgspec.structs.replace(answer, is_derived=self._formats.of(row).derives_metadata)


def _mode(snapshots: str) -> SnapshotsMode:
    if snapshots == "all":
        return "all"
    if snapshots == "refs":
        return "refs"
    raise BadRequestError("Invalid parameter snapshots: must be all or refs")


def _pieces(entry: Entry[TableMetadata], mode: SnapshotsMode) -> Sequence[Piece]:
    return entry.document.pieces if mode == "all" else (entry.document.parsed().refs_only_bytes(),)
