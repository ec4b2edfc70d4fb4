from __future__ import annotations

import copy
import datetime
import json
import random
import re
import tracemalloc
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile as PyIcebergDataFile
from pyiceberg.manifest import DataFileContent, FileFormat, write_manifest
from pyiceberg.manifest import ManifestEntry as PyIcebergEntry
from pyiceberg.manifest import ManifestEntryStatus as PyIcebergStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, NestedField, StringType

from floecat.errors import BoundExceededError, InvalidMetadataError
from floecat.iceberg.avro.container import Block, encode_container, read_header
from floecat.iceberg.manifests.lists import ManifestFile, read_manifest_list
from floecat.iceberg.manifests.reader import FileContent, ManifestEntryStatus, read_file_paths, read_manifest
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.iceberg.values.bounds import Bounds
from tests.unit.iceberg.manifest_bytes import ENTRY_FIELDS, entry, manifest_bytes
from tests.unit.iceberg.manifest_rows import rows_by_columns, rows_by_fastavro

LOCATION = "s3://bucket/t/metadata/m0.avro"
CODECS = ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"]
METRIC_MAPS = {
    "value_counts": (119, "long", 109),
    "null_value_counts": (121, "long", 110),
    "nan_value_counts": (138, "long", 137),
    "lower_bounds": (126, "bytes", 125),
    "upper_bounds": (129, "bytes", 128),
}


def optional(name: str, type_: Any, field_id: int, *, null_first: bool = True) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_] if null_first else [type_, "null"], "field-id": field_id}


def metric_map(key_id: int, value: str) -> dict[str, Any]:
    fields = [
        {"name": "key", "type": "int", "field-id": key_id},
        {"name": "value", "type": value, "field-id": key_id + 1},
    ]
    name = f"k{key_id}_v{key_id + 1}"
    return {
        "type": "array",
        "logicalType": "map",
        "items": {"type": "record", "name": name, "fields": fields},
    }


def all_fields(*, null_first: bool = True) -> list[dict[str, Any]]:
    """Every field of the specification."""
    fields = copy.deepcopy(ENTRY_FIELDS)
    more = [
        optional(name, metric_map(key_id, value), field_id, null_first=null_first)
        for name, (key_id, value, field_id) in METRIC_MAPS.items()
    ]
    more += [
        optional("split_offsets", {"type": "array", "items": "long", "element-id": 133}, 132),
        optional("equality_ids", {"type": "array", "items": "int", "element-id": 136}, 135),
        optional("sort_order_id", "int", 140, null_first=null_first),
    ]
    file_fields = fields[-1]["type"]["fields"]
    file_fields[7:7] = more
    for field in [*fields, *file_fields]:
        if isinstance(field["type"], list) and not null_first:
            field["type"] = field["type"][::-1] if field["type"][0] == "null" else field["type"]
            field.pop("default", None)
    return fields


def pairs(source: random.Random, value: Any) -> list[dict[str, Any]] | None:
    if source.random() < 0.1:
        return None
    keys = source.sample(range(1, 90), source.randrange(8)) if source.random() < 0.2 else range(1, 9)
    return [{"key": key, "value": value()} for key in keys]


