"""What is purged, and what came of it."""

from __future__ import annotations

import msgspec

from floecat.errors import FloecatError
from floecat.fileio.locations import AllowedLocations
from floecat.purge.deletions import PurgeCounts

__all__ = ["PurgeIncompleteError", "PurgeReport", "PurgeTarget"]


class PurgeTarget(msgspec.Struct, frozen=True):
    """A table whose files are to go. Holds no credentials: storage is asked for with those of the process."""

    table_uuid: str
    metadata_location: str
    allowed: AllowedLocations
    document: bytes | None = None
    """What the metadata file says, as `floecat.store.documents` compressed it; in case the file is lost."""
    format: str = "iceberg"
    """`iceberg`, or `delta` for a table of which only artifacts go."""


class PurgeReport(msgspec.Struct, frozen=True):
    """What became of a purge."""

    counts: PurgeCounts
    note: str | None = None
    """Why less than everything was deleted, if so."""


class PurgeIncompleteError(FloecatError):
    """Some files are still there. They can be found again from the root metadata file, which is there too.

    Attributes:
        counts: what was done.
    """

    def __init__(self, message: str, counts: PurgeCounts) -> None:
        super().__init__(message)
        self.counts = counts
