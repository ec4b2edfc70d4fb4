"""Tables that connectors find; scans record them."""

from __future__ import annotations

from typing import Final

import dagster as dg

__all__ = ["CONNECTORS", "discovered_tables"]

CONNECTORS: Final = dg.DynamicPartitionsDefinition(name="connectors")
"""Partitions, one per connector: its catalog, as `catalog_label` writes it, `/`, its name."""

discovered_tables = dg.AssetSpec(
    key=["reconcile", "discovered_tables"],
    description=(
        "Scans of connectors: tables and views of other catalogs and places that were found, are new, changed"
        " or gone, and what failed. A partition is a connector."
    ),
    group_name="reconcile",
    kinds={"iceberg", "delta"},
    partitions_def=CONNECTORS,
)
