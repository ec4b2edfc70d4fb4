"""Chunks of a Delta version, built by Spark's executors: the same bytes as built by threads of one process.

Executors read the deletion vectors and footers of a chunk and write its delete files and manifests; the
driver sends them the log entries and gets back what goes into the manifest list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from floecat.delta.artifacts.artifact_files import ArtifactFiles, ArtifactLostError, NameTakenError
from floecat.delta.artifacts.chunks import ChunkManifests, ChunkRunner, FileChunks, build_chunk
from floecat.delta.artifacts.version_context import VersionContext
from floecat.errors import FloecatError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.memory_budget import MemoryBudget
from floecat_assets.spark.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_chunks"]

_MOST_BYTES = 128 << 20
"""Most that one Spark job carries: driver and executors hold it in memory."""

_IS_ADDED = "is added"

_Chunk = tuple[int, bytes]
"""A chunk with its number."""


@dataclass(frozen=True)
class _Shared:
    """The values that every executor gets."""

    context: VersionContext
    open_files: Callable[[], FileIO]
    allowed: AllowedLocations


def spark_chunks(
    session: SparkSession, open_files: Callable[[], FileIO], allowed: AllowedLocations
) -> ChunkRunner:
    """Builds chunks on Spark.

    Args:
        session: a session, of Spark Connect or not.
        open_files: opens storage on an executor; a function that can be pickled. Credentials that it holds go
            to executors and nowhere else.
        allowed: the allowed locations of the catalog.
    """

    def run(context: VersionContext, chunks: FileChunks) -> Sequence[ChunkManifests]:
        shared = _Shared(context, open_files, allowed)
        made: list[ChunkManifests] = []
        for job in _jobs(chunks):
            made += run_tasks(
                session,
                partial(_build, shared),
                job,
                passed=(FloecatError, NameTakenError, ArtifactLostError),
            )
        return made

    return run


def _jobs(chunks: FileChunks) -> Iterator[list[_Chunk]]:
    """Chunks as they are sent, in jobs of bounded size."""
    job: list[_Chunk] = []
    size_bytes = 0
    for number, (files, is_added) in enumerate(chunks):
        data = _packed(files, is_added)
        if job and size_bytes + len(data) > _MOST_BYTES:
            yield job
            job, size_bytes = [], 0
        job.append((number, data))
        size_bytes += len(data)
    if job:
        yield job


def _build(shared: _Shared, sent: _Chunk) -> ChunkManifests:
    """Runs on an executor."""
    number, chunk = sent
    files, is_added = _unpacked(chunk)
    artifacts = ArtifactFiles(shared.open_files(), shared.allowed, MemoryBudget())
    with closing(artifacts):
        return build_chunk(shared.context, number, files, is_added, artifacts)


def _packed(files: pa.Table, is_added: Any) -> bytes:
    """A chunk as bytes."""
    added = pa.array(np.asarray(is_added, bool))
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    table = files.append_column(_IS_ADDED, added)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _unpacked(chunk: bytes) -> tuple[pa.Table, Any]:
    with pa.ipc.open_stream(chunk) as reader:
        table = reader.read_all()
    return table.drop_columns([_IS_ADDED]), table[_IS_ADDED].to_numpy()
