"""Columns, their types and ids, and partition specs, as the logs of the packed tables have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from tests.clients.delta.expectations import Outcome, tables_that_give
from tests.clients.delta.lake import DeltaLake
from tests.clients.delta.oracles import NoOracleError, log_versions, schema_at
from tests.delta_tables import delta_table

Packed = Callable[[str], str]

_TYPES = {
    "byte": "int",
    "short": "int",
    "integer": "int",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


def _with_schema() -> Iterator[str]:
    """The tables whose commit files tell the newest schema."""
    for facts in tables_that_give(Outcome.ROWS):
        try:
            schema_at(delta_table(facts.name))
        except NoOracleError:
            continue
        yield facts.name


_NAMES = [*_with_schema()]


def _differences(found: IcebergType, wanted: Any, where: str) -> Iterator[str]:
    if isinstance(wanted, str):
        expected = wanted.replace(",", ", ") if wanted.startswith("decimal") else _TYPES.get(wanted, wanted)
        if str(found) != expected and wanted != "void":
            yield f"{where} is {found}, not {expected}"
    elif wanted["type"] == "struct":
        assert isinstance(found, StructType), where
        yield from _fields(found.fields, wanted["fields"], where)
    elif wanted["type"] == "array":
        assert isinstance(found, ListType), where
        yield from _differences(found.element_type, wanted["elementType"], f"{where}.element")
    else:
        assert isinstance(found, MapType), where
        yield from _differences(found.key_type, wanted["keyType"], f"{where}.key")
        yield from _differences(found.value_type, wanted["valueType"], f"{where}.value")


def _fields(found: tuple[NestedField, ...], wanted: list[Mapping[str, Any]], where: str) -> Iterator[str]:
    if [field.name for field in found] != [field["name"] for field in wanted]:
        yield f"{where} has {[field.name for field in found]}"
        return
    for has, wants in zip(found, wanted, strict=True):
        name = f"{where}.{has.name}"
        if has.required and wants["nullable"]:
            yield f"{name} is required"
        mapped = wants["metadata"].get("delta.columnMapping.id")
        if mapped is not None and has.field_id != mapped:
            yield f"{name} has the id {has.field_id}, not {mapped}"
        yield from _differences(has.field_type, wants["type"], name)


@pytest.mark.parametrize("name", _NAMES)
def test_schema(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    wanted, metadata = schema_at(delta_table(name))
    table = delta_lake.pyiceberg(packed(name))
    assert [*_fields(table.schema().fields, wanted["fields"], name)] == []
    partitions = [table.schema().find_column_name(field.source_id) for field in table.spec().fields]
    assert partitions == metadata["partitionColumns"]
    assert {str(field.transform) for field in table.spec().fields} <= {"identity"}


@pytest.mark.parametrize("name", _NAMES)
def test_schema_of_each_version(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    table = delta_lake.pyiceberg(packed(name))
    schemas = {schema.schema_id: schema for schema in table.metadata.schemas}
    for version in log_versions(delta_table(name)):
        snapshot = table.snapshot_by_id(version)
        if snapshot is None:
            continue
        assert snapshot.schema_id is not None
        wanted, _ = schema_at(delta_table(name), version)
        found = schemas[snapshot.schema_id].fields
        assert [*_fields(found, wanted["fields"], f"{name} at {version}")] == []


@pytest.mark.parametrize("name", _NAMES)
def test_every_readable_version_is_a_snapshot(delta_lake: DeltaLake, packed: Packed, name: str) -> None:
    metadata = delta_lake.metadata(packed(name))
    snapshots = metadata["snapshots"]
    ids = [snapshot["snapshot-id"] for snapshot in snapshots]
    assert ids == [*range(ids[0], log_versions(delta_table(name))[-1] + 1)]
    assert metadata["current-snapshot-id"] == metadata["refs"]["main"]["snapshot-id"] == ids[-1]
    parents = [snapshot.get("parent-snapshot-id") for snapshot in snapshots]
    assert parents == [None, *ids[:-1]]
    logged = [entry["snapshot-id"] for entry in metadata["snapshot-log"]]
    assert logged == ids
    assert metadata["last-sequence-number"] == snapshots[-1]["sequence-number"]
