"""Commits as Dagster events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias
from uuid import UUID

import dagster as dg

from floecat.events.catalog_events import CatalogEvent
from floecat.events.table_description import Column, TableDescription
from floecat_assets.defs.catalog.assets import tables

__all__ = ["CommitKey", "asset_event", "commit_key"]

CommitKey: TypeAlias = tuple[UUID, int]
"""Catalog id and commit version, which identify a commit."""

_Metadata: TypeAlias = dict[str, dg.MetadataValue]

_CATALOG_ID = "floecat/catalog_id"
_DATA_VERSION = "dagster/data_version"
_COMMIT_VERSION = "floecat/commit_version"


def asset_event(event: CatalogEvent) -> dg.AssetMaterialization | dg.AssetObservation:
    """The event of a commit.

    A commit that wrote table metadata is a materialization. A rename or a drop is an observation: no
    data changed, so nothing downstream must start.
    """
    kind = dg.AssetMaterialization if event.wrote_metadata else dg.AssetObservation
    return kind(
        asset_key=tables.key,
        partition=str(event.entry_id),
        description=f"{event.operation}: {event.qualified_name}",
        metadata={**_commit_metadata(event), **_table_metadata(event)},
        tags=_data_version(event),
    )


def commit_key(metadata: Mapping[str, dg.MetadataValue]) -> CommitKey | None:
    """Which commit an event of the asset reports, by its metadata; `None` if it reports none."""
    catalog_id, version = metadata.get(_CATALOG_ID), metadata.get(_COMMIT_VERSION)
    if not isinstance(catalog_id, dg.TextMetadataValue) or not isinstance(version, dg.IntMetadataValue):
        return None
    try:
        return (UUID(catalog_id.text), version.value or 0)
    except (ValueError, TypeError, AttributeError):
        return None


def _commit_metadata(event: CatalogEvent) -> _Metadata:
    metadata: _Metadata = {
        "dagster/table_name": dg.MetadataValue.text(event.qualified_name),
        "dagster/storage_kind": dg.MetadataValue.text("iceberg"),
        _CATALOG_ID: dg.MetadataValue.text(str(event.catalog_id)),
        _COMMIT_VERSION: dg.MetadataValue.int(event.commit_version),
        "floecat/operation": dg.MetadataValue.text(event.operation),
        "floecat/committed_at": dg.MetadataValue.timestamp(event.committed_at_ms / 1000),
        "floecat/principal": dg.MetadataValue.text(event.principal),
    }
    if event.metadata_location is not None:
        metadata["floecat/metadata_location"] = dg.MetadataValue.path(event.metadata_location)
    if event.snapshot_id is not None:
        # as text: ids have up to 63 bits, and the UI's JavaScript numbers round beyond 53
        metadata["floecat/snapshot_id"] = dg.MetadataValue.text(str(event.snapshot_id))
    return metadata


def _table_metadata(event: CatalogEvent) -> _Metadata:
    if event.table is None:
        reason = event.undescribed
        return {"floecat/undescribed": dg.MetadataValue.text(reason)} if reason else {}
    table = event.table
    metadata: _Metadata = {
        "dagster/column_schema": dg.MetadataValue.table_schema(_table_schema(table)),
        "dagster/uri": dg.MetadataValue.text(table.location),
        "floecat/format_version": dg.MetadataValue.int(table.format_version),
        "floecat/sequence_number": dg.MetadataValue.int(table.sequence_number),
    }
    if table.row_count is not None:
        metadata["dagster/row_count"] = dg.MetadataValue.int(table.row_count)
    if table.snapshot_operation is not None:
        metadata["floecat/snapshot_operation"] = dg.MetadataValue.text(table.snapshot_operation)
    return metadata


def _table_schema(table: TableDescription) -> dg.TableSchema:
    return dg.TableSchema(columns=[_table_column(column) for column in table.columns])


def _table_column(column: Column) -> dg.TableColumn:
    return dg.TableColumn(
        name=column.name,
        type=column.type,
        description=column.doc,
        constraints=dg.TableColumnConstraints(
            nullable=not column.required, other=["identifier field"] if column.identifier else None
        ),
        tags={"floecat/field_id": str(column.field_id)},
    )


def _data_version(event: CatalogEvent) -> dict[str, str]:
    """Tells Dagster when data changed: a commit of properties alone leaves the snapshot as it was."""
    if event.snapshot_id is None:
        return {}
    return {_DATA_VERSION: str(event.snapshot_id)}
