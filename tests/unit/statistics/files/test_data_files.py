from __future__ import annotations

import datetime as dt
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from floecat.errors import FileMissingError, IllegalArgumentError, StorageUnavailableError
from floecat.iceberg.schemas.single_values import encode_one
from floecat.iceberg.schemas.types import parse_primitive
from floecat.iceberg.values.bounds import Bounds
from floecat.logical_types import canonical_text
from floecat.statistics.files.data_files import FileSummaries
from floecat.statistics.files.sources import NeedsProcessError, UnreadableFileError
from floecat.statistics.files.summaries import CountedTerm, DataFile, FileSummary
from tests.endless_file import endless_parquet
from tests.unit.planning.random_columns import OTHER_NAN
from tests.unit.statistics.files.table_files import (
    FILES,
    column,
    data_file,
    distinct,
    read,
    schema_of,
    with_ids,
    write_parquet,
)

_UTC = dt.UTC
_BYTES: dict[str, int] = {
    "boolean": 3,
    "int": 12,
    "long": 24,
    "decimal(9, 2)": 8,
    "decimal(38, 0)": 32,
    "timestamp_ns": 16,
    "string": 142,
    "binary": 81,
    "uuid": 32,
    "fixed[2]": 4,
}
"""Of the values of samples, where that is not 8."""

_SAMPLES: list[tuple[str, pa.DataType, list[Any], str, str]] = [
    ("boolean", pa.bool_(), [True, False, True], "false", "true"),
    ("int", pa.int32(), [7, -(2**31), 7], str(-(2**31)), "7"),
    ("long", pa.int64(), [2**63 - 1, 0, 0], "0", str(2**63 - 1)),
    ("decimal(9, 2)", pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-3.00")], "-3", "1.5"),
    ("decimal(38, 0)", pa.decimal128(38, 0), [Decimal(10**37), Decimal(1)], "1", str(10**37)),
    ("date", pa.date32(), [dt.date(1969, 1, 1), dt.date(2020, 2, 29)], "1969-01-01", "2020-02-29"),
    ("time", pa.time64("us"), [dt.time(1, 2, 3)], "01:02:03", "01:02:03"),
    (
        "timestamp",
        pa.timestamp("us"),
        [dt.datetime(2020, 1, 1)],
        "2020-01-01T00:00:00",
        "2020-01-01T00:00:00",
    ),
    (
        "timestamptz",
        pa.timestamp("us", "UTC"),
        [dt.datetime(2020, 1, 1, tzinfo=_UTC)],
        "2020-01-01T00:00:00Z",
        "2020-01-01T00:00:00Z",
    ),
    (
        "timestamp_ns",
        pa.timestamp("ns"),
        [1, 2],
        "1970-01-01T00:00:00.000000001",
        "1970-01-01T00:00:00.000000002",
    ),
    ("string", pa.string(), ["b", "a", "ż" * 70], "a", "ż" * 63 + chr(ord("ż") + 1)),
    ("binary", pa.binary(), [b"\x00", b"\xff" * 80], "AA==", ""),
    ("uuid", pa.binary(16), [UUID(int=1).bytes, UUID(int=2).bytes], str(UUID(int=1)), str(UUID(int=2))),
    ("fixed[2]", pa.binary(2), [b"ab", b"cd"], "YWI=", "Y2Q="),
]


@pytest.mark.parametrize(
    ("type", "arrow", "values", "lower", "upper"), _SAMPLES, ids=[sample[0] for sample in _SAMPLES]
)
def test_every_type_is_counted(
    type: str, arrow: pa.DataType, values: list[Any], lower: str, upper: str, tmp_path: Path
) -> None:
    array = pa.array([None, *values, None] * 10, arrow)
    schema = schema_of((3, "c", type))
    file = write_parquet(tmp_path, "f.parquet", with_ids({3: ("c", array)}), row_group_size=7)
    found = column(read(schema, file), 3)
    primitive = parse_primitive(type)
    assert (found.value_count, found.null_count, found.nan_count) == (len(array), 20, 0)
    assert distinct(found) == len(set(values))
    assert found.lower is not None
    assert canonical_text(found.lower, primitive) == lower
    # No short value is above bytes of 255.
    assert upper == ("" if found.upper is None else canonical_text(found.upper, primitive))
    assert found.size_bytes == 10 * _BYTES.get(type, 8)


def test_nan_and_infinities(tmp_path: Path) -> None:
    doubles = [float("nan"), float("inf"), None, -0.0, 0.0, float("-inf"), OTHER_NAN]
    schema = schema_of((1, "d", "double"), (2, "f", "float"), (3, "n", "double"))
    table = with_ids(
        {
            1: ("d", pa.array(doubles)),
            2: ("f", pa.array([1.5] * 7, pa.float32())),
            3: ("n", pa.array([float("nan"), OTHER_NAN] * 3 + [None])),
        }
    )
    summary = read(schema, write_parquet(tmp_path, "f.parquet", table))
    found = column(summary, 1)
    assert (found.null_count, found.nan_count) == (1, 2)
    assert (found.lower, found.upper) == (
        encode_one(float("-inf"), parse_primitive("double")),
        encode_one(float("inf"), parse_primitive("double")),
    )
    assert distinct(found) == 5
    assert column(summary, 2).lower == encode_one(1.5, parse_primitive("float"))
    only = column(summary, 3)
    assert (only.nan_count, only.lower, only.upper, distinct(only)) == (6, None, None, 1)


@pytest.mark.parametrize(("type", "bits"), [("double", 0x7FF0000000000001), ("float", 0x7F800001)])
def test_a_signalling_nan_is_no_bound(type: str, bits: int, tmp_path: Path) -> None:
    arrow, whole = (pa.float64(), pa.int64()) if type == "double" else (pa.float32(), pa.int32())
    signalling = pa.array([bits], whole).view(arrow)
    values = pa.concat_arrays([pa.array([1.0], arrow), signalling, pa.array([None, 3.0], arrow), signalling])
    file = write_parquet(tmp_path, "f.parquet", with_ids({1: ("c", values)}))
    found = column(read(schema_of((1, "c", type)), file), 1)
    bounds = tuple(encode_one(end, parse_primitive(type)) for end in (1.0, 3.0))
    assert (found.nan_count, found.null_count, found.lower, found.upper) == (2, 1, *bounds)


@pytest.mark.parametrize("type", ["string", "binary"])
@pytest.mark.parametrize("length", [1, 100])
@pytest.mark.parametrize(
    "encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN", "RLE_DICTIONARY", None]
)
def test_texts_in_every_encoding(encoding: str | None, length: int, type: str, tmp_path: Path) -> None:
    """Arrow makes dictionaries of some encodings only. The last file has a dictionary and more pages."""
    values = pa.array([f"{number % 10:0{length}}" for number in range(5000)] + [None] * 5000)
    options: dict[str, Any] = {"use_dictionary": False, "column_encoding": encoding}
    if encoding == "RLE_DICTIONARY":
        options = {}
    elif encoding is None:
        options = {"dictionary_pagesize_limit": 20, "data_page_size": 1000, "write_batch_size": 10}
    arrow = pa.string() if type == "string" else pa.binary()
    table = with_ids({1: ("c", values.cast(arrow))})
    file = write_parquet(tmp_path, "f.parquet", table, **options)
    found = column(read(schema_of((1, "c", type)), file), 1)
    assert (found.value_count, found.null_count, distinct(found)) == (10_000, 5000, 10)
    assert found.lower == b"0" * min(length, 64)
    assert found.size_bytes == 5000 * length