def any_entry(source: random.Random, path: str) -> dict[str, Any]:
    def number() -> int:
        return source.choice([0, 1, 63, 64, 10**6, 2**31, 2**56, 2**63 - 1, -1, -(2**63)])

    def bound() -> bytes:
        return source.randbytes(source.choice([0, 1, 4, 8, 16, 100]))

    def maybe(value: Any) -> Any:
        return None if source.random() < 0.3 else value

    made = entry(
        path,
        status=source.randrange(3),
        content=source.randrange(3),
        file_format=source.choice(["PARQUET", "parquet", "orc", "AVRO", "PUFFIN"]),
        partition={"day": maybe(source.randrange(-5, 20000))},
        record_count=number(),
        column_sizes=pairs(source, number),
        **{
            name: pairs(source, bound if value == "bytes" else number)
            for name, (_, value, _) in METRIC_MAPS.items()
        },
        split_offsets=maybe([number() for _ in range(source.randrange(4))]),
        equality_ids=maybe([source.randrange(100) for _ in range(source.randrange(3))]),
        sort_order_id=maybe(source.randrange(5)),
        key_metadata=maybe(bound()),
        first_row_id=maybe(number()),
        referenced_data_file=maybe(path + ".other"),
        content_offset=maybe(max(number(), 0)),
        content_size_in_bytes=maybe(max(number(), 0)),
    )
    made["snapshot_id"] = maybe(number())
    made["sequence_number"], made["file_sequence_number"] = maybe(number()), maybe(number())
    return made


PATHS = st.one_of(
    st.integers(0, 10**9).map(lambda number: f"s3://bucket/table/data/{number:010}.parquet"),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
)


@given(st.lists(PATHS, max_size=60), st.sampled_from(CODECS), st.booleans(), st.integers(0, 2**32))
@settings(max_examples=80)
def test_reads_what_fastavro_reads(paths: list[str], codec: str, null_first: bool, seed: int) -> None:
    source = random.Random(seed)
    entries = [any_entry(source, path) for path in paths]
    data = manifest_bytes(entries, fields=all_fields(null_first=null_first), codec=codec)
    assert rows_by_columns(data) == rows_by_fastavro(data)


@pytest.fixture(scope="module")
def many() -> list[dict[str, Any]]:
    source = random.Random(1)
    return [any_entry(source, f"s3://bucket/table/data/{number:06}.parquet") for number in range(1500)]


def test_reads_many_blocks(many: list[dict[str, Any]]) -> None:
    data = manifest_bytes(many, fields=all_fields())
    found = rows_by_columns(data)
    assert len(found) == 1500
    assert found == rows_by_fastavro(data)


def test_reads_only_what_is_asked_for(many: list[dict[str, Any]]) -> None:
    data = manifest_bytes(many, fields=all_fields())
    fields = ("file_path", "lower_bounds", "value_counts")
    chosen = rows_by_columns(data, fields=fields, column_ids={3, 5, 88})
    expected = rows_by_fastavro(data)
    for row in expected:
        for name in fields[1:]:
            row[name] = {key: value for key, value in row[name].items() if key in (3, 5, 88)}
    assert chosen == [{name: row[name] for name in fields[:1] + fields[:0:-1]} for row in expected]


PAIRS: dict[str, list[tuple[int, Any]]] = {
    "as in the others": [],
    "no pair": [],
    "no map": [],
    "other values": [(1, -3), (2, 50), (3, 1001), (70, 7)],
    "longer first": [(1, 2**40), (2, 50), (3, 1000), (70, 7)],
    "longer last": [(1, 2), (2, 50), (3, 1000), (70, 700)],
    "another key": [(1, 2), (2, 50), (4, 1000), (70, 7)],
    "a longer key": [(1, 2), (2, 50), (300, 1000), (70, 7)],
    "another order": [(3, 1000), (2, 50), (1, 2), (70, 7)],
    "fewer": [(1, 2), (2, 50), (70, 7)],
    "more": [(1, 2), (2, 50), (3, 1000), (70, 7), (71, 7)],
}


