from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.manifest import FileFormat as PyIcebergFormat
from pyiceberg.manifest import ManifestFile as PyIcebergManifest

from floecat.errors import InvalidMetadataError
from floecat.iceberg.avro_container import BLOCK_SIZE, read_blocks, read_header
from floecat.iceberg.file_metrics import FileMetrics
from floecat.iceberg.manifest_index import INDEX_KEY, read_index
from floecat.iceberg.manifest_lists import DATA_MANIFEST, DELETE_MANIFEST, ManifestFile, PartitionSummary
from floecat.iceberg.manifest_schema import sanitize_name
from floecat.iceberg.manifests import FileContent, read_file_paths, read_manifest
from floecat.iceberg.partition_columns import decimal_length
from floecat.iceberg.string_hashes import string_hashes
from tests.unit.iceberg.manifest_bytes import manifest_bytes
from tests.unit.iceberg.manifest_samples import (
    METRICS,
    SampleFile,
    Table,
    comparable,
    read_entries,
    read_metadata,
)

LOCATION = "s3://b/t/metadata/m0.avro"
DELETES = FileContent.POSITION_DELETES

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
PARTITION_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": INT,
    "long": LONG,
    "float": st.floats(width=32),
    "double": st.floats(),
    "date": INT,
    "time": st.integers(0, 86_400_000_000 - 1),
    "timestamp": LONG,
    "timestamptz": LONG,
    "timestamp_ns": LONG,
    "timestamptz_ns": LONG,
    "string": TEXT,
    "binary": st.binary(max_size=12),
    "uuid": st.binary(min_size=16, max_size=16),
    "fixed[5]": st.binary(min_size=5, max_size=5),
    "decimal(1, 0)": st.integers(-9, 9),
    "decimal(9, 2)": st.integers(-(10**9) + 1, 10**9 - 1),
    "decimal(18, 18)": st.integers(-(10**18) + 1, 10**18 - 1),
    "decimal(38, 10)": st.integers(-(10**38) + 1, 10**38 - 1),
}
# Few ids, so that files have columns in common.
IDS = st.sampled_from([1, 2, 63, 64, 100, 8191, 8192, 2_147_483_546])
METRIC_MAPS = st.fixed_dictionaries(
    {},
    optional={
        "value_counts": st.dictionaries(IDS, st.integers(0, 2**63 - 1)),
        "null_value_counts": st.dictionaries(IDS, st.integers(0, 200)),
        "lower_bounds": st.dictionaries(
            IDS, st.one_of(st.binary(max_size=20), st.binary(min_size=8, max_size=8))
        ),
        "upper_bounds": st.dictionaries(IDS, st.binary(min_size=8, max_size=8)),
    },
)


@st.composite
def tables_and_files(draw: st.DrawFn, max_size: int = 12) -> tuple[Table, list[SampleFile], FileContent]:
    types = tuple(draw(st.lists(st.sampled_from(sorted(PARTITION_VALUES)), max_size=4)))
    table = Table(types, format_version=draw(st.sampled_from([2, 3])), spec_id=draw(st.integers(0, 300)))
    content = draw(st.sampled_from([FileContent.DATA, DELETES]))
    partition = st.tuples(*(st.one_of(st.none(), PARTITION_VALUES[type]) for type in types))
    is_data, is_v3 = content is FileContent.DATA, table.format_version == 3
    vectors = not is_data and is_v3 and draw(st.booleans())
    # Some columns are the same in all rows, others are not.
    ids = st.one_of(st.just(draw(LONG)), LONG)
    file = st.builds(
        SampleFile,
        path=TEXT,
        status=st.sampled_from([0, 1, 2]),
        snapshot_id=ids,
        sequence_number=ids,
        partition=partition,
        records=ids,
        size=ids,
        metrics=METRIC_MAPS,
        referenced=st.none() if is_data else st.one_of(st.none(), TEXT),
        content_range=st.tuples(LONG, LONG) if vectors else st.none(),
        first_row_id=st.one_of(st.none(), LONG) if is_data and is_v3 else st.none(),
    )
    return table, draw(st.lists(file, max_size=max_size)), content


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(tables_and_files())
def test_any_entries_are_read_back(drawn: tuple[Table, list[SampleFile], FileContent]) -> None:
    table, files, content = drawn
    manifest = table.write(files, content)
    assert comparable(read_entries(manifest.data)) == comparable(table.entries(files, content))
    index = read_index(manifest.data, location=LOCATION)
    assert index is not None
    assert index.entries.equals(manifest.index.entries)
    assert (index.content, index.partition_spec_id, index.format_version) == (
        DATA_MANIFEST if content is FileContent.DATA else DELETE_MANIFEST,
        table.spec_id,
        table.format_version,
    )
    assert manifest.data == table.write(files, content).data


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(tables_and_files(), st.data())
def test_a_slice_of_rows(drawn: tuple[Table, list[SampleFile], FileContent], data: st.DataObject) -> None:
    table, files, content = drawn
    start = data.draw(st.integers(0, len(files)))
    stop = data.draw(st.integers(start, len(files)))
    sliced = table.write_rows(table.rows(files, content).slice(start, stop))
    assert comparable(read_entries(sliced.data)) == comparable(table.entries(files[start:stop], content))