def test_nested_columns_are_counted_by_leaf(tmp_path: Path) -> None:
    struct = {"type": "struct", "fields": [{"id": 5, "name": "x", "type": "long", "required": False}]}
    schema = schema_of(
        (1, "s", struct),
        (2, "l", {"type": "list", "element-id": 6, "element": "string", "element-required": False}),
        (
            3,
            "m",
            {
                "type": "map",
                "key-id": 7,
                "key": "string",
                "value-id": 8,
                "value": "double",
                "value-required": False,
            },
        ),
    )

    def field(name: str, type: pa.DataType, id: int) -> pa.Field:
        return pa.field(name, type, metadata={"PARQUET:field_id": str(id)})

    key = pa.field("key", pa.string(), nullable=False, metadata={"PARQUET:field_id": "7"})
    map_type = pa.map_(key, field("value", pa.float64(), 8))
    table = with_ids(
        {
            1: ("s", pa.array([{"x": 1}, None, {"x": None}], pa.struct([field("x", pa.int64(), 5)]))),
            2: ("l", pa.array([["a", None, "a"], None, []], pa.list_(field("element", pa.string(), 6)))),
            3: ("m", pa.array([[("k", 1.0)], [("k", None), ("j", 2.0)], None], map_type)),
        },
        {3: map_type},
    )
    summary = read(schema, write_parquet(tmp_path, "f.parquet", table))
    counted = {each.field_id: (each.value_count, each.null_count, distinct(each)) for each in summary.columns}
    assert counted == {5: (3, 2, 1), 6: (3, 1, 1), 7: (3, 0, 2), 8: (3, 1, 2)}


