"""Metadata files that fall out of the log of a table that deletes them after a commit.

What a log names comes from clients, by registration, and so may be anybody's file.
"""

from __future__ import annotations

from typing import Final

from floecat.entries.prepared_changes import AnyPrepared
from floecat.store import written_files
from floecat.store.database.engine import Store

__all__ = ["deletable_files"]

_MOST: Final = 1000
"""A commit drops one file, or some when the log is made shorter; a registered log may hold any number."""


def deletable_files(store: Store, change: AnyPrepared) -> list[str]:
    """Which of the obsolete files of a change are surely this table's alone.

    The others are left to the orphan job.

    Args:
        store: knows who wrote a file, and what is current.
        change: a change that has been made.

    Raises:
        StoreUnavailableError: the store is away.
    """
    if not change.obsolete_files or change.base is None:
        return []
    newest = change.obsolete_files[-_MOST:]
    with store.read() as conn:
        return written_files.unneeded(conn, change.base.id, change.object_uuid, newest)
