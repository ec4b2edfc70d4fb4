from __future__ import annotations

import base64
import dataclasses
import struct
from contextlib import suppress
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pytest

from floecat.errors import BoundExceededError, InvalidMetadataError
from floecat.iceberg.avro.container import encode_container, read_header
from floecat.iceberg.manifests.index import INDEX_KEY, EntryKeys, read_index
from floecat.iceberg.manifests.index_streams import stream_size
from floecat.iceberg.manifests.lists import DATA_MANIFEST, ManifestFile
from floecat.iceberg.manifests.partition_tuples import PartitionSummary
from floecat.iceberg.manifests.reader import FileContent
from floecat.settings.limits import LimitSettings
from tests.unit.iceberg.manifest_bytes import manifest_bytes
from tests.unit.iceberg.manifest_samples import SampleFile, Table, read_entries

LOCATION = "s3://b/t/metadata/m0.avro"
DELETES = FileContent.POSITION_DELETES


def test_keys() -> None:
    table = Table()
    data = table.write([SampleFile("a"), SampleFile("b", 2)]).index
    assert data.holds(pa.array(["x", "a"]))
    assert data.holds(pa.chunked_array([["x"], ["a"]]))
    assert not data.holds(pa.array(["b", "x"]))
    assert not data.holds(pa.array([], pa.string()))
    assert data.holds(EntryKeys(pa.array(["a"])))
    some = EntryKeys(pa.array(["a", "x", "y"])).chosen(np.array([1, 2]))
    assert not data.holds(some)
    assert data.holds(EntryKeys(pa.array(["x", "a"])).chosen(np.array([1])))
    deletes = table.write([SampleFile("p1", referenced="a"), SampleFile("p2")], DELETES).index
    assert deletes.holds(pa.array(["a"]))
    assert deletes.holds(pa.array(["p2"]))
    assert not deletes.holds(pa.array(["p1"]))


def test_other_manifests_have_no_index() -> None:
    assert read_index(manifest_bytes([]), location=LOCATION) is None


def test_the_header_is_enough_for_the_index() -> None:
    data = Table().write([SampleFile(f"s3://b/{number}") for number in range(5000)]).data
    size = read_header(data, location=LOCATION, what="manifest").size
    index = read_index(data[:size], location=LOCATION)
    assert index is not None
    assert len(index) == 5000
    for cut in (0, 3, 4, 20, 3000, size - 1):
        with pytest.raises(InvalidMetadataError, match=f"^Cannot read manifest {LOCATION}: "):
            read_index(data[:cut], location=LOCATION)


def test_vectors_that_delete_nothing() -> None:
    table = Table()
    rows = table.rows([SampleFile("a"), SampleFile("b"), SampleFile("c")])
    plain, marked = (
        table.write_rows(dataclasses.replace(rows, empty_vectors=vectors))
        for vectors in (None, pa.array([None, "iabc", None], pa.string()))
    )
    assert read_entries(plain.data) == read_entries(marked.data)
    # hardly any table has them
    assert b"empty_vector" not in base64.b64decode(plain.index.encode())
    for manifest, expected in ((plain, [None] * 3), (marked, [None, "iabc", None])):
        index = read_index(manifest.data, location=LOCATION)
        assert index is not None
        assert index.entries.equals(manifest.index.entries)
        assert index.entries["empty_vector"].to_pylist() == expected


@pytest.mark.parametrize("damage", [b"!!!!", b"AAAA"])
def test_a_damaged_index(damage: bytes) -> None:
    data = Table().write([SampleFile("a")]).data
    start = data.index(INDEX_KEY.encode()) + len(INDEX_KEY) + 2
    with pytest.raises(InvalidMetadataError, match="its index is damaged"):
        read_index(data[:start] + damage + data[start + 4 :], location=LOCATION)


def planted(stream: bytes) -> bytes:
    """A manifest with another index, and its right checksum."""
    data = Table().write([SampleFile("a")]).data
    header = read_header(data, location=LOCATION, what="manifest")
    index = base64.b64encode(blake2b(stream, digest_size=8).digest() + stream)
    return encode_container({**header.metadata, INDEX_KEY: index}, [])


def stream_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 3))
    ) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def entries_of(rows: int) -> pa.Table:
    files = [SampleFile(f"s3://b/{number}") for number in range(rows)]
    index = read_index(Table().write(files).data, location=LOCATION)
    assert index is not None
    return index.entries


