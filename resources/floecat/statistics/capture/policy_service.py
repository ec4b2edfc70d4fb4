"""Capture policies, shown and changed: a change sets properties of the table, or of its catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from floecat.commits.table_changes import TableChange
from floecat.entries.calls import Call
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.updates import RemoveProperties, SetProperties, TableUpdate
from floecat.identifiers.namespace import TableIdentifier
from floecat.settings import StatisticsSettings
from floecat.statistics.capture.policies import CapturePolicy, PolicyChange, capture_policy
from floecat.statistics.snapshots import Snapshots

if TYPE_CHECKING:
    from floecat.catalog.catalog_changes import CatalogChanges
    from floecat.commits.commit import CommitService

__all__ = ["CapturePolicies"]


class CapturePolicies:
    """Shows and changes policies. Safe to share between threads."""

    def __init__(
        self,
        snapshots: Snapshots,
        commits: CommitService,
        catalogs: CatalogChanges,
        settings: StatisticsSettings,
    ) -> None:
        self._snapshots = snapshots
        self._commits = commits
        self._catalogs = catalogs
        self._settings = settings

    def get(self, call: Call, identifier: TableIdentifier | None) -> CapturePolicy:
        """The capture policy of a table, or the default for the tables of the catalog.

        Args:
            identifier: the table; None for the catalog.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
        """
        properties: Mapping[str, str] = {}
        if identifier is not None:
            properties = self._snapshots.table(call, identifier).document.parsed().properties
        return capture_policy(self._settings, call.catalog.properties, properties)

    def change(self, call: Call, identifier: TableIdentifier | None, change: PolicyChange) -> CapturePolicy:
        """Replaces what a table, or the catalog, sets by itself.

        Args:
            identifier: the table; None for the catalog.
            change: what it sets from now on.

        Raises:
            BadRequestError: a value is not known, or the table lacks a column.
            ForbiddenError: the principal may not write the table, or not manage the catalog.
            NoSuchTableError: the table does not exist.
            UnsupportedOperationError: it is a Delta table, whose own properties say what is captured.
            FloecatError: as any commit.
        """
        change.check()
        if identifier is None:
            properties = self._catalogs.change_properties(call, change.properties)
            return capture_policy(self._settings, properties, {})
        if change.columns or change.expressions:
            change.check_columns(self._snapshots.table(call, identifier).document.parsed().current_schema)
        found = change.properties
        updates: list[TableUpdate] = [
            SetProperties(updates={key: value for key, value in found.items() if value is not None}),
            RemoveProperties(removals=frozenset(key for key, value in found.items() if value is None)),
        ]
        loaded = self._commits.commit(call, TableChange(identifier, [], updates))
        changed = TableMetadata.parse(loaded.metadata).properties
        return capture_policy(self._settings, call.catalog.properties, changed)
