"""Chunks built in this process, or on Spark if many files must be opened for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from floecat.delta.artifacts.chunks import ChunkManifests, ChunkRunner, FileChunks
from floecat.delta.artifacts.request_bounds import opened_files
from floecat.delta.artifacts.version_context import VersionContext

__all__ = ["ChosenChunks"]


class ChosenChunks:
    """A chunk runner that chooses between two others.

    The cost is in opening files: for their deletion vectors, for footers where the log has no row count, and
    to see whether they have all field ids. The log's own statistics are translated faster than they are sent.

    Attributes:
        in_process: how many chunks were built in this process.
        on_spark: how many on Spark.
    """

    def __init__(
        self, local: ChunkRunner, open_spark: Callable[[], ChunkRunner] | None, *, most_opened_files: int
    ) -> None:
        """Takes both runners.

        Args:
            local: builds chunks in this process.
            open_spark: opens Spark and gives a runner that builds them there; called when first needed. None
                where Spark is not installed: all are built in this process.
            most_opened_files: versions that need more files opened than this go to Spark.
        """
        self._local = local
        self._open_spark = open_spark
        self._most_opened_files = most_opened_files
        self._spark: ChunkRunner | None = None
        self.in_process = 0
        self.on_spark = 0

    def __call__(self, context: VersionContext, chunks: FileChunks) -> Sequence[ChunkManifests]:
        """Builds chunks; see `ChunkRunner`."""
        if self._open_spark is None or self._opened_files(context, chunks) <= self._most_opened_files:
            self.in_process += len(chunks)
            return self._local(context, chunks)
        if self._spark is None:
            self._spark = self._open_spark()
        self.on_spark += len(chunks)
        return self._spark(context, chunks)

    def _opened_files(self, context: VersionContext, chunks: FileChunks) -> int:
        all_files = bool(context.translated.without_field_ids)
        return opened_files(chunks.files, read_footers=context.read_footers, all_files=all_files)
