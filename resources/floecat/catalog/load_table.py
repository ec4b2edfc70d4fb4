"""Loading a table: one statement, and bytes that are sent without being parsed.

`FastLoads` answers tables whose document is in memory: one statement, no storage, and nothing to compute.
Everything else is left to `TableLoader`, whose answer is the same.

An entity tag names one representation: the state of the entry, the snapshots mode, the labels, and who plans
scans. Create, commit, register and load of one state so agree on it (RFC 9110 section 8.8.3). A rename makes
another state, with another tag. So do keys to the storage, if the answer has some.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, TypeAlias, cast

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.catalog.recent_loads import RecentLoads
from floecat.compression.pieces import Piece
from floecat.credentials.vending import PendingKeys, TablePlaces, Vended, Vending
from floecat.entries.calls import Call, Catalog, Labels, LoadedTable, VendedCredential
from floecat.entries.formats import TableFormats, is_derived
from floecat.entries.lookup import Document, Entries, Entry
from floecat.entries.metadata_files import MetadataFiles
from floecat.entries.names import missing_table
from floecat.entries.prepared_changes import AnyPrepared
from floecat.errors import BadRequestError, ForbiddenError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.storage.client_config import config_tag
from floecat.store.database.engine import Store
from floecat.store.entries.tables import EntryRow, EntryState

__all__ = [
    "SCAN_PLANNING_MODE",
    "FastLoad",
    "FastLoadState",
    "FastLoads",
    "SnapshotsMode",
    "StartedLoad",
    "TableLoader",
    "etag_of",
    "matches",
]

SnapshotsMode = Literal["all", "refs"]
"""Snapshots that a load returns: all, or those that a branch or tag points at."""

FastLoadState: TypeAlias = Literal["loaded", "waits", "slow"]
"""
- `loaded`: the table is answered.
- `waits`: the store is remote, and its one statement would hold up an event loop; try again in a thread.
- `slow`: `TableLoader.load` has to do it. Says nothing about whether the table exists.
"""


SCAN_PLANNING_MODE: Final = "scan-planning-mode"
"""Property of tables and catalogs, and configuration for clients: who plans scans."""

_PLANNING_MODES: Final = frozenset({"client", "server"})
_LARGE_BYTES: Final = 1 << 20


class StartedLoad(NamedTuple):
    """A load whose table is found."""

    takes_long: bool
    """Whether `finish` may wait for object storage, or the document is large."""
    finish: Callable[[], LoadedTable]
    """Answers the load, or fails as `TableLoader.load` does."""
    authority: str | None = None
    """The storage authority that `finish` may wait for, in place of object storage."""


class TableLoader:
    """Loads tables for reading and after commits."""

    def __init__(
        self,
        entries: Entries,
        files: MetadataFiles,
        formats: TableFormats,
        loads: RecentLoads,
        vending: Vending,
        *,
        verify_metadata_file: bool,
        scan_planning_mode: str | None,
    ) -> None:
        """Wires the loader.

        Args:
            entries: look-ups by name.
            formats: bring tables up to date.
            loads: is told of each load.
            vending: adds keys to the storage.
            verify_metadata_file: whether a load fails when the metadata file is gone from storage.
            scan_planning_mode: who plans scans of tables that do not say; None leaves it to clients.
        """
        self._planning_mode = scan_planning_mode
        self._entries = entries
        self._files = files
        self._formats = formats
        self._loads = loads
        self._vending = vending
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
            snapshots: `all`, or `refs` for those that a branch or tag points at directly.
            if_none_match: entity tags that the caller holds.

        Raises:
            BadRequestError: `snapshots` has another value.
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table, or its namespace, does not exist.
            FileMissingError: the metadata file is gone, and `verify-metadata-file` is on.
            FloecatError: the table cannot be brought up to date (see `TableFormat.current`), or an authority
                makes no keys (see `Vending.of`).
        """
        return self.start(call, identifier, snapshots, if_none_match).finish()

    def start(
        self,
        call: Call,
        identifier: TableIdentifier,
        snapshots: str = "all",
        if_none_match: str | None = None,
    ) -> StartedLoad:
        """The first part of `load`, which asks the store alone; arguments and errors are the same."""
        mode = _mode(snapshots)
        entry = self._entries.find_table(call, identifier, Privilege.READ_TABLE)
        if entry is None:
            raise missing_table(identifier)
        if self._verify or not self._formats.of(entry.row).is_current(entry.row):
            return StartedLoad(True, partial(self._check_and_answer, call, entry, mode, if_none_match))
        places = TablePlaces.of_entry(entry)
        vended = self._vending.at_once(call, places)
        if isinstance(vended, PendingKeys):
            finish = partial(self._answer_with_keys, call, entry, mode, if_none_match, vended)
            return StartedLoad(True, finish, vended.waits_for)
        is_large = sum(map(len, entry.document.pieces)) > _LARGE_BYTES
        return StartedLoad(is_large, partial(self.answer, call.catalog, entry, mode, if_none_match, vended))

    def _check_and_answer(
        self, call: Call, found: Entry[TableMetadata], mode: SnapshotsMode, if_none_match: str | None
    ) -> LoadedTable:
        entry = self._formats.of(found.row).current(call, found)
        if entry is None:
            raise missing_table(found.identifier)
        # nothing is lost with a metadata file that is derived
        if self._verify and not is_derived(found.row.format):
            self._files.check_exists(call.catalog.storage, entry.row.metadata_location)
        current = msgspec.structs.replace(
            entry, access_version=found.access_version, may_write=found.may_write
        )
        return self._answer_with_keys(call, current, mode, if_none_match)

    def _answer_with_keys(
        self,
        call: Call,
        entry: Entry[TableMetadata],
        mode: SnapshotsMode,
        if_none_match: str | None,
        pending: PendingKeys | None = None,
    ) -> LoadedTable:
        vended = self._vending.of(call, TablePlaces.of_entry(entry), pending)
        return self.answer(call.catalog, entry, mode, if_none_match, vended)

    def answer(
        self,
        catalog: Catalog,
        entry: Entry[TableMetadata],
        mode: SnapshotsMode,
        if_none_match: str | None,
        vended: Vended,
    ) -> LoadedTable:
        """The answer of a load of a current entry: the table, or that the caller's copy is current."""
        state = entry.row.state
        self._loads.note(state.id)
        location = state.metadata_location
        of_table = entry.document.property(SCAN_PLANNING_MODE)
        planning_mode = self._planning_mode_of(catalog, of_table, partial(_has_row_lineage, entry.document))
        etag = _tagged(etag_of(state, mode, entry.labels, planning_mode), vended.tag)
        if if_none_match is not None and matches(if_none_match, etag):
            return LoadedTable((), location, etag, not_modified=True)
        config = _config(vended.config, planning_mode)
        table_uuid = entry.row.object_uuid
        return LoadedTable(
            _pieces(entry, mode),
            location,
            etag,
            config,
            state=state,
            table_uuid=table_uuid,
            labels=entry.labels,
            storage_credentials=vended.credentials,
            signs=vended.signs,
        )

    def loaded(self, catalog: Catalog, metadata: TableMetadata, state: EntryState | None) -> LoadedTable:
        """A table as a create, a commit or a registration answers it: with all snapshots.

        Args:
            state: of the entry; `None` for a staged table, which has neither file nor tag.
        """
        of_table = metadata.properties.get(SCAN_PLANNING_MODE)
        planning_mode = self._planning_mode_of(catalog, of_table, lambda: metadata.has_row_lineage)
        told = catalog.storage.client_config(metadata.location)
        config = _config(told, planning_mode)
        pieces, table_uuid = metadata.pieces(), metadata.table_uuid
        if state is None:
            return LoadedTable(pieces, None, config=config, table_uuid=table_uuid)
        etag = _tagged(etag_of(state, planning_mode=planning_mode), config_tag(told))
        return LoadedTable(pieces, state.metadata_location, etag, config, state=state, table_uuid=table_uuid)

    def made(self, call: Call, identifier: TableIdentifier, table: LoadedTable) -> LoadedTable:
        """A table that was created, staged or registered, with what a load of it tells about its storage.

        Raises:
            AuthorityError: an authority makes no keys now.
        """
        if table.metadata_location is None:
            vended = self._vending.of_new(call, TableMetadata.parse(table.metadata))
        else:
            try:
                entry = self._entries.find_table(call, identifier, Privilege.READ_TABLE)
            except ForbiddenError:
                entry = None  # who may create need not be allowed to read
            if entry is None:
                return table
            vended = self._vending.of(call, TablePlaces.of_entry(entry))
        return msgspec.structs.replace(
            table,
            etag=table.etag and _tagged(table.etag, vended.tag),
            config=_config(vended.config, table.config.get(SCAN_PLANNING_MODE)),
            storage_credentials=vended.credentials,
            signs=vended.signs,
        )

    def credentials(self, call: Call, identifier: TableIdentifier) -> Sequence[VendedCredential]:
        """Keys to the storage of a table; none where no authority makes some.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: it does not exist.
            AuthorityError: an authority makes no keys now.
        """
        entry = self._entries.find_table(call, identifier, Privilege.READ_TABLE)
        if entry is None:
            raise missing_table(identifier)
        return self._vending.of(call, TablePlaces.of_entry(entry)).credentials

    def make_keys(self, call: Call, metadata: TableMetadata, state: EntryState | None = None) -> None:
        """Makes the keys that the answer about a new table will have, before anything else is made.

        Raises:
            AuthorityError: an authority makes no keys now.
            BadRequestError: keys for its locations cannot be expressed.
        """
        if "keys" in call.delegation:
            self._vending.of_new(call, metadata, state)

    def made_by(self, call: Call, changes: Sequence[AnyPrepared]) -> LoadedTable:
        """The answer of `changed` to a change that makes a table; its keys are made first."""
        change = changes[0]
        self.make_keys(call, cast("TableMetadata", change.metadata), change.state)
        return self.changed(call.catalog, changes)

    def changed(self, catalog: Catalog, changes: Sequence[AnyPrepared]) -> LoadedTable:
        """The table of a single change, as it is answered once the change is made."""
        change = changes[0]
        return self.loaded(catalog, cast("TableMetadata", change.metadata), change.state)

    def removed(self, catalog: Catalog, row: EntryRow, document: bytes) -> LoadedTable:
        """A table as it was when its entry was removed.

        Args:
            row: its entry.
            document: its metadata document, JSON.
        """
        answer = self.loaded(catalog, TableMetadata.parse(document), row.state)
        return msgspec.structs.replace(answer, is_derived=is_derived(row.format))

    def planning_mode(self, catalog: Catalog) -> str | None:
        """The `scan-planning-mode` of a catalog's tables that set none; None leaves it to clients."""
        return _known_mode(catalog.properties.get(SCAN_PLANNING_MODE)) or self._planning_mode

    def _planning_mode_of(
        self, catalog: Catalog, of_table: str | None, has_row_lineage: Callable[[], bool]
    ) -> str | None:
        said = _known_mode(of_table)
        if said is not None:
            return said
        mode = self.planning_mode(catalog)
        # Plans have no sequence numbers: a compaction from one would lose those of the rows.
        return "client" if mode == "server" and has_row_lineage() else mode


