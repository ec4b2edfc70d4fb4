"""What makes Delta tables read as Iceberg tables."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import time
from collections.abc import Callable, Iterator

import dagster as dg

from floecat.errors import (
    FileMissingError,
    FloecatError,
    InvalidDeltaTableError,
    LocationNotAllowedError,
    NoSuchTableError,
    UnsupportedDeltaTableError,
)
from floecat_assets.defs.catalog.assets import tables
from floecat_assets.defs.compat.check_results import ARTIFACTS, check_results, check_specs, nothing_to_check
from floecat_assets.defs.compat.runners import ChunkRunners
from floecat_assets.defs.compat.table_metadata import table_metadata
from floecat_assets.defs.partitions import TABLES, require_table_id
from floecat_assets.defs.resources import KernelResource, SparkResource

__all__ = ["ARTIFACTS", "artifacts"]

_LASTING = (InvalidDeltaTableError, UnsupportedDeltaTableError, FileMissingError, LocationNotAllowedError)
"""Faults that another try does not mend: somebody has to look at the table."""

_TOLD_AFTER_S = 10.0


@dg.asset(
    key=ARTIFACTS,
    description=(
        "Manifests and delete files by which engines read a Delta table as an Iceberg table: of every version"
        " that its log still has. A partition is a table; one of another format has nothing to be made."
    ),
    group_name="compat",
    kinds={"delta", "iceberg"},
    deps=[tables],
    partitions_def=TABLES,
    check_specs=check_specs(),
    output_required=False,
    retry_policy=dg.RetryPolicy(max_retries=3, delay=5, backoff=dg.Backoff.EXPONENTIAL),
    pool="delta",
)
def artifacts(
    context: dg.AssetExecutionContext, kernel: KernelResource, spark: SparkResource
) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
    """Brings a Delta table up to its log, and counts what came out against the log."""
    entry_id = require_table_id(context.partition_key)
    pipeline = kernel.delta_pipeline()
    runners = ChunkRunners(kernel, spark)
    started = time.monotonic()
    try:
        made = pipeline.materialise(entry_id, _told(context), runners.runner)
        seconds = time.monotonic() - started
        numbers = pipeline.counts(entry_id)
    except NoSuchTableError as error:
        # a table of another format, or one that was dropped while the run waited
        context.log.info("nothing to make: %s", error.message)
        yield from nothing_to_check()
        return
    except _LASTING as error:
        raise _failure(error) from error
    yield dg.MaterializeResult(
        metadata=table_metadata(made, numbers, seconds=seconds, runners=runners),
        check_results=check_results(numbers),
        data_version=dg.DataVersion(str(made.version)),
    )


def _failure(error: FloecatError) -> dg.Failure:
    return dg.Failure(error.message, metadata={"floecat/error": type(error).__name__}, allow_retries=False)


def _told(context: dg.AssetExecutionContext) -> Callable[[int, int], None]:
    """Tells in the log of the run how far the older versions are, now and then."""
    told_at = time.monotonic()

    def tell(done: int, wanted: int) -> None:
        nonlocal told_at
        if wanted and (done == wanted or time.monotonic() - told_at >= _TOLD_AFTER_S):
            told_at = time.monotonic()
            context.log.info("%d of %d older versions are made", done, wanted)

    return tell
