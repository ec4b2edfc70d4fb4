"""Bodies of the table operations. `CreateTableRequest` is the kernel's own `CreateTable`."""

from __future__ import annotations

import msgspec

from floecat.iceberg.requirements import TableRequirement
from floecat.iceberg.updates import TableUpdate
from floecat_rest.iceberg.wire.identifiers import WireIdentifier

__all__ = ["CommitTableRequest", "CommitTransactionRequest", "RegisterTableRequest", "TableChangeRequest"]


class CommitTableRequest(msgspec.Struct):
    """Requirements and updates for the table that the path names.

    An `identifier` in the body is not looked at: some clients put the name of their catalog into it. The
    specification requires both lists. The reference parser does not, ClickHouse leaves the requirements of
    its first snapshot out, and Go writes an empty list as null.
    """

    requirements: list[TableRequirement] | None = None
    updates: list[TableUpdate] | None = None


class TableChangeRequest(msgspec.Struct):
    """One table's part of a transaction."""

    identifier: WireIdentifier
    requirements: list[TableRequirement] | None = None
    updates: list[TableUpdate] | None = None


class CommitTransactionRequest(msgspec.Struct, rename="kebab"):
    """Changes of several tables, applied all or none."""

    table_changes: list[TableChangeRequest]


class RegisterTableRequest(msgspec.Struct, rename="kebab"):
    """A metadata file that becomes a table."""

    name: str
    metadata_location: str
    overwrite: bool | None = None
    properties: dict[str, str] | None = None
    """Access to the storage of the metadata file, for this one read. Not in the specification."""
