"""Partitions that several topics share. Their keys are those of `floecat_assets.table_keys`."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import dagster as dg

from floecat_assets.table_keys import table_id

__all__ = ["DELTA_TABLES", "TABLES", "keys_by_table"]

TABLES = dg.DynamicPartitionsDefinition(name="tables")
"""Partitions, one per live table of any format.

Snapshots are the materialization history of a partition and never keys: within weeks they would pass the
100,000 partitions that an asset can bear.
"""

DELTA_TABLES = dg.DynamicPartitionsDefinition(name="delta_tables")
"""Partitions, one per live Delta table, under the same key as in `TABLES`."""


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
