from __future__ import annotations

import bz2
import lzma
import tracemalloc
import zlib
from collections.abc import Callable

import cramjam
import pytest
import zstandard

from floecat.errors import InvalidMetadataError
from floecat.iceberg.avro.inflation import CODECS, inflate_block
from floecat.iceberg.values.bounds import Bounds

WHERE = {"location": "s3://b/m.avro", "what": "manifest"}


def snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")


def snappy_of_declared_size(size: int) -> bytes:
    """A block whose first bytes promise more than the others hold."""
    length = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14 & 0x7F | 0x80, size >> 21])
    return length + b"\x00a" + bytes(4)


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda data: zlib.compress(data, 9, -15),
    "snappy": snappy,
    "zstandard": zstandard.ZstdCompressor(level=19).compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.mark.parametrize("codec", CODECS)
def test_blocks_of_every_codec(codec: str) -> None:
    for data in (b"", b"a", bytes(range(256)) * 3000):
        assert inflate_block(memoryview(COMPRESS[codec](data)), codec, **WHERE) == data


@pytest.mark.parametrize("codec", CODECS)
def test_a_larger_block_than_the_bound_is_refused(codec: str) -> None:
    data = COMPRESS[codec](b"a" * 2000)
    assert len(inflate_block(data, codec, **WHERE, bounds=Bounds(manifest_block_bytes=2000))) == 2000
    with pytest.raises(InvalidMetadataError, match=r"s3://b/m\.avro.*1,999 .*manifest-block-bytes"):
        inflate_block(data, codec, **WHERE, bounds=Bounds(manifest_block_bytes=1999))


@pytest.mark.parametrize("codec", ["zstandard", "bzip2", "xz"])
def test_a_bomb_of_a_few_kilobytes_costs_a_few_megabytes(codec: str) -> None:
    # with bytes that do not say how many they stand for
    compress = zstandard.ZstdCompressor(write_content_size=False).compress
    bomb = (compress if codec == "zstandard" else COMPRESS[codec])(bytes(60 * 1024 * 1024))
    assert len(bomb) < 10_000
    tracemalloc.start()
    try:
        with pytest.raises(InvalidMetadataError, match="manifest-block-bytes"):
            inflate_block(bomb, codec, **WHERE, bounds=Bounds(manifest_block_bytes=10_000_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # a buffer that grows is copied
    assert peak < 35_000_000


def test_a_size_that_a_snappy_block_cannot_have_is_not_allocated() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidMetadataError, match=r"s3://b/m\.avro"):
            inflate_block(snappy_of_declared_size(100_000_000), "snappy", **WHERE)
        with pytest.raises(InvalidMetadataError, match="cannot be decompressed"):
            inflate_block(snappy_of_declared_size(900_000), "snappy", **WHERE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 500_000


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "null"])
def test_a_damaged_block_is_refused(codec: str) -> None:
    data = COMPRESS[codec](b"SECRET" * 100)
    for damaged in (b"", b"\xff" * 20, data[: len(data) // 2]):
        with pytest.raises(InvalidMetadataError, match=r"^Cannot read manifest s3://b/m.avro: ") as caught:
            assert inflate_block(damaged, codec, **WHERE) == b"SECRET" * 100
        assert "SECRET" not in caught.value.message


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(InvalidMetadataError, match=r"not supported .*'lzo'"):
        inflate_block(b"", "lzo", **WHERE)
