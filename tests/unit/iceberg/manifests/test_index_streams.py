from __future__ import annotations

import struct

import pyarrow as pa
import pytest

from floecat.iceberg.manifests.index_streams import stream_size


def stream_of(table: pa.Table, codec: str | None = None, **options: int) -> bytes:
    sink = pa.BufferOutputStream()
    written = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, table.schema, options=written) as writer:
        writer.write_table(table, **options)
    return sink.getvalue().to_pybytes()


def shared_fields(fields: int, children: int) -> bytes:
    """A schema of one field, many times, which has one child, many times (FlatBuffers, "Internals")."""
    first = 68 + 4 * fields
    child = first + 12 + 4 * children
    tables = [
        struct.pack("<I", 44),
        struct.pack("<6H", 12, 12, 4, 6, 8, 0),
        struct.pack("<4H", 8, 8, 0, 4),
        struct.pack("<8H", 16, 8, 0, 0, 0, 0, 0, 4),
        struct.pack("<2H", 4, 4),
        struct.pack("<iHBBI", 40, 4, 1, 0, 4),
        struct.pack("<iI", 40, 4),
        struct.pack("<I", fields),
        *(struct.pack("<I", first - (68 + 4 * number)) for number in range(fields)),
        struct.pack("<iII", first - 24, 4, children),
        *(struct.pack("<I", child - (first + 12 + 4 * number)) for number in range(children)),
        struct.pack("<i", child - 40),
    ]
    message = b"".join(tables)
    message += bytes(-len(message) % 8)
    return struct.pack("<Ii", 0xFFFFFFFF, len(message)) + message


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_the_size_after_decompression(codec: str | None) -> None:
    table = pa.table({"a": pa.array([7] * 8000, pa.int64()), "b": pa.array([{"c": 1}] * 8000)})
    assert stream_size(stream_of(table, codec)) == 2 * 8 * 8000
    assert stream_size(stream_of(table, codec, max_chunksize=1000)) == 2 * 8 * 8000


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": pa.array(["x"]).dictionary_encode()}),
        pa.table({"a": [[[1]]]}),
        pa.table({"a": [{"b": {"c": 1}}]}),
    ],
)
def test_columns_that_no_index_has(table: pa.Table) -> None:
    with pytest.raises(ValueError, match=r"other messages|nested"):
        stream_size(stream_of(table))


def test_a_stream_of_very_many_batches() -> None:
    table = pa.table({"a": list(range(64))})
    assert stream_size(stream_of(table, max_chunksize=2)) > 0
    with pytest.raises(ValueError, match="other messages"):
        stream_size(stream_of(table, max_chunksize=1))


def test_fields_that_share_a_description() -> None:
    assert stream_size(shared_fields(1, 1)) == 0
    with pytest.raises(ValueError, match="more fields than its length allows"):
        stream_size(shared_fields(70, 70))


def test_a_negative_size() -> None:
    stream = stream_of(pa.table({"a": pa.array([7] * 8000, pa.int64())}), "zstd")
    size = struct.pack("<q", 64_000)
    assert size in stream
    with pytest.raises(ValueError, match="negative"):
        stream_size(stream.replace(size, struct.pack("<q", -64_000)))
