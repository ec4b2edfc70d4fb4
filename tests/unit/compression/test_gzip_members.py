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

from floecat.compression.gzip_members import gzip_member

LARGE = 100_000


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
