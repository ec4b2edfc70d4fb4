from __future__ import annotations

import gzip
import zlib

import pytest

from floecat.compression.inflation import gunzip, is_gzip
from floecat.errors import InvalidMetadataError, PayloadTooLargeError, UnavailableError
from floecat.settings.limits import LimitSettings
from floecat.working_memory import WorkingMemory

TEXT = b"".join(b"%d," % number for number in range(60_000))
MIB = 1 << 20


def inflated(data: bytes, max_bytes: int = MIB) -> bytes:
    return gunzip(data, "metadata file x", max_bytes=max_bytes)


def zeros(size_bytes: int) -> bytes:
    deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [deflater.compress(bytes(MIB)) for _ in range(size_bytes // MIB)]
    return b"".join([*parts, deflater.compress(bytes(size_bytes % MIB)), deflater.flush()])


def test_the_default_bound() -> None:
    assert LimitSettings().inflated_file_bytes == 512 * MIB


def test_members_follow_one_another() -> None:
    assert is_gzip(gzip.compress(TEXT))
    assert inflated(gzip.compress(TEXT)) == TEXT
    assert inflated(gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(TEXT)) == TEXT * 2


def test_what_follows_the_last_member_is_padding() -> None:
    assert inflated(gzip.compress(TEXT) + bytes(100_000)) == TEXT
    assert inflated(gzip.compress(b"{}") + b"x") == b"{}"


@pytest.mark.parametrize("cut", [1, 9, 20, 1000])
def test_a_file_that_ends_early_is_refused(cut: int) -> None:
    with pytest.raises(InvalidMetadataError, match="metadata file x: gzip data ends early"):
        inflated(gzip.compress(TEXT)[:-cut])


def test_a_broken_file_is_refused() -> None:
    data = bytearray(gzip.compress(TEXT))
    data[-6] ^= 1  # of the checksum
    with pytest.raises(InvalidMetadataError, match="broken gzip data"):
        inflated(bytes(data))


@pytest.mark.parametrize("members", [1, 2, 5])
def test_the_content_of_all_members_is_bounded(members: int) -> None:
    data = zeros(4 * MIB) * members
    assert inflated(data, 4 * MIB * members) == bytes(4 * MIB * members)
    with pytest.raises(PayloadTooLargeError, match=r"floecat\.limits\.inflated-file-bytes"):
        inflated(data, 4 * MIB * members - 1)


def test_empty_members_count_too() -> None:
    data = gzip.compress(b"") * 128
    assert inflated(data) == b""
    with pytest.raises(PayloadTooLargeError, match="inflated-file-bytes"):
        inflated(data + gzip.compress(b""))


def test_the_content_is_taken_from_the_working_memory() -> None:
    memory = WorkingMemory(8 * MIB, wait_ms=0)
    with memory.work() as other:
        other.take(6 * MIB)
        with memory.work(), pytest.raises(UnavailableError, match="working-memory-bytes"):
            inflated(zeros(8 * MIB), 100 * MIB)
    with memory.work():
        assert len(inflated(zeros(8 * MIB), 100 * MIB)) == 8 * MIB
