"""The connector `delta`: Delta tables below a folder or the prefix of a bucket, or a single one."""

from __future__ import annotations

from collections.abc import Set

from floecat.connectors.folder_walk import FolderWalk
from floecat.connectors.spi import DiscoveredTable
from floecat.delta.log.log_files import LOG_FOLDER, has_delta_log

__all__ = ["DeltaConnector"]


class DeltaConnector(FolderWalk):
    """Finds Delta tables: folders with a log."""

    def _table(self, location: str, children: Set[str]) -> DiscoveredTable | None:
        if LOG_FOLDER in children and has_delta_log(self._source.files, location):
            return DiscoveredTable("", location)
        return None
