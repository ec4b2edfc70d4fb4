"""Metadata files that fall out of the log of a table that deletes them after a commit.

What a log names comes from clients, by registration. So only what this catalog names that way is deleted,
in the folder that it has just written to, and nothing of a table that is registered a second time.
"""

from __future__ import annotations

import re

from floecat.store import tables
from floecat.store.engine import Store
from floecat.transactions.prepared import AnyPrepared

__all__ = ["deletable_files"]

_NAME = re.compile(r"\d{5,}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.gz)?\.metadata\.json")


def deletable_files(store: Store, change: AnyPrepared) -> list[str]:
    """Which of the obsolete files of a change are this table's alone; the others are left to the orphan job.

    Args:
        store: tells which other entries there are.
        change: a change that has been made.

    Raises:
        StoreUnavailableError: the store is away.
    """
    folder = change.metadata_location.rpartition("/")[0]
    own = [
        file
        for file in change.obsolete_files
        if file.rpartition("/")[0] == folder and _NAME.fullmatch(file.rpartition("/")[2])
    ]
    if not own or change.base is None:
        return []
    with store.read() as conn:
        shared = tables.shares_object_uuid(conn, change.base.id, change.object_uuid)
    return [] if shared else own
