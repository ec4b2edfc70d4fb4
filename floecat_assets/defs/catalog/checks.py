"""Checks of tables that clients write."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import dagster as dg

from floecat_assets.defs.catalog.assets import tables
from floecat_assets.defs.partitions import TABLES, keys_by_table
from floecat_assets.defs.resources import KernelResource

__all__ = ["metadata_files_reachable"]

_SHOWN = 50


@dg.asset_check(asset=tables.key, pool="object_store")
def metadata_files_reachable(
    context: dg.AssetCheckExecutionContext, kernel: KernelResource
) -> dg.AssetCheckResult:
    """The current metadata file of every table that was reported is in storage."""
    ids = list(keys_by_table(context.instance, TABLES))
    lost = kernel.lost_files().among(ids)
    return dg.AssetCheckResult(
        passed=not lost,
        description=f"{len(lost)} of {len(ids)} tables have lost their metadata file",
        metadata={
            "floecat/tables": len(ids),
            "floecat/lost_files": dg.MetadataValue.table(
                records=[
                    dg.TableRecord(
                        {"table": str(file.entry_id), "name": file.name, "file": file.metadata_location}
                    )
                    for file in lost[:_SHOWN]
                ],
                schema=dg.TableSchema(
                    [dg.TableColumn("table"), dg.TableColumn("name"), dg.TableColumn("file")]
                ),
            ),
        },
    )