def test_lists_that_a_file_lacks_have_no_values(tmp_path: Path) -> None:
    element = {
        "type": "struct",
        "fields": [{"id": id, "name": f"x{id}", "type": "long", "required": False} for id in (11, 12)],
    }
    tags = {"type": "list", "element-id": 10, "element": element, "element-required": False}
    numbers = {"type": "list", "element-id": 20, "element": "int", "element-required": False}
    schema = schema_of((1, "tags", tags), (2, "numbers", numbers))
    field = pa.field("x11", pa.int64(), metadata={"PARQUET:field_id": "11"})
    table = with_ids({1: ("tags", pa.array([[{"x11": 1}], None, []], pa.list_(pa.struct([field]))))})
    summary = read(schema, write_parquet(tmp_path, "f.parquet", table))
    counted = {each.field_id: (each.value_count, each.null_count, distinct(each)) for each in summary.columns}
    # How many values `x12` has is not known without the items, of which it is a part.
    assert counted == {11: (1, 0, 1), 20: (0, 0, 0)}


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": False, "compression": "none"},
        {"compression": "zstd", "data_page_version": "2.0"},
        {"use_dictionary": False, "column_encoding": {"l": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY"}},
        {"use_dictionary": False, "column_encoding": {"l": "BYTE_STREAM_SPLIT", "s": "PLAIN"}},
        {"dictionary_pagesize_limit": 1000, "compression": "gzip", "data_page_size": 1000},
        {"compression": "brotli", "row_group_size": 1000},
    ],
)
def test_encodings_do_not_show(options: dict[str, Any], tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    numbers = random.integers(0, 10_000, 20_000)
    table = with_ids({1: ("l", pa.array(numbers)), 2: ("s", pa.array(numbers).cast(pa.string()))})
    schema = schema_of((1, "l", "long"), (2, "s", "string"))
    plain = read(schema, write_parquet(tmp_path, "plain.parquet", table))
    found = read(schema, write_parquet(tmp_path, "f.parquet", table, **options))
    # The least memory reads batches of 1,024 rows.
    small = read(schema, write_parquet(tmp_path, "f.parquet", table, **options), memory_bytes=1, threads=1)
    assert column(plain, 1).upper == encode_one(int(numbers.max()), parse_primitive("long"))
    for id in (1, 2):
        wanted = column(plain, id)
        assert distinct(wanted) == pytest.approx(len(np.unique(numbers)), rel=0.05)
        for each in (column(found, id), column(small, id)):
            assert (each.value_count, each.lower, each.upper) == (20_000, wanted.lower, wanted.upper)
            assert each.sketch == wanted.sketch


def test_older_files_are_read_by_the_newer_schema(tmp_path: Path) -> None:
    schema = schema_of(
        (1, "renamed", "long"),
        (2, "wide", "double"),
        (3, "price", "decimal(20, 2)"),
        (4, "added", "string"),
        (5, "with_default", "date", "2020-01-02"),
        (6, "flag", "boolean", True),
        (7, "day", "int"),
        (8, "moment", "timestamp"),
    )
    table = with_ids(
        {
            1: ("old", pa.array([1, -1, None], pa.int32())),
            2: ("wide", pa.array([0.5, 0.1, None], pa.float32())),
            3: ("price", pa.array([Decimal("1.00"), None, Decimal("2.50")], pa.decimal128(5, 2))),
            8: ("moment", pa.array([dt.date(2020, 1, 1), None, None])),
            99: ("dropped", pa.array(["x"] * 3)),
        }
    )
    file = write_parquet(tmp_path, "f.parquet", table)
    constants = {7: encode_one(5, parse_primitive("int"))}
    summary = read(schema, DataFile(file.location, "PARQUET", 3, file.size_bytes, constants=constants))
    long, double = parse_primitive("long"), parse_primitive("double")
    assert [each.field_id for each in summary.columns] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert column(summary, 1).lower == encode_one(-1, long)
    assert column(summary, 2).upper == encode_one(0.5, double)
    assert column(summary, 2).lower == encode_one(float(np.float32(0.1)), double)
    assert column(summary, 3).upper == b"\x00\xfa"
    assert (column(summary, 4).null_count, column(summary, 4).upper) == (3, None)
    added = column(summary, 5)
    assert (added.value_count, added.null_count, distinct(added)) == (3, 0, 1)
    assert added.lower == added.upper == encode_one(18_263, parse_primitive("date"))
    assert column(summary, 6).lower == b"\x01"
    assert column(summary, 7).upper == constants[7]
    assert column(summary, 8).lower == encode_one(18_262 * 86_400_000_000, parse_primitive("timestamp"))


_MAPPING = """[
    {"field-id": 1, "names": ["a", "b"]},
    {"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x"]}]}
]"""


def test_files_without_ids_are_read_by_name_mapping_else_by_position(tmp_path: Path) -> None:
    struct = {"type": "struct", "fields": [{"id": 3, "name": "x", "type": "long", "required": False}]}
    schema = schema_of((1, "a", "long"), (2, "s", struct))
    table = pa.table({"z": [9], "s": [{"x": 5}], "b": [7]})
    file = write_parquet(tmp_path, "f.parquet", table)
    mapped = read(schema, file, name_mapping=_MAPPING)
    long = parse_primitive("long")
    assert (column(mapped, 1).lower, column(mapped, 3).lower) == (encode_one(7, long), encode_one(5, long))
    assert column(read(schema, file), 1).lower == encode_one(9, long)
    with pytest.raises(IllegalArgumentError, match="Invalid name mapping"):
        read(schema, file, name_mapping="{")


def test_orc_and_avro_files_have_the_same_numbers(tmp_path: Path) -> None:
    schema = schema_of(
        (1, "l", "long"),
        (2, "s", "string"),
        (3, "p", "decimal(9, 2)"),
        (4, "t", "timestamp"),
        (5, "d", "date"),
    )
    mapping = (
        "["
        + ",".join(f'{{"field-id": {id}, "names": ["{f.name}"]}}' for id, f in schema.fields_by_id.items())
        + "]"
    )
    rows = 5000
    table = pa.table(
        {
            "l": pa.array([None if row % 7 == 0 else row for row in range(rows)]),
            "s": pa.array([f"text {row % 50}" for row in range(rows)]),
            "p": pa.array([Decimal(row - 2500).scaleb(-2) for row in range(rows)], pa.decimal128(9, 2)),
            "t": pa.array([row * 1_000_003 for row in range(rows)], pa.timestamp("us")),
            "d": pa.array([row % 100 for row in range(rows)], pa.int32()).cast(pa.date32()),
        }
    )
    wanted = read(schema, write_parquet(tmp_path, "f.parquet", table), name_mapping=mapping)
    orc.write_table(table, tmp_path / "f.orc", stripe_size=64 << 10)
    avro = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "l", "field-id": 1, "type": ["null", "long"]},
            {"name": "s", "field-id": 2, "type": "string"},
            {
                "name": "p",
                "field-id": 3,
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            },
            {"name": "t", "field-id": 4, "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "d", "field-id": 5, "type": {"type": "int", "logicalType": "date"}},
        ],
    }
    with (tmp_path / "f.avro").open("wb") as stream:
        fastavro.writer(stream, avro, table.to_pylist(), codec="deflate")
    for format in ("orc", "avro"):
        file = data_file(tmp_path / f"f.{format}", rows, format=format)
        found = read(schema, file, name_mapping=mapping if format == "orc" else None)
        assert found.row_count == rows
        for each, other in zip(found.columns, wanted.columns, strict=True):
            assert (each.value_count, each.null_count) == (other.value_count, other.null_count)
            assert (each.lower, each.upper, each.sketch) == (other.lower, other.upper, other.sketch)
            assert each.size_bytes == other.size_bytes


