"""What every service that writes metadata is made of."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from floecat.catalog.load_table import TableLoader
from floecat.catalog.replayed_answers import TableAnswers
from floecat.clock import Clock
from floecat.entries.calls import Call, LoadedTable
from floecat.entries.formats import TableFormats
from floecat.entries.idempotency_keys import IdempotencyKeys
from floecat.entries.lookup import Entries
from floecat.entries.metadata_files import MetadataFiles
from floecat.entries.prepared_changes import AnyPrepared
from floecat.entries.writes import EntryWrites
from floecat.storage.catalog_storages import CatalogStorages
from floecat.store.confirmed_transactions import ConfirmedTransactions
from floecat.store.database.engine import Store

__all__ = ["CommitParts"]


class CommitParts(msgspec.Struct, frozen=True):
    """Parts that the services of this package share."""

    store: Store
    transactions: ConfirmedTransactions
    """Runs what changes a catalog."""
    clock: Clock
    entries: Entries
    """Look-ups by name."""
    files: MetadataFiles
    """Metadata files in storage."""
    loader: TableLoader
    """Renders tables."""
    answers: TableAnswers
    """How answers are kept for replay."""
    keys: IdempotencyKeys
    """Runs changes once per idempotency key."""
    formats: TableFormats
    """Says which tables take commits."""
    writes: EntryWrites
    """Writes entries."""
    storages: CatalogStorages
    """Storages of all catalogs."""

    def render_table(self, call: Call, changes: Sequence[AnyPrepared]) -> LoadedTable:
        """The table of a single change, as it is answered once the change is made."""
        change = changes[0]
        return self.loader.loaded(
            call.catalog.storage,
            change.metadata.pieces(),
            change.state,
            change.location,
            change.object_uuid,
        )
