"""The asset that works on purges, beside the workers of the service."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import time
from uuid import UUID

import dagster as dg

from floecat.events.live_entries import label
from floecat.events.table_events import PurgeCompleted, PurgeFailed, TableEvent
from floecat.purge.purge_jobs import PurgeInfo
from floecat_assets.defs.asset_keys import OUTCOMES
from floecat_assets.defs.resources import KernelResource, SparkResource
from floecat_assets.table_keys import table_asset_key

__all__ = ["OUTCOMES", "PurgeConfig", "outcomes", "purge_event"]

_SHOWN = 50


class PurgeConfig(dg.Config):
    """The purge of large tables on Spark."""

    ranges_at_once: int = 8
    """Ranges of 10,000 files that executors work on at a time; as many as they have cores is best."""


@dg.asset(
    key=OUTCOMES,
    description=(
        "Purges of dropped tables. A run works on the large ones, which are offered to Spark for a while, and"
        " then on what is due and no worker of the service took. Leases keep two workers from one purge."
    ),
    group_name="purge",
    kinds={"iceberg", "spark"},
    pool="purge",
)
def outcomes(
    context: dg.AssetExecutionContext, config: PurgeConfig, kernel: KernelResource, spark: SparkResource
) -> dg.MaterializeResult[None]:
    """Works on purges until none is offered or due."""
    from floecat_assets.spark.purge_ranges import SparkRanges

    opened, started = kernel.open(), time.monotonic()
    ended = _Ended()
    opened.listeners.add(ended.note)
    runner = SparkRanges(spark.open, width=config.ranges_at_once)
    while (worked := opened.purge.large_jobs.work_on_next(runner)) is not None:
        job, result = worked
        context.log.info("purge of %s on Spark: %s %s", job.title, result.outcome, result.error or "")
    drained = opened.purge.queue.drain_once()
    context.log.info("purges in process: %s", drained)
    context.log.info("files of removed tables: %s", opened.purge.entry_files.drain_once())
    purges = opened.purge.operations
    counts, (oldest_ms,) = purges.count_states(), purges.oldest_open_ages_ms().values()
    return dg.MaterializeResult(
        metadata={
            **ended.metadata(),
            "purge/waiting": drained.waiting,
            "purge/ranges_on_spark": runner.ranges,
            "purge/seconds": round(time.monotonic() - started, 3),
            **{f"purge/all_{state}": count for state, count in counts.items()},
            "purge/oldest_open_age_s": round(oldest_ms / 1000, 1),
        }
    )


def purge_event(purge: PurgeInfo, default_account_id: UUID) -> dg.AssetMaterialization | dg.AssetObservation:
    """A purge that ended, whoever worked on it; one that failed or was cancelled is an observation."""
    catalog = label(purge.catalog, purge.account_id, default_account_id)
    name, progress = f"{catalog}.{purge.identifier}", purge.progress
    took_s = ((purge.finished_at_ms or purge.created_at_ms) - purge.created_at_ms) / 1000
    metadata: dict[str, dg.MetadataValue] = {
        "floecat/table": dg.MetadataValue.asset(table_asset_key(catalog, purge.identifier)),
        "floecat/location": dg.MetadataValue.text(purge.location),
        "floecat/principal": dg.MetadataValue.text(purge.created_by),
        "floecat/job_id": dg.MetadataValue.text(str(purge.id)),
        "purge/files_of_table": dg.MetadataValue.int(progress.deleted),
        "purge/bytes_of_table": dg.MetadataValue.int(progress.bytes),
        "purge/kept_files_of_table": dg.MetadataValue.int(sum(progress.kept.values())),
        "purge/seconds_since_drop": dg.MetadataValue.float(took_s),
    }
    if purge.state == "succeeded":
        description = f"purge of {name}: {progress.deleted:,} files deleted, dropped by {purge.created_by}"
        return dg.AssetMaterialization(OUTCOMES, description=description, metadata=metadata)
    description = f"purge of {name}: {purge.state}: {purge.last_error or 'no error'}"
    return dg.AssetObservation(OUTCOMES, description=description, metadata=metadata)


class _Ended:
    """The purges that ended in this run."""

    def __init__(self) -> None:
        self._completed: list[PurgeCompleted] = []
        self._failed: list[PurgeFailed] = []

    def note(self, event: TableEvent) -> None:
        """A listener of the kernel's events."""
        if isinstance(event, PurgeCompleted):
            self._completed.append(event)
        elif isinstance(event, PurgeFailed):
            self._failed.append(event)

    def metadata(self) -> dict[str, dg.MetadataValue | int]:
        """The metadata of the purges in the UI."""
        counts = [event.counts for event in self._completed]
        return {
            "purge/succeeded": len(self._completed),
            "purge/dead": len(self._failed),
            "purge/deleted_files": sum(each.get("deleted", 0) for each in counts),
            "purge/deleted_bytes": sum(each.get("bytes", 0) for each in counts),
            "purge/kept_files": sum(
                each.get(name, 0) for each in counts for name in ("shared", "outside", "gc_disabled")
            ),
            "purge/tables": dg.MetadataValue.table(
                records=[
                    dg.TableRecord(
                        {
                            "table": event.logical_name,
                            "location": event.location,
                            "deleted": event.counts.get("deleted", 0),
                            "bytes": event.counts.get("bytes", 0),
                            "s": round(event.elapsed_ms / 1000, 1),
                        }
                    )
                    for event in self._completed[:_SHOWN]
                ],
                schema=dg.TableSchema(
                    [
                        dg.TableColumn("table"),
                        dg.TableColumn("location"),
                        dg.TableColumn("deleted", "int"),
                        dg.TableColumn("bytes", "int"),
                        dg.TableColumn("s", "float"),
                    ]
                ),
            ),
        }
