"""Loads of tables whose document is in memory: one statement, no storage, and nothing to work out.

The answer is the one of `TableLoader.load`. Whatever is not that simple is left to it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from floecat.auth.authorizer import Privilege
from floecat.catalog.load_table import TableLoader
from floecat.entries.calls import Call, LoadedTable
from floecat.entries.etags import SnapshotsMode
from floecat.entries.formats import TableFormats
from floecat.entries.lookup import Entries, Entry
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.identifiers.namespace import TableIdentifier
from floecat.store.database.engine import Store

__all__ = ["FastLoad", "FastLoadState", "FastLoads"]

FastLoadState: TypeAlias = Literal["loaded", "waits", "slow"]
"""
- `loaded`: the table is answered.
- `waits`: the store is remote, and its one statement would hold up an event loop; try again in a thread.
- `slow`: `TableLoader.load` has to do it. Says nothing about whether the table exists.
"""


class FastLoad(msgspec.Struct, frozen=True):
    """How a fast load ended."""

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
        *,
        verify_metadata_file: bool,
    ) -> None:
        self._store = store
        self._entries = entries
        self._formats = formats
        self._loader = loader
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
            identifier: the table.
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
        if local is not None:
            entry = self._entries.confirm_table(local, call, identifier, Privilege.READ_TABLE)
        elif may_wait:
            with self._store.read() as conn:
                entry = self._entries.confirm_table(conn, call, identifier, Privilege.READ_TABLE)
        else:
            entry = self._entries.last_seen_table(call.catalog, identifier)
        if entry is None or not self._is_ready(entry, mode):
            return _SLOW
        if local is None and not may_wait:
            return _WAITS
        return FastLoad("loaded", self._loader.answer(call.catalog, entry, mode, if_none_match))

    def _is_ready(self, entry: Entry[TableMetadata], mode: SnapshotsMode) -> bool:
        if mode == "refs":
            parsed = entry.document.parsed_already()
            if parsed is None or not parsed.has_refs_only_bytes:
                return False
        return self._formats.of(entry.row).is_current(entry.row)


_SLOW = FastLoad("slow")
_WAITS = FastLoad("waits")
