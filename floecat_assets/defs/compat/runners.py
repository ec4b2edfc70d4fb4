"""Who builds the chunks of a table: this process, or Spark."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from floecat_assets.defs.resources import KernelResource, SparkResource

if TYPE_CHECKING:
    from floecat.delta.artifacts.artifact_files import ArtifactFiles
    from floecat.delta.artifacts.chunk_order import ChunkRunner
    from floecat.delta.refresh.delta_table import CompatTable
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
        self._artifacts: list[ArtifactFiles] = []

    def __enter__(self) -> Self:
        """Opens nothing yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the threads of all runners."""
        for artifacts in self._artifacts:
            artifacts.close()

    @property
    def in_process(self) -> int:
        """How many chunks this process built."""
        return sum(runner.in_process for runner in self._made)

    @property
    def on_spark(self) -> int:
        """How many chunks Spark built."""
        return sum(runner.on_spark for runner in self._made)

    def runner(self, table: CompatTable) -> ChunkRunner:
        """What builds the chunks of a table."""
        from floecat.delta.artifacts.artifact_files import ArtifactFiles
        from floecat.delta.artifacts.local_chunks import local_chunks
        from floecat_assets.spark.chosen_chunks import ChosenChunks
        from floecat_assets.spark.compat_chunks import spark_chunks

        kernel = self._kernel.open()
        artifacts = ArtifactFiles(table.files, cached_bytes=0)
        self._artifacts.append(artifacts)

        def on_spark() -> ChunkRunner:
            return spark_chunks(self._spark.open(), table.storage.opener(table.row.location), table.allowed)

        chosen = ChosenChunks(
            local_chunks(table.files, artifacts, table.allowed),
            on_spark,
            most_opened_files=kernel.settings.gateway.delta_compat.max_files_in_request,
        )
        self._made.append(chosen)
        return chosen
