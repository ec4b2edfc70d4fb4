"""The 23 table updates, the 8 view updates and all requirements, one builder each, named as on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.contract.documents import snapshot

__all__ = [
    "add_schema",
    "add_snapshot",
    "add_sort_order",
    "add_spec",
    "add_view_version",
    "append",
    "assert_create",
    "assert_current_schema_id",
    "assert_default_sort_order_id",
    "assert_default_spec_id",
    "assert_last_assigned_field_id",
    "assert_last_assigned_partition_id",
    "assert_ref_snapshot_id",
    "assert_table_uuid",
    "assert_view_uuid",
    "remove_properties",
    "remove_snapshot_ref",
    "remove_snapshots",
    "set_current_schema",
    "set_current_view_version",
    "set_default_sort_order",
    "set_default_spec",
    "set_location",
    "set_properties",
    "set_ref",
    "update",
]

Json = Any


def update(action: str, **fields: Json) -> Json:
    """An update; fields are named with `_` for `-`."""
    return {"action": action} | {name.replace("_", "-"): value for name, value in fields.items()}


def _requirement(kind: str, **fields: Json) -> Json:
    return {"type": kind} | {name.replace("_", "-"): value for name, value in fields.items()}


def add_schema(schema: Json, **deprecated: Json) -> Json:
    return update("add-schema", schema=schema, **deprecated)


def set_current_schema(schema_id: int = -1) -> Json:
    return update("set-current-schema", schema_id=schema_id)


def add_spec(spec: Json) -> Json:
    return update("add-spec", spec=spec)


def set_default_spec(spec_id: int = -1) -> Json:
    return update("set-default-spec", spec_id=spec_id)


def add_sort_order(order: Json) -> Json:
    return update("add-sort-order", sort_order=order)


def set_default_sort_order(order_id: int = -1) -> Json:
    return update("set-default-sort-order", sort_order_id=order_id)


def add_snapshot(made: Json) -> Json:
    return update("add-snapshot", snapshot=made)


def set_ref(snapshot_id: int, name: str = "main", kind: str = "branch", **retention: Json) -> Json:
    return update("set-snapshot-ref", ref_name=name, type=kind, snapshot_id=snapshot_id, **retention)


def append(
    snapshot_id: int, sequence_number: int | None, parent_id: int | None = None, **more: Json
) -> list[Json]:
    """A snapshot that becomes the head of main."""
    return [add_snapshot(snapshot(snapshot_id, sequence_number, parent_id, **more)), set_ref(snapshot_id)]


def remove_snapshots(*snapshot_ids: int) -> Json:
    return update("remove-snapshots", snapshot_ids=list(snapshot_ids))


def remove_snapshot_ref(name: str) -> Json:
    return update("remove-snapshot-ref", ref_name=name)


def set_location(location: str) -> Json:
    return update("set-location", location=location)


def set_properties(**properties: str) -> Json:
    """Sets properties; names are written with `_` for `.`."""
    return update(
        "set-properties", updates={name.replace("_", "."): value for name, value in properties.items()}
    )


def remove_properties(*names: str) -> Json:
    return update("remove-properties", removals=list(names))


def add_view_version(version: Json) -> Json:
    return update("add-view-version", view_version=version)


def set_current_view_version(version_id: int = -1) -> Json:
    return update("set-current-view-version", view_version_id=version_id)


def assert_create() -> Json:
    return _requirement("assert-create")


def assert_table_uuid(uuid: str) -> Json:
    return _requirement("assert-table-uuid", uuid=uuid)


def assert_ref_snapshot_id(ref: str, snapshot_id: int | None) -> Json:
    return _requirement("assert-ref-snapshot-id", ref=ref, snapshot_id=snapshot_id)


def assert_last_assigned_field_id(field_id: int) -> Json:
    return _requirement("assert-last-assigned-field-id", last_assigned_field_id=field_id)


def assert_current_schema_id(schema_id: int) -> Json:
    return _requirement("assert-current-schema-id", current_schema_id=schema_id)


def assert_last_assigned_partition_id(field_id: int) -> Json:
    return _requirement("assert-last-assigned-partition-id", last_assigned_partition_id=field_id)


def assert_default_spec_id(spec_id: int) -> Json:
    return _requirement("assert-default-spec-id", default_spec_id=spec_id)


def assert_default_sort_order_id(order_id: int) -> Json:
    return _requirement("assert-default-sort-order-id", default_sort_order_id=order_id)


def assert_view_uuid(uuid: str) -> Json:
    return _requirement("assert-view-uuid", uuid=uuid)


def creation(schema: Json, spec: Json, order: Json, *more: Sequence[Json]) -> list[Json]:
    """What clients send when they commit a table that they staged."""
    return [
        add_schema(schema),
        set_current_schema(),
        add_spec(spec),
        set_default_spec(),
        add_sort_order(order),
        set_default_sort_order(),
        *more,
    ]
