"""Chunks built by threads of this process: most work is in libraries that let go of the interpreter."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.chunk_order import ChunkRunner, FileChunks
from floecat.delta.artifacts.manifest_chunks import ChunkManifests, build_chunk
from floecat.delta.artifacts.version_context import ChunkContext
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations

__all__ = ["local_chunks"]

_MOST_THREADS = 4


def local_chunks(files: FileIO, artifacts: ArtifactFiles, allowed: AllowedLocations) -> ChunkRunner:
    """Builds chunks here.

    Args:
        files: reads footers and deletion vectors.
        artifacts: writes what is made.
        allowed: the allowed locations of the catalog.
    """

    def run(context: ChunkContext, chunks: FileChunks) -> Sequence[ChunkManifests]:
        def build(number: int) -> ChunkManifests:
            rows, is_added = chunks[number]
            return build_chunk(context, number, rows, is_added, files, artifacts, allowed)

        numbers = range(len(chunks))
        if len(numbers) <= 1:
            return [build(number) for number in numbers]
        threads = min(os.cpu_count() or 1, _MOST_THREADS)
        with ThreadPoolExecutor(threads, thread_name_prefix="delta-chunk") as pool:
            return list(pool.map(build, numbers))

    return run