class FastLoad(msgspec.Struct, frozen=True):
    """The result of a fast load."""

    state: FastLoadState
    table: LoadedTable | None = None
    """The answer; only if `loaded`."""


class FastLoads:
    """Answers loads from memory, each confirmed by the store."""

    def __init__(
        self,
        store: Store,
        entries: Entries,
        formats: TableFormats,
        loader: TableLoader,
        vending: Vending,
        *,
        verify_metadata_file: bool,
    ) -> None:
        self._store = store
        self._entries = entries
        self._formats = formats
        self._loader = loader
        self._vending = vending
        self._verify = verify_metadata_file

    def load(
        self,
        call: Call,
        identifier: TableIdentifier,
        mode: SnapshotsMode,
        if_none_match: str | None,
        *,
        may_wait: bool = False,
    ) -> FastLoad:
        """A table by name.

        Args:
            call: the request.
            mode: which snapshots.
            if_none_match: entity tags that the caller holds.
            may_wait: whether the caller is a thread that may wait for a remote store.

        Raises:
            ForbiddenError: the principal may not read the table.
            StoreUnavailableError: the store did not answer, or a local one is busy.
        """
        if self._verify:
            return _SLOW
        local = self._store.at_once
        if local is None and not may_wait:
            entry = self._entries.last_seen_table(call.catalog, identifier)
            return _SLOW if entry is None or not self._is_ready(entry, mode) else _WAITS
        with self._store.read() if local is None else nullcontext(local) as conn:
            entry = self._entries.confirm_table(conn, call, identifier, Privilege.READ_TABLE)
            if entry is None or not self._is_ready(entry, mode):
                return _SLOW
            vended = self._vending.at_once(call, TablePlaces.of_entry(entry), conn)
        if isinstance(vended, PendingKeys):
            return _SLOW
        return FastLoad("loaded", self._loader.answer(call.catalog, entry, mode, if_none_match, vended))

    def _is_ready(self, entry: Entry[TableMetadata], mode: SnapshotsMode) -> bool:
        if mode == "refs":
            parsed = entry.document.parsed_already()
            if parsed is None or not parsed.has_refs_only_bytes:
                return False
        return self._formats.of(entry.row).is_current(entry.row)