def test_an_index_within_its_bound() -> None:
    entries = entries_of(5000)
    size = stream_size(stream_of(entries))
    # 57 bytes of numbers, an offset into texts and a bit for nulls, each row; buffers are padded
    assert size == pytest.approx(5000 * 57, rel=0.05)
    data = planted(stream_of(entries))
    found = read_index(data, location=LOCATION, bounds=LimitSettings(manifest_index_bytes=size))
    assert found is not None
    assert found.entries.equals(entries)
    with pytest.raises(BoundExceededError, match=r"floecat\.limits\.manifest-index-bytes"):
        read_index(data, location=LOCATION, bounds=LimitSettings(manifest_index_bytes=size - 1))


def test_the_size_that_a_buffer_claims_is_bounded() -> None:
    stream = stream_of(entries_of(5000))
    # the statuses, all alike: Arrow would allocate what stands before the compressed bytes
    zstd = b"\x28\xb5\x2f\xfd"
    claimed = stream.replace(struct.pack("<q", 5000) + zstd, struct.pack("<q", 1 << 40) + zstd)
    assert claimed != stream
    with pytest.raises(BoundExceededError, match=r"134,217,728 \(floecat\.limits\.manifest-index-bytes\)"):
        read_index(planted(claimed), location=LOCATION)


ENTRIES = entries_of(3)
PARTITION = ENTRIES.column_names.index("partition")


@pytest.mark.parametrize(
    "table",
    [
        ENTRIES.drop_columns(["status"]),
        ENTRIES.append_column("status", ENTRIES["status"]),
        ENTRIES.set_column(0, "key_hash", ENTRIES["key_hash"].cast(pa.int64(), safe=False)),
        ENTRIES.set_column(1, "entry_size", ENTRIES["entry_size"].dictionary_encode()),
        ENTRIES.set_column(PARTITION, "partition", ENTRIES["status"]),
        *(
            ENTRIES.set_column(PARTITION, "partition", pa.array([{"x": None}] * 3, pa.struct({"x": type})))
            for type in (pa.null(), pa.list_(pa.int8()), pa.dictionary(pa.int8(), pa.string()))
        ),
    ],
)
def test_an_index_of_other_columns_is_damaged(table: pa.Table) -> None:
    with pytest.raises(InvalidMetadataError, match="its index is damaged"):
        read_index(planted(stream_of(table)), location=LOCATION)


def test_damage_with_a_right_checksum() -> None:
    stream = stream_of(ENTRIES)
    for at in range(0, len(stream), 11):
        changed = bytearray(stream)
        changed[at] ^= 0xFF
        for damaged in (changed, stream[:at]):
            found = None
            with suppress(InvalidMetadataError):
                found = read_index(planted(bytes(damaged)), location=LOCATION)
            if found is not None:
                found.entries.validate(full=True)


def test_the_entry_in_the_list() -> None:
    table = Table(("int", "string", "double"), spec_id=2)
    files = [
        SampleFile("a", 1, 9, 9, (3, "b", 1.5), records=10),
        SampleFile("b", 0, 5, 5, (-1, "é", float("nan")), records=20),
        SampleFile("c", 0, 6, 4, (None, "a", -0.0), records=30),
        SampleFile("d", 2, 9, 2, (7, "b", 0.0), records=40),
        # a count that is not known
        SampleFile("e", 1, 9, 9, (5, "b", 0.0), records=-1),
    ]
    manifest = table.write(files)
    assert manifest.manifest_file(LOCATION, snapshot_id=9, sequence_number=10) == ManifestFile(
        manifest_path=LOCATION,
        manifest_length=len(manifest.data),
        partition_spec_id=2,
        content=DATA_MANIFEST,
        sequence_number=10,
        min_sequence_number=4,
        added_snapshot_id=9,
        added_files_count=2,
        existing_files_count=2,
        deleted_files_count=1,
        added_rows_count=10,
        existing_rows_count=50,
        deleted_rows_count=40,
        partitions=(
            PartitionSummary(True, False, struct.pack("<i", -1), struct.pack("<i", 7)),
            PartitionSummary(False, False, b"a", "é".encode()),
            PartitionSummary(False, True, struct.pack("<d", -0.0), struct.pack("<d", 1.5)),
        ),
    )


def test_a_manifest_without_live_entries() -> None:
    entry = (
        Table()
        .write([SampleFile("a", 2, sequence_number=3)])
        .manifest_file(LOCATION, snapshot_id=9, sequence_number=10)
    )
    assert (entry.min_sequence_number, entry.deleted_files_count, entry.partitions) == (10, 1, ())
    empty = Table(("int",)).write([])
    assert read_entries(empty.data) == []
    assert empty.manifest_file(LOCATION, snapshot_id=9, sequence_number=10).partitions == (
        PartitionSummary(contains_null=False, contains_nan=False),
    )