def test_columns_that_avro_files_have_in_optional_structs_and_lists_are_left_out(tmp_path: Path) -> None:
    inner = {"type": "struct", "fields": [{"id": 3, "name": "i", "type": "int", "required": False}]}
    items = {"type": "list", "element-id": 5, "element": "string", "element-required": False}
    schema = schema_of((1, "l", "long"), (2, "s", inner), (4, "items", items), (6, "new", "int"))
    text = {"type": "array", "element-id": 5, "items": ["null", "string"]}
    fields = [{"name": "i", "field-id": 3, "type": ["null", "int"]}]
    avro = {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "l", "field-id": 1, "type": "long"},
            {"name": "s", "field-id": 2, "type": ["null", {"type": "record", "name": "s", "fields": fields}]},
            {"name": "items", "field-id": 4, "type": ["null", text]},
        ],
    }
    mapping = """[{"field-id": 1, "names": ["l"]}]"""
    with (tmp_path / "f.avro").open("wb") as stream:
        fastavro.writer(stream, avro, [{"l": 1, "s": {"i": 2}, "items": ["a"]}])
    file = data_file(tmp_path / "f.avro", 1, format="avro")
    assert [each.field_id for each in read(schema, file).columns] == [1, 6]
    for each in (*avro["fields"], *fields):
        del each["field-id"]
    with (tmp_path / "g.avro").open("wb") as stream:
        fastavro.writer(stream, avro, [{"l": 1, "s": {"i": 2}, "items": ["a"]}])
    without_ids = data_file(tmp_path / "g.avro", 1, format="avro")
    assert [each.field_id for each in read(schema, without_ids, name_mapping=mapping).columns] == [1]


