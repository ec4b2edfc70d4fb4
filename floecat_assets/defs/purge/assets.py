"""The asset that works on purges, beside the workers of the service."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import time
from typing import Final

import dagster as dg

from floecat.events.table_events import PurgeCompleted, PurgeFailed, TableEvent
from floecat_assets.defs.resources import KernelResource, SparkResource

__all__ = ["OUTCOMES", "PurgeConfig", "outcomes"]

OUTCOMES: Final = dg.AssetKey(["purge", "outcomes"])

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
    counts, (oldest_ms,) = purges.count_words(), purges.oldest_open_ages_ms().values()
    return dg.MaterializeResult(
        metadata={
            **ended.metadata(),
            "purge/waiting": drained.waiting,
            "purge/ranges_on_spark": runner.ranges,
            "purge/seconds": round(time.monotonic() - started, 3),
            **{f"purge/all_{state.lower()}": count for state, count in counts.items()},
            "purge/oldest_open_age_s": round(oldest_ms / 1000, 1),
        }
    )


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
                            "table": str(event.identifier),
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