def test_the_header() -> None:
    table = Table(("int",), ("day",), spec_id=3)
    manifest = table.write([SampleFile("a", partition=(1,))])
    metadata = read_metadata(manifest.data)
    assert metadata.pop(INDEX_KEY)
    assert json.loads(metadata.pop("avro.schema"))["name"] == "manifest_entry"
    assert json.loads(metadata.pop("schema")) == json.loads(table.schema.raw)
    assert json.loads(metadata.pop("partition-spec")) == [
        {"name": "day", "transform": "identity", "source-id": 1, "field-id": 1000}
    ]
    assert metadata == {
        "avro.codec": "deflate",
        "schema-id": "4",
        "partition-spec-id": "3",
        "format-version": "2",
        "content": "data",
    }
    deletes = Table(format_version=3).write([SampleFile("a", referenced="d")], DELETES)
    metadata = read_metadata(deletes.data)
    assert (metadata["format-version"], metadata["content"]) == ("3", "deletes")


def field_ids(schema: Any) -> dict[str, int]:
    """Ids of all fields, elements, keys and values by path."""
    if isinstance(schema, list):
        return field_ids(schema[1])
    if not isinstance(schema, dict):
        return {}
    found = {}
    for field in schema.get("fields", []):
        found[field["name"]] = field["field-id"]
        found |= {f"{field['name']}.{name}": id for name, id in field_ids(field["type"]).items()}
    if schema["type"] == "array":
        if "element-id" in schema:
            found["element"] = schema["element-id"]
        found |= field_ids(schema["items"])
    return found


def test_ids_of_the_specification() -> None:
    data = {
        "content": 134,
        "file_path": 100,
        "file_format": 101,
        "partition": 102,
        "partition.p0": 1000,
        "record_count": 103,
        "file_size_in_bytes": 104,
        "column_sizes": 108,
        "column_sizes.key": 117,
        "column_sizes.value": 118,
        "value_counts": 109,
        "value_counts.key": 119,
        "value_counts.value": 120,
        "null_value_counts": 110,
        "null_value_counts.key": 121,
        "null_value_counts.value": 122,
        "nan_value_counts": 137,
        "nan_value_counts.key": 138,
        "nan_value_counts.value": 139,
        "lower_bounds": 125,
        "lower_bounds.key": 126,
        "lower_bounds.value": 127,
        "upper_bounds": 128,
        "upper_bounds.key": 129,
        "upper_bounds.value": 130,
        "key_metadata": 131,
        "split_offsets": 132,
        "split_offsets.element": 133,
        "equality_ids": 135,
        "equality_ids.element": 136,
        "sort_order_id": 140,
        "referenced_data_file": 143,
    }
    entry = {"status": 0, "snapshot_id": 1, "sequence_number": 3, "file_sequence_number": 4, "data_file": 2}
    for format_version in (2, 3):
        table = Table(("int",), format_version=format_version)
        written = json.loads(read_metadata(table.write([]).data)["avro.schema"])
        if format_version == 3:
            data |= {"first_row_id": 142, "content_offset": 144, "content_size_in_bytes": 145}
        assert field_ids(written) == entry | {f"data_file.{name}": id for name, id in data.items()}


@pytest.mark.parametrize(
    ("name", "avro_name"),
    [
        ("day", "day"),
        ("_day2", "_day2"),
        ("2day", "_2day"),
        ("a/b c", "a_x2Fb_x20c"),
        ("-", "_x2D"),
        ("é", "_xE9"),
        ("😀", "_xD83D_xDE00"),
    ],
)
def test_names_that_avro_does_not_take(name: str, avro_name: str) -> None:
    assert sanitize_name(name) == avro_name
    manifest = Table(("int",), (name,)).write([SampleFile("a", partition=(5,))])
    (field,) = json.loads(read_metadata(manifest.data)["avro.schema"])["fields"][4]["type"]["fields"][3][
        "type"
    ]["fields"]
    assert field["name"] == avro_name
    assert field.get("iceberg-field-name", name) == name
    assert read_entries(manifest.data)[0]["data_file"]["partition"] == {avro_name: 5}


