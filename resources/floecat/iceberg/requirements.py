"""Requirements of a commit on the table it changes (Iceberg REST specification, `TableRequirement`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from floecat.errors import CommitFailedError, IllegalArgumentError
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.partitioning import NO_PARTITION_FIELD_ID
from floecat.iceberg.values.encoded_json import Int32, Int64

__all__ = [
    "AssertCreate",
    "AssertCurrentSchemaId",
    "AssertDefaultSortOrderId",
    "AssertDefaultSpecId",
    "AssertLastAssignedFieldId",
    "AssertLastAssignedPartitionId",
    "AssertRefSnapshotId",
    "AssertTableUuid",
    "TableRequirement",
    "check_requirements",
]


class _Requirement(msgspec.Struct, frozen=True, rename="kebab", tag_field="type"):
    pass


class AssertCreate(_Requirement, frozen=True, tag="assert-create"):
    """The table does not exist."""


class AssertTableUuid(_Requirement, frozen=True, tag="assert-table-uuid"):
    """The table has this UUID."""

    uuid: str


class AssertRefSnapshotId(_Requirement, frozen=True, tag="assert-ref-snapshot-id"):
    """A branch or tag points at this snapshot.

    Attributes:
        snapshot_id: None, or a missing field, means that the reference must not exist.
    """

    ref: str
    snapshot_id: Int64 | None = None


class AssertLastAssignedFieldId(_Requirement, frozen=True, tag="assert-last-assigned-field-id"):
    """No column was added."""

    last_assigned_field_id: Int32


class AssertCurrentSchemaId(_Requirement, frozen=True, tag="assert-current-schema-id"):
    """The current schema is this one."""

    current_schema_id: Int32


class AssertLastAssignedPartitionId(_Requirement, frozen=True, tag="assert-last-assigned-partition-id"):
    """No partition field was added.

    Attributes:
        last_assigned_partition_id: None if the table never had a partition field; PyIceberg omits it then for
            a version 1 table without the field.
    """

    last_assigned_partition_id: Int32 | None = None


class AssertDefaultSpecId(_Requirement, frozen=True, tag="assert-default-spec-id"):
    """The default partition spec is this one."""

    default_spec_id: Int32


class AssertDefaultSortOrderId(_Requirement, frozen=True, tag="assert-default-sort-order-id"):
    """The default sort order is this one."""

    default_sort_order_id: Int32


TableRequirement: TypeAlias = (
    AssertCreate
    | AssertTableUuid
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)
"""Any requirement, distinguished by `type`."""


def check_requirements(requirements: Sequence[TableRequirement], metadata: TableMetadata | None) -> None:
    """Checks the requirements of a commit against the newest metadata, in order.

    Args:
        requirements: what the client requires.
        metadata: None if the table does not exist.

    Raises:
        CommitFailedError: a requirement does not hold.
        IllegalArgumentError: the table does not exist and a requirement needs it.
    """
    if metadata is None:
        _check_create(requirements)
        return
    if any(isinstance(requirement, AssertCreate) for requirement in requirements):
        raise CommitFailedError("Requirement failed: table already exists")
    for requirement in requirements:
        failure = _failure(requirement, metadata)
        if failure is not None:
            raise CommitFailedError(f"Requirement failed: {failure}")


def _check_create(requirements: Sequence[TableRequirement]) -> None:
    invalid = sorted(
        {
            str(requirement.__struct_config__.tag)
            for requirement in requirements
            if not isinstance(requirement, AssertCreate)
        }
    )
    if invalid:
        raise IllegalArgumentError(f"Invalid create requirements: {', '.join(invalid)}")


def _failure(requirement: TableRequirement, metadata: TableMetadata) -> str | None:
    match requirement:
        case AssertTableUuid(uuid):
            if uuid.lower() == metadata.table_uuid.lower():
                return None
            return f"UUID does not match: expected {metadata.table_uuid} != {uuid}"
        case AssertRefSnapshotId():
            return _ref_failure(requirement, metadata)
        case AssertLastAssignedFieldId(expected):
            return _changed("last assigned field id", expected, metadata.last_column_id)
        case AssertCurrentSchemaId(expected):
            return _changed("current schema", expected, metadata.current_schema_id)
        case AssertLastAssignedPartitionId(expected):
            wanted = NO_PARTITION_FIELD_ID if expected is None else expected
            return _changed("last assigned partition id", wanted, metadata.last_partition_id)
        case AssertDefaultSpecId(expected):
            return _changed("default partition spec", expected, metadata.default_spec_id)
        case AssertDefaultSortOrderId(expected):
            return _changed("default sort order", expected, metadata.default_sort_order_id)
        case AssertCreate():
            return "table already exists"


def _changed(what: str, expected: int, actual: int) -> str | None:
    return None if expected == actual else f"{what} changed: expected id {expected} != {actual}"


def _ref_failure(requirement: AssertRefSnapshotId, metadata: TableMetadata) -> str | None:
    expected = requirement.snapshot_id
    ref = metadata.refs.get(requirement.ref)
    if ref is None:
        if expected is None:
            return None
        return f"branch or tag {requirement.ref} is missing, expected {expected}"
    if expected is None:
        return f"{ref.type} {requirement.ref} was created concurrently"
    if expected != ref.snapshot_id:
        return f"{ref.type} {requirement.ref} has changed: expected id {expected} != {ref.snapshot_id}"
    return None
