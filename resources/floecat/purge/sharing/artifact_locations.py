"""Files of index artifacts, which no metadata names; see `floecat.statistics.index_artifacts`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

import msgspec

from floecat.store.database.engine import Store
from floecat.store.statistics import artifact_files

__all__ = ["ArtifactLocations"]


class _Artifact(msgspec.Struct, rename="kebab"):
    artifact_uri: str


_decoder: Final = msgspec.json.Decoder(_Artifact)


class ArtifactLocations:
    """Finds the files of index artifacts. Safe to share between threads."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of_purge(self, job_id: UUID) -> Iterator[str]:
        """Yields those of the dropped table that a job purges."""
        return map(_location, artifact_files.all_of(self._store, artifact_files.of_purge, job_id))

    def of_entry(self, entry_id: UUID) -> Iterator[str]:
        """Yields those of a live table."""
        return map(_location, artifact_files.all_of(self._store, artifact_files.of_entry, entry_id))


def _location(artifact: bytes) -> str:
    return _decoder.decode(artifact).artifact_uri
