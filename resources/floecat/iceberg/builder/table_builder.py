"""Collects the changes that updates make to table metadata, and writes the next document."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Set

import msgspec

from floecat.errors import CommitFailedError, IllegalArgumentError
from floecat.iceberg import updates as u
from floecat.iceberg.builder.schema_changes import SchemaChanges, check_promotions
from floecat.iceberg.builder.snapshot_changes import RefChanges, SnapshotChanges
from floecat.iceberg.builder.specs_and_orders import PartitionSpecChanges, SortOrderChanges
from floecat.iceberg.builder.statistics_and_keys import EncryptionKeyChanges, StatisticsChanges
from floecat.iceberg.metadata.metadata_header import FIELD_ORDER, read_header
from floecat.iceberg.metadata.properties import (
    MAX_FORMAT_VERSION,
    RESERVED_PROPERTIES,
    check_format_version,
    check_property_count,
    deletes_old_metadata,
    previous_versions_max,
    requested_format_version,
    strip_trailing_slash,
)
from floecat.iceberg.metadata.refs_and_logs import append_metadata_log
from floecat.iceberg.metadata.snapshots import SnapshotSummary
from floecat.iceberg.metadata.statistics_files import PartitionStatisticsFile, StatisticsFile
from floecat.iceberg.metadata.table_metadata import TableMetadata
from floecat.iceberg.schemas.partitioning import (
    PartitionSpec,
    check_historical_spec,
    check_partition_spec,
    parse_partition_spec,
)
from floecat.iceberg.schemas.schema import Schema, parse_schema
from floecat.iceberg.schemas.sorting import UNSORTED, SortOrder, check_sort_order, parse_sort_order
from floecat.iceberg.values.encoded_json import EMPTY_ARRAY, NULL, Fragment, RawJson, encode_json
from floecat.iceberg.values.text_limits import check_stored_text

__all__ = ["AppliedUpdates", "TableMetadataBuilder"]

_OPTIONAL = frozenset(FIELD_ORDER) - {"current-snapshot-id"}
"""Fields that may as well be missing as null; a null current snapshot id says that there is none."""


class AppliedUpdates(msgspec.Struct, frozen=True):
    """The outcome of updates.

    Attributes:
        metadata: the next document; the base itself if nothing changed.
        changed: whether there is anything to commit.
        added_snapshots: in the order they were added.
        removed_snapshot_ids: in the order of the base.
        refs_changed: whether a branch or tag changed.
        dropped_metadata_files: locations dropped from `metadata-log`, oldest first, if the table deletes such
            files after a commit.
    """

    metadata: TableMetadata
    changed: bool
    added_snapshots: list[SnapshotSummary] = []
    removed_snapshot_ids: list[int] = []
    refs_changed: bool = False
    dropped_metadata_files: list[str] = []


class TableMetadataBuilder:
    """The changes of one request to a table, kept by part of the document."""

    def __init__(self, base: TableMetadata | None, *, now_ms: int, format_version: int) -> None:
        self._base = base
        self._now_ms = now_ms if base is None else max(now_ms, base.last_updated_ms)
        self._format_version = check_format_version(format_version)
        self._uuid = None if base is None else base.table_uuid
        self._location = None if base is None else base.location
        self._properties: dict[str, str] = {} if base is None else dict(base.properties)
        self._schemas = SchemaChanges(base)
        self._specs = PartitionSpecChanges(base)
        self._orders = SortOrderChanges(base)
        self._snapshots = SnapshotChanges(base, now_ms)
        self._refs = RefChanges(base, self._snapshots, now_ms)
        self._statistics = StatisticsChanges(base, "statistics", StatisticsFile)
        self._partition_statistics = StatisticsChanges(base, "partition-statistics", PartitionStatisticsFile)
        self._keys = EncryptionKeyChanges(base)
        self._removed_schema_ids: set[int] = set()

    def define(self, location: str, schema: Schema, spec: PartitionSpec, order: SortOrder) -> None:
        """Sets what every new table has.

        Raises:
            IllegalArgumentError: the parts do not fit together, or need a later format version.
        """
        self._location = strip_trailing_slash(location)
        self._add_schema(schema)
        self._schemas.select(u.LAST_ADDED)
        self._specs.add(spec, self._schemas.selected, self._format_version)
        self._specs.select(u.LAST_ADDED)
        self._orders.add(order, self._schemas.selected)
        self._orders.select(u.LAST_ADDED)

    # -- updates --------------------------------------------------------------------------------------------

    def apply(self, update: u.TableUpdate) -> None:
        """Applies one update.

        Raises:
            IllegalArgumentError: it breaks a rule of the specification.
            CommitFailedError: it was based on older metadata; the client can refresh and retry.
        """
        match update:
            case u.SetProperties():
                self._upgrade(requested_format_version(update.properties))
                self.set_properties(update.properties)
            case u.RemoveProperties():
                for key in update.keys:
                    self._properties.pop(key, None)
            case u.AddSnapshot():
                self._add_snapshot(update.snapshot)
            case u.SetSnapshotRef():
                self._refs.set_ref(update.ref_name, update.ref)
            case u.RemoveSnapshotRef():
                self._refs.remove(update.ref_name)
            case u.RemoveSnapshots():
                self._remove_snapshots(update.snapshot_ids or frozenset())
            case u.SetLocation():
                self._location = strip_trailing_slash(update.location)
            case u.AssignUuid():
                self._assign_uuid(update.uuid)
            case u.UpgradeFormatVersion():
                self._upgrade(update.format_version)
            case _:
                self._apply_to_definitions(update)

    def _apply_to_definitions(self, update: u.TableUpdate) -> None:
        match update:
            case u.AddSchema():
                self._add_schema(parse_schema(update.schema))
            case u.SetCurrentSchema():
                self._schemas.select(update.schema_id)
            case u.RemoveSchemas():
                schema_ids = update.schema_ids or frozenset()
                self._schemas.remove(schema_ids)
                self._removed_schema_ids |= schema_ids
            case u.AddPartitionSpec():
                schema = self._schemas.selected
                self._specs.add(parse_partition_spec(update.spec), schema, self._format_version)
            case u.SetDefaultSpec():
                self._specs.select(update.spec_id)
            case u.RemovePartitionSpecs():
                self._specs.remove(update.spec_ids or frozenset())
            case u.AddSortOrder():
                schema = self._schemas.selected
                self._orders.add(parse_sort_order(update.sort_order), schema)
            case u.SetDefaultSortOrder():
                self._orders.select(update.sort_order_id)
            case _:
                self._apply_to_files(update)

    def _apply_to_files(self, update: u.TableUpdate) -> None:
        match update:
            case u.SetStatistics():
                self._statistics.set_file(update.statistics, update.snapshot_id)
            case u.RemoveStatistics():
                self._statistics.remove({update.snapshot_id})
            case u.SetPartitionStatistics():
                self._partition_statistics.set_file(update.partition_statistics)
            case u.RemovePartitionStatistics():
                self._partition_statistics.remove({update.snapshot_id})
            case u.AddEncryptionKey():
                self._keys.add(update.encryption_key)
            case u.RemoveEncryptionKey():
                self._keys.remove(update.key_id)
            case _:
                raise IllegalArgumentError(f"Cannot apply update {type(update).__name__} to a table")

    def _assign_uuid(self, assigned: str) -> None:
        try:
            uuid.UUID(assigned)
        except ValueError:
            raise IllegalArgumentError("Invalid table uuid: not a UUID") from None
        check_stored_text(assigned, "table uuid")
        if self._uuid is not None and self._uuid.lower() != assigned.lower():
            raise IllegalArgumentError("Cannot reassign uuid of a table")
        self._uuid = self._uuid or assigned

    def _upgrade(self, format_version: int | None) -> None:
        if format_version is None:
            return
        if format_version > MAX_FORMAT_VERSION:
            raise IllegalArgumentError(
                f"Cannot upgrade table to unsupported format version: v{format_version}"
                f" (supported: v{MAX_FORMAT_VERSION})"
            )
        if format_version < self._format_version:
            raise IllegalArgumentError(f"Cannot downgrade v{self._format_version} table to v{format_version}")
        self._format_version = format_version

    def _add_schema(self, schema: Schema) -> None:
        self._schemas.add(schema, self._format_version, keeps_rows=self._refs.current_id is not None)

    def _add_snapshot(self, raw: RawJson) -> None:
        if self._base is None:
            self._check_complete()
        self._snapshots.add(raw, self._format_version)

    def _check_complete(self) -> None:
        if self._schemas.is_empty:
            raise IllegalArgumentError("Attempting to add a snapshot before a schema is added")
        if self._specs.is_empty:
            raise IllegalArgumentError("Attempting to add a snapshot before a partition spec is added")
        if self._orders.is_empty:
            raise IllegalArgumentError("Attempting to add a snapshot before a sort order is added")

    def _remove_snapshots(self, snapshot_ids: Set[int]) -> None:
        removed = self._snapshots.remove(snapshot_ids)
        if removed:
            self._statistics.remove(removed)
            self._partition_statistics.remove(removed)
            self._refs.remove_dangling(removed)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Sets properties; reserved ones are left out."""
        self._properties |= {
            key: value for key, value in properties.items() if key not in RESERVED_PROPERTIES
        }
        check_property_count(self._properties)

    # -- result ---------------------------------------------------------------------------------------------

    def build(self, base_metadata_location: str | None, table_uuid: str | None = None) -> AppliedUpdates:
        """Builds the next document.

        Args:
            base_metadata_location: the file that holds the base, for `metadata-log`.
            table_uuid: UUID of a new table if no update has one.

        Raises:
            IllegalArgumentError: together, the changes do not make a valid table.
            CommitFailedError: a snapshot was written with a schema that the table does not have (any more).
            InvalidMetadataError: the document would not be readable.
        """
        if self._base is not None and not self._changed():
            return AppliedUpdates(self._base, changed=False)
        # the clock of a client may be ahead, and the log of a registered table may end at any time
        self._now_ms = max(self._now_ms, self._refs.last_log_ms)
        self._complete(table_uuid)
        self._check_definitions()
        self._keep_source_ids()
        fields = self._start()
        self._write_scalars(fields)
        self._schemas.write(fields, self._format_version)
        self._specs.write(fields, self._format_version)
        self._orders.write(fields, self._format_version)
        index = self._snapshots.write(fields, self._format_version)
        self._refs.write(fields, self._format_version)
        self._statistics.write(fields)
        self._partition_statistics.write(fields)
        self._keys.write(fields)
        dropped = self._write_metadata_log(fields, base_metadata_location)
        ordered = self._ordered(fields)
        metadata = TableMetadata(
            ordered,
            # Read back, so that no document is written that the catalog could not read again.
            read_header(ordered),
            properties=self._properties,
            refs=self._refs.refs,
            snapshot_index=index,
        )
        return AppliedUpdates(
            metadata,
            changed=True,
            added_snapshots=self._snapshots.added,
            removed_snapshot_ids=self._snapshots.removed_ids,
            refs_changed=self._refs.refs_changed,
            dropped_metadata_files=dropped,
        )

    def _changed(self) -> bool:
        base = self._base
        if base is None:
            return True
        parts = (
            self._schemas,
            self._specs,
            self._orders,
            self._snapshots,
            self._refs,
            self._statistics,
            self._partition_statistics,
            self._keys,
        )
        return (
            self._format_version != base.format_version
            or self._location != base.location
            or self._properties != base.properties
            or any(part.changed for part in parts)
        )

    def _complete(self, table_uuid: str | None) -> None:
        self._uuid = self._uuid or table_uuid
        if self._uuid is None:
            raise IllegalArgumentError(f"UUID is required in format v{self._format_version}")
        if self._location is None:
            raise IllegalArgumentError(f"Table location is required in format v{self._format_version}")
        if self._specs.is_empty:
            self._specs.insert(PartitionSpec(), encode_json(PartitionSpec()))
        if self._orders.is_empty:
            self._orders.insert(UNSORTED, encode_json(UNSORTED))

    def _check_definitions(self) -> None:
        if self._schemas.selection_changed or self._specs.selection_changed:
            check_partition_spec(self._specs.selected, self._schemas.selected)
        if self._schemas.selection_changed or self._orders.selection_changed:
            check_sort_order(self._orders.selected, self._schemas.selected)
        if self._schemas.selection_changed:
            for spec in self._specs.items.values():
                check_historical_spec(spec, self._schemas.selected)
            if self._base is not None and self._refs.current_id is not None:
                check_promotions(self._base, self._schemas.selected)
        for snapshot in self._snapshots.added:
            self._check_schema_of(snapshot)
        if self._removed_schema_ids:
            missing = self._removed_schema_ids - self._schemas.items.keys()
            used = self._snapshots.references_schema(missing)
            if used is not None:
                raise IllegalArgumentError(f"Cannot remove schema {used}: a snapshot was written with it")

    def _check_schema_of(self, snapshot: SnapshotSummary) -> None:
        schema_id = snapshot.schema_id
        # the current one need not be decoded
        if schema_id not in (None, self._schemas.selected_id) and schema_id not in self._schemas.items:
            raise CommitFailedError(
                f"Validation failed, please retry: Cannot add snapshot {snapshot.snapshot_id}, whose schema"
                f" {schema_id} the table does not have"
            )

    def _keep_source_ids(self) -> None:
        """Keeps new columns from taking an id that a spec or order names although no schema has it."""
        if self._specs.list_changed or self._orders.list_changed:
            specs, orders = self._specs.items, self._orders.items
            sources = [source for spec in specs.values() for field in spec.fields for source in field.sources]
            sources += (
                source for order in orders.values() for field in order.fields for source in field.sources
            )
            self._schemas.last_column_id = max(self._schemas.last_column_id, *sources, 0)

    def _start(self) -> dict[str, Fragment]:
        if self._base is None:
            return {}
        fields = dict(self._base.fields)
        if NULL in fields.values():
            for name in _OPTIONAL & fields.keys():
                if fields[name] == NULL:
                    del fields[name]
        if self._format_version > 1:
            fields.pop("schema", None)
            fields.pop("partition-spec", None)
        return fields

    def _write_scalars(self, fields: dict[str, Fragment]) -> None:
        fields["format-version"] = (encode_json(self._format_version),)
        if self._base is None or "table-uuid" not in fields:
            fields["table-uuid"] = (encode_json(self._uuid),)
        if self._base is None or self._location != self._base.location:
            fields["location"] = (encode_json(self._location),)
        fields["last-updated-ms"] = (encode_json(self._now_ms),)
        if self._base is None or self._properties != self._base.properties:
            fields["properties"] = (encode_json(self._properties),)

    def _write_metadata_log(
        self, fields: dict[str, Fragment], base_metadata_location: str | None
    ) -> list[str]:
        if self._base is None or base_metadata_location is None:
            fields.setdefault("metadata-log", EMPTY_ARRAY)
            return []
        fields["metadata-log"], dropped = append_metadata_log(
            self._base.array("metadata-log"),
            base_metadata_location,
            self._base.last_updated_ms,
            previous_versions_max(self._properties),
        )
        return [entry.metadata_file for entry in dropped] if deletes_old_metadata(self._properties) else []

    def _ordered(self, fields: dict[str, Fragment]) -> dict[str, Fragment]:
        if self._base is not None:
            return fields
        return {name: fields[name] for name in FIELD_ORDER if name in fields}
