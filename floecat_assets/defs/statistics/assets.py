"""Assets of statistics. Their runs work on captures beside the workers of the service."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Final, Literal
from uuid import UUID

import dagster as dg

from floecat.errors import NoSuchTableError
from floecat_assets.defs.asset_keys import INDEX_ARTIFACTS, SNAPSHOTS, TARGETS
from floecat_assets.defs.catalog.assets import tables
from floecat_assets.defs.partitions import CAPTURED_TABLES
from floecat_assets.defs.resources import KernelResource, SparkResource
from floecat_assets.defs.statistics.checks import check_results, check_specs
from floecat_assets.defs.statistics.metadata import index_metadata
from floecat_assets.defs.statistics.reporting import first_of_snapshots, of_table
from floecat_assets.table_keys import require_table_id

__all__ = ["CaptureConfig", "index_artifacts", "snapshots", "targets"]

_LOGGED_AFTER_S: Final = 10.0
_LONGEST_WAIT_MS: Final = 30_000
"""The sensor starts another run for what is due later."""
_GROUP: Final = "statistics"


class CaptureConfig(dg.Config):
    """The snapshots that are captured."""

    snapshots: Literal["latest", "all"] = "all"
    """The `latest` of a table again, or `all` that were never captured, 1,000 at most."""


@dg.asset(
    key=SNAPSHOTS,
    description=(
        "Asks for captures of the snapshots of a table that have no statistics yet. Commits are captured by"
        " themselves; materialize this, for as many tables as you like, for the snapshots before: the"
        " statistics come with statistics/targets."
    ),
    group_name=_GROUP,
    kinds={"iceberg"},
    deps=[tables],
    partitions_def=CAPTURED_TABLES,
)
def snapshots(
    context: dg.AssetExecutionContext, config: CaptureConfig, kernel: KernelResource
) -> dg.MaterializeResult[None]:
    """Asks for captures; what is open already is not asked for twice."""
    opened, entry_id = kernel.open(), require_table_id(context.partition_key)
    entry = opened.events.live_entries.get(entry_id)
    try:
        asked = opened.statistics.pipeline.request(
            entry_id, created_by="pipeline", latest=config.snapshots == "latest"
        )
    except NoSuchTableError as error:
        context.log.info("nothing to capture: %s", error.message)
        asked = 0
    return dg.MaterializeResult(
        metadata={
            "floecat/table_name": "" if entry is None else entry.qualified_name,
            "floecat/table_id": str(entry_id),
            "statistics/asked_for": dg.MetadataValue.text(str(asked)),
        }
    )


@dg.asset(
    key=TARGETS,
    description=(
        "Rows, nulls, distinct values and bounds of the newest captured snapshot of a table. A partition is a"
        " table. Workers of the service capture most commits, and a sensor reports them here; a run captures"
        " what they left, and large tables on Spark."
    ),
    group_name=_GROUP,
    kinds={"iceberg", "spark"},
    deps=[snapshots],
    partitions_def=CAPTURED_TABLES,
    check_specs=check_specs(),
    output_required=False,
    pool="statistics",
)
def targets(
    context: dg.AssetExecutionContext, kernel: KernelResource, spark: SparkResource
) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
    """Works on the captures of a table until none is due."""
    opened, entry_id = kernel.open(), require_table_id(context.partition_key)
    pipeline = opened.statistics.pipeline
    while True:
        _work_on_spark(context, kernel, spark, entry_id)
        drained = pipeline.drain(entry_id)
        if drained.total:
            context.log.info("captures: %s", drained)
        wait_ms = pipeline.next_due_in_ms(entry_id)
        if wait_ms is None or wait_ms > _LONGEST_WAIT_MS:
            break
        # a capture waits for its groups, for another one of the table, or for its next attempt
        time.sleep(min(wait_ms + 10, 1_000) / 1_000)
    reported = of_table(opened, entry_id)
    if reported is None:
        yield from check_results(None)
        return
    for event in (*first_of_snapshots(context.instance, context.partition_key), *reported.own_events):
        context.log_event(event)
    yield dg.MaterializeResult(
        metadata=reported.metadata,
        check_results=list(check_results(reported.report)),
        data_version=dg.DataVersion(reported.report.version),
    )


@dg.asset(
    key=INDEX_ARTIFACTS,
    description=(
        "Page-index sidecars of the Parquet files of a table, one each, by which an engine reads only the"
        " pages that it needs. They are built for tables that are materialized; nothing starts it by itself."
    ),
    group_name=_GROUP,
    kinds={"parquet"},
    deps=[targets],
    partitions_def=CAPTURED_TABLES,
    output_required=False,
    pool="statistics",
)
def index_artifacts(
    context: dg.AssetExecutionContext, kernel: KernelResource, spark: SparkResource
) -> Iterator[dg.MaterializeResult[None]]:
    """Builds the sidecars that the current snapshot lacks."""
    entry_id = require_table_id(context.partition_key)
    opened, read_large = kernel.open(), None
    settings = opened.settings.statistics
    if importlib.util.find_spec("pyspark") is not None:
        from floecat_assets.spark.data_files import FileBounds, page_indexes_on

        read_large = page_indexes_on(spark.open, FileBounds.of(settings))
    built = opened.statistics.pipeline.build_page_indexes(
        entry_id, _log_progress(context), read_large, settings.large_capture_bytes
    )
    if built is None:
        context.log.info("the table was dropped, or has no snapshot")
        return
    for problem in built.problems:
        context.log.warning("no sidecar of %s: %s", problem.location, problem.reason)
    if built.problems and not built.built and not built.kept:
        raise dg.Failure(built.problems[0].reason, allow_retries=False)
    yield dg.MaterializeResult(
        metadata=index_metadata(entry_id, built), data_version=dg.DataVersion(str(built.snapshot_id))
    )


def _work_on_spark(
    context: dg.AssetExecutionContext, kernel: KernelResource, spark: SparkResource, entry_id: UUID
) -> None:
    """Works on all groups that are offered to Spark, if the table has any."""
    opened = kernel.open()
    pipeline = opened.statistics.pipeline
    if importlib.util.find_spec("pyspark") is None or not any(
        table.offered_bytes for table in pipeline.pending() if table.entry_id == entry_id
    ):
        return
    from floecat_assets.spark.capture_groups import SparkGroups
    from floecat_assets.spark.data_files import FileBounds

    runner = SparkGroups(spark.open, FileBounds.of(opened.settings.statistics))
    for table, worked in runner.work_on_all(pipeline):
        context.log.info("group of %s on Spark: %s %s", table, worked.outcome, worked.error or "")
    context.log.info("%d files on Spark", runner.files)


def _log_progress(context: dg.AssetExecutionContext) -> Callable[[int, int], None]:
    logged_at = time.monotonic()

    def log(done: int, wanted: int) -> None:
        nonlocal logged_at
        if time.monotonic() - logged_at >= _LOGGED_AFTER_S:
            logged_at = time.monotonic()
            context.log.info("%d of %d data files are done", done, wanted)

    return log
