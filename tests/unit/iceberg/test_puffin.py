from __future__ import annotations

import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile as PyIcebergFile
from pyroaring import BitMap64

from floecat.iceberg.puffin import DeletionVectorBlob, write_puffin
from tests.delta_tables import delta_table

MAGIC = bytes.fromhex("d1d33964")


def vector(rows: list[int], data_file: str = "s3://b/t/a b/part-é%20.parquet") -> DeletionVectorBlob:
    bitmap = BitMap64(rows)
    bitmap.run_optimize()
    return DeletionVectorBlob(MAGIC + bitmap.serialize(), data_file, len(rows))


def test_the_bytes_of_a_file() -> None:
    first, second = vector([0, 9], "s3://b/t/1.parquet"), vector(list(range(5, 700)), "s3://b/t/2.parquet")
    made = write_puffin([first, second])
    data = made.data
    assert data[:4] == data[-4:] == b"PFA1"
    end = 4
    for blob, (offset, size) in zip((first, second), made.blobs, strict=True):
        assert offset == end
        assert size == len(blob.payload) + 8
        assert data[offset : offset + 4] == len(blob.payload).to_bytes(4, "big")
        assert data[offset + 4 : offset + size - 4] == blob.payload
        assert data[offset + size - 4 : offset + size] == zlib.crc32(blob.payload).to_bytes(4, "big")
        end = offset + size
    assert data[end : end + 4] == b"PFA1"
    footer = data[end + 4 : -12]
    assert data[-12:-8] == len(footer).to_bytes(4, "little")
    assert data[-8:-4] == bytes(4)
    assert msgspec.json.decode(footer) == {
        "blobs": [
            {
                "type": "deletion-vector-v1",
                "fields": [2147483645],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": offset,
                "length": size,
                "properties": {
                    "referenced-data-file": blob.referenced_data_file,
                    "cardinality": str(blob.cardinality),
                },
            }
            for blob, (offset, size) in zip((first, second), made.blobs, strict=True)
        ],
        "properties": {"created-by": "Floecat"},
    }


def test_a_file_without_vectors_is_a_puffin_file() -> None:
    made = write_puffin([])
    assert made.blobs == ()
    assert PyIcebergFile(made.data).footer.blobs == []


def test_a_blob_is_what_delta_has_in_its_file() -> None:
    [file] = delta_table("kernel-rs/table-with-dv-small").glob("deletion_vector_*.bin")
    framed = Path(file).read_bytes()[1:]
    made = write_puffin([DeletionVectorBlob(framed[4:-4], "s3://b/t/x.parquet", 2)])
    offset, size = made.blobs[0]
    assert made.data[offset : offset + size] == framed


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).map("s3://bucket/{}".format),
        st.lists(
            st.integers(0, 70_000) | st.integers(0, (1 << 32) - 1),
            min_size=1,
            max_size=50,
            unique=True,
        ),
        max_size=5,
    )
)
def test_pyiceberg_reads_it(deleted: dict[str, list[int]]) -> None:
    made = write_puffin([vector(sorted(rows), data_file) for data_file, rows in deleted.items()])
    read = PyIcebergFile(made.data)
    assert [(blob.offset, blob.length) for blob in read.footer.blobs] == list(made.blobs)
    found = {
        item.referenced_data_file: item.to_vector().to_pylist()
        for item in deletion_vectors_from_puffin_file(read)
    }
    assert found == {data_file: sorted(rows) for data_file, rows in deleted.items()}


def test_the_same_vectors_give_the_same_bytes() -> None:
    vectors = [vector([1, 2, 3], f"s3://b/{number}") for number in range(20)]
    assert write_puffin(vectors) == write_puffin(list(vectors))


@pytest.mark.parametrize("payload", [b"", MAGIC[:3], bytes(12), bytes(4) + MAGIC])
def test_refuses_what_is_no_vector(payload: bytes) -> None:
    with pytest.raises(ValueError, match="not a deletion vector"):
        write_puffin([DeletionVectorBlob(payload, "s3://b/x.parquet", 1)])


def test_refuses_what_readers_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("floecat.iceberg.puffin._MAX_BLOB_SIZE", 40)
    write_puffin([DeletionVectorBlob(MAGIC + bytes(28), "s3://b/x.parquet", 1)])
    with pytest.raises(ValueError, match="too large"):
        write_puffin([DeletionVectorBlob(MAGIC + bytes(29), "s3://b/x.parquet", 1)])
