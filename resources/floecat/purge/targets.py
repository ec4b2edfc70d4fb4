"""What is purged, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from floecat.errors import FloecatError
from floecat.purge.deletions import PurgeCounts
from floecat.storage.catalog_storage import CatalogStorage

__all__ = ["FormatPurge", "PurgeIncompleteError", "PurgeReport", "PurgeTarget"]


class PurgeTarget(msgspec.Struct, frozen=True):
    """A table whose files are to go."""

    table_uuid: str
    metadata_location: str
    storage: CatalogStorage
    document: bytes | None = None
    """What the metadata file says, as `floecat.store.documents` compressed it; in case the file is lost."""
    format: str = "iceberg"
    """Of the table; decides which of its files are deleted."""


class PurgeReport(msgspec.Struct, frozen=True):
    """What became of a purge."""

    counts: PurgeCounts
    note: str | None = None
    """Why less than everything was deleted, if so."""


class FormatPurge(Protocol):
    """Purges tables of a format other than Iceberg."""

    def purge(self, target: PurgeTarget, before_batch: Callable[[], None], /) -> PurgeReport:
        """Deletes the files that were made for the table here; see `Purger.purge`."""
        ...


class PurgeIncompleteError(FloecatError):
    """Some files are still there. They can be found again from the root metadata file, which is there too.

    Attributes:
        counts: what was done.
    """

    def __init__(self, message: str, counts: PurgeCounts) -> None:
        super().__init__(message)
        self.counts = counts