def test_names_that_become_the_same_and_types_that_repeat() -> None:
    table = Table(("decimal(9, 2)", "decimal(9, 2)"), ("a-b", "a_x2Db"))
    (entry,) = read_entries(table.write([SampleFile("a", partition=(1, -1))]).data)
    assert entry["data_file"]["partition"] == {
        "a_x2Db": b"\x00\x00\x00\x01",
        "a_x2Db_1001": b"\xff\xff\xff\xff",
    }


@pytest.mark.parametrize(
    ("precision", "length"), [(1, 1), (2, 1), (3, 2), (4, 2), (9, 4), (18, 8), (19, 9), (38, 16)]
)
def test_length_of_decimals(precision: int, length: int) -> None:
    assert decimal_length(precision) == length


def test_our_own_reader() -> None:
    table = Table(format_version=3)
    vector = SampleFile("s3://b/dv.puffin", referenced="s3://b/a.parquet", content_range=(4, 44), records=2)
    data = table.write([vector], DELETES, "puffin").data
    (entry,) = read_manifest(data, location=LOCATION)
    file = entry.data_file
    assert (file.content, file.file_format, file.record_count) == (DELETES, "PUFFIN", 2)
    assert (file.referenced_data_file, file.content_offset, file.content_size_in_bytes) == (
        "s3://b/a.parquet",
        4,
        44,
    )
    assert (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number) == (7, 8, 8)
    assert list(read_file_paths(data, location=LOCATION)) == ["s3://b/dv.puffin"]


def test_many_rows_of_very_different_length() -> None:
    # more than one chunk, more than one block, and some rows that are as long as a block
    files = [
        SampleFile(
            f"s3://b/{'x' * (100_000 if number % 1500 == 7 else number % 40)}/{number}.parquet",
            partition=(f"p{number % 3}",),
            metrics={"upper_bounds": {1: b"u" * (50_000 if number == 5000 else 3)}},
        )
        for number in range(6000)
    ]
    table = Table(("string",))
    manifest = table.write(files)
    assert read_entries(manifest.data) == table.entries(files)
    header = read_header(manifest.data, location=LOCATION, what="manifest")
    blocks = list(read_blocks(manifest.data, header, location=LOCATION, what="manifest"))
    sizes = manifest.index.column("entry_size")
    ends = np.cumsum([block.rows for block in blocks])
    assert ends[-1] == len(files)
    assert all(
        BLOCK_SIZE - sizes.max() <= sum(sizes[end - block.rows : end]) <= BLOCK_SIZE + sizes.max()
        for block, end in list(zip(blocks, ends, strict=True))[:5]
    )


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


@pytest.mark.parametrize(
    ("type", "values", "lower", "upper"),
    [
        ("boolean", [True, False], b"\x00", b"\x01"),
        ("long", [2**40, -1], struct.pack("<q", -1), struct.pack("<q", 2**40)),
        ("float", [0.0, -0.0], struct.pack("<f", -0.0), struct.pack("<f", 0.0)),
        ("float", [0.0], struct.pack("<f", 0.0), struct.pack("<f", 0.0)),
        ("double", [-0.0], struct.pack("<d", -0.0), struct.pack("<d", -0.0)),
        ("double", [float("inf"), float("-inf")], struct.pack("<d", -np.inf), struct.pack("<d", np.inf)),
        ("double", [float("nan")], None, None),
        ("date", [-719162, 3_000_000], struct.pack("<i", -719162), struct.pack("<i", 3_000_000)),
        ("time", [1, 5], struct.pack("<q", 1), struct.pack("<q", 5)),
        ("timestamp", [2**62, -1], struct.pack("<q", -1), struct.pack("<q", 2**62)),
        ("timestamptz", [0, 1], struct.pack("<q", 0), struct.pack("<q", 1)),
        ("timestamptz_ns", [0, 1], struct.pack("<q", 0), struct.pack("<q", 1)),
        ("string", ["\U0001f600", "\uffff"], b"\xef\xbf\xbf", b"\xf0\x9f\x98\x80"),
        ("binary", [b"\xff", b"\x01\x02"], b"\x01\x02", b"\xff"),
        ("fixed[2]", [b"\xff\x00", b"\x01\x02"], b"\x01\x02", b"\xff\x00"),
        ("uuid", [bytes(16), b"\x80" * 16], bytes(16), b"\x80" * 16),
        ("decimal(9, 2)", [-128, 128], b"\x80", b"\x00\x80"),
        ("decimal(38, 10)", [-(10**38) + 1, 0], (-(10**38) + 1).to_bytes(16, signed=True), b"\x00"),
        ("int", [None], None, None),
    ],
)
def test_bounds_of_partitions(type: str, values: list[Any], lower: bytes | None, upper: bytes | None) -> None:
    manifest = Table((type,)).write([SampleFile("a", partition=(value,)) for value in values])
    (summary,) = manifest.manifest_file(LOCATION, snapshot_id=1, sequence_number=1).partitions or ()
    assert (summary.lower_bound, summary.upper_bound) == (lower, upper)
    assert summary.contains_null == (None in values)