def etag_of(
    state: EntryState,
    snapshots: SnapshotsMode = "all",
    labels: Labels | None = None,
    planning_mode: str | None = None,
) -> str:
    """The entity tag, quoted and weak: the bytes may be compressed or not."""
    named = f"{state.id.hex}|{state.version}|{snapshots}|{state.metadata_location}"
    digest = blake2b(named.encode(), digest_size=16)
    if labels is not None:
        digest.update(b"|" + msgspec.json.encode(labels, order="deterministic"))
    if planning_mode is not None:
        digest.update(b"|" + planning_mode.encode())
    return f'W/"{digest.hexdigest()}"'


def matches(if_none_match: str, etag: str) -> bool:
    """Whether the value of an `If-None-Match` header names the tag.

    Takes one tag, a list, `*`, weak and strong forms, and tags that a client sent without quotes.
    """
    wanted = _opaque(etag)
    candidates = (part.strip() for part in if_none_match.split(","))
    return any(candidate == "*" or _opaque(candidate) == wanted for candidate in candidates if candidate)


_SLOW = FastLoad("slow")
_WAITS = FastLoad("waits")


def _mode(snapshots: str) -> SnapshotsMode:
    if snapshots == "all":
        return "all"
    if snapshots == "refs":
        return "refs"
    raise BadRequestError("Invalid parameter snapshots: must be all or refs")


def _known_mode(mode: str | None) -> str | None:
    return mode.lower() if mode is not None and mode.lower() in _PLANNING_MODES else None


def _has_row_lineage(document: Document[TableMetadata]) -> bool:
    return document.may_mention("next-row-id") and document.parsed().has_row_lineage


def _tagged(etag: str, told: str) -> str:
    """The tag of an answer that tells this about storage: another one for other settings and keys."""
    of_table = etag[:-1].partition("-")[0]
    return f'{of_table}-{told}"' if told else f'{of_table}"'


def _config(config: Mapping[str, str], planning_mode: str | None) -> Mapping[str, str]:
    return config if planning_mode is None else {**config, SCAN_PLANNING_MODE: planning_mode}


def _pieces(entry: Entry[TableMetadata], mode: SnapshotsMode) -> Sequence[Piece]:
    return entry.document.pieces if mode == "all" else (entry.document.parsed().refs_only_bytes(),)


def _opaque(tag: str) -> str:
    return tag.removeprefix("W/").strip('"')