@pytest.mark.parametrize("place", [0, 5, 19])
@pytest.mark.parametrize("kind", PAIRS)
def test_reads_maps_of_which_one_differs(kind: str, place: int) -> None:
    def made(columns: list[tuple[int, Any]], path: str) -> dict[str, Any]:
        counts = [{"key": key, "value": value} for key, value in columns]
        bounds = [
            {"key": key, "value": str(value).encode() if key == 3 else value.to_bytes(8, signed=True)}
            for key, value in columns
        ]
        none = kind == "no map" and not columns
        maps = {name: bounds if type == "bytes" else counts for name, (_, type, _) in METRIC_MAPS.items()}
        return entry(path, **dict.fromkeys(maps) if none else maps)

    usual = [(1, 2), (2, 50), (3, 1000), (70, 7)]
    entries = [made(usual, f"s3://b/{number}") for number in range(20)]
    if kind != "as in the others":
        entries[place] = made(PAIRS[kind], "s3://b/other")
    data = manifest_bytes(entries, fields=all_fields())
    expected = rows_by_fastavro(data)
    assert rows_by_columns(data) == expected
    for wanted in (2, 3, 70):
        for row, full in zip(rows_by_columns(data, column_ids={wanted}), expected, strict=True):
            for name in METRIC_MAPS:
                assert row[name] == {key: value for key, value in full[name].items() if key == wanted}


def test_reads_chunk_after_chunk() -> None:
    data = manifest_bytes(entry(f"s3://b/{number:06}{'x' * 300}") for number in range(12_000))
    assert [path[7:13] for path in read_file_paths(data, location=LOCATION)] == [
        f"{number:06}" for number in range(12_000)
    ]


def write_with_pyiceberg(path: str, format_version: Any, codec: Any) -> bytes:
    schema = Schema(
        NestedField(1, "n", IntegerType(), required=False),
        NestedField(2, "s p", StringType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "s p"))
    with write_manifest(format_version, spec, schema, PyArrowFileIO().new_output(path), 77, codec) as writer:
        for name in ("a", "b"):
            writer.add_entry(
                PyIcebergEntry.from_args(
                    status=PyIcebergStatus.ADDED,
                    snapshot_id=77,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=PyIcebergDataFile.from_args(
                        content=DataFileContent.DATA,
                        file_path=f"s3://bucket/t/data/{name}.parquet",
                        file_format=FileFormat.PARQUET,
                        partition=Record(name),
                        record_count=3,
                        file_size_in_bytes=400,
                        column_sizes={1: 10},
                        value_counts={1: 3},
                        null_value_counts={1: 0},
                        nan_value_counts={},
                        lower_bounds={1: b"\x01"},
                        upper_bounds={1: b"\x02"},
                        split_offsets=[4],
                        sort_order_id=0,
                    ),
                )
            )
    return Path(path).read_bytes()


@pytest.mark.parametrize("format_version", [1, 2])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_reads_what_pyiceberg_writes(tmp_path: Path, format_version: Any, codec: Any) -> None:
    data = write_with_pyiceberg(str(tmp_path / "m.avro"), format_version, codec)
    assert rows_by_columns(data) == rows_by_fastavro(data)
    (entries,) = read_manifest(data, location=LOCATION)
    assert entries.column("partition").to_pylist() == [{"s p": "a"}, {"s p": "b"}]
    assert entries.column("partition").type.field(0).metadata == {b"PARQUET:field_id": b"1000"}
    (metrics,) = entries.metrics
    assert metrics.upper_bounds.to_pylist() == [b"\x02", b"\x02"]
    assert metrics.nan_value_counts is None
    assert list(read_file_paths(data, location=LOCATION)) == entries.column("file_path").to_pylist()


