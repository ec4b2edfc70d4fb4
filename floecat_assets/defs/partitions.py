"""Partitions that several topics share. Their keys are those of `floecat_assets.table_keys`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

import dagster as dg

from floecat_assets.table_keys import partition_key, table_id

if TYPE_CHECKING:
    from floecat.events.live_entries import LiveEntry

__all__ = [
    "CAPTURED_TABLES",
    "DELTA_TABLES",
    "PARTITIONS",
    "TABLES",
    "has_table",
    "keys_by_table",
    "partition_of",
]

TABLES = dg.DynamicPartitionsDefinition(name="tables")
"""Partitions, one per live table of any format.

Snapshots are the materialization history of a partition and never keys: within weeks they would pass the
100,000 partitions that an asset can bear.
"""

DELTA_TABLES = dg.DynamicPartitionsDefinition(name="delta_tables")
"""Partitions, one per live Delta table, under the same key as in `TABLES`."""

CAPTURED_TABLES = dg.DynamicPartitionsDefinition(name="captured_tables")
"""One partition per live table whose metadata names its data files, under the same key as in `TABLES`."""

PARTITIONS: Final = (TABLES, DELTA_TABLES, CAPTURED_TABLES)

_FORMATS: Final[Mapping[dg.DynamicPartitionsDefinition, tuple[str, ...]]] = {
    DELTA_TABLES: ("delta",),
    CAPTURED_TABLES: ("iceberg", "delta", "followed"),
}


def has_table(partitions: dg.DynamicPartitionsDefinition, format: str | None) -> bool:
    """Whether a table of a format is one of the partitions."""
    return partitions == TABLES or format in _FORMATS[partitions]


def partition_of(
    instance: dg.DagsterInstance, partitions: dg.DynamicPartitionsDefinition, entry: LiveEntry
) -> str:
    """The partition of a table. It is made if it is not there: any sensor may see a new table first."""
    key, name = partition_key(entry.catalog_name, entry.identifier, entry.entry_id), partitions.name or ""
    if not instance.has_dynamic_partition(name, key):
        instance.add_dynamic_partitions(name, [key])
    return key


def keys_by_table(
    instance: dg.DagsterInstance, partitions: dg.DynamicPartitionsDefinition
) -> Mapping[UUID, list[str]]:
    """The keys that exist, by table. After a rename a table has two for a moment."""
    found: dict[UUID, list[str]] = {}
    for key in instance.get_dynamic_partitions(partitions.name or ""):
        entry_id = table_id(key)
        if entry_id is not None:
            found.setdefault(entry_id, []).append(key)
    return found
