"""Answers of table mutations, kept for replay.

A small document is kept whole. A large one is kept as its metadata location: the file is immutable, so the
answer is the same bytes. When the file has been deleted since, or another table's is in its place, the
current table is answered, which the specification allows ("may reflect a newer state").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from floecat.catalog.load_table import TableLoader
from floecat.compression.pieces import Piece
from floecat.entries.calls import Call, LoadedTable, LoadedView
from floecat.entries.lookup import Entries
from floecat.entries.metadata_files import MetadataFiles
from floecat.errors import (
    CommitStateUnknownError,
    FileMissingError,
    InvalidMetadataError,
    NoSuchTableError,
    PayloadTooLargeError,
)
from floecat.iceberg.normalization import read_foreign_table
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.entries.tables import EntryState

__all__ = ["TableAnswer", "TableAnswers", "ViewAnswer"]

_INLINE_BYTES = 64 * 1024


class _Kept(msgspec.Struct):
    metadata_location: str | None
    etag: str | None
    config: Mapping[str, str]


class _KeptWhole(_Kept, tag="whole"):
    metadata: msgspec.Raw
    state: EntryState | None = None
    table_uuid: str | None = None
    is_derived: bool = False


class _KeptByLocation(_Kept, tag="by-location"):
    table_uuid: str
    state: EntryState | None = None


class TableAnswers:
    """Makes the codec of one call."""

    def __init__(self, entries: Entries, files: MetadataFiles, loader: TableLoader) -> None:
        self._entries = entries
        self._files = files
        self._loader = loader

    def of_table(self, call: Call, identifier: TableIdentifier) -> TableAnswer:
        """The codec for a table."""
        return TableAnswer(self, call, identifier)

    def document(
        self, call: Call, location: str, state: EntryState | None, table_uuid: str
    ) -> Sequence[Piece] | None:
        """The document of a state, from memory or its file; `None` if the file is gone, or is another one."""
        held = self._entries.remembered(state) if state is not None else None
        if held is not None:
            return held.pieces
        try:
            found = read_foreign_table(self._files.read(call.catalog.storage, location))
        except (FileMissingError, InvalidMetadataError, PayloadTooLargeError):
            return None
        return found.pieces() if found.table_uuid == table_uuid else None

    def current(self, call: Call, identifier: TableIdentifier) -> LoadedTable:
        """The table as it is now."""
        return self._loader.load(call, identifier)


class TableAnswer:
    """Keeps a `LoadedTable`."""

    def __init__(self, answers: TableAnswers, call: Call, identifier: TableIdentifier) -> None:
        self._answers = answers
        self._call = call
        self._identifier = identifier

    def encode(self, answer: LoadedTable) -> bytes:
        """The answer, with the document only where it is small or has no file that stays."""
        about = (answer.metadata_location, answer.etag, answer.config)
        location = answer.metadata_location
        table_uuid = answer.table_uuid
        small = answer.size_bytes <= _INLINE_BYTES
        if location is None or table_uuid is None or small or answer.is_derived:
            return msgspec.json.encode(
                _KeptWhole(*about, msgspec.Raw(answer.metadata), answer.state, table_uuid, answer.is_derived)
            )
        return msgspec.json.encode(_KeptByLocation(*about, table_uuid, answer.state))

    def decode(self, data: bytes) -> LoadedTable:
        """The answer of `encode`."""
        kept = msgspec.json.decode(data, type=_KeptWhole | _KeptByLocation)
        pieces: Sequence[Piece] | None
        if isinstance(kept, _KeptWhole):
            pieces = (bytes(kept.metadata),)
        else:
            location = kept.metadata_location or ""
            pieces = self._answers.document(self._call, location, kept.state, kept.table_uuid)
            if pieces is None:
                return self._current(kept.table_uuid)
        return LoadedTable(
            pieces,
            kept.metadata_location,
            kept.etag,
            kept.config,
            state=kept.state,
            table_uuid=kept.table_uuid,
            is_derived=isinstance(kept, _KeptWhole) and kept.is_derived,
        )

    def _current(self, table_uuid: str) -> LoadedTable:
        """The table as it is now, if it is still the one that was answered."""
        try:
            table = self._answers.current(self._call, self._identifier)
        except NoSuchTableError:
            table = None
        if table is None or table.table_uuid != table_uuid:
            raise CommitStateUnknownError(
                f"The change of {self._identifier} was made; the table has been dropped or renamed since,"
                " and its metadata file is gone"
            )
        return table


class ViewAnswer:
    """Keeps a `LoadedView`; view metadata is small."""

    def encode(self, answer: LoadedView) -> bytes:
        """The answer as JSON."""
        return msgspec.json.encode(
            _KeptWhole(answer.metadata_location, answer.etag, answer.config, msgspec.Raw(answer.metadata))
        )

    def decode(self, data: bytes) -> LoadedView:
        """The answer of `encode`."""
        kept = msgspec.json.decode(data, type=_KeptWhole)
        return LoadedView(bytes(kept.metadata), kept.metadata_location or "", kept.config, kept.etag)
