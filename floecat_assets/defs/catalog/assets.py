"""Assets that clients of the catalog write; Dagster only records them."""

from __future__ import annotations

import dagster as dg

from floecat_assets.defs.partitions import TABLES

__all__ = ["tables"]

tables = dg.AssetSpec(
    key=["catalog", "tables"],
    description=(
        "Commits to the tables of every catalog, in one place. A partition is a table: name, `~`, id."
        " Each event links to the asset that the table has of its own, with schema, number of rows and plots:"
        " search for the name of the table."
    ),
    group_name="catalog",
    kinds={"iceberg"},
    partitions_def=TABLES,
)
