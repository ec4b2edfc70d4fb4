"""Jobs for Delta tables, which sensors and schedules start."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import dagster as dg

from floecat_assets.defs.delta.assets import artifacts
from floecat_assets.defs.delta.checks import artifacts_present

__all__ = ["delta_artifacts", "delta_repair"]

_OF_ALL_TABLES = dg.AssetSelection.checks(artifacts_present)

delta_artifacts = dg.define_asset_job(
    "delta_artifacts",
    # with the checks that count its output, without the one that covers all tables
    selection=dg.AssetSelection.assets(artifacts) - _OF_ALL_TABLES,
    description="Brings one Delta table up to its log.",
)

delta_repair = dg.define_asset_job(
    "delta_repair",
    selection=_OF_ALL_TABLES,
    description="Rebuilds lost artifacts of all Delta tables.",
)
