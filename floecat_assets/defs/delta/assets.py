"""The asset by which Delta tables read as Iceberg tables."""

# no __future__.annotations here: Dagster wants the type of `context` and takes no text for it

import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import dagster as dg

from floecat.delta.refresh.pipeline_results import Materialised
from floecat.errors import (
    FileMissingError,
    FloecatError,
    InvalidDeltaTableError,
    LocationNotAllowedError,
    NoSuchTableError,
    UnsupportedDeltaTableError,
)
from floecat_assets.defs.catalog.assets import tables
from floecat_assets.defs.delta.checks import ARTIFACTS, check_results, check_specs, nothing_to_check
from floecat_assets.defs.partitions import DELTA_TABLES
from floecat_assets.defs.resources import KernelResource, SparkResource
from floecat_assets.table_keys import require_table_id, table_asset_key

if TYPE_CHECKING:
    from floecat.delta.artifacts.chunks import ChunkRunner
    from floecat.delta.refresh.delta_table import DeltaTableEntry
    from floecat.delta.refresh.verification import TableCounts
    from floecat_assets.spark.chosen_chunks import ChosenChunks

__all__ = ["ARTIFACTS", "artifacts", "log_progress"]

_LASTING = (InvalidDeltaTableError, UnsupportedDeltaTableError, FileMissingError, LocationNotAllowedError)
"""Errors that a retry does not fix."""

_LOGGED_AFTER_S = 10.0


@dg.asset(
    key=ARTIFACTS,
    description=(
        "Manifests and delete files by which engines read a Delta table as an Iceberg table, for all"
        " versions in its log. A partition is a Delta table. Sensors start a run for each table whose log has"
        " new versions; what a run found is an observation of the table's own asset too."
    ),
    group_name="compat",
    kinds={"delta", "iceberg"},
    deps=[tables],
    partitions_def=DELTA_TABLES,
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
    runners = _ChunkRunners(kernel, spark)
    started = time.monotonic()
    try:
        made = pipeline.materialise(entry_id, log_progress(context), runners.runner)
        seconds = time.monotonic() - started
        numbers = pipeline.counts(entry_id)
    except NoSuchTableError as error:
        # dropped while the run waited
        context.log.info("nothing to make: %s", error.message)
        yield from nothing_to_check()
        return
    except _LASTING as error:
        raise _failure(error) from error
    counts = _counts(numbers, seconds=seconds, runners=runners)
    entry = kernel.open().events.live_entries.get(entry_id)
    if entry is not None:
        context.log_event(
            dg.AssetObservation(
                table_asset_key(entry.catalog_name, entry.identifier),
                description=f"artifacts of Delta version {made.version}",
                metadata={"floecat/table_id": str(entry_id), **counts},
            )
        )
    yield dg.MaterializeResult(
        metadata={**_table_metadata(made), "delta/counts": dg.MetadataValue.json(counts)},
        check_results=check_results(numbers),
        data_version=dg.DataVersion(str(made.version)),
    )


def log_progress(context: dg.AssetExecutionContext) -> Callable[[int, int], None]:
    """Logs the progress of the older versions, at intervals."""
    logged_at = time.monotonic()

    def log(done: int, wanted: int) -> None:
        nonlocal logged_at
        if wanted and (done == wanted or time.monotonic() - logged_at >= _LOGGED_AFTER_S):
            logged_at = time.monotonic()
            context.log.info("%d of %d older versions are done", done, wanted)

    return log


def _failure(error: FloecatError) -> dg.Failure:
    return dg.Failure(error.message, metadata={"floecat/error": type(error).__name__}, allow_retries=False)


class _ChunkRunners:
    """Runners of one run, and what they did.

    Spark takes versions for which more files have to be opened than `delta-compat.max-files-in-request` lets
    a load open; starting it for fewer costs more than it saves. Where it is not installed, this process does.
    """

    def __init__(self, kernel: KernelResource, spark: SparkResource) -> None:
        self._kernel = kernel
        self._spark = spark
        self._made: list[ChosenChunks] = []

    @property
    def in_process(self) -> int:
        """The number of chunks that this process built."""
        return sum(runner.in_process for runner in self._made)

    @property
    def on_spark(self) -> int:
        """The number of chunks that Spark built."""
        return sum(runner.on_spark for runner in self._made)

    def runner(self, table: "DeltaTableEntry") -> "ChunkRunner":
        """The runner that builds the chunks of a table."""
        from floecat_assets.spark.chosen_chunks import ChosenChunks

        kernel = self._kernel.open()

        def on_spark() -> "ChunkRunner":
            from floecat_assets.spark.delta_chunks import spark_chunks

            return spark_chunks(self._spark.open(), table.storage.opener(table.row.location), table.allowed)

        chosen = ChosenChunks(
            self._kernel.delta_pipeline().local_chunks(table),
            on_spark if importlib.util.find_spec("pyspark") else None,
            most_opened_files=kernel.settings.gateway.delta_compat.max_files_in_request,
        )
        self._made.append(chosen)
        return chosen


def _table_metadata(made: Materialised) -> dict[str, dg.MetadataValue]:
    """The metadata in the UI of a table that was made readable.

    No numbers and no names that Dagster knows: the page of the asset would show those of the table that came
    last, and plot unrelated tables as one line.
    """
    return {
        "floecat/table_name": dg.MetadataValue.text(made.name),
        "floecat/table_id": dg.MetadataValue.text(str(made.entry_id)),
        "floecat/location": dg.MetadataValue.text(made.location),
        "floecat/snapshot_id": dg.MetadataValue.text(str(made.version)),
        "floecat/metadata_location": dg.MetadataValue.path(made.metadata_location),
        "floecat/changed": dg.MetadataValue.bool(made.changed),
        "delta/version": dg.MetadataValue.text(str(made.version)),
        "delta/versions": dg.MetadataValue.text(str(made.versions)),
    }


def _counts(numbers: "TableCounts", *, seconds: float, runners: _ChunkRunners) -> dict[str, int | float]:
    """Numbers of one table: plotted over time on its own asset."""
    counted = numbers.iceberg
    return {
        "dagster/row_count": counted.rows - counted.deleted_rows,
        "delta/live_files": counted.files,
        "delta/rows": counted.rows,
        "delta/deleted_rows": counted.deleted_rows,
        "delta/files_with_deletes": counted.files_with_deletes,
        "floecat/seconds": round(seconds, 3),
        "floecat/chunks_in_process": runners.in_process,
        "floecat/chunks_on_spark": runners.on_spark,
    }
