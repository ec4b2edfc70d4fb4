from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floecat.delta.log.checkpoints import open_checkpoint_file
from floecat.delta.log.file_tables import files_schema
from floecat.delta.log.headers import LogHeader
from floecat.delta.log.log_bounds import LogBounds, ReadMeter
from floecat.delta.protocol.actions import Metadata, Protocol
from floecat.delta.protocol.paths import PathReader
from floecat.errors import InvalidDeltaTableError
from tests.delta_tables import delta_tables_folder
from tests.endless_file import endless_parquet
from tests.unit.delta.log_lines import (
    PARTITIONED,
    PROTOCOL,
    add,
    checkpoint_bytes,
    commit_bytes,
    descriptor,
    metadata,
    remove,
)

LOCATION = "s3://bucket/t/_delta_log/00000000000000000009.checkpoint.parquet"
JSON = "s3://bucket/t/_delta_log/00000000000000000009.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"

ACTIONS: list[dict[str, Any]] = [
    {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["x"],
            "writerFeatures": ["x"],
        }
    },
    metadata("{}", ["p"], delta__appendOnly="true"),
    {"txn": {"appId": "app", "version": 1}},
    {"sidecar": {"path": "s1.parquet", "sizeInBytes": 5}},
    add("a%20b", partitionValues={"p": "1"}, stats='{"numRecords":1}'),
    remove("gone"),
    add("c", partitionValues={"p": None}, deletionVector=descriptor()),
    {"sidecar": {"path": "s2.parquet", "sizeInBytes": 5}},
]


def files(data: bytes, names: Sequence[str] = (), location: str = LOCATION) -> pa.Table:
    tables = open_checkpoint_file(data, location=location, meter=ReadMeter(LogBounds())).files(
        names, PathReader("s3://bucket/t")
    )
    return pa.concat_tables(tables) if tables else files_schema(names).empty_table()


def header(data: bytes, location: str = LOCATION) -> LogHeader:
    return open_checkpoint_file(data, location=location, meter=ReadMeter(LogBounds())).header()


@pytest.mark.parametrize(
    ("data", "location"),
    [
        (checkpoint_bytes(*ACTIONS), LOCATION),
        (checkpoint_bytes(*ACTIONS, row_group_size=1), LOCATION),
        (checkpoint_bytes(*ACTIONS, compression="zstd", data_page_version="2.0"), LOCATION),
        (commit_bytes(*ACTIONS), JSON),
    ],
)
def test_all_forms_hold_the_same(data: bytes, location: str) -> None:
    assert header(data, location) == LogHeader(
        Protocol(3, 7, ("x",), ("x",)),
        Metadata("some-id", "{}", ("p",), {"delta.appendOnly": "true"}, None, None, "parquet", 1700000000000),
        None,
        ("s1.parquet", "s2.parquet"),
    )
    found = files(data, ["p"], location)
    assert found.schema == files_schema(["p"])
    assert found["path"].to_pylist() == ["a b", "c"]
    assert found["partition_values"].to_pylist() == [{"p": "1"}, {"p": None}]
    assert found["stats"].to_pylist() == ['{"numRecords":1}', None]
    assert found["size_bytes"].to_pylist() == [100, 100]
    assert found["modified_at_ms"].to_pylist() == [5, 5]
    assert found["dv_id"].to_pylist() == [None, "uab^-aqEH.-t@S}K{vb[*k^@1"]
    assert found["deletion_vector"].to_pylist()[1]["cardinality"] == 2


def test_a_checkpoint_without_files() -> None:
    data = checkpoint_bytes(PROTOCOL, PARTITIONED)
    assert len(files(data)) == 0
    assert header(data).protocol == Protocol(1, 2)
    assert files(parquet({"protocol": [{"minReaderVersion": 1, "minWriterVersion": 2}]})).num_rows == 0
    assert files(parquet({"add": [{"size": 5}]})).num_rows == 0
    assert header(parquet({"x": [1], "metaData": [None]})) == LogHeader()


