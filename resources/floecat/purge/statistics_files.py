"""Files that the catalog writes beside the metadata of a table: what was counted of its data files.

They are in a folder that has the id of the entry in its name, so that no other table has files there. They
are found by listing it: rows about them went with the entry, and a worker that died may have left a file
without a row.
"""

from __future__ import annotations

from collections.abc import Iterator

from floecat.entries.entry_locations import statistics_folder
from floecat.errors import LocationNotAllowedError
from floecat.purge.table_purge import PurgeTarget, Sidecars

__all__ = ["StatisticsFiles"]


class StatisticsFiles:
    """Finds the files of a dropped table. Safe to share between threads."""

    def __init__(self, earlier: Sidecars) -> None:
        """`earlier` finds its metadata files, which may have been in other folders before."""
        self._earlier = earlier

    def __call__(self, target: PurgeTarget) -> Iterator[str]:
        """Yields the files."""
        if target.entry_id is None:
            return
        metadata_files = (target.metadata_location, *self._earlier(target))
        for folder in {statistics_folder(file, target.entry_id) for file in metadata_files}:
            try:
                target.storage.allowed.check(folder)
            except LocationNotAllowedError:
                continue  # allowed when the table was there: a purge leaves what is outside
            for entry in target.storage.files(folder).list(folder):
                yield entry.location
