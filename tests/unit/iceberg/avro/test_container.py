from __future__ import annotations

import threading
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floecat.errors import InvalidMetadataError
from floecat.iceberg.avro.columns import varint
from floecat.iceberg.avro.container import (
    BLOCK_SIZE,
    Block,
    BlockWriter,
    check_marker,
    encode_container,
    read_blocks,
    read_header,
    same_records,
)
from floecat.iceberg.avro.inflation import inflate_block

SAME = varint(1) + b"k" + varint(0)
WHERE = {"location": "s3://b/m.avro", "what": "manifest"}


def block(*records: bytes) -> list[Block]:
    writer = BlockWriter()
    writer.write(np.frombuffer(b"".join(records), np.uint8), np.array([len(record) for record in records]))
    return writer.finish()


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), st.binary()), st.lists(st.binary(min_size=1)))
def test_what_is_written_is_read(metadata: dict[str, bytes], records: list[bytes]) -> None:
    metadata.pop("avro.codec", None)
    data = encode_container(metadata, block(*records))
    header = read_header(data, **WHERE)
    assert header.metadata == metadata | {"avro.codec": b"deflate"}
    blocks = list(read_blocks(data, header, **WHERE))
    assert b"".join(inflate_block(block.data, "deflate", **WHERE) for block in blocks) == b"".join(records)
    assert sum(block.rows for block in blocks) == len(records)
    check_marker(data, header, blocks, **WHERE)


@given(st.lists(st.lists(st.integers(1, BLOCK_SIZE // 2), max_size=9), max_size=9))
def test_blocks_depend_on_the_records_alone(parts: list[list[int]]) -> None:
    writer = BlockWriter()
    for sizes in parts:
        writer.write(np.zeros(sum(sizes), np.uint8), np.array(sizes, np.int64))
    blocks = writer.finish()
    sizes = [size for part in parts for size in part]
    assert blocks == block(*(bytes(size) for size in sizes))
    assert sum(block.rows for block in blocks) == len(sizes)
    lengths = [len(zlib.decompress(block.data, -15)) for block in blocks]
    assert all(BLOCK_SIZE <= length < BLOCK_SIZE * 3 // 2 for length in lengths[:-1])


def test_copied_blocks_keep_their_place() -> None:
    writer = BlockWriter()
    copied = Block(7, b"whatever")
    writer.write(np.frombuffer(b"ab", np.uint8), np.array([1, 1]))
    writer.copy(copied)
    writer.copy(copied)
    writer.write(np.frombuffer(b"c", np.uint8), np.array([1]))
    assert writer.finish() == [*block(b"a", b"b"), copied, copied, *block(b"c")]


def test_metadata_in_blocks_that_tell_their_size() -> None:
    entry = varint(1) + b"k" + varint(1) + b"v"
    data = b"Obj\x01" + varint(-1) + varint(len(entry)) + entry + b"\x00" + bytes(16)
    header = read_header(data, **WHERE)
    assert (header.metadata, header.size) == ({"k": b"v"}, len(data))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1",
        b"Obj\x01",
        b"Obj\x01\x00",
        b"Obj\x01" + b"\xff" * 11,
        b"Obj\x01" + varint(1) + varint(1) + b"\xff" + varint(0) + b"\x00" + bytes(16),
        b"Obj\x01" + varint(1) + varint(-4) + bytes(30),
        b"Obj\x01" + varint(1) + varint(2**62) + bytes(30),
        b"Obj\x01" + (varint(1) + SAME) * 10_001 + varint(0) + bytes(16),
        b"Obj\x01" + varint(10_001) + SAME * 10_001 + varint(0) + bytes(16),
    ],
)
def test_headers_that_are_none(data: bytes) -> None:
    with pytest.raises(
        InvalidMetadataError, match=r"^Cannot read manifest s3://b/m\.avro: not a valid Avro file"
    ):
        read_header(data, **WHERE)


def test_a_key_may_come_again() -> None:
    data = b"Obj\x01" + (varint(1) + SAME) * 10_000 + varint(0) + bytes(16)
    assert read_header(data, **WHERE).metadata == {"k": b""}


@pytest.mark.parametrize(
    "tail", [b"\x80", varint(1), varint(-1) + varint(0) + bytes(16), varint(1) + varint(-9)]
)
def test_blocks_that_are_none(tail: bytes) -> None:
    data = encode_container({}, []) + tail
    with pytest.raises(InvalidMetadataError, match="not a valid Avro file"):
        list(read_blocks(data, read_header(data, **WHERE), **WHERE))


@pytest.mark.parametrize("records", [[b"abc"], [bytes(BLOCK_SIZE), b"abc", bytes(10)]])
def test_any_damage_is_seen(records: list[bytes]) -> None:
    data = encode_container({"k": b"v"}, block(*records))
    header = read_header(data, **WHERE)
    for place in range(header.size, len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(InvalidMetadataError):
            check_marker(changed, header, list(read_blocks(changed, header, **WHERE)), **WHERE)


def test_damage() -> None:
    data = encode_container({"k": b"v"}, block(b"abc"))
    changed = data.replace(b"\x02v", b"\x02w")
    header = read_header(changed, **WHERE)
    with pytest.raises(InvalidMetadataError, match="it is damaged"):
        check_marker(changed, header, list(read_blocks(changed, header, **WHERE)), **WHERE)


def test_the_same_records_in_another_compression() -> None:
    blocks = block(b"abc" * 100, bytes(50))
    squeezed = [
        Block(each.rows, zlib.compress(inflate_block(each.data, "deflate", **WHERE), 9, -15))
        for each in blocks
    ]
    one, other = (encode_container({"a": b"b"}, each) for each in (blocks, squeezed))
    assert one != other
    assert same_records(one, other)
    assert not same_records(encode_container({"a": b"c"}, squeezed), one)
    assert not same_records(encode_container({"a": b"b"}, []), one)
    assert not same_records(other[:-1] + b"x", one)
    assert not same_records(b"of somebody else", one)
    assert not same_records(other[:20], one)


def test_other_files_are_not_inflated_beyond_what_is_expected() -> None:
    made = block(b"abc" * 100)
    bomb = [Block(1, zlib.compress(bytes(1 << 28), 9, -15))]
    one, other = (encode_container({"a": b"b"}, each) for each in (made, bomb))
    tracemalloc.start()
    try:
        assert not same_records(other, one)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20
    broken = encode_container({"a": b"b"}, [Block(1, b"\xff" * 20)])
    assert not same_records(broken, one)


def test_blocks_are_the_same_bytes_in_every_thread() -> None:
    """Compressors may let what lies on the stack into what they find."""
    record = bytes(range(107))
    found: set[bytes] = set()
    begin = threading.Event()

    def compress() -> None:
        begin.wait()
        for copies in (2, 3, 5):
            [made] = block(*[record] * copies)
            found.add(bytes(made.data))

    # all at once, as each has its stack elsewhere then
    threads = [threading.Thread(target=compress) for _ in range(2_000)]
    for thread in threads:
        thread.start()
    begin.set()
    for thread in threads:
        thread.join()
    assert len(found) == 3
