"""Commits as Dagster events: of the table's own asset, and of its partition of `catalog/tables`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias
from uuid import UUID

import dagster as dg

from floecat.events.catalog_events import REMOVALS, CatalogEvent
from floecat.events.table_description import Column, TableDescription
from floecat_assets.defs.asset_keys import ARTIFACTS, OUTCOMES
from floecat_assets.defs.catalog.assets import tables
from floecat_assets.table_keys import partition_key, table_asset_key
from floecat_assets.table_links import TableLinks

__all__ = ["AssetEvent", "CommitKey", "commit_events", "commit_key", "ended_before"]

AssetEvent: TypeAlias = dg.AssetMaterialization | dg.AssetObservation

CommitKey: TypeAlias = tuple[UUID, int]
"""Catalog id and commit version, which identify a commit."""

_Metadata: TypeAlias = dict[str, dg.MetadataValue]

_NEWEST = 10
_CATALOG_ID = "floecat/catalog_id"
_DATA_VERSION = "dagster/data_version"
_COMMIT_VERSION = "floecat/commit_version"


def commit_events(event: CatalogEvent, links: TableLinks) -> list[AssetEvent]:
    """The events of a commit, in the order in which they must be stored.

    A commit that wrote metadata is a materialization. A rename or a drop is an observation: no data changed,
    so nothing downstream must start. So is a commit of statistics, which is Floecat's own: it does not say
    when and by whom, so that this is still said of the last commit of a client. Only the asset of the new
    name is materialized by a rename, as for a new table. The event of `catalog/tables` is last: that a commit
    was reported is found by it. Numbers and the schema are on the table's own asset, where all events are of
    one table.

    Args:
        event: the commit.
        links: to the REST service.
    """
    own_key = table_asset_key(event.catalog_name, event.identifier)
    former = event.former
    events: list[AssetEvent] = []
    if former is not None and (former_key := table_asset_key(event.catalog_name, former)) != own_key:
        events.append(_moved(event, former_key, own_key))
    is_quiet, description = event.only_statistics, _description(event)
    own_kind = dg.AssetMaterialization if event.left_metadata and not is_quiet else dg.AssetObservation
    kind = dg.AssetMaterialization if event.wrote_metadata and not is_quiet else dg.AssetObservation
    commit = _commit_metadata(event)
    own = {"dagster/table_name": dg.MetadataValue.text(event.qualified_name), **commit}
    own |= _links(event, links)
    if not is_quiet:
        own |= _table_metadata(event)
    events.append(own_kind(own_key, description=description, metadata=own, tags=_data_version(event)))
    if event.kind == "table":
        shared = {"floecat/table": dg.MetadataValue.asset(own_key), **_links(event, links), **commit}
        key = partition_key(event.catalog_name, event.identifier, event.entry_id)
        tags = _data_version(event)
        if event.brought_in_by_service and event.format == "delta":
            built = f"version {event.snapshot_id}, built by the service"
            events.append(dg.AssetMaterialization(ARTIFACTS, built, shared, key, tags=tags))
        events.append(kind(tables.key, partition=key, description=description, metadata=shared, tags=tags))
    return events


def commit_key(metadata: Mapping[str, dg.MetadataValue]) -> CommitKey | None:
    """The commit that an event of `catalog/tables` reports, by its metadata; `None` if it reports none."""
    catalog_id, version = metadata.get(_CATALOG_ID), metadata.get(_COMMIT_VERSION)
    if not isinstance(catalog_id, dg.TextMetadataValue):
        return None
    try:
        # earlier releases wrote a number
        return (UUID(catalog_id.text), int(str(version.value)) if version else 0)
    except (ValueError, TypeError, AttributeError):
        return None


def ended_before(instance: dg.DagsterInstance, own_key: dg.AssetKey, before_ms: int) -> bool:
    """Whether the events of a table's own asset end with its removal, and all are older than a time.

    Those of other assets never do: the events of a table have its id.
    """
    observed = instance.fetch_observations(own_key, limit=_NEWEST).records
    made = instance.fetch_materializations(own_key, limit=1).records
    # a run that was under way may have reported something after the end
    ends = [record.timestamp for record in observed if _is_end(record.asset_observation)]
    if not ends or any(record.timestamp > ends[0] for record in made):
        return False
    return observed[0].timestamp * 1000 < before_ms


def _is_end(event: dg.AssetObservation | None) -> bool:
    if event is None or "floecat/table_id" not in event.metadata:
        return False
    operation = event.metadata.get("floecat/operation")
    return "floecat/renamed_to" in event.metadata or (operation is not None and operation.value in REMOVALS)


def _links(event: CatalogEvent, links: TableLinks) -> _Metadata:
    about = (event.catalog_name, event.identifier)
    found, name = links.load(*about, event.kind), f"floecat/load_{event.kind}"
    if event.removed:
        found, name = links.purges(*about) if event.purge_requested else None, "floecat/purge_job"
    metadata: _Metadata = {} if found is None else {name: dg.MetadataValue.url(found)}
    return metadata | ({"floecat/purge": dg.MetadataValue.asset(OUTCOMES)} if event.purge_requested else {})


def _description(event: CatalogEvent) -> str:
    """The changes of a commit, in a line: `append: +3 rows, 1 file, by ada`."""
    if event.only_statistics:
        return f"statistics of snapshot {event.snapshot_id}, set by Floecat"
    what, numbers, table = event.operation, [], event.table
    if event.former is not None:
        what += f" from {event.catalog_name}.{event.former}"
    if event.purge_requested:
        what += " with purge"
    if table is not None and event.changed_snapshot:
        changes = table.changes
        if event.operation != "commit":
            numbers = [_number(table.row_count, "row"), _number(table.data_files, "file")]
        elif changes is None:
            what = f"back to an earlier {table.snapshot_operation or 'snapshot'}"
        else:
            what = table.snapshot_operation or "commit"
            numbers = [
                _number(changes.added_records, "row", "+"),
                _number(changes.deleted_records, "row", "-"),
                _number(changes.added_data_files, "file"),
                _number(changes.deleted_data_files, "removed file"),
                _number(changes.added_delete_files, "delete file"),
            ]
    elif event.operation == "commit" and event.kind == "table":
        what = "commit without new data"
    shown = ", ".join(number for number in numbers if number)
    return f"{what}: {shown}, by {event.principal}" if shown else f"{what} by {event.principal}"


def _number(count: int | None, noun: str, sign: str = "") -> str:
    return f"{sign}{count:,} {noun}{'' if count == 1 else 's'}" if count else ""


def _moved(event: CatalogEvent, former_key: dg.AssetKey, key: dg.AssetKey) -> dg.AssetObservation:
    """The last event under the name before a rename: Dagster cannot move what was reported there."""
    return dg.AssetObservation(
        former_key,
        description=f"renamed to {event.qualified_name}",
        metadata={"floecat/renamed_to": dg.MetadataValue.asset(key), **_commit_metadata(event)},
    )


def _commit_metadata(event: CatalogEvent) -> _Metadata:
    metadata: _Metadata = {
        "floecat/table_id": dg.MetadataValue.text(str(event.entry_id)),
        _CATALOG_ID: dg.MetadataValue.text(str(event.catalog_id)),
        "floecat/name": dg.MetadataValue.text(event.logical_name),
        # text, as all numbers of `catalog/tables`: Dagster would plot them, one line over unrelated tables
        _COMMIT_VERSION: dg.MetadataValue.text(str(event.commit_version)),
    }
    if not event.only_statistics:
        metadata |= {
            "floecat/operation": dg.MetadataValue.text(event.operation),
            "floecat/committed_at": dg.MetadataValue.timestamp(event.committed_at_ms / 1000),
            "floecat/principal": dg.MetadataValue.text(event.principal),
        }
    if event.former is not None:
        metadata["floecat/former_name"] = dg.MetadataValue.text(f"{event.catalog_name}.{event.former}")
    if event.metadata_location is not None:
        metadata["floecat/metadata_location"] = dg.MetadataValue.path(event.metadata_location)
    if event.snapshot_id is not None:
        # as text: ids have up to 63 bits, and the UI's JavaScript numbers round beyond 53
        metadata["floecat/snapshot_id"] = dg.MetadataValue.text(str(event.snapshot_id))
    return metadata


def _table_metadata(event: CatalogEvent) -> _Metadata:
    metadata: _Metadata = {}
    if event.created_by is not None:
        metadata["floecat/created_by"] = dg.MetadataValue.text(event.created_by)
    if event.kind == "table":
        metadata["dagster/storage_kind"] = dg.MetadataValue.text("iceberg")
    if event.table is None:
        if event.undescribed:
            metadata["floecat/undescribed"] = dg.MetadataValue.text(event.undescribed)
        return metadata
    table = event.table
    metadata |= {
        "dagster/column_schema": dg.MetadataValue.table_schema(_table_schema(table)),
        "dagster/uri": dg.MetadataValue.text(table.location),
        # text: as plots they would say nothing
        "floecat/format_version": dg.MetadataValue.text(str(table.format_version)),
        "floecat/sequence_number": dg.MetadataValue.text(str(table.sequence_number)),
    }
    counts = {
        "dagster/row_count": table.row_count,
        "floecat/size_bytes": table.size_bytes,
        "floecat/data_files": table.data_files,
        "floecat/delete_files": table.delete_files,
    }
    metadata |= {name: dg.MetadataValue.int(count) for name, count in counts.items() if count is not None}
    if table.columns_left_out:
        metadata["floecat/columns_left_out"] = dg.MetadataValue.int(table.columns_left_out)
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