def parquet(columns: Mapping[str, Any], **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), sink, **options)
    return bytes(sink.getvalue())


NOT_UTF8 = "N\N{LATIN SMALL LETTER O WITH STROKE}TUTF8"
ADDS = pa.struct(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("stats", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
    ]
)
CONFIGURATION = pa.struct([("configuration", pa.map_(pa.string(), pa.string()))])


def spoiled(data: bytes) -> bytes:
    """The file, with bytes in `NOT_UTF8` that are none."""
    return data.replace(NOT_UTF8.encode(), b"N\xff\xfeTUTF8")


def test_fields_that_a_writer_leaves_out() -> None:
    found = files(parquet({"add": [{"path": "a", "size": 5}, None]}), ["p"])
    assert found.to_pylist() == [
        {
            "path": "a",
            "partition_values": {"p": None},
            "size_bytes": 5,
            "modified_at_ms": None,
            "stats": None,
            "deletion_vector": None,
            "dv_id": None,
        }
    ]


def test_other_types_for_the_same() -> None:
    vectors = pa.struct(
        [
            ("storageType", pa.large_string()),
            ("pathOrInlineDv", pa.large_string()),
            ("offset", pa.int64()),
            ("sizeInBytes", pa.int64()),
            ("cardinality", pa.int64()),
        ]
    )
    types = {
        "path": pa.large_string(),
        "size": pa.int32(),
        "stats": pa.dictionary(pa.int32(), pa.string()),
        "partitionValues": pa.map_(pa.large_string(), pa.large_string()),
        "deletionVector": vectors,
    }
    found = files(checkpoint_bytes(*ACTIONS, add_types=types), ["p"])
    assert found.equals(files(checkpoint_bytes(*ACTIONS), ["p"]))


def test_structs_of_nulls_stand_for_nulls() -> None:
    nothing = dict.fromkeys(["storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality"])
    data = checkpoint_bytes(
        {
            "protocol": {"minReaderVersion": None},
            "metaData": {"id": None},
            "add": {**add("a")["add"], "deletionVector": nothing},
        },
        {**PROTOCOL, "add": {"path": None}, "sidecar": {"path": None}},
    )
    assert header(data) == LogHeader(Protocol(1, 2))
    assert files(data)["deletion_vector"].to_pylist() == [None]
    assert files(data)["dv_id"].to_pylist() == [None]


STATS = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", pa.struct([("a", pa.int64()), ("t", pa.timestamp("us", "UTC"))])),
        ("nullCount", pa.struct([("a", pa.int64())])),
    ]
)
PARSED = {
    "numRecords": 3,
    "minValues": {"a": 1, "t": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)},
    "nullCount": {"a": 0},
}


def test_struct_statistics_where_there_is_no_text() -> None:
    data = checkpoint_bytes(
        PROTOCOL, add("a", stats_parsed=PARSED), add("b"), add_types={"stats": None, "stats_parsed": STATS}
    )
    found = files(data)
    assert found.column_names[4:6] == ["stats", "stats_parsed"]
    assert found["stats_parsed"].to_pylist() == [PARSED, None]
    assert found["stats"].to_pylist() == [None, None]


def test_text_is_preferred_to_struct_statistics() -> None:
    types = {"stats_parsed": STATS}
    both = add("a", stats="{}", stats_parsed=PARSED)
    assert "stats_parsed" not in files(checkpoint_bytes(both, add_types=types)).column_names
    found = files(checkpoint_bytes(both, add("b", stats_parsed=PARSED), add_types=types))
    assert found["stats_parsed"].to_pylist() == [None, PARSED]
    assert found["stats"].to_pylist() == ["{}", None]
    assert "stats_parsed" not in files(checkpoint_bytes(add("a"), add_types=types)).column_names


