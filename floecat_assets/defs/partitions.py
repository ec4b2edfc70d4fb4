"""Partitions that several topics share."""

from __future__ import annotations

from uuid import UUID

import dagster as dg

__all__ = ["TABLES", "require_table_id", "table_id"]

TABLES = dg.DynamicPartitionsDefinition(name="tables")
"""One partition per live table, keyed by the id of its catalog entry, which a rename does not change.

Snapshots are the materialization history of a partition and never keys: within weeks they would pass the
100,000 partitions that an asset can bear.
"""


def table_id(partition_key: str) -> UUID | None:
    """The table that a partition is; `None` for another key, which any user of the UI can add."""
    try:
        found = UUID(partition_key)
    except ValueError:
        return None
    return found if str(found) == partition_key else None


def require_table_id(partition_key: str) -> UUID:
    """The table that a partition is.

    Raises:
        Failure: the key is not a table id; a retry would not help.
    """
    found = table_id(partition_key)
    if found is None:
        raise dg.Failure(f"Partition {partition_key[:80]!r} is not a table id", allow_retries=False)
    return found
