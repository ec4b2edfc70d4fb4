"""Keys of the pipeline's assets that other topics name."""

from __future__ import annotations

from typing import Final

import dagster as dg

__all__ = ["ARTIFACTS", "INDEX_ARTIFACTS", "OUTCOMES", "PARTITIONED", "SNAPSHOTS", "TARGETS"]

ARTIFACTS: Final = dg.AssetKey(["compat", "artifacts"])
"""Artifacts that make Delta tables readable."""

OUTCOMES: Final = dg.AssetKey(["purge", "outcomes"])
"""Purges."""

SNAPSHOTS: Final = dg.AssetKey(["catalog", "snapshots"])
"""The asset that asks for captures."""

TARGETS: Final = dg.AssetKey(["statistics", "targets"])
"""Captured statistics."""

INDEX_ARTIFACTS: Final = dg.AssetKey(["statistics", "index_artifacts"])
"""Page indexes."""

PARTITIONED: Final = (dg.AssetKey(["catalog", "tables"]), SNAPSHOTS, ARTIFACTS, TARGETS, INDEX_ARTIFACTS)
"""Assets with a partition for each table."""
