"""Chunks built by threads of this process: most work is in libraries that let go of the interpreter."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from floecat.compat.artifacts import ArtifactFiles
from floecat.compat.chunk_context import ChunkContext
from floecat.compat.chunks import ChunkManifests, build_chunk
from floecat.compat.layouts import ChunkRunner
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

    def run(context: ChunkContext, chunks: Sequence[tuple[int, pa.Table, Any]]) -> Sequence[ChunkManifests]:
        def build(chunk: tuple[int, pa.Table, Any]) -> ChunkManifests:
            number, rows, is_added = chunk
            return build_chunk(context, number, rows, is_added, files, artifacts, allowed)

        if len(chunks) <= 1:
            return [build(chunk) for chunk in chunks]
        threads = min(os.cpu_count() or 1, _MOST_THREADS)
        with ThreadPoolExecutor(threads, thread_name_prefix="delta-chunk") as pool:
            return list(pool.map(build, chunks))

    return run
