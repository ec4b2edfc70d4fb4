"""Entries with their metadata documents: one statement a look-up, memory where it can serve.

An entry is what a name in a namespace stands for, a table or a view. Each look-up names the privilege that it
is for, and asks for it with what it found, before it tells anything. A state of an entry names the same bytes
for ever, so a cached document is never wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from threading import Lock
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

import msgspec

from floecat.auth.authorizer import Check, FoundSecurable, Privilege, Securable
from floecat.compression.pieces import Piece
from floecat.entries.calls import Call, Catalog, EntryKind, Labels
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.values.encoded_json import fragment_size
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.memory_budget import LruCache, MemoryBudget
from floecat.store.database.engine import Connection, Store
from floecat.store.entries import documents as stored_documents
from floecat.store.entries import tables
from floecat.store.entries.tables import EntryRow

__all__ = ["Document", "Entries", "Entry"]

V = TypeVar("V", bound=TableMetadata | ViewMetadata)

_STRIPES = 64
_AT_ONCE_BYTES = 32 << 10
"""A larger document takes a thread to send."""

_NAME_BYTES = 600
"""About what a name and its state take in memory, without the location."""


class Document(Generic[V]):
    """A metadata document, its parsed form once that is needed, and the row that has it."""

    __slots__ = ("_data", "_lock", "_named", "_parse", "_parsed", "_properties")

    def __init__(self, data: bytes, parse: Callable[[bytes], V]) -> None:
        self._data = data
        self._parse = parse
        self._parsed: V | None = None
        self._named: tuple[TableIdentifier, EntryRow] | None = None
        self._properties: dict[str, str | None] = {}
        self._lock = Lock()

    @classmethod
    def of(cls, parsed: V) -> Document[V]:
        """The document of parsed metadata; its pieces are not joined."""
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
        """Remembers the row this document came from; only one, as a document rarely has two names.

        Args:
            identifier: its name.
            row: without the bytes of the document.
        """
        self._named = (identifier, row)

    def property(self, name: str) -> str | None:
        """A property of the table or view; a document that does not mention the name is not parsed for it."""
        if name not in self._properties:
            self._properties[name] = self.parsed().properties.get(name) if self.may_mention(name) else None
        return self._properties[name]

    def may_mention(self, name: str) -> bool:
        """Whether the name of a field or property may be in the document; parses nothing."""
        return self._parsed is not None or msgspec.json.encode(name) in self._data

    def parsed_already(self) -> V | None:
        """The parsed document, if it was parsed before."""
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


class Entry(msgspec.Struct, Generic[V], frozen=True):
    """A row of the store and its current metadata document."""

    identifier: TableIdentifier
    row: tables.EntryRow
    document: Document[V]
    labels: Labels | None = None
    """Labels, which nothing sets yet."""
    access_version: int = 0
    """Version of the access of the account when it was looked up."""
    may_write: bool = False
    """Whether the principal may write the table; asked only for calls that take keys or signatures."""


class Entries:
    """Looks entries up by name."""

    def __init__(self, store: Store, memory: MemoryBudget) -> None:
        self._store = store
        # a state names the same bytes for ever, so what is kept is never wrong
        self._documents: LruCache[Document[Any]] = memory.cache("documents")
        # hints: with the last state of a name, a load asks for the document only if the entry has changed
        self._known: LruCache[tables.EntryState] = memory.cache("known-states")
        # one cold load of a document at a time: ten clients that open a huge table read it once
        self._cold = [Lock() for _ in range(_STRIPES)]

    def find_table(
        self, call: Call, identifier: TableIdentifier, privilege: Privilege
    ) -> Entry[TableMetadata] | None:
        """The table of this name, or `None`: also when a view has the name or the namespace is missing.

        Raises:
            ForbiddenError: the principal does not have the privilege.
        """
        return self._find(call, identifier, privilege, "table", TableMetadata)

    def last_seen_table(self, catalog: Catalog, identifier: TableIdentifier) -> Entry[TableMetadata] | None:
        """The table as last seen, from memory alone, and without a check of privileges.

        `confirm_table` checks that it is current and that the principal has the privilege.

        Returns:
            `None` if its document or its row is not in memory.
        """
        _, document = self._held(catalog, identifier)
        row = None if document is None else document.row_of(catalog.id, identifier)
        if row is None or document is None or row.kind != "table":
            return None
        return Entry(identifier, row, document)

    def confirm_table(
        self, conn: Connection, call: Call, identifier: TableIdentifier, privilege: Privilege
    ) -> Entry[TableMetadata] | None:
        """The table, if its document is in memory and current, in one statement that reads no document.

        Args:
            call: who asks; whether the principal may use its catalog is asked here too.
            privilege: what for.

        Returns:
            `None` also for a table that exists: its document is not in memory, or was replaced.

        Raises:
            ForbiddenError: the principal does not have the privilege, or may not use the catalog.
        """
        catalog = call.catalog
        known, document = self._held(catalog, identifier)
        if document is None:
            return None
        row = document.row_of(catalog.id, identifier)
        if row is None:
            row = tables.load(conn, catalog.id, identifier, known)
            if row is None or row.document is not None:
                return None
            document.seen(identifier, row)
            owner_id, access_version = row.owner_id, row.access_version
        else:
            now = tables.state(conn, row.id)
            if now is None or now[0] != row.state:
                return None
            _, owner_id, access_version = now
        # in one question: the call of a fast load was made from memory, without one
        on_table = call.on_entry("table", identifier)
        also = call.check(
            (Privilege.USE_CATALOG, call.on_catalog()),
            (privilege, on_table),
            found=FoundSecurable(conn, access_version, row.namespace_id, row.id, owner_id),
            also=_also(call, on_table),
        )
        if row.kind != "table":
            return None
        return Entry(identifier, row, document, access_version=access_version, may_write=any(also))

    def find_view(
        self, call: Call, identifier: TableIdentifier, privilege: Privilege
    ) -> Entry[ViewMetadata] | None:
        """The view of this name, or `None`: also when a table has the name or the namespace is missing.

        Raises:
            ForbiddenError: the principal does not have the privilege.
        """
        return self._find(call, identifier, privilege, "view", ViewMetadata)

    def find_many(
        self, call: Call, wanted: Sequence[tuple[Privilege, TableIdentifier]]
    ) -> dict[TableIdentifier, Entry[TableMetadata] | Entry[ViewMetadata]]:
        """The entries that the names of tables stand for, in one statement; unknown names are left out.

        Args:
            wanted: names and what they are wanted for; a name may have several privileges.

        Returns:
            Views too, where a view has the name.

        Raises:
            ForbiddenError: the principal does not have one of the privileges.
        """
        catalog = call.catalog
        identifiers = dict.fromkeys(name for _, name in wanted)
        held = {identifier: self._held(catalog, identifier) for identifier in identifiers}
        with self._store.read() as conn:
            rows = tables.load_many(
                conn, catalog.id, [(identifier, known) for identifier, (known, _) in held.items()]
            )
            checks: defaultdict[TableIdentifier, list[Check]] = defaultdict(list)
            for privilege, name in wanted:
                checks[name].append((privilege, call.on_entry("table", name)))
            for name, row in rows.items():
                call.check(*checks.pop(name), found=_found(conn, row))
        if checks:  # of names that do not exist
            call.check(*chain.from_iterable(checks.values()))
        return {
            identifier: self._entry(catalog, identifier, row, held[identifier][1], _MODELS[row.kind])
            for identifier, row in rows.items()
        }

    def remember(
        self, catalog: Catalog, identifier: TableIdentifier, state: tables.EntryState, document: Document[V]
    ) -> None:
        """Keeps a document that is current now, in place of the one before."""
        name = (catalog.id.int, identifier)
        before = self._known.get(name)
        if before is not None and before != state:
            self._documents.drop(_key(before))
        self._documents.put(_key(state), document, _weight(document))
        self._known.put(name, state, _NAME_BYTES + len(state.metadata_location))

    def remembered(self, state: tables.EntryState) -> Document[Any] | None:
        """The document of a state, if it is in memory."""
        return self._documents.get(_key(state))

    def _find(
        self, call: Call, identifier: TableIdentifier, privilege: Privilege, kind: EntryKind, model: type[V]
    ) -> Entry[V] | None:
        catalog = call.catalog
        known, document = self._held(catalog, identifier)
        if document is None or fragment_size(document.pieces) > _AT_ONCE_BYTES:
            self._store.check_may_wait()
        if document is None:
            with self._cold[hash(identifier) % _STRIPES]:
                return self._load(call, identifier, privilege, kind, model)
        return self._load(call, identifier, privilege, kind, model, known, document)

    def _load(
        self,
        call: Call,
        identifier: TableIdentifier,
        privilege: Privilege,
        kind: EntryKind,
        model: type[V],
        known: tables.EntryState | None = None,
        document: Document[V] | None = None,
    ) -> Entry[V] | None:
        catalog = call.catalog
        if document is None:  # another thread may have loaded it while this one waited
            known, document = self._held(catalog, identifier)
        with self._store.read() as conn:
            row = tables.load(conn, catalog.id, identifier, known)
            securable = call.on_entry(kind, identifier)
            check = (privilege, securable)
            if row is not None and row.kind == kind:
                also = call.check(check, found=_found(conn, row), also=_also(call, securable))
        if row is None or row.kind != kind:
            call.check(check)
            return None
        if row.document is not None:  # another process has replaced what is in memory
            self._store.check_may_wait()
        entry = self._entry(catalog, identifier, row, document, model)
        return msgspec.structs.replace(entry, access_version=row.access_version, may_write=any(also))

    def _held(
        self, catalog: Catalog, identifier: TableIdentifier
    ) -> tuple[tables.EntryState | None, Document[Any] | None]:
        known = self._known.get((catalog.id.int, identifier))
        document = self._documents.get(_key(known)) if known else None
        return (known, document) if document else (None, None)

    def _entry(
        self,
        catalog: Catalog,
        identifier: TableIdentifier,
        row: tables.EntryRow,
        held: Document[V] | None,
        model: type[V],
    ) -> Entry[V]:
        if row.document is None:
            if held is None:
                raise RuntimeError(f"no document was read for {identifier}")
            held.seen(identifier, row)
            return Entry(identifier, row, held)
        parse = cast("Callable[[bytes], V]", model.parse)
        document = Document(stored_documents.decompress(row.document), parse)
        document.seen(identifier, msgspec.structs.replace(row, document=None))
        self.remember(catalog, identifier, row.state, document)
        return Entry(identifier, row, document)


_MODELS: dict[str, type[Any]] = {"table": TableMetadata, "view": ViewMetadata}


def _found(conn: Connection, row: EntryRow) -> FoundSecurable:
    return FoundSecurable(conn, row.access_version, row.namespace_id, row.id, row.owner_id)


def _also(call: Call, securable: Securable) -> Sequence[Check]:
    return ((Privilege.WRITE_TABLE, securable),) if call.delegation and securable.kind == "table" else ()


def _key(state: tables.EntryState) -> tuple[int, int, str]:
    # a UUID takes Python code for its hash, its number does not
    return state.id.int, state.version, state.metadata_location


def _weight(document: Document[V]) -> int:
    # the parsed form has blocks and an index of the snapshots beside the bytes
    return 2 * fragment_size(document.pieces) + 2048
