"""Metadata files of a dropped table that fell out of its metadata log.

The log keeps 100 files by default, and without `write.metadata.delete-after-commit.enabled` the files that
fall out of it stay. Nothing in the table leads to them then, but the commit log of the catalog does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from floecat.purge.deletion.table_purge import PurgeTarget
from floecat.store.commits import commit_log
from floecat.store.database.engine import Store

__all__ = ["EarlierMetadata"]

_PAGE: Final = 1_000


class EarlierMetadata:
    """Finds the metadata files that a table had while it was this entry. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, target: PurgeTarget) -> Iterator[str]:
        """Yields the files, newest first; those of the metadata log are among them."""
        if target.entry_id is None:
            return
        newest, seen = target.metadata_location, {target.metadata_location}
        while True:
            with self._store.read() as conn:
                page = commit_log.earlier_metadata_files(conn, target.entry_id, newest, _PAGE)
            yield from page
            # a file that was current twice would lead round and round
            if len(page) < _PAGE or page[-1] in seen:
                return
            newest = page[-1]
            seen.add(newest)