def test_keys() -> None:
    table = Table()
    data = table.write([SampleFile("a"), SampleFile("b", 2)]).index
    assert data.holds(pa.array(["x", "a"]))
    assert data.holds(pa.chunked_array([["x"], ["a"]]))
    assert not data.holds(pa.array(["b", "x"]))
    assert not data.holds(pa.array([], pa.string()))
    deletes = table.write([SampleFile("p1", referenced="a"), SampleFile("p2")], DELETES).index
    assert deletes.holds(pa.array(["a"]))
    assert deletes.holds(pa.array(["p2"]))
    assert not deletes.holds(pa.array(["p1"]))


@settings(deadline=None)
@given(st.lists(TEXT, unique=True))
def test_hashes(texts: list[str]) -> None:
    hashes = string_hashes(pa.array(texts, pa.string()))
    assert len(set(hashes.tolist())) == len(texts)
    # of each for itself, whatever stands around it
    assert [string_hashes(pa.array([text]))[0] for text in texts] == hashes.tolist()


def test_hashes_never_change() -> None:
    # They are in files that outlive this version.
    texts = ["", "a", "s3://bucket/table/part-00000.parquet", "12345678", "é" * 100]
    assert string_hashes(pa.array(texts)).tolist() == [
        0,
        7534755364548632634,
        1711304859196269996,
        11639355571960477079,
        15544675571541803923,
    ]


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


@pytest.mark.parametrize("damage", [b"!!!!", b"AAAA"])
def test_a_damaged_index(damage: bytes) -> None:
    data = Table().write([SampleFile("a")]).data
    start = data.index(INDEX_KEY.encode()) + len(INDEX_KEY) + 2
    with pytest.raises(InvalidMetadataError, match="its index is damaged"):
        read_index(data[:start] + damage + data[start + 4 :], location=LOCATION)


def shorter(rows: Any) -> Any:
    return dataclasses.replace(rows, file_sizes=rows.file_sizes[1:])


def unknown_count(rows: Any) -> Any:
    return dataclasses.replace(rows, metrics=FileMetrics(pa.array([1, None], pa.int64())))


def with_vectors(rows: Any) -> Any:
    return dataclasses.replace(rows, content_offsets=np.zeros(2, np.int64))


def with_references(rows: Any) -> Any:
    return dataclasses.replace(rows, referenced_data_files=pa.array(["a", "b"]))


def without_partitions(rows: Any) -> Any:
    return dataclasses.replace(rows, partitions=None)


def other_partitions(rows: Any) -> Any:
    return dataclasses.replace(rows, partitions=pa.array([{"a": 1, "b": 2}] * 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shorter, "differ in length"),
        (unknown_count, "record count"),
        (with_vectors, "Format version 2 has neither"),
        (with_references, "Only delete files"),
        (without_partitions, "Partition values are missing"),
        (other_partitions, "do not fit the spec"),
    ],
)
def test_what_is_refused(change: Callable[[Any], Any], message: str) -> None:
    table = Table(("int",))
    rows = table.rows([SampleFile("a", partition=(1,)), SampleFile("b", partition=(2,))])
    with pytest.raises(ValueError, match=message):
        table.write_rows(change(rows))
    with pytest.raises(ValueError, match="format version 1"):
        dataclasses.replace(table, format_version=1).write_rows(rows)


