"""Checks of all Delta tables."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import dagster as dg

from floecat.errors import FloecatError, NoSuchTableError
from floecat_assets.defs.compat.assets import ARTIFACTS
from floecat_assets.defs.partitions import require_table_id
from floecat_assets.defs.resources import KernelResource

__all__ = ["artifacts_present"]

_SHOWN = 50


@dg.asset_check(asset=ARTIFACTS, pool="delta")
def artifacts_present(context: dg.AssetCheckExecutionContext, kernel: KernelResource) -> dg.AssetCheckResult:
    """Every artifact that the entry of a Delta table leads to is in storage; else they are rebuilt.

    Delta's `VACUUM` deletes what it takes for stray files of its table, unless they lie elsewhere
    (`floecat.gateway.delta-compat.location`). In a run of one table only that table is looked at.
    """
    only = require_table_id(context.partition_key) if context.has_partition_key else None
    pipeline = kernel.delta_pipeline()
    looked = repaired = 0
    records: list[dg.TableRecord] = []
    for table in pipeline.tables():
        if only is not None and table.entry_id != only:
            continue
        looked += 1
        try:
            if not pipeline.repair(table.entry_id):
                continue
        except NoSuchTableError:  # dropped meanwhile
            continue
        except FloecatError as error:
            outcome = error.message
        except Exception as error:  # nobody foresaw it, and the other tables are looked at all the same
            context.log.exception("table %s could not be looked at", table.name)
            outcome = f"internal error: {type(error).__name__}"
        else:
            repaired += 1
            outcome = "rebuilt"
        records.append(dg.TableRecord({"table": table.name, "outcome": outcome}))
    failed = len(records) - repaired
    return dg.AssetCheckResult(
        passed=not records,
        severity=dg.AssetCheckSeverity.ERROR if failed else dg.AssetCheckSeverity.WARN,
        description=(
            f"{looked} Delta tables: {repaired} had missing artifacts, which were rebuilt;"
            f" {failed} could not be looked at or repaired"
        ),
        metadata={
            "floecat/tables": looked,
            "floecat/repaired": repaired,
            "floecat/failed": failed,
            "floecat/outcomes": dg.MetadataValue.table(
                records=records[:_SHOWN],
                schema=dg.TableSchema([dg.TableColumn("table"), dg.TableColumn("outcome")]),
            ),
        },
    )