def test_expressions_are_counted_with_their_columns(tmp_path: Path) -> None:
    schema = schema_of((1, "at", "timestamp"), (2, "later", "string", "default"))
    times = pa.array(
        [dt.datetime(2020, 1, 1, 3), dt.datetime(2020, 1, 1, 4), None, dt.datetime(1969, 12, 31, 23)]
    )
    file = write_parquet(tmp_path, "data.parquet", with_ids({1: ("at", times.cast(pa.timestamp("us")))}))
    expressions = [CountedTerm(1, "day"), CountedTerm(1, "hour"), CountedTerm(2, "truncate[3]")]
    with FileSummaries(FILES, schema, [1, 2], expressions=expressions) as summaries:
        found = {each.term: each for each in summaries.summarize(file).columns}
    assert list(found) == [
        CountedTerm(1),
        CountedTerm(1, "day"),
        CountedTerm(1, "hour"),
        CountedTerm(2),
        CountedTerm(2, "truncate[3]"),
    ]
    day = found[CountedTerm(1, "day")]
    assert (day.value_count, day.null_count, distinct(day)) == (4, 1, 2)
    assert day.size_bytes == 12
    date = parse_primitive("date")
    assert (canonical_text(day.lower or b"", date), canonical_text(day.upper or b"", date)) == (
        "1969-12-31",
        "2020-01-01",
    )
    assert distinct(found[CountedTerm(1, "hour")]) == 3
    text = found[CountedTerm(2, "truncate[3]")]
    assert (text.lower, text.value_count, distinct(text)) == (b"def", 4, 1)


def _secret_file(tmp_path: Path) -> DataFile:
    table = with_ids({1: ("l", pa.array(["a secret value"] * 1000))})
    return write_parquet(tmp_path, "f.parquet", table, compression="none", use_dictionary=False)


