from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from floecat.store.entries.documents import (
    compress,
    compress_pieces,
    decompress,
    has_metadata,
    is_compressed,
    no_metadata_location,
)

LARGE = 100_000


@given(st.binary(max_size=2000))
def test_round_trip(document: bytes) -> None:
    body = compress(document)
    assert is_compressed(body)
    assert decompress(body) == document


@given(
    st.lists(st.binary(max_size=50) | st.integers(0, 3).map(lambda n: bytes([n]) * (LARGE + n)), max_size=8)
)
def test_round_trip_of_pieces(pieces: list[bytes]) -> None:
    assert decompress(compress_pieces(pieces)) == b"".join(pieces)


def test_views_are_pieces() -> None:
    document = os.urandom(3 * LARGE)
    view = memoryview(document)
    pieces = [view[:10], view[10 : 2 * LARGE], view[2 * LARGE :]]
    for _ in range(2):
        assert decompress(compress_pieces(pieces)) == document
    again = [memoryview(bytes(document))[:10], memoryview(bytes(document))[10:]]
    assert decompress(compress_pieces(again)) == document


def test_standard_tools_read_a_body() -> None:
    first, second = os.urandom(LARGE), os.urandom(LARGE)
    body = compress_pieces([first, b"small", second])
    reader = zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True)
    assert reader.read() == first + b"small" + second


def test_threads_share_nothing_but_the_cache() -> None:
    pieces = [os.urandom(LARGE) for _ in range(4)]
    barrier = threading.Barrier(4)

    def work(number: int) -> bool:
        barrier.wait()
        mine = [pieces[(number + step) % 4] for step in range(4)]
        return all(decompress(compress_pieces(mine)) == b"".join(mine) for _ in range(10))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))


def test_damaged_bodies() -> None:
    body = compress_pieces([os.urandom(LARGE), b"tail"])
    for damaged in (
        b"",
        b"{}",
        body[:-1],
        body[: LARGE // 2],
        body + b"x",
        body + body[:10],
        body[:1000] + bytes([body[1000] ^ 1]) + body[1001:],
    ):
        with pytest.raises(ValueError, match="zstd"):
            decompress(damaged)


def test_what_is_not_compressed() -> None:
    assert not is_compressed(b'{"format-version":2}')
    assert not is_compressed(b"")


def test_entries_without_metadata_are_told_by_their_metadata_location() -> None:
    assert not has_metadata(no_metadata_location("s3://lake/d/metadata"))
    assert has_metadata("s3://lake/d/metadata/3-compat-0011.metadata.json")
    assert has_metadata("s3://lake/d/metadata/not-unread.metadata.json")
