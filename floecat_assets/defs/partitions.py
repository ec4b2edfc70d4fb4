"""Partitions that several topics share."""

from __future__ import annotations

import dagster as dg

__all__ = ["TABLES"]

TABLES = dg.DynamicPartitionsDefinition(name="tables")
"""One partition per live table, keyed by the id of its catalog entry, which a rename does not change.

Snapshots are the materialization history of a partition and never keys: within weeks they would pass the
100,000 partitions that an asset can bear.
"""