@pytest.mark.parametrize("damage", ["no footer", "cut", "empty", "pages", "type", "format", "size"])
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_unreadable_files_are_named_and_not_quoted(damage: str, format: str, tmp_path: Path) -> None:
    file = _secret_file(tmp_path)
    path = tmp_path / "f.parquet"
    data = path.read_bytes()
    type = "string"
    if damage == "no footer":
        path.write_bytes(data[:-4] + b"PARE")
    elif damage == "cut":
        path.write_bytes(data[len(data) // 2 :])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "pages":
        path.write_bytes(data[:4] + b"\xff" * 200 + data[204:])
    elif damage == "type":
        type = "long"
    elif damage == "format":
        format = "lance"
    size = file.size_bytes - 10 if damage == "size" else path.stat().st_size
    broken = DataFile(file.location, format, 1000, size)
    with pytest.raises(UnreadableFileError, match=r"Cannot read file://.*f\.parquet: ") as raised:
        read(schema_of((1, "l", type)), broken)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("format", "bounds", "problem"),
    [
        ("parquet", Bounds(data_file_footer_bytes=100), r"its footer .* 100 \(.*\.data-file-footer-bytes\)"),
        ("orc", Bounds(data_file_footer_bytes=100), r"its footer .* 100 \(.*\.data-file-footer-bytes\)"),
        ("avro", Bounds(manifest_bytes=1000), r"it has more bytes than 1,000 \(.*\.manifest-bytes\)"),
    ],
)
def test_files_beyond_a_bound_are_named_with_it(
    format: str, bounds: Bounds, problem: str, tmp_path: Path
) -> None:
    file = msgspec.structs.replace(_secret_file(tmp_path), format=format)
    if format == "orc":
        path = tmp_path / "f.parquet"
        orc.write_table(pq.read_table(path), path)
        file = msgspec.structs.replace(file, size_bytes=path.stat().st_size)
    before = FILES.counters.counts.bytes_read
    with pytest.raises(UnreadableFileError, match=rf"Cannot read file://.*f\.parquet: {problem}"):
        read(schema_of((1, "l", "string")), file, bounds=bounds)
    if format == "avro":
        assert FILES.counters.counts.bytes_read == before


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_values_that_take_more_memory_than_their_files_are_refused_by_name(
    format: str, tmp_path: Path
) -> None:
    lists = pa.array([["x" * 10_000] * 10] * 200, pa.list_(pa.field("element", pa.string())))
    lists = lists.cast(pa.list_(pa.field("element", pa.string(), metadata={"PARQUET:field_id": "2"})))
    table = with_ids({1: ("l", lists)})
    path = tmp_path / f"f.{format}"
    if format == "parquet":
        pq.write_table(table, path)
    else:
        orc.write_table(table, path, compression="zstd", dictionary_key_size_threshold=1.0)
    type = {"type": "list", "element-id": 2, "element": "string", "element-required": False}
    mapping = [{"field-id": 1, "names": ["l"], "fields": [{"field-id": 2, "names": ["element"]}]}]
    options = {"name_mapping": msgspec.json.encode(mapping).decode(), "threads": 1}
    file = data_file(path, len(table), format=format)
    assert file.size_bytes < 200_000
    assert column(read(schema_of((1, "l", type)), file, **options), 2).value_count == 2_000
    with pytest.raises(UnreadableFileError, match=r"some of it takes more .* \(floecat\.statistics\.memory"):
        read(schema_of((1, "l", type)), file, memory_bytes=2 << 20, **options)


def test_a_footer_that_claims_more_than_the_file_is_damage(tmp_path: Path) -> None:
    file = _secret_file(tmp_path)
    path = tmp_path / "f.parquet"
    path.write_bytes(path.read_bytes()[:-8] + b"\xff\xff\xff\x7fPAR1")
    with pytest.raises(UnreadableFileError, match="shorter than its footer"):
        read(schema_of((1, "l", "string")), file)


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_a_negative_size_is_refused(format: str, tmp_path: Path) -> None:
    file = msgspec.structs.replace(_secret_file(tmp_path), format=format, size_bytes=-1)
    with pytest.raises(UnreadableFileError, match=r"f\.parquet: its size is negative"):
        read(schema_of((1, "l", "string")), file)


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    file = _secret_file(tmp_path)
    (tmp_path / "f.parquet").unlink()
    for format in ("parquet", "orc", "avro"):
        with pytest.raises(FileMissingError):
            read(schema_of((1, "l", "string")), DataFile(file.location, format, 1, file.size_bytes))


class _FailingFiles:
    """Files whose storage fails after some reads."""

    def __init__(self, reads: int) -> None:
        self._left = reads

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise StorageUnavailableError("Storage does not answer")
        return FILES.read_range(location, offset, length)


def test_small_files_are_read_by_one_request(tmp_path: Path) -> None:
    table = with_ids({id: (f"c{id}", pa.array(range(1000))) for id in range(1, 20)})
    file = write_parquet(tmp_path, "f.parquet", table)
    before = FILES.counters.counts.reads
    assert len(read(schema_of(*((id, f"c{id}", "long") for id in range(1, 20))), file).columns) == 19
    assert FILES.counters.counts.reads == before + 1


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_failures_of_storage_are_no_faults_of_the_file(format: str, tmp_path: Path) -> None:
    rows = 700_000  # more bytes than are read as a whole
    table = with_ids({1: ("l", pa.array(range(rows)))})
    file = write_parquet(
        tmp_path, "f.parquet", table, row_group_size=rows // 2, use_dictionary=False, compression="none"
    )
    if format == "orc":
        orc.write_table(table, tmp_path / "f.orc")
        file = data_file(tmp_path / "f.orc", rows, format="orc")
    mapping = '[{"field-id": 1, "names": ["l"]}]'
    failed = 0
    for reads in range(40):
        source = DataFile(file.location, format, rows, file.size_bytes)
        files: Any = _FailingFiles(reads)
        with FileSummaries(files, schema_of((1, "l", "long")), [1], name_mapping=mapping) as summaries:
            try:
                assert summaries.summarize(source).row_count == rows
                break
            except StorageUnavailableError:
                failed += 1
            except UnreadableFileError:
                assert format == "avro"  # which this file is not
                break
    assert failed == reads >= 1


def test_types_without_an_order_are_counted(tmp_path: Path) -> None:
    schema = schema_of((1, "place", "geometry"), (2, "nothing", "unknown"), (3, "any", "variant"))
    table = with_ids({1: ("place", pa.array([b"\x01", None, b"\x01"]))})
    summary = read(schema, write_parquet(tmp_path, "f.parquet", table))
    counted = [(each.field_id, each.value_count, each.null_count, each.sketch) for each in summary.columns]
    assert counted == [(1, 3, 1, None), (2, 3, 3, None)]


def test_types_that_arrow_keeps_in_a_file_do_not_show(tmp_path: Path) -> None:
    """Writers of Arrow note dictionaries, long strings and extension types in the file."""
    floats = [1.5, float("nan"), None, float("nan"), 1.5]
    plain = {
        1: ("d", pa.array(floats)),
        2: ("l", pa.array([7, None, 7, 8, 9])),
        3: ("s", pa.array(["a", "b", None, "a", "c"])),
        4: ("u", pa.array([UUID(int=value).bytes for value in range(5)], pa.binary(16))),
    }
    noted = {
        1: ("d", plain[1][1].dictionary_encode()),
        2: ("l", plain[2][1].dictionary_encode()),
        3: ("s", plain[3][1].cast(pa.large_string()).dictionary_encode()),
        4: ("u", pa.ExtensionArray.from_storage(pa.uuid(), plain[4][1])),
    }
    schema = schema_of((1, "d", "double"), (2, "l", "long"), (3, "s", "string"), (4, "u", "uuid"))
    wanted = read(schema, write_parquet(tmp_path, "plain.parquet", with_ids(plain)))
    file = write_parquet(tmp_path, "f.parquet", with_ids(noted))
    found = read(schema, file)
    assert column(wanted, 1).nan_count == 2
    for each, other in zip(found.columns, wanted.columns, strict=True):
        assert (each.value_count, each.null_count, each.nan_count) == (5, other.null_count, other.nan_count)
        assert (each.lower, each.upper, each.sketch) == (other.lower, other.upper, other.sketch)
    with FileSummaries(FILES, schema, []) as summaries:
        assert summaries.page_index(file).columns == ("d", "l", "s")


def test_timestamps_of_96_bits(tmp_path: Path) -> None:
    moments = [dt.datetime(1969, 12, 31, 23), dt.datetime(2020, 1, 1, 0, 0, 0, 1), None]
    table = with_ids({1: ("t", pa.array(moments, pa.timestamp("us")))})
    schema = schema_of((1, "t", "timestamp"))
    file = write_parquet(tmp_path, "f.parquet", table, use_deprecated_int96_timestamps=True)
    wanted = column(read(schema, write_parquet(tmp_path, "plain.parquet", table)), 1)
    found = column(read(schema, file), 1)
    assert (found.lower, found.upper, found.sketch) == (wanted.lower, wanted.upper, wanted.sketch)


def test_a_damaged_footer_is_found_before_arrow_reads_it(tmp_path: Path) -> None:
    file = _secret_file(tmp_path)
    path = tmp_path / "f.parquet"
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    random = np.random.default_rng(5)
    refused = 0
    for _ in range(60):
        damaged = bytearray(data)
        damaged[len(data) - 8 - int(random.integers(1, length))] = int(random.integers(256))
        path.write_bytes(damaged)
        try:
            read(schema_of((1, "l", "string")), file)
        except UnreadableFileError:
            refused += 1
    assert refused > 5


def test_wide_files_stay_within_memory(tmp_path: Path) -> None:
    table = with_ids({1: ("s", pa.array(["x" * 10_000] * 5000))})
    file = write_parquet(tmp_path, "f.parquet", table, use_dictionary=False)
    assert pq.read_metadata(tmp_path / "f.parquet").row_group(0).total_byte_size > 45 << 20
    pool = pa.system_memory_pool()
    previous = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        found = column(read(schema_of((1, "s", "string")), file, memory_bytes=32 << 20, threads=1), 1)
    finally:
        pa.set_memory_pool(previous)
    assert found.value_count == 5000
    assert pool.max_memory() < 48 << 20


_MEMORY_BYTES = 2 << 20


def _small(schema_type: object, values: pa.Array, folder: Path, **options: Any) -> FileSummary:
    """Summarizes a file of one column with `only_small`, within 1 MiB of decoded values."""
    file = write_parquet(folder, "a.parquet", with_ids({1: ("a", values)}), compression="zstd", **options)
    assert file.size_bytes < 10_000
    return read(schema_of((1, "a", schema_type)), file, only_small=True, memory_bytes=_MEMORY_BYTES)


def test_small_files_are_read_where_little_memory_may_be_taken(tmp_path: Path) -> None:
    values = pa.array(["x" * 100] * 500)
    assert column(_small("string", values, tmp_path), 1).value_count == 500


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_text_that_decodes_to_much_needs_a_process(tmp_path: Path, dictionary: bool) -> None:
    values = pa.array(["x" * 100_000] * (_MEMORY_BYTES // 100_000 + 1))
    with pytest.raises(NeedsProcessError):
        _small("string", values, tmp_path, use_dictionary=dictionary)


@pytest.mark.parametrize("kind", ["text", "repeated bytes"])
def test_a_column_of_long_values_needs_a_process_before_the_file_does(tmp_path: Path, kind: str) -> None:
    """Such values are held several times while they are counted."""
    size = _MEMORY_BYTES // 10
    type, values = "string", pa.array(["x" * size])
    if kind == "repeated bytes":
        type, values = f"fixed[{size // 10}]", pa.array([b"x" * (size // 10)] * 30, pa.binary(size // 10))
    with pytest.raises(NeedsProcessError):
        _small(type, values, tmp_path, dictionary_pagesize_limit=size)


def test_a_page_that_is_too_large_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    size = 6 << 20
    file = write_parquet(
        tmp_path, "f.parquet", with_ids({1: ("s", pa.array(["x" * size]))}), compression="zstd"
    )
    schema = schema_of((1, "s", "string"))
    previous = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(previous)
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(UnreadableFileError, match=r"more than .* \(floecat\.statistics\.memory-bytes\)"):
            read(schema, file, memory_bytes=2 << 20, threads=1)
        assert (pool.max_memory() or 0) < size
    finally:
        pa.set_memory_pool(previous)
    assert column(read(schema, file), 1).size_bytes == size


@pytest.mark.parametrize("type", ["string", "binary"])
def test_long_values_have_short_bounds(type: str, tmp_path: Path) -> None:
    texts = ["é" * 64, "é" * 65, "é" * 64 + "z" * 5000, "ab", "é" * 63]
    arrow = pa.string() if type == "string" else pa.binary()
    values = pa.array([text.encode() for text in texts], pa.binary()).cast(arrow)
    found = column(
        read(schema_of((1, "c", type)), write_parquet(tmp_path, "f.parquet", with_ids({1: ("c", values)}))), 1
    )
    assert found.lower == b"ab"
    upper = ("é" * 63 + "ê").encode() if type == "string" else b"\xc3\xa9" * 31 + b"\xc3\xaa"
    assert (found.upper, distinct(found)) == (upper, 5)


def test_many_rows_need_a_process(tmp_path: Path) -> None:
    rows = _MEMORY_BYTES // 8 + 1
    with pytest.raises(NeedsProcessError):
        _small("boolean", pa.nulls(rows, pa.bool_()), tmp_path)


def test_a_column_chunk_on_which_arrow_ends_the_process_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(endless_parquet(1, page_rows=2, is_damaged=True))
    for only_small in (True, False):
        with pytest.raises(UnreadableFileError, match="damaged"):
            read(schema_of((1, "a", "long")), data_file(path, 1), only_small=only_small)
    with FileSummaries(FILES, schema_of((1, "a", "long")), []) as reader, pytest.raises(UnreadableFileError):
        reader.page_index(data_file(path, 1))


def test_many_columns_count_together(tmp_path: Path) -> None:
    values = {id: (f"c{id}", pa.nulls(_MEMORY_BYTES // 16 // 2, pa.int64())) for id in range(1, 4)}
    file = write_parquet(tmp_path, "a.parquet", with_ids(values))
    for columns in (1, 3):
        schema = schema_of(*((id, f"c{id}", "long") for id in range(1, columns + 1)))
        with nullcontext() if columns == 1 else pytest.raises(NeedsProcessError):
            read(schema, file, only_small=True, memory_bytes=_MEMORY_BYTES)


def test_what_cannot_be_known_before_needs_a_process(tmp_path: Path) -> None:
    values = pa.array(list(range(100_000)))
    large = write_parquet(tmp_path, "a.parquet", with_ids({1: ("a", values)}), use_dictionary=False)
    path = tmp_path / "a.orc"
    orc.write_table(pa.table({"a": [1]}), path)
    for file in (large, data_file(path, 1, format="orc")):
        with pytest.raises(NeedsProcessError):
            read(schema_of((1, "a", "long")), file, only_small=True, memory_bytes=1 << 20)