def test_partition_values_that_are_only_typed() -> None:
    parsed = pa.struct([("p", pa.int32()), ("q", pa.timestamp("us"))])
    rows = [
        add("a", partitionValues_parsed={"p": 1, "q": dt.datetime(1, 1, 1)}),
        add("b", partitionValues_parsed={"p": None, "q": dt.datetime(9999, 12, 31, 23, 59, 59, 999999)}),
        add("c", partitionValues_parsed=None),
    ]
    types: dict[str, Any] = {"partitionValues": None, "partitionValues_parsed": parsed}
    texts = [
        {"p": "1", "q": "0001-01-01 00:00:00.000000"},
        {"p": None, "q": "9999-12-31 23:59:59.999999"},
        {"p": None, "q": None},
    ]
    assert (
        files(checkpoint_bytes(*rows, add_types=types), ["p", "q"])["partition_values"].to_pylist() == texts
    )
    in_utc = [{**text, "q": text["q"].replace(" ", "T") + "Z" if text["q"] else None} for text in texts]
    int96 = checkpoint_bytes(*rows, add_types=types, use_deprecated_int96_timestamps=True)
    assert files(int96, ["p", "q"])["partition_values"].to_pylist() == in_utc


def test_the_map_of_partition_values_is_preferred() -> None:
    row = add("a", partitionValues={"p": "01"}, partitionValues_parsed={"p": 1})
    data = checkpoint_bytes(row, add_types={"partitionValues_parsed": pa.struct([("p", pa.int32())])})
    assert files(data, ["p"])["partition_values"].to_pylist() == [{"p": "01"}]


@pytest.mark.parametrize("size", [0, 3, 4, 100, -1, -9, -300])
def test_a_cut_file(size: int) -> None:
    data = checkpoint_bytes(*ACTIONS)
    cut = data[:size] if size >= 0 else data[: len(data) + size]
    with pytest.raises(InvalidDeltaTableError) as raised:
        header(cut)
    assert raised.value.message == f"Checkpoint file {LOCATION} is damaged or is not a Parquet file"


def test_damaged_pages() -> None:
    data = checkpoint_bytes(*(add(f"{number}" * 50) for number in range(1000)), compression="zstd")
    broken = data[:200] + b"\xff" * 2000 + data[2200:]
    with pytest.raises(InvalidDeltaTableError, match=r"00000000000000000009\.checkpoint\.parquet is damaged"):
        files(broken)


def test_a_column_chunk_on_which_arrow_ends_the_process() -> None:
    data = endless_parquet(1, page_rows=2, path=[b"add", b"path"], is_damaged=True)
    file = open_checkpoint_file(data, location="c.parquet", meter=ReadMeter(LogBounds()))
    with pytest.raises(InvalidDeltaTableError, match="damaged"):
        file.files([], PathReader("file:///t"))


def test_broken_actions() -> None:
    with pytest.raises(InvalidDeltaTableError, match=r"Protocol, metadata or a sidecar in .* is broken"):
        header(checkpoint_bytes({"protocol": {"minReaderVersion": 1}}))
    with pytest.raises(InvalidDeltaTableError, match="lacks the size of a file"):
        files(checkpoint_bytes(add("a", size=None)))
    for file in (checkpoint_bytes(add("a"), add("b", size=-1)), commit_bytes(add("a", size=-1))):
        with pytest.raises(InvalidDeltaTableError, match="negative size"):
            files(file, location=JSON if file[:1] == b"{" else LOCATION)
    with pytest.raises(InvalidDeltaTableError, match="is damaged"):
        files(parquet({"add": [{"path": "a", "size": "many"}]}))
    with pytest.raises(InvalidDeltaTableError, match="is damaged"):
        files(parquet({"add": [{"path": "a", "size": 5, "deletionVector": "x"}]}))
    with pytest.raises(InvalidDeltaTableError, match="is described incompletely"):
        files(checkpoint_bytes(add("a", deletionVector=descriptor(cardinality=None))))
    with pytest.raises(InvalidDeltaTableError, match=r"Line 2 of .*\.json is not a valid Delta action"):
        files(commit_bytes(add("a")) + b"{", location=JSON)


