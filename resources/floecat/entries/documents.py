"""Metadata documents in memory, by the state of the entry that has them.

A state names the same bytes for ever, so what is cached is never wrong; a budget in bytes bounds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar, cast
from uuid import UUID

from floecat.compression.pieces import Piece
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.views.metadata import ViewMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.tables import EntryRow

__all__ = ["Document"]

V = TypeVar("V", bound=TableMetadata | ViewMetadata)


class Document(Generic[V]):
    """A metadata document, what it parses to once somebody asks, and the row that has it."""

    __slots__ = ("_data", "_lock", "_named", "_parse", "_parsed")

    def __init__(self, data: bytes, parse: Callable[[bytes], V]) -> None:
        """Takes the JSON bytes and how to parse them."""
        self._data = data
        self._parse = parse
        self._parsed: V | None = None
        self._named: tuple[TableIdentifier, EntryRow] | None = None
        self._lock = Lock()

    @classmethod
    def of(cls, parsed: V) -> Document[V]:
        """The document of metadata that was made here; it is not joined to one run of bytes."""
        document: Document[V] = cls(b"", cast("Callable[[bytes], V]", type(parsed).parse))
        document._parsed = parsed
        return document

    @property
    def data(self) -> bytes:
        """The JSON bytes."""
        return b"".join(self.pieces)

    @property
    def pieces(self) -> Sequence[Piece]:
        """The JSON bytes in pieces, to be sent or compressed without being joined."""
        parsed = self._parsed
        return (self._data,) if parsed is None else parsed.pieces()

    def row_of(self, catalog_id: UUID, identifier: TableIdentifier) -> EntryRow | None:
        """The row that had this name and this document when last seen: a hint, checked by every load."""
        if self._named is None:
            return None
        name, row = self._named
        return row if name == identifier and row.catalog_id == catalog_id else None

    def seen(self, identifier: TableIdentifier, row: EntryRow) -> None:
        """Remembers the row that has this document; one, as hardly a document has two names.

        Args:
            identifier: its name.
            row: without the bytes of the document.
        """
        self._named = (identifier, row)

    def parsed_already(self) -> V | None:
        """The parsed document, if somebody has asked for it before."""
        return self._parsed

    def parsed(self) -> V:
        """The parsed document; parses on first use, once over all threads.

        Raises:
            InvalidMetadataError: the bytes are not a metadata document.
        """
        if self._parsed is None:
            with self._lock:
                if self._parsed is None:
                    self._parsed = self._parse(self._data)
        return self._parsed
