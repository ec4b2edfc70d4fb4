"""Keys of the pipeline's assets that other topics name."""

from __future__ import annotations

from typing import Final

import dagster as dg

__all__ = ["ARTIFACTS", "INDEX_ARTIFACTS", "OUTCOMES", "PARTITIONED", "SNAPSHOTS", "TARGETS"]

ARTIFACTS: Final = dg.AssetKey(["compat", "artifacts"])
"""What makes Delta tables readable."""

OUTCOMES: Final = dg.AssetKey(["purge", "outcomes"])
"""Purges."""

SNAPSHOTS: Final = dg.AssetKey(["catalog", "snapshots"])
"""What asks for captures."""

TARGETS: Final = dg.AssetKey(["statistics", "targets"])
"""Captured statistics."""

INDEX_ARTIFACTS: Final = dg.AssetKey(["statistics", "index_artifacts"])
"""Page indexes."""

PARTITIONED: Final = (dg.AssetKey(["catalog", "tables"]), SNAPSHOTS, ARTIFACTS, TARGETS, INDEX_ARTIFACTS)
"""Those with a partition for each table."""
