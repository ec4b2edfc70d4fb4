"""What every service that writes metadata is made of."""

from __future__ import annotations

import msgspec

from floecat.catalog.entries import Entries
from floecat.catalog.load_table import TableLoader
from floecat.catalog.metadata_files import MetadataFiles
from floecat.catalog.mutations import Mutations
from floecat.catalog.table_answers import TableAnswers
from floecat.clock import Clock
from floecat.store.confirmation import ConfirmedTransactions
from floecat.store.engine import Store
from floecat.transactions.pointer_swaps import PointerSwaps

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
    mutations: Mutations
    """Runs changes once per idempotency key."""
    swaps: PointerSwaps
    """Writes files and swaps pointers."""
