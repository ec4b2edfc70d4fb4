"""Working out what the updates of a request make of a table."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec
import uuid_utils.compat as uuids

from floecat.auth.authorizer import Privilege
from floecat.clock import Clock
from floecat.commits.staging import Staging
from floecat.entries.calls import Call
from floecat.entries.entry_locations import (
    check_locations,
    check_not_chosen,
    default_location,
    is_default,
    named_locations,
)
from floecat.entries.formats import TableFormats, is_derived
from floecat.entries.lookup import Entry
from floecat.entries.metadata_files import MetadataFiles
from floecat.entries.names import missing_table, name_taken, namespace_row
from floecat.entries.overlaps import entry_folders
from floecat.entries.prepared_changes import Prepared, SnapshotRowChanges
from floecat.errors import (
    AlreadyExistsError,
    BadRequestError,
    CommitFailedError,
    NoSuchTableError,
)
from floecat.iceberg.builder.metadata_builder import apply_updates
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.requirements import AssertCreate, TableRequirement, check_requirements
from floecat.iceberg.updates import SetLocation, TableUpdate
from floecat.iceberg.views.view_metadata import ViewMetadata
from floecat.identifiers.namespace import TableIdentifier, check_name
from floecat.store.catalogs.namespaces import NamespaceRow
from floecat.store.database.engine import Store
from floecat.store.entries.tables import EntryRow

__all__ = ["TableChange", "TableChanges"]


class TableChange(msgspec.Struct, frozen=True):
    """A table's part of a commit (Iceberg REST specification, `CommitTableRequest`)."""

    identifier: TableIdentifier
    requirements: Sequence[TableRequirement]
    updates: Sequence[TableUpdate]

    @property
    def creates(self) -> bool:
        """Whether the change demands that the table does not exist."""
        return any(isinstance(requirement, AssertCreate) for requirement in self.requirements)

    @property
    def privilege(self) -> Privilege:
        """The privilege that the change needs on the table."""
        return Privilege.CREATE_TABLE if self.creates else Privilege.WRITE_TABLE


class TableChanges:
    """Turns table changes into prepared entries, on the newest metadata."""

    def __init__(
        self, store: Store, clock: Clock, staging: Staging, files: MetadataFiles, formats: TableFormats
    ) -> None:
        self._store = store
        self._formats = formats
        self._clock = clock
        self._staging = staging
        self._files = files

    def prepare(
        self,
        call: Call,
        change: TableChange,
        entry: Entry[TableMetadata] | Entry[ViewMetadata] | None,
        stage_id: str | None = None,
    ) -> Prepared[TableMetadata]:
        """The successor of a table, or a new table.

        Args:
            change: requirements and updates.
            entry: what the name stands for now.
            stage_id: which staged table a create completes.

        Raises:
            NoSuchTableError: the table does not exist, and the change does not create it.
            AlreadyExistsError: the change creates a table, and a view has the name.
            CommitFailedError: a requirement does not hold.
            IllegalArgumentError: an update breaks a rule of the specification.
            UnsupportedOperationError: tables of this format are read-only here.
        """
        if change.creates and len(change.requirements) > 1:
            raise BadRequestError("Invalid create requirements: assert-create goes with no other")
        if entry is None:
            return self._create(call, change, stage_id)
        self._check_writable(change, entry.row)
        base = entry.document.parsed()
        if isinstance(base, ViewMetadata):
            raise _over_view(change)
        return self._update(call, change, entry.row, base)

    def _check_writable(self, change: TableChange, row: EntryRow) -> None:
        if change.creates and is_derived(row.format):
            raise CommitFailedError("Requirement failed: table already exists")
        self._formats.of(row).check_writable(row, change.identifier)

    def new_table(
        self, call: Call, identifier: TableIdentifier, metadata: TableMetadata, namespace_id: UUID
    ) -> Prepared[TableMetadata]:
        """A table that does not exist yet, with its first metadata file.

        Raises:
            LocationNotAllowedError: it would live or write outside the allowed locations.
        """
        check_locations(call.catalog.allowed, metadata.location, metadata.properties)
        return Prepared(
            identifier=identifier,
            kind="table",
            operation="create",
            metadata=metadata,
            metadata_location=self._files.next_location(metadata, None),
            object_uuid=metadata.table_uuid,
            location=metadata.location,
            format_version=metadata.format_version,
            base=None,
            folders=entry_folders(metadata.location, metadata.properties),
            namespace_id=namespace_id,
            snapshot_id=metadata.current_snapshot_id,
            snapshots=SnapshotRowChanges(added=metadata.snapshots, refs=metadata.refs),
        )

    def _update(
        self, call: Call, change: TableChange, row: EntryRow, base: TableMetadata
    ) -> Prepared[TableMetadata]:
        check_requirements(change.requirements, base)
        applied = apply_updates(
            base,
            change.updates,
            now_ms=self._clock.now_ms(),
            base_metadata_location=row.metadata_location,
        )
        metadata = applied.metadata
        if applied.changed:
            check_locations(
                call.catalog.allowed, metadata.location, metadata.properties, base.properties, base.location
            )
            location = self._files.next_location(metadata, row.metadata_location)
        else:
            location = row.metadata_location
        moved = named_locations(metadata.location, metadata.properties) != named_locations(
            base.location, base.properties
        )
        if moved:
            is_given = metadata.location == base.location
            check_not_chosen(call.catalog, metadata.location, metadata.properties, is_given=is_given)
        return Prepared(
            identifier=change.identifier,
            kind="table",
            operation="commit",
            metadata=metadata,
            metadata_location=location,
            object_uuid=metadata.table_uuid,
            location=metadata.location,
            format_version=metadata.format_version,
            base=row,
            folders=entry_folders(metadata.location, metadata.properties) if moved else (),
            namespace_id=row.namespace_id,
            snapshot_id=metadata.current_snapshot_id,
            snapshots=SnapshotRowChanges(
                added=applied.added_snapshots,
                removed_ids=applied.removed_snapshot_ids,
                refs=metadata.refs if applied.refs_changed else None,
            ),
            obsolete_files=applied.dropped_metadata_files,
        )

    def _create(self, call: Call, change: TableChange, stage_id: str | None) -> Prepared[TableMetadata]:
        namespace = self._namespace_of(call, change)
        check_name(change.identifier.name, "table name")
        table_uuid = uuids.uuid7()
        updates = list(change.updates)
        staged = self._staging.base_of(call, change.identifier, updates, stage_id)
        if staged is None and not any(isinstance(update, SetLocation) for update in updates):
            location = default_location(call.catalog, namespace.properties, change.identifier, table_uuid)
            updates.insert(0, SetLocation(location=location))
        applied = apply_updates(
            staged,
            updates,
            now_ms=self._clock.now_ms(),
            base_metadata_location=None,
            table_uuid=str(table_uuid),
        )
        location, properties = applied.metadata.location, applied.metadata.properties
        is_given = is_default(call.catalog, namespace.properties, change.identifier, location)
        check_not_chosen(call.catalog, location, properties, is_given=is_given)
        made = self.new_table(call, change.identifier, applied.metadata, namespace.id)
        return msgspec.structs.replace(made, completes_staged=True)

    def _namespace_of(self, call: Call, change: TableChange) -> NamespaceRow:
        if not change.creates:
            raise missing_table(change.identifier)
        return namespace_row(self._store, call, "table", change.identifier, change.privilege)


def _over_view(change: TableChange) -> AlreadyExistsError | NoSuchTableError:
    if change.creates:
        return name_taken("table", "view", change.identifier)
    return missing_table(change.identifier)
