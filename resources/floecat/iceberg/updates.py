"""Changes of a table (Iceberg REST specification, `TableUpdate`).

Schemas, specs, orders and snapshots stay encoded until `builder.metadata_builder` applies them. Go writes
null for an empty list or map, so null is accepted for both.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from floecat.iceberg.metadata.refs_and_logs import SnapshotRef
from floecat.iceberg.values.encoded_json import Int32, Int64

__all__ = [
    "LAST_ADDED",
    "AddEncryptionKey",
    "AddPartitionSpec",
    "AddSchema",
    "AddSnapshot",
    "AddSortOrder",
    "AssignUuid",
    "RemoveEncryptionKey",
    "RemovePartitionSpecs",
    "RemovePartitionStatistics",
    "RemoveProperties",
    "RemoveSchemas",
    "RemoveSnapshotRef",
    "RemoveSnapshots",
    "RemoveStatistics",
    "SetCurrentSchema",
    "SetDefaultSortOrder",
    "SetDefaultSpec",
    "SetLocation",
    "SetPartitionStatistics",
    "SetProperties",
    "SetSnapshotRef",
    "SetStatistics",
    "TableUpdate",
    "Update",
    "UpgradeFormatVersion",
]

LAST_ADDED = -1
"""Stands for the id of the schema, spec or order that the same request added last."""


class Update(msgspec.Struct, frozen=True, rename="kebab", tag_field="action"):
    """A change of a table or view. Those of properties, schemas and locations are the same for both."""

    def __post_init__(self) -> None:
        """Lets other threads run: the decoder does not, from one call of Python code to the next."""


class AssignUuid(Update, frozen=True, tag="assign-uuid"):
    """Gives a new table or view its UUID."""

    uuid: str


class UpgradeFormatVersion(Update, frozen=True, tag="upgrade-format-version"):
    """Raises the format version."""

    format_version: Int32


class AddSchema(Update, frozen=True, tag="add-schema"):
    """Adds a schema. The deprecated `last-column-id` of the request is ignored."""

    schema: msgspec.Raw


class SetCurrentSchema(Update, frozen=True, tag="set-current-schema"):
    """Makes a schema the current one."""

    schema_id: Int32


class AddPartitionSpec(Update, frozen=True, tag="add-spec"):
    """Adds a partition spec."""

    spec: msgspec.Raw


class SetDefaultSpec(Update, frozen=True, tag="set-default-spec"):
    """Makes a partition spec the default one."""

    spec_id: Int32


class AddSortOrder(Update, frozen=True, tag="add-sort-order"):
    """Adds a sort order."""

    sort_order: msgspec.Raw


class SetDefaultSortOrder(Update, frozen=True, tag="set-default-sort-order"):
    """Makes a sort order the default one."""

    sort_order_id: Int32


class AddSnapshot(Update, frozen=True, tag="add-snapshot"):
    """Adds a snapshot, which no branch points at yet."""

    snapshot: msgspec.Raw


class SetSnapshotRef(Update, frozen=True, tag="set-snapshot-ref"):
    """Creates a branch or tag, or moves it."""

    ref_name: str
    type: str
    snapshot_id: Int64
    max_ref_age_ms: Int64 | None = None
    max_snapshot_age_ms: Int64 | None = None
    min_snapshots_to_keep: Int32 | None = None

    @property
    def ref(self) -> SnapshotRef:
        """The new state of the branch or tag."""
        return SnapshotRef(
            snapshot_id=self.snapshot_id,
            type=self.type.lower(),
            min_snapshots_to_keep=self.min_snapshots_to_keep,
            max_snapshot_age_ms=self.max_snapshot_age_ms,
            max_ref_age_ms=self.max_ref_age_ms,
        )


class RemoveSnapshots(Update, frozen=True, tag="remove-snapshots"):
    """Removes snapshots with their statistics, branches and tags."""

    snapshot_ids: frozenset[Int64] | None


class RemoveSnapshotRef(Update, frozen=True, tag="remove-snapshot-ref"):
    """Removes a branch or tag."""

    ref_name: str


class SetLocation(Update, frozen=True, tag="set-location"):
    """Sets the location for new files."""

    location: str


class SetProperties(Update, frozen=True, tag="set-properties"):
    """Sets properties; early clients call `updates` `updated`."""

    updates: dict[str, str] | msgspec.UnsetType | None = msgspec.UNSET
    updated: dict[str, str] | msgspec.UnsetType | None = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.updates is msgspec.UNSET and self.updated is msgspec.UNSET:
            raise ValueError("Object missing required field `updates`")

    @property
    def properties(self) -> dict[str, str]:
        """The properties to set."""
        return (self.updated if self.updates is msgspec.UNSET else self.updates) or {}


class RemoveProperties(Update, frozen=True, tag="remove-properties"):
    """Removes properties; early clients call `removals` `removed`."""

    removals: frozenset[str] | msgspec.UnsetType | None = msgspec.UNSET
    removed: frozenset[str] | msgspec.UnsetType | None = msgspec.UNSET

    def __post_init__(self) -> None:
        if self.removals is msgspec.UNSET and self.removed is msgspec.UNSET:
            raise ValueError("Object missing required field `removals`")

    @property
    def keys(self) -> frozenset[str]:
        """The properties to remove."""
        return (self.removed if self.removals is msgspec.UNSET else self.removals) or frozenset()


class SetStatistics(Update, frozen=True, tag="set-statistics"):
    """Sets the statistics file of a snapshot. The deprecated `snapshot-id` beside it must be the same."""

    statistics: msgspec.Raw
    snapshot_id: Int64 | None = None


class RemoveStatistics(Update, frozen=True, tag="remove-statistics"):
    """Removes the statistics file of a snapshot."""

    snapshot_id: Int64


class SetPartitionStatistics(Update, frozen=True, tag="set-partition-statistics"):
    """Sets the partition statistics file of a snapshot."""

    partition_statistics: msgspec.Raw


class RemovePartitionStatistics(Update, frozen=True, tag="remove-partition-statistics"):
    """Removes the partition statistics file of a snapshot."""

    snapshot_id: Int64


class RemovePartitionSpecs(Update, frozen=True, tag="remove-partition-specs"):
    """Removes partition specs that no file uses."""

    spec_ids: frozenset[Int32] | None


class RemoveSchemas(Update, frozen=True, tag="remove-schemas"):
    """Removes schemas that no snapshot uses."""

    schema_ids: frozenset[Int32] | None


class AddEncryptionKey(Update, frozen=True, tag="add-encryption-key"):
    """Adds an encrypted key."""

    encryption_key: msgspec.Raw


class RemoveEncryptionKey(Update, frozen=True, tag="remove-encryption-key"):
    """Removes an encrypted key."""

    key_id: str


TableUpdate: TypeAlias = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetCurrentSchema
    | AddPartitionSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshots
    | RemoveSnapshotRef
    | SetLocation
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddEncryptionKey
    | RemoveEncryptionKey
)
"""Any change to a table, distinguished by `action`."""
