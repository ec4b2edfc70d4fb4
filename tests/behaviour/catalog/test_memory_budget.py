"""Caches on a small budget: loads and commits stay right, and no cache outgrows its share."""

from __future__ import annotations

import msgspec
import pytest

from floecat.compression.pieces import gzip_blocks
from floecat.entries.calls import Call
from floecat.runtime import Kernel
from floecat.settings import CacheSettings
from floecat.store.entries.documents import stored_frames
from tests.behaviour.catalog.changes import create, set_property, table

TABLES = 12


@pytest.mark.parametrize("memory", [0, 64 << 10])
def test_no_cache_outgrows_its_share(kernel: Kernel, call: Call, memory: int) -> None:
    settings = msgspec.structs.replace(kernel.settings, cache=CacheSettings(memory=memory))
    small = Kernel(settings, kernel.store, kernel.files, kernel.clock)
    for number in range(TABLES):
        create(small, call, f"t{number}")
    for turn in range(2):
        for number in range(TABLES):
            made = small.commits.tables.commit(call, set_property(f"t{number}", "text", f"{turn}" * 100_000))
            for opened in (small, kernel):
                assert opened.catalog.tables.load(call, table(f"t{number}")).metadata == made.metadata
            held = small.parts.memory.held_bytes()
            assert all(size <= small.parts.memory.share(name) for name, size in held.items())
            assert gzip_blocks.kept_bytes <= small.parts.memory.share("gzip-blocks")
            assert stored_frames.kept_bytes <= small.parts.memory.share("stored-frames")
    # of the other process, which has room for all of them
    assert kernel.parts.memory.held_bytes()["documents"] > TABLES * 200_000
