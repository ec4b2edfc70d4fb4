"""Assets that clients of the catalog write; Dagster only records them."""

from __future__ import annotations

import dagster as dg

from floecat_assets.defs.partitions import TABLES

__all__ = ["tables"]

tables = dg.AssetSpec(
    key=["catalog", "tables"],
    description=(
        "The Iceberg tables of every catalog, as REST clients commit to them. A partition is a table; each "
        "commit is an event of it, with the schema, the number of rows and the snapshot that the commit left."
    ),
    group_name="catalog",
    kinds={"iceberg"},
    partitions_def=TABLES,
)