_ADD: dict[str, Any] = {"path": "a", "size": 5, "stats": "{}", "partitionValues": [("p", "x")]}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", NOT_UTF8),
        ("stats", NOT_UTF8),
        ("partitionValues", [(NOT_UTF8, "x")]),
        ("partitionValues", [("p", NOT_UTF8)]),
    ],
)
def test_text_of_files_that_is_no_text(field: str, value: Any) -> None:
    data = spoiled(parquet({"add": pa.array([_ADD | {field: value}], ADDS)}))
    with pytest.raises(InvalidDeltaTableError, match=r"checkpoint\.parquet is damaged"):
        files(data, ["p"])


@pytest.mark.parametrize(
    "columns",
    [
        {"metaData": [{"schemaString": NOT_UTF8}]},
        {"metaData": pa.array([{"configuration": [("k", NOT_UTF8)]}], CONFIGURATION)},
        {"protocol": [{"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": [NOT_UTF8]}]},
        {"sidecar": [{"path": NOT_UTF8}]},
        {"metaData": pa.array([{"createdTime": 2**62}], pa.struct([("createdTime", pa.timestamp("us"))]))},
    ],
)
def test_text_of_headers_that_is_no_text(columns: Mapping[str, Any]) -> None:
    with pytest.raises(InvalidDeltaTableError, match=r"checkpoint\.parquet is damaged"):
        header(spoiled(parquet(columns)))


@pytest.mark.parametrize("parsed", [["x"], [1], [[1]]])
def test_struct_statistics_that_are_no_structs(parsed: Any) -> None:
    columns = {"path": ["a"], "size": [5], "stats_parsed": parsed, "partitionValues_parsed": parsed}
    adds = pa.StructArray.from_arrays(list(map(pa.array, columns.values())), names=list(columns))
    found = files(parquet({"add": adds}), ["p"])
    assert found.schema == files_schema(["p"])
    assert found["partition_values"].to_pylist() == [{"p": None}]


@pytest.mark.parametrize("suffix", ["parquet", "json"])
def test_damage_of_any_kind_is_named(suffix: str) -> None:
    """Bytes that are changed or cut off: what can still be read, and the one error."""
    every = sorted(delta_tables_folder().rglob(f"*.checkpoint*.{suffix}"))
    whole = [path.read_bytes() for path in every if path.stat().st_size < 30_000]
    assert whole
    random = Random(7)
    refused = 0
    for _ in range(600):
        data = bytearray(random.choice(whole))
        if random.random() < 0.2:
            del data[random.randrange(len(data)) :]
        for _ in range(random.randrange(4) if data else 0):
            # most of what can go wrong is in the footer
            start = max(0, len(data) - 3000) if random.random() < 0.6 else 0
            data[random.randrange(start, len(data))] = random.randrange(256)
        location = f"s3://bucket/t/_delta_log/damaged.{suffix}"
        try:
            found = open_checkpoint_file(bytes(data), location=location, meter=ReadMeter(LogBounds()))
            found.header()
            # what nobody has found is found when it is read
            for table in found.files(["p"], PathReader("s3://bucket/t")):
                table.drop_columns(set(table.column_names) & {"stats_parsed"}).to_pylist()
        except InvalidDeltaTableError as error:
            refused += 1
            assert location in error.message  # noqa: PT017 - many are read all the same
    assert refused > 50


def test_only_what_is_asked_for_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []
    read = pq.ParquetFile.read_row_groups

    def note(self: Any, groups: Any, columns: Sequence[str]) -> Any:
        asked.append(columns)
        return read(self, groups, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", note)
    data = checkpoint_bytes(add("a", stats="{}"), add_types={"stats_parsed": STATS})
    files(data)
    fields = ["path", "partitionValues", "size", "modificationTime", "stats", "deletionVector"]
    assert asked == [[f"add.{field}" for field in fields]]
