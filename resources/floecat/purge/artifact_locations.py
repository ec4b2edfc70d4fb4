"""Files of index artifacts, which no metadata names; see `floecat.statistics.index_artifacts`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

import msgspec

from floecat.store.database.engine import Connection, Store
from floecat.store.statistics import artifact_files
from floecat.store.statistics.artifact_files import FIRST, Place

__all__ = ["ArtifactLocations"]

_PAGE: Final = 1_000


class _Artifact(msgspec.Struct, rename="kebab"):
    artifact_uri: str


_decoder: Final = msgspec.json.Decoder(_Artifact)


class ArtifactLocations:
    """Finds the files of index artifacts. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of_purge(self, job_id: UUID) -> Iterator[str]:
        """Yields those of the dropped table that a job purges."""
        return self._all(artifact_files.of_purge, job_id)

    def of_entry(self, entry_id: UUID) -> Iterator[str]:
        """Yields those of a live table."""
        return self._all(artifact_files.of_entry, entry_id)

    def _all(
        self, read: Callable[[Connection, UUID, Place, int], list[tuple[Place, bytes]]], owner: UUID
    ) -> Iterator[str]:
        after = FIRST
        while True:
            with self._store.read() as conn:
                page = read(conn, owner, after, _PAGE)
            for place, body in page:
                after = place
                yield _decoder.decode(body).artifact_uri
            if len(page) < _PAGE:
                return
