"""Chunks of a Delta version, built by Spark's executors: the same bytes as built by threads of one process.

Executors read the deletion vectors and footers of a chunk and write its delete files and manifests; the
driver sends them the log entries and gets back what goes into the manifest list. Executors need this package
and `floecat` installed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
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
from floecat.struct_types import prepare_struct_types
from floecat_assets.spark.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_chunks"]

_MOST_BYTES = 128 << 20
"""Most that one Spark job carries: driver and executors hold it in memory."""

_IS_ADDED = "is added"

_Answer = ChunkManifests | Exception


@dataclass(frozen=True)
class _Shared:
    """What every executor gets."""

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
            for packed in run_tasks(session, partial(_build, shared), job):
                # answers come from executors that ran this code
                answer: _Answer = pickle.loads(packed)  # noqa: S301
                if isinstance(answer, Exception):
                    raise answer
                made.append(answer)
        return made

    return run


def _jobs(chunks: FileChunks) -> Iterator[list[bytes]]:
    """Chunks with their numbers as they are sent, in jobs of bounded size."""
    job: list[bytes] = []
    size_bytes = 0
    for number, (files, is_added) in enumerate(chunks):
        data = pickle.dumps((number, _packed(files, is_added)))
        if job and size_bytes + len(data) > _MOST_BYTES:
            yield job
            job, size_bytes = [], 0
        job.append(data)
        size_bytes += len(data)
    if job:
        yield job


def _build(shared: _Shared, sent: bytes) -> bytes:
    """Runs on an executor."""
    prepare_struct_types()
    number, chunk = pickle.loads(sent)  # noqa: S301 - the driver sent it
    files, is_added = _unpacked(chunk)
    artifacts = ArtifactFiles(shared.open_files(), shared.allowed, MemoryBudget())
    answer: _Answer
    try:
        answer = build_chunk(shared.context, number, files, is_added, artifacts)
    except (FloecatError, NameTakenError, ArtifactLostError) as error:
        # callers handle these by type, so they are returned; anything else fails the task
        answer = error.with_traceback(None)
    finally:
        artifacts.close()
    return pickle.dumps(answer)


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