@pytest.mark.parametrize("type", ["variant", "unknown"])
def test_types_that_partition_nothing(type: str) -> None:
    rows = Table(("int",)).rows([SampleFile("a", partition=(1,))])
    with pytest.raises(ValueError, match=type):
        Table((type,)).write_rows(rows)


def test_partition_values_of_another_arrow_type() -> None:
    table = Table(("string", "long"))
    rows = table.rows([SampleFile(path, partition=(path, 1)) for path in "aba"])
    partitions = pa.StructArray.from_arrays(
        [pa.array(list("aba")).dictionary_encode(), pa.array([1, 1, 1], pa.int32())], names=["x", "y"]
    )
    changed = dataclasses.replace(rows, partitions=pa.chunked_array([partitions]))
    assert table.write_rows(changed).data == table.write_rows(rows).data


PYICEBERG_VALUES: dict[str, tuple[Any, Any]] = {
    "boolean": (True, True),
    "int": (-5, -5),
    "long": (2**40, 2**40),
    "float": (1.5, 1.5),
    "double": (-1.5, -1.5),
    "date": (18262, 18262),
    "time": (5, 5),
    "timestamp": (1_600_000_000_000_000, 1_600_000_000_000_000),
    "timestamptz": (1_600_000_000_000_000, 1_600_000_000_000_000),
    "string": ("é", "é"),
    "binary": (b"\x00\xff", b"\x00\xff"),
    "decimal(9, 2)": (-12345, Decimal("-123.45")),
    "decimal(38, 10)": (10**37, Decimal(10**27)),
    "fixed[5]": (b"12345", b"12345"),
}


@pytest.mark.parametrize("format_version", [2, 3])
def test_pyiceberg_reads_all_fields(tmp_path: Path, format_version: int) -> None:
    table = Table(tuple(PYICEBERG_VALUES), format_version=format_version)
    metrics = {
        "value_counts": {1: 10, 70: 3},
        "null_value_counts": {1: 0},
        "lower_bounds": {1: b"\x01", 70: b""},
        "upper_bounds": {70: b"\xff" * 9},
    }
    files = [
        SampleFile(
            "s3://b/é.parquet",
            partition=tuple(value for value, _ in PYICEBERG_VALUES.values()),
            metrics=metrics,
        ),
        SampleFile("s3://b/b.parquet", 2, -9, partition=(None,) * len(PYICEBERG_VALUES), records=2**40),
    ]
    first, second = fetch(tmp_path, table, files, FileContent.DATA)
    assert first.status is ManifestEntryStatus.ADDED
    assert (first.snapshot_id, first.sequence_number, first.file_sequence_number) == (7, 8, 8)
    file = first.data_file
    assert (file.content, file.file_format) == (DataFileContent.DATA, PyIcebergFormat.PARQUET)
    assert (file.file_path, file.record_count, file.file_size_in_bytes) == ("s3://b/é.parquet", 10, 1000)
    assert list(file.partition) == [value for _, value in PYICEBERG_VALUES.values()]
    assert {name: getattr(file, name) for name in METRICS} == metrics
    assert (second.status, second.snapshot_id) == (ManifestEntryStatus.DELETED, -9)
    assert second.data_file.record_count == 2**40
    assert list(second.data_file.partition) == [None] * len(PYICEBERG_VALUES)
    assert second.data_file.value_counts is None


@pytest.mark.parametrize("format_version", [2, 3])
def test_pyiceberg_reads_delete_files(tmp_path: Path, format_version: int) -> None:
    table = Table(("int",), format_version=format_version)
    file = SampleFile("s3://b/d.parquet", partition=(4,), referenced="s3://b/a.parquet")
    (entry,) = fetch(tmp_path, table, [file], DELETES)
    assert entry.data_file.content is DataFileContent.POSITION_DELETES
    assert entry.data_file.partition[0] == 4


def fetch(tmp_path: Path, table: Table, files: list[SampleFile], content: FileContent) -> list[Any]:
    manifest = table.write(files, content)
    path = tmp_path / "m.avro"
    path.write_bytes(manifest.data)
    entry = manifest.manifest_file(str(path), snapshot_id=7, sequence_number=8)
    listed = PyIcebergManifest.from_args(
        _table_format_version=table.format_version,
        manifest_path=str(path),
        manifest_length=entry.manifest_length,
        partition_spec_id=entry.partition_spec_id,
        content=ManifestContent(entry.content),
        sequence_number=8,
        min_sequence_number=8,
        added_snapshot_id=7,
    )
    return list(listed.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False))
