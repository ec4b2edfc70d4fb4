"""Checks of purges."""

from __future__ import annotations

import dagster as dg

from floecat_assets.defs.purge.assets import outcomes
from floecat_assets.defs.resources import KernelResource

__all__ = ["no_dead_letters"]

_SHOWN = 50


@dg.asset_check(asset=outcomes, pool="purge")
def no_dead_letters(kernel: KernelResource) -> dg.AssetCheckResult:
    """No purge has used up its attempts."""
    purges = kernel.open().purge.operations
    count, shown = purges.totals().jobs["DEAD_LETTER"], purges.dead_letters(limit=_SHOWN)
    return dg.AssetCheckResult(
        passed=count == 0,
        description=f"{count} purges have used up their attempts"
        + (": `floecat purge show ID` tells why, `floecat purge retry ID` tries again" if count else ""),
        metadata={
            "purge/dead_letters": count,
            "purge/purges": dg.MetadataValue.table(
                records=[
                    dg.TableRecord(
                        {
                            "id": str(purge.id),
                            "table": str(purge.identifier),
                            "metadata_file": purge.metadata_location,
                            "failed_files": purge.progress.failed,
                            "problem": purge.last_error or "",
                        }
                    )
                    for purge in shown
                ],
                schema=dg.TableSchema(
                    [
                        dg.TableColumn("id"),
                        dg.TableColumn("table"),
                        dg.TableColumn("metadata_file"),
                        dg.TableColumn("failed_files", "int"),
                        dg.TableColumn("problem"),
                    ]
                ),
            ),
        },
    )
