from __future__ import annotations

import gzip
import os
import subprocess
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.compression.pieces import Piece, PieceCompressor, gzip_member, runs

LARGE = 100_000


class Counting:
    """Compresses nothing, and tells what it was given."""

    def __init__(self, budget_bytes: int) -> None:
        self.seen: list[int] = []
        self.compressor = PieceCompressor(self._compress, len, budget_bytes=budget_bytes)

    def _compress(self, piece: Piece) -> bytes:
        self.seen.append(len(piece))
        return bytes(piece)

    def parts(self, *pieces: Piece) -> list[bytes]:
        """What comes of a document."""
        self.seen.clear()
        return list(self.compressor.parts(pieces))


def test_runs_join_what_is_small_and_leave_what_is_large() -> None:
    large = os.urandom(LARGE)
    made = list(runs([b"a", b"", memoryview(b"b"), large, large, b"c"]))
    assert made == [b"ab", large, large, b"c"]
    assert made[1] is large
    assert list(runs([])) == list(runs([b"", b""])) == []


def test_a_large_piece_that_was_seen_is_not_compressed_again() -> None:
    counting = Counting(10 * LARGE)
    first, second = os.urandom(LARGE), os.urandom(LARGE)
    assert counting.parts(first, second, b"tail") == [first, second, b"tail"]
    assert counting.seen == [LARGE, LARGE, 4]
    copy, view = bytes(bytearray(first)), memoryview(second)
    for _ in range(2):
        assert counting.parts(copy, view, b"another tail") == [first, second, b"another tail"]
        assert counting.seen == [12]


def test_pieces_of_one_length_are_not_mixed_up() -> None:
    counting = Counting(10 * LARGE)
    pieces = [os.urandom(LARGE) for _ in range(3)]
    counting.parts(*pieces)
    assert counting.parts(*reversed(pieces)) == pieces[::-1]


def test_the_budget_holds_pieces_and_what_came_of_them() -> None:
    counting = Counting(4 * LARGE)
    pieces = [os.urandom(LARGE) for _ in range(3)]
    counting.parts(*pieces)
    counting.parts(pieces[2], pieces[1])
    assert counting.seen == []
    counting.parts(pieces[0])
    assert counting.seen == [LARGE]


def test_a_whole_document_takes_the_place_of_no_pieces() -> None:
    counting = Counting(10 * LARGE)
    piece, document = os.urandom(LARGE), os.urandom(3 * LARGE)
    counting.parts(piece)
    for _ in range(2):
        assert counting.parts(document) == [document]
        assert counting.seen == [3 * LARGE]
    counting.parts(piece)
    assert counting.seen == []


def test_a_view_keeps_only_what_it_shows() -> None:
    counting = Counting(10 * LARGE)
    document = os.urandom(9 * LARGE)
    counting.parts(memoryview(document)[:LARGE], memoryview(document)[LARGE : 2 * LARGE])
    counting.parts(document[:LARGE], document[LARGE : 2 * LARGE])
    assert counting.seen == []


def test_what_is_kept_follows_the_budget() -> None:
    counting = Counting(0)
    pieces = [os.urandom(LARGE) for _ in range(6)]
    counting.parts(*pieces)
    assert counting.compressor.kept_bytes == 0
    counting.compressor.resize(12 * LARGE)
    counting.parts(*pieces)
    assert counting.compressor.kept_bytes == 12 * LARGE
    assert counting.parts(*pieces) == pieces
    assert counting.seen == []
    counting.compressor.resize(8 * LARGE)
    assert counting.compressor.kept_bytes == 8 * LARGE
    # a piece of more than a quarter of the budget is not kept
    counting.compressor.resize(2 * LARGE)
    counting.parts(os.urandom(LARGE))
    assert (counting.seen, counting.compressor.kept_bytes) == ([LARGE], 2 * LARGE)


@given(
    st.lists(st.binary(max_size=50) | st.integers(0, 3).map(lambda n: bytes([n]) * (LARGE + n)), max_size=8)
)
def test_round_trip(pieces: list[bytes]) -> None:
    assert gzip.decompress(gzip_member(pieces)) == b"".join(pieces)


def test_it_is_one_member_with_nothing_behind_it() -> None:
    pieces = [os.urandom(LARGE), b"between", os.urandom(LARGE)]
    reader = zlib.decompressobj(wbits=31)
    assert reader.decompress(gzip_member(pieces)) == b"".join(pieces)
    assert reader.eof
    assert reader.unused_data == b""


@pytest.mark.parametrize("pieces", [[], [b""], [b"{}"], [b"{" + b" " * LARGE, b"}"]])
def test_the_program_of_that_name_reads_it(pieces: list[bytes], tmp_path: Path) -> None:
    file = tmp_path / "document.gz"
    file.write_bytes(gzip_member(pieces))
    shown = subprocess.run(["gzip", "-dc", str(file)], check=True, capture_output=True)
    assert shown.stdout == b"".join(pieces)


def test_the_same_document_gives_the_same_bytes() -> None:
    piece = os.urandom(LARGE)
    assert gzip_member([b"head", piece, b"tail"]) == gzip_member(
        [b"he", b"ad", memoryview(bytes(bytearray(piece))), b"tail"]
    )


def test_damage_is_found() -> None:
    member = gzip_member([b"x" * LARGE, b"tail"])
    for at in (-1, -5):
        damaged = bytearray(member)
        damaged[at] ^= 1
        with pytest.raises((gzip.BadGzipFile, EOFError)):
            gzip.decompress(bytes(damaged))


def test_threads_share_nothing_but_what_is_kept() -> None:
    pieces = [os.urandom(LARGE) for _ in range(4)]
    barrier = threading.Barrier(4)

    def work(number: int) -> bool:
        barrier.wait()
        mine = [pieces[(number + step) % 4] for step in range(4)]
        return all(gzip.decompress(gzip_member(mine)) == b"".join(mine) for _ in range(10))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))
