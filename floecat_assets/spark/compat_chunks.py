"""Chunks of a Delta version, built by Spark's executors: the same bytes as built by threads of one process.

Executors read the deletion vectors and footers of a chunk and write its delete files and manifests; the
driver sends them the log entries and gets back what goes into the manifest list. Only the DataFrame API is
used, which Spark Connect has too. Executors need this package and `floecat` installed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_chunks"]

_MOST_BYTES = 128 << 20
"""Most that one Spark job carries: driver and executors hold it in memory."""

_SCHEMA = "number int, chunk binary"
_IS_ADDED = "is added"

_Sent = tuple[int, bytes]
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
        made: dict[int, ChunkManifests] = {}
        for job in _jobs(chunks):
            answers = _run_job(session, shared, job)
            for number, _ in job:
                answer = answers[number]
                if isinstance(answer, Exception):
                    raise answer
                made[number] = answer
        return [made[number] for number in range(len(chunks))]

    return run


def _jobs(chunks: FileChunks) -> Iterator[list[_Sent]]:
    """Chunks as they are sent, in jobs of bounded size."""
    job: list[_Sent] = []
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


def _run_job(session: SparkSession, shared: _Shared, job: list[_Sent]) -> dict[int, _Answer]:
    from pyspark.sql.functions import col, udf

    def work(number: int, chunk: bytes) -> bytes:
        return pickle.dumps(_build(shared, number, chunk))

    # Python functions over Arrow would do too, but Spark 3.5's do not run on Java 21
    build = udf(work, "binary").asNondeterministic()
    # one task for each chunk: a lost executor loses one, and early finishers take another
    sent = session.createDataFrame(job, _SCHEMA).repartition(len(job))
    rows = sent.select("number", build(col("number"), col("chunk")).alias("answer")).collect()
    # answers come from executors that ran this code
    return {row["number"]: pickle.loads(row["answer"]) for row in rows}  # noqa: S301


def _build(shared: _Shared, number: int, chunk: bytes) -> _Answer:
    """Runs on an executor."""
    prepare_struct_types()
    files, is_added = _unpacked(chunk)
    artifacts = ArtifactFiles(shared.open_files(), shared.allowed, MemoryBudget())
    try:
        return build_chunk(shared.context, number, files, is_added, artifacts)
    except (FloecatError, NameTakenError, ArtifactLostError) as error:
        # callers handle these by type, so they are returned; anything else fails the task
        return error.with_traceback(None)
    finally:
        artifacts.close()


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
