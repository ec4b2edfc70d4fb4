"""Who builds the chunks of a table: this process, or Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floecat_assets.defs.resources import KernelResource, SparkResource

if TYPE_CHECKING:
    from floecat.delta.artifacts.chunks import ChunkRunner
    from floecat.delta.refresh.delta_table import DeltaTableEntry
    from floecat_assets.spark.chosen_chunks import ChosenChunks

__all__ = ["ChunkRunners"]


class ChunkRunners:
    """Runners of one run, and what they did.

    Spark takes versions for which more files have to be opened than `delta-compat.max-files-in-request` lets
    a load open; starting it for less costs more than it saves.
    """

    def __init__(self, kernel: KernelResource, spark: SparkResource) -> None:
        """Takes both resources; Spark is opened when it is needed."""
        self._kernel = kernel
        self._spark = spark
        self._made: list[ChosenChunks] = []

    @property
    def in_process(self) -> int:
        """How many chunks this process built."""
        return sum(runner.in_process for runner in self._made)

    @property
    def on_spark(self) -> int:
        """How many chunks Spark built."""
        return sum(runner.on_spark for runner in self._made)

    def runner(self, table: DeltaTableEntry) -> ChunkRunner:
        """What builds the chunks of a table."""
        from floecat_assets.spark.chosen_chunks import ChosenChunks
        from floecat_assets.spark.compat_chunks import spark_chunks

        kernel = self._kernel.open()

        def on_spark() -> ChunkRunner:
            return spark_chunks(self._spark.open(), table.storage.opener(table.row.location), table.allowed)

        chosen = ChosenChunks(
            self._kernel.delta_pipeline().local_chunks(table),
            on_spark,
            most_opened_files=kernel.settings.gateway.delta_compat.max_files_in_request,
        )
        self._made.append(chosen)
        return chosen