def without(fields: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [field for field in fields if field["name"] not in names]


def test_fields_are_found_by_id_whatever_their_name() -> None:
    fields = copy.deepcopy(ENTRY_FIELDS)
    data_file = fields[-1]
    data_file["name"] = "file"
    data_file["type"]["fields"][1]["name"] = "path"
    written = entry("s3://b/a.parquet")
    written["file"] = written.pop("data_file")
    written["file"]["path"] = written["file"].pop("file_path")
    data = manifest_bytes([written], fields=fields)
    (row,) = rows_by_columns(data)
    assert (row["file_path"], row["partition"]) == ("s3://b/a.parquet", [3])
    assert list(read_file_paths(data, location=LOCATION)) == ["s3://b/a.parquet"]


def test_fields_without_ids_are_found_by_name() -> None:
    fields = copy.deepcopy(ENTRY_FIELDS)
    for field in [*fields, *fields[-1]["type"]["fields"], *fields[-1]["type"]["fields"][3]["type"]["fields"]]:
        del field["field-id"]
    (row,) = rows_by_columns(manifest_bytes([entry("s3://b/a.parquet", status=2)], fields=fields))
    assert (row["status"], row["file_path"], row["partition"]) == (2, "s3://b/a.parquet", [3])
    assert row["column_sizes"] == {1: 50}


def test_version_1_leaves_content_and_sequence_numbers_out() -> None:
    fields = without(copy.deepcopy(ENTRY_FIELDS), "sequence_number", "file_sequence_number")
    fields[-1]["type"]["fields"] = without(fields[-1]["type"]["fields"], "content", "referenced_data_file")
    data = manifest_bytes([entry("a")], fields=fields)
    (row,) = rows_by_columns(data)
    assert (row["content"], row["sequence_number"]) == (FileContent.DATA, None)
    (row,) = rows_by_columns(data, listed=ManifestFile("m", 1, 0, added_snapshot_id=9))
    assert (row["sequence_number"], row["file_sequence_number"]) == (0, 0)


def test_extra_fields_are_passed_over() -> None:
    nested = {
        "type": "record",
        "name": "extra",
        "namespace": "other.writer",
        "fields": [
            {"name": "flags", "type": {"type": "map", "values": ["null", "boolean", "double"]}},
            {"name": "kind", "type": {"type": "enum", "name": "kind", "symbols": ["x", "y"]}},
            {"name": "again", "type": "kind"},
            {"name": "digest", "type": {"type": "fixed", "name": "digest", "size": 3}},
            {"name": "lists", "type": {"type": "array", "items": {"type": "array", "items": "float"}}},
        ],
    }
    fields = copy.deepcopy(ENTRY_FIELDS)
    fields.insert(0, {"name": "before", "type": nested})
    fields[-1]["type"]["fields"].insert(4, {"name": "within", "type": ["null", "other.writer.extra"]})
    source = random.Random(3)
    written = []
    for number in range(200):
        extra = {
            "flags": {str(key): source.choice([None, True, 1.5]) for key in range(source.randrange(3))},
            "kind": "y",
            "again": "x",
            "digest": b"abc",
            "lists": [[1.0] * source.randrange(3) for _ in range(source.randrange(3))],
        }
        made = entry(f"s3://b/{number}")
        written.append({**made, "before": extra, "data_file": {**made["data_file"], "within": extra}})
    found = rows_by_columns(manifest_bytes(written, fields=fields))
    assert [(row["file_path"], row["record_count"]) for row in found] == [
        (f"s3://b/{number}", 5) for number in range(200)
    ]


def test_sequence_numbers_snapshot_and_row_ids_are_inherited() -> None:
    entries = [
        entry("a", status=1, record_count=10),
        entry("b", status=0, record_count=20, first_row_id=7),
        entry("c", status=2, record_count=30),
        entry("d", status=1, record_count=40),
        entry("e", status=1, content=1, record_count=50),
    ]
    for made in entries:
        made["snapshot_id"] = None
    entries[1] |= {"snapshot_id": 3, "sequence_number": 4, "file_sequence_number": 2}
    listed = ManifestFile("m", 1, 0, sequence_number=6, added_snapshot_id=9, first_row_id=100)
    found = rows_by_columns(
        manifest_bytes(entries),
        listed=listed,
        fields=("snapshot_id", "sequence_number", "file_sequence_number", "first_row_id"),
    )
    assert [tuple(row.values()) for row in found] == [
        (9, 6, 6, 100),
        (3, 4, 2, 7),
        (9, None, None, None),
        (9, 6, 6, 110),
        (9, 6, 6, None),
    ]
    unassigned = rows_by_columns(manifest_bytes(entries), listed=ManifestFile("m", 1, 0, sequence_number=6))
    assert [row["first_row_id"] for row in unassigned] == [None] * 5


def test_partition_values_are_typed() -> None:
    types: dict[str, Any] = {
        "date": ({"type": "int", "logicalType": "date"}, 1, datetime.date(1970, 1, 2)),
        "time": ({"type": "long", "logicalType": "time-micros"}, 1, datetime.time(0, 0, 0, 1)),
        "local": (
            {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
            1,
            datetime.datetime(1970, 1, 1, 0, 0, 0, 1),
        ),
        "utc": (
            {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
            1,
            datetime.datetime(1970, 1, 1, 0, 0, 0, 1, datetime.UTC),
        ),
        "fixed": ({"type": "fixed", "name": "f", "size": 2}, b"ab", b"ab"),
        "double": ("double", 1.5, 1.5),
        "float": ("float", 0.5, 0.5),
        "boolean": ("boolean", True, True),
        "bytes": ("bytes", b"x", b"x"),
        "short": (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            Decimal("-1.25"),
            Decimal("-1.25"),
        ),
        "long": (
            {
                "type": "fixed",
                "name": "d",
                "size": 16,
                "logicalType": "decimal",
                "precision": 38,
                "scale": 10,
            },
            Decimal("1e27"),
            Decimal("1e27"),
        ),
    }
    fields = copy.deepcopy(ENTRY_FIELDS)
    partition = [optional(name, type_, 1000 + at) for at, (name, (type_, _, _)) in enumerate(types.items())]
    fields[-1]["type"]["fields"][3]["type"]["fields"] = partition
    values = {name: value for name, (_, value, _) in types.items()}
    entries = [entry("s3://b/a", partition=values), entry("s3://b/b", partition=dict.fromkeys(types))]
    (found,) = read_manifest(manifest_bytes(entries * 30, fields=fields), location=LOCATION)
    expected = {name: value for name, (_, _, value) in types.items()}
    assert found.column("partition").to_pylist() == [expected, dict.fromkeys(types)] * 30


def test_partition_values_are_widened_to_the_type_of_the_table() -> None:
    data = manifest_bytes([entry("a")])
    for name, type_ in (("long", pa.int64()), ("date", pa.date32())):
        (found,) = read_manifest(data, location=LOCATION, partition_types={1000: PrimitiveType(name)})
        assert found.column("partition").type.field("day").type == type_


@pytest.mark.parametrize("name", ["file_path", "status", "record_count"])
def test_a_missing_required_field_is_named(name: str) -> None:
    fields = without(copy.deepcopy(ENTRY_FIELDS), name)
    fields[-1]["type"]["fields"] = without(fields[-1]["type"]["fields"], name)
    data = manifest_bytes([entry("SECRET")], fields=fields)
    with pytest.raises(InvalidMetadataError, match=name) as caught:
        rows_by_columns(data)
    assert "SECRET" not in caught.value.message
    assert rows_by_columns(data, fields=("file_format",)) == [{"file_format": "PARQUET"}]


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(InvalidMetadataError, match="status"):
        rows_by_columns(manifest_bytes([entry("a", status=7)]))


@pytest.mark.parametrize("name", ["file_size_in_bytes", "content_offset", "content_size_in_bytes"])
def test_a_negative_size_is_damage(name: str) -> None:
    data = manifest_bytes([entry("a"), entry("SECRET", **{name: -1})])
    with pytest.raises(InvalidMetadataError, match=f"damaged: {name} of an entry is negative"):
        rows_by_columns(data)
    assert len(rows_by_columns(data, fields=("file_path",))) == 2


@pytest.mark.parametrize("data", [b"", b"Obj\x01", b"PAR1 is parquet", b"{}", b"Obj\x01" + b"\xff" * 200])
def test_refuses_other_files(data: bytes) -> None:
    for read in (read_manifest, read_file_paths):
        with pytest.raises(InvalidMetadataError, match=f"^Cannot read manifest {re.escape(LOCATION)}: "):
            list(read(data, location=LOCATION))  # type: ignore[operator]


def test_refuses_an_avro_file_of_something_else() -> None:
    fields = [{"name": "x", "type": "int", "field-id": 9}]
    with pytest.raises(InvalidMetadataError, match="no field file_path"):
        list(read_file_paths(manifest_bytes([{"x": 1}], fields=fields), location=LOCATION))


SIMPLE = [entry(f"s3://SECRET/{number}.parquet", file_format="PARQUET") for number in range(40)]
RICH = [any_entry(random.Random(number), f"s3://SECRET/{number}.parquet") for number in range(8)]


@pytest.mark.parametrize(
    ("codec", "entries", "changes"), [("null", SIMPLE, 1500), ("null", RICH, 300), ("snappy", RICH, 200)]
)
def test_damage_is_reported_without_contents(codec: str, entries: list[Any], changes: int) -> None:
    """Every kind of damage ends in the one error that callers handle, or goes unnoticed; nothing else."""
    source = random.Random(5)
    data = manifest_bytes(entries, fields=all_fields() if entries is RICH else ENTRY_FIELDS, codec=codec)
    whole = rows_by_columns(data)
    records = len(data) - len(data[read_header(data, location="", what="").size :])
    errors: list[InvalidMetadataError] = []
    unchanged = 0
    for _ in range(changes):
        damaged = bytearray(data)
        if source.random() < 0.1:
            damaged = damaged[: source.randrange(len(damaged))]
        else:
            first = 0 if source.random() < 0.2 else records
            for _ in range(source.randrange(1, 8)):
                damaged[source.randrange(first, len(damaged))] = source.randrange(256)
        try:
            unchanged += rows_by_columns(bytes(damaged)) == whole
        except InvalidMetadataError as error:
            errors.append(error)
    assert len(errors) > changes / 4
    assert all("SECRET" not in error.message and error.__cause__ is None for error in errors)
    if codec == "snappy":  # its checksum shows every change
        assert unchanged + len(errors) == changes


def test_entries_before_the_damage_are_read() -> None:
    data = manifest_bytes((entry(f"s3://b/{number:06}") for number in range(5000)), codec="null")
    damaged = bytearray(data)
    at = data.index(b"s3://b/004000") - 1
    damaged[at] = 0xFF
    found: list[str] = []
    with pytest.raises(InvalidMetadataError, match="block is damaged"):
        found.extend(read_file_paths(bytes(damaged), location=LOCATION))
    assert found == [f"s3://b/{number:06}" for number in range(4000)]


def test_bounds_are_named() -> None:
    sizes = [{"key": number, "value": number} for number in range(300)]
    data = manifest_bytes([entry(f"s3://b/{number}", column_sizes=sizes) for number in range(300)])
    for bound, most in {
        "manifest_bytes": 100,
        "manifest_block_bytes": 100,
        "inflated_file_bytes": 40_000,
        "manifest_entries": 299,
        "manifest_block_entries": 2,
        "manifest_items": 299,
        "manifest_schema_bytes": 100,
        "manifest_schema_types": 10,
        "manifest_schema_depth": 2,
    }.items():
        key = f"floecat.limits.{bound.replace('_', '-')}"
        with pytest.raises(BoundExceededError, match=rf"{most:,} \({key}\)$") as caught:
            rows_by_columns(data, bounds=Bounds(**{bound: most}))
        assert caught.value.message.startswith("Cannot read manifest ")
    assert len(rows_by_columns(data, bounds=Bounds(manifest_entries=300, manifest_items=300))) == 300


@pytest.mark.parametrize("field", ["file_path", "referenced_data_file"])
def test_locations_beyond_the_default(field: str) -> None:
    longest = Bounds().location_bytes
    fields = all_fields()
    made = any_entry(random.Random(1), "s3://b/a")
    made["data_file"][field] = "s" * longest
    assert list(read_manifest(manifest_bytes([made], fields=fields), location=LOCATION))
    made["data_file"][field] += "s"
    with pytest.raises(BoundExceededError, match=r"8,192 \(floecat\.limits\.location-bytes\)"):
        list(read_manifest(manifest_bytes([made], fields=fields), location=LOCATION))


def test_blocks_without_entries_count() -> None:
    bounds = Bounds(manifest_entries=10)
    data = manifest_bytes([])
    empty = b"\0\0" + data[-16:]
    assert list(read_manifest(data + empty * 10, location=LOCATION, bounds=bounds)) == []
    with pytest.raises(BoundExceededError, match=r"floecat\.limits\.manifest-entries"):
        list(read_manifest(data + empty * 11, location=LOCATION, bounds=bounds))


def test_maps_that_nobody_asks_for_are_bounded_too() -> None:
    bounded = [{"key": number, "value": b"a"} for number in range(300)]
    data = manifest_bytes([entry("s3://b/a", lower_bounds=bounded)], fields=all_fields())
    assert list(read_file_paths(data, location=LOCATION, bounds=Bounds(manifest_items=300))) == ["s3://b/a"]
    with pytest.raises(BoundExceededError, match="manifest-items"):
        list(read_file_paths(data, location=LOCATION, bounds=Bounds(manifest_items=299)))


def one_block(entries: int) -> bytes:
    """A list of empty paths, in one block of 3 bytes an entry."""
    fields = [{"name": name, "type": type} for name, type in SMALLEST_LIST]
    schema = json.dumps({"type": "record", "name": "m", "fields": fields}).encode()
    body = zlib.compress(bytes(3 * entries), 9, -15)
    return encode_container({"avro.schema": schema}, [Block(entries, body)])


SMALLEST_LIST = [("manifest_path", "string"), ("manifest_length", "long"), ("partition_spec_id", "int")]


def test_a_block_of_few_bytes_stands_for_a_bounded_number_of_entries() -> None:
    most = Bounds().manifest_block_entries
    assert most == 250_000
    assert sum(1 for _ in read_manifest_list(one_block(most), location=LOCATION)) == most
    bomb = one_block(most + 1)
    assert len(bomb) < 3_000
    with pytest.raises(BoundExceededError, match=r"250,000 \(floecat.limits.manifest-block-entries\)"):
        list(read_manifest_list(bomb, location=LOCATION))


def test_a_path_of_one_character_is_not_searched_for_everywhere() -> None:
    paths = ["a", *["a" * 8_000] * 250]
    data = manifest_bytes([entry(path) for path in paths])
    tracemalloc.start()
    try:
        assert list(read_file_paths(data, location=LOCATION)) == paths
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


def test_a_reader_that_stops_early_costs_nothing() -> None:
    entries = read_file_paths(manifest_bytes(entry(str(i)) for i in range(1000)), location=LOCATION)
    assert next(entries) == "0"
    entries.close()  # type: ignore[attr-defined]


def test_memory_is_bounded_by_the_chunk_not_the_file() -> None:
    data = manifest_bytes(entry(f"s3://bucket/table/data/{i:08}.parquet") for i in range(250_000))
    fields = ("file_path", "record_count")
    tracemalloc.start()
    try:
        read = sum(len(each) for each in read_manifest(data, location=LOCATION, fields=fields))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read == 250_000
    # the records alone are 250,000 times 70 bytes
    assert peak < 20_000_000


def test_statuses_are_those_of_the_specification() -> None:
    assert [status.name for status in ManifestEntryStatus] == ["EXISTING", "ADDED", "DELETED"]
