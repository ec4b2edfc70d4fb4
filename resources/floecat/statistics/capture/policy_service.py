"""What is captured of a table, shown and changed: a change sets properties of the table by a commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from floecat.commits.table_changes import TableChange
from floecat.entries.calls import Call
from floecat.errors import BadRequestError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.updates import RemoveProperties, SetProperties, TableUpdate
from floecat.identifiers.namespace import TableIdentifier
from floecat.settings import StatisticsSettings
from floecat.statistics.capture.expressions import MOST_EXPRESSIONS, Expression
from floecat.statistics.capture.policies import PREFIX, CapturePolicy, capture_policy
from floecat.statistics.snapshots import Snapshots

if TYPE_CHECKING:
    from floecat.commits.commit import CommitService

__all__ = ["CapturePolicies", "PolicyChange"]


class PolicyChange(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """What a table sets by itself from now on; what is null is as its catalog and the settings have it."""

    enabled: bool | None = None
    snapshots: str | None = None
    columns: tuple[str, ...] | None = None
    """Full names."""
    first_columns: int | None = None
    publish: str | None = None
    expressions: tuple[Expression, ...] | None = None

    def check(self) -> None:
        """Checks the values.

        Raises:
            BadRequestError: one is not known.
        """
        if self.snapshots not in (None, "latest", "all"):
            raise BadRequestError("Invalid snapshots: must be latest or all")
        if self.publish not in (None, "recent", "always", "never"):
            raise BadRequestError("Invalid publish: must be recent, always or never")
        if self.first_columns is not None and self.first_columns < 0:
            raise BadRequestError("Invalid first-columns: must not be negative")
        if any("," in name or not name.strip() for name in self.columns or ()):
            raise BadRequestError("Invalid columns: a name is blank or has a comma")
        if len(self.expressions or ()) > MOST_EXPRESSIONS:
            raise BadRequestError(f"Invalid expressions: more than {MOST_EXPRESSIONS}")
        for each in self.expressions or ():
            each.normalized()

    @property
    def properties(self) -> dict[str, str | None]:
        """The properties of the table; None for those that go."""
        return {
            f"{PREFIX}enabled": None if self.enabled is None else str(self.enabled).lower(),
            f"{PREFIX}snapshots": self.snapshots,
            f"{PREFIX}columns": None if self.columns is None else ",".join(self.columns),
            f"{PREFIX}first-columns": None if self.first_columns is None else str(self.first_columns),
            f"{PREFIX}publish": self.publish,
            f"{PREFIX}expressions": None
            if self.expressions is None
            else msgspec.json.encode([each.normalized() for each in self.expressions]).decode(),
        }


class CapturePolicies:
    """Shows and changes policies. Safe to share between threads."""

    def __init__(self, snapshots: Snapshots, commits: CommitService, settings: StatisticsSettings) -> None:
        self._snapshots = snapshots
        self._commits = commits
        self._settings = settings

    def get(self, call: Call, identifier: TableIdentifier) -> CapturePolicy:
        """What is captured of a table.

        Raises:
            ForbiddenError: the principal may not read the table.
            NoSuchTableError: the table does not exist.
        """
        return self._policy(call, self._snapshots.table(call, identifier).document.parsed())

    def change(self, call: Call, identifier: TableIdentifier, change: PolicyChange) -> CapturePolicy:
        """Replaces what a table sets by itself.

        Raises:
            BadRequestError: a value is not known, or an expression does not fit the table.
            ForbiddenError: the principal may not write the table.
            NoSuchTableError: the table does not exist.
            UnsupportedOperationError: it is a Delta table, whose own properties say what is captured.
            FloecatError: as any commit.
        """
        change.check()
        if change.expressions:
            schema = self._snapshots.table(call, identifier).document.parsed().current_schema
            for each in change.expressions:
                each.normalized().bind(schema)
        properties = change.properties
        updates: list[TableUpdate] = [
            SetProperties(updates={key: value for key, value in properties.items() if value is not None}),
            RemoveProperties(removals=frozenset(key for key, value in properties.items() if value is None)),
        ]
        loaded = self._commits.commit(call, TableChange(identifier, [], updates))
        return self._policy(call, TableMetadata.parse(loaded.metadata))

    def _policy(self, call: Call, metadata: TableMetadata) -> CapturePolicy:
        return capture_policy(self._settings, call.catalog.properties, metadata.properties)
