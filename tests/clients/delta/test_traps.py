"""Faults that readers and converters of Delta tables are known for, each as a table that shows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, IsNull
from pyiceberg.manifest import DataFileContent, ManifestEntry
from pyiceberg.table import Table

from tests.clients.delta.lake import ENGINES, DeltaLake, sql_name
from tests.clients.delta.oracles import oracle_rows
from tests.clients.delta.probes import DUCKDB, SPARK
from tests.clients.delta.raw_table import RawTable
from tests.clients.delta.rows import check
from tests.clients.delta.test_file_columns import COLUMN_CASES, PARTITION_CASES
from tests.clients.delta.writer import DeltaWriter, z85_encode
from tests.delta_tables import writable_copy

pytestmark = pytest.mark.spark

Packed = Callable[[str], str]

_IDS = pa.schema([("id", pa.int64())])
_RESULT = pa.schema([("p", pa.string()), ("n", pa.int64())])


def _ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def _check(delta_lake: DeltaLake, table: str, expected: pa.Table) -> None:
    """All engines read the same."""
    for engine, read in ENGINES.items():
        check(read(delta_lake, table, None), expected, engine)


def _count(delta_lake: DeltaLake, table: str, condition: str) -> dict[str, int]:
    """How many rows a condition finds, in the SQL that DuckDB and Spark share."""
    by_duckdb = delta_lake.duckdb(
        f"SELECT count(*) FROM lake.{sql_name(table, DUCKDB.quote)} WHERE {condition}"
    )
    by_spark = delta_lake.spark(f"SELECT count(*) FROM {sql_name(table, SPARK.quote)} WHERE {condition}")
    return {"duckdb": by_duckdb.columns[0][0].as_py(), "spark": by_spark.columns[0][0].as_py()}


def _entries(table: Table, content: DataFileContent) -> list[ManifestEntry]:
    """The live files of the newest version."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [
        entry
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        if entry.data_file.content == content
    ]


# Bounds.

_MOMENT = datetime(2024, 2, 1, 20, 4, 53, 80758, UTC)


@pytest.fixture
def moments(delta_lake: DeltaLake, table_folder: Path) -> str:
    """Two files, each with one moment that its statistics show cut to milliseconds."""
    schema = pa.schema(
        [
            ("t", pa.timestamp("us", "UTC")),
            ("n", pa.timestamp("us")),
            ("st", pa.struct([("t", pa.timestamp("us", "UTC"))])),
        ]
    )
    written = DeltaWriter(table_folder / "moments", schema)
    for moment in (_MOMENT, _MOMENT - timedelta(days=1)):
        row = {"t": moment, "n": moment.replace(tzinfo=None), "st": {"t": moment}}
        written.append(pa.Table.from_pylist([row], schema=schema))
    return delta_lake.register("traps", table_folder.name.lower(), written.folder)


def test_o18_the_last_millisecond_is_found(delta_lake: DeltaLake, moments: str) -> None:
    text = "2024-02-01 20:04:53.080758"
    table = delta_lake.pyiceberg(moments)
    assert table.scan(row_filter=EqualTo("t", _MOMENT.isoformat())).to_arrow().num_rows == 1
    assert (
        table.scan(row_filter=EqualTo("n", _MOMENT.replace(tzinfo=None).isoformat())).to_arrow().num_rows == 1
    )
    by_duckdb = (f"t = TIMESTAMPTZ '{text}+00'", f"n = TIMESTAMP '{text}'", f"st.t = TIMESTAMPTZ '{text}+00'")
    by_spark = (f"t = TIMESTAMP '{text}Z'", f"n = TIMESTAMP_NTZ '{text}'", f"st.t = TIMESTAMP '{text}Z'")
    for condition in by_duckdb:
        source = f"lake.{sql_name(moments, DUCKDB.quote)}"
        assert delta_lake.duckdb(f"SELECT * FROM {source} WHERE {condition}").num_rows == 1, condition
    for condition in by_spark:
        source = sql_name(moments, SPARK.quote)
        assert delta_lake.spark(f"SELECT * FROM {source} WHERE {condition}").num_rows == 1, condition


def test_o18_maxima_are_not_taken_from_widened_bounds(delta_lake: DeltaLake, moments: str) -> None:
    asked = "SELECT max(t) t, max(n) n, max(st.t) s FROM "
    for answer in (
        delta_lake.spark(asked + sql_name(moments, SPARK.quote)),
        delta_lake.duckdb(f"{asked}lake.{sql_name(moments, DUCKDB.quote)}"),
    ):
        [row] = answer.to_pylist()
        assert row["t"].astimezone(UTC) == row["s"].astimezone(UTC) == _MOMENT
        assert row["n"] == _MOMENT.replace(tzinfo=None)


def test_o18_upper_bounds_saturate(delta_lake: DeltaLake, table_folder: Path) -> None:
    schema = pa.schema([("t", pa.timestamp("us", "UTC"))])
    written = DeltaWriter(table_folder / "t", schema)
    rows = pa.table({"t": pa.array([(1 << 63) - 1], pa.timestamp("us", "UTC"))})
    stats = {
        "numRecords": 1,
        "minValues": {},
        "maxValues": {"t": "+294247-01-10T04:00:54.775Z"},
        "nullCount": {"t": 0},
    }
    written.append(rows, stats=json.dumps(stats))
    table = delta_lake.register("traps", "saturated", written.folder)
    [entry] = _entries(delta_lake.pyiceberg(table), DataFileContent.DATA)
    upper = (entry.data_file.upper_bounds or {}).get(1)
    assert upper is None or int.from_bytes(upper, "little", signed=True) == (1 << 63) - 1


def test_decimals_and_long_strings(delta_lake: DeltaLake, table_folder: Path) -> None:
    """Bounds of decimals have the column's scale; those of long strings are cut."""
    schema = pa.schema([("d", pa.decimal128(12, 4)), ("s", pa.string())])
    written = DeltaWriter(table_folder / "t", schema)
    values = [(Decimal("1.5"), "é" * 40), (Decimal("-20"), "\U0010ffff" * 50), (Decimal("0.0001"), "z" * 33)]
    for number, text in values:
        rows = pa.Table.from_pylist([{"d": number, "s": text}], schema=schema)
        written.append(rows)
    table = delta_lake.register("traps", "decimals_and_strings", written.folder)
    _check(delta_lake, table, written.rows[written.version])
    for number, text in values:
        assert _count(delta_lake, table, f"d = {number}") == {"duckdb": 1, "spark": 1}
        assert _count(delta_lake, table, f"s = '{text}'") == {"duckdb": 1, "spark": 1}
        assert delta_lake.pyiceberg(table).scan(row_filter=EqualTo("s", text)).count() == 1
    entries = _entries(delta_lake.pyiceberg(table), DataFileContent.DATA)
    lowest = {int.from_bytes(entry.data_file.lower_bounds[1], "big", signed=True) for entry in entries}
    assert lowest == {int(number.scaleb(4)) for number, _ in values}


def test_not_a_number(delta_lake: DeltaLake, table_folder: Path) -> None:
    """It is the greatest number in SQL, and writers may leave it out of the statistics."""
    schema = pa.schema([("f", pa.float64())])
    written = DeltaWriter(table_folder / "t", schema)
    stats = {"numRecords": 3, "minValues": {"f": 1.0}, "maxValues": {"f": 2.0}, "nullCount": {"f": 0}}
    written.append(pa.table({"f": [1.0, 2.0, float("nan")]}), stats=json.dumps(stats))
    table = delta_lake.register("traps", "not_a_number", written.folder)
    _check(delta_lake, table, written.rows[1])
    for answer in (
        delta_lake.spark(f"SELECT max(f) FROM {sql_name(table, SPARK.quote)}"),
        delta_lake.duckdb(f"SELECT max(f) FROM lake.{sql_name(table, DUCKDB.quote)}"),
    ):
        [value] = answer.columns[0].to_pylist()
        assert value != value


def test_files_without_statistics(delta_lake: DeltaLake, table_folder: Path) -> None:
    written = DeltaWriter(table_folder / "t", _IDS)
    written.append(_ids(1, 2, 3), stats=None)
    written.append(_ids(4, 5), stats="{}")
    written.delete({0: [1]})
    table = delta_lake.register("traps", "without_statistics", written.folder)
    _check(delta_lake, table, _ids(1, 3, 4, 5))
    assert _count(delta_lake, table, "id >= 3") == {"duckdb": 3, "spark": 3}
    assert _count(delta_lake, table, "true") == {"duckdb": 4, "spark": 4}


# Deletion vectors.

_DELETED = [3, 4, 7, 11, 18, 29]


@pytest.mark.parametrize("storage", ["u", "i", "p"])
def test_o19_every_kind_of_deletion_vector(delta_lake: DeltaLake, table_folder: Path, storage: str) -> None:
    written = DeltaWriter(table_folder / "t", _IDS)
    written.append(_ids(*range(40)))
    written.delete({0: _DELETED}, storage=storage)
    table = delta_lake.register("traps", f"vector_{storage}", written.folder)
    _check(delta_lake, table, _ids(*sorted(set(range(40)) - set(_DELETED))))
    assert _count(delta_lake, table, "true") == {"duckdb": 34, "spark": 34}
    assert delta_lake.pyiceberg(table).scan().count() == 34


def test_o19_a_vector_in_runs(delta_lake: DeltaLake, table_folder: Path) -> None:
    """Long runs are stored as such, and positions go beyond one container."""
    written = DeltaWriter(table_folder / "t", _IDS)
    written.append(_ids(*range(200_000)))
    written.delete({0: [*range(10, 150_000), 199_999]})
    table = delta_lake.register("traps", "runs", written.folder)
    _check(delta_lake, table, _ids(*range(10), *range(150_000, 199_999)))


def _inline(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[DeltaWriter], None]:
    def apply(written: DeltaWriter) -> None:
        vector = change(written.store_vector(_DELETED, "i"))
        written.commit([{"add": written.files[0].add | {"deletionVector": vector}}])

    return apply


def _other_character(vector: dict[str, Any]) -> dict[str, Any]:
    text = vector["pathOrInlineDv"]
    # Within the magic number.
    return vector | {"pathOrInlineDv": ("1" if text[0] != "1" else "2") + text[1:]}


def _on_disk(
    change: Callable[[Path, dict[str, Any]], dict[str, Any] | None],
) -> Callable[[DeltaWriter], None]:
    def apply(written: DeltaWriter) -> None:
        vector = written.store_vector(_DELETED, "u")
        [file] = written.folder.rglob("*.bin")
        vector = change(file, vector) or vector
        written.commit([{"add": written.files[0].add | {"deletionVector": vector}}])

    return apply


def _flip(at: int) -> Callable[[Path, dict[str, Any]], None]:
    def change(file: Path, _vector: Mapping[str, Any]) -> None:
        data = bytearray(file.read_bytes())
        data[at] ^= 1
        file.write_bytes(data)

    return change


_BAD_VECTORS: dict[str, Callable[[DeltaWriter], None]] = {
    "inline with another magic number": _inline(_other_character),
    "inline of the protocol's own example": _inline(
        lambda _: {
            "storageType": "i",
            "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
            "sizeInBytes": 40,
            "cardinality": 6,
        }
    ),
    "inline with fewer positions": _inline(lambda vector: vector | {"cardinality": 7}),
    "inline cut": _inline(lambda vector: vector | {"sizeInBytes": vector["sizeInBytes"] - 4}),
    "inline in no alphabet": _inline(lambda vector: vector | {"pathOrInlineDv": "~~~~~" * 8}),
    "unknown storage": _inline(lambda vector: vector | {"storageType": "x"}),
    "wrong CRC": _on_disk(_flip(-1)),
    "flipped bit": _on_disk(_flip(20)),
    "wrong length": _on_disk(lambda _, vector: vector | {"sizeInBytes": vector["sizeInBytes"] + 1}),
    "beyond the file": _on_disk(lambda _, vector: vector | {"offset": 10_000}),
    "wrong cardinality": _on_disk(lambda _, vector: vector | {"cardinality": 5}),
    "file gone": _on_disk(lambda file, _: file.unlink()),
}


@pytest.mark.parametrize("fault", _BAD_VECTORS)
def test_o19_bad_vectors_are_errors_and_disturb_no_other_table(
    delta_lake: DeltaLake, table_folder: Path, fault: str
) -> None:
    written = DeltaWriter(table_folder / "t", _IDS)
    written.append(_ids(*range(40)))
    _BAD_VECTORS[fault](written)
    namespace = "traps_" + "_".join(fault.lower().replace("'", "").split())
    table = delta_lake.register(namespace, "bad", written.folder)
    answer = delta_lake.load_answer(table)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.json()["error"]["message"]
    good = DeltaWriter(table_folder / "good", _IDS)
    good.append(_ids(1))
    _check(delta_lake, delta_lake.register(namespace, "good", good.folder), _ids(1))
    assert delta_lake.listed(namespace) == {"bad", "good"}
    for engine in ENGINES:
        with pytest.raises(Exception, match=r"(?s).+"):
            ENGINES[engine](delta_lake, table, None)


def test_deletes_of_partitioned_tables_are_in_their_partition(delta_lake: DeltaLake, packed: Packed) -> None:
    table = delta_lake.pyiceberg(packed("golden/dv-with-columnmapping/delta"))
    of_data = {
        entry.data_file.file_path: (entry.data_file.spec_id, tuple(entry.data_file.partition))
        for entry in _entries(table, DataFileContent.DATA)
    }
    deletes = _entries(table, DataFileContent.POSITION_DELETES)
    assert deletes
    for entry in deletes:
        assert (entry.data_file.spec_id, tuple(entry.data_file.partition)) in of_data.values()
    for task in table.scan().plan_files():
        for delete in task.delete_files:
            assert tuple(delete.partition) == of_data[task.file.file_path][1]


def test_record_counts_are_physical(delta_lake: DeltaLake, packed: Packed) -> None:
    table = delta_lake.pyiceberg(packed("made/sail-dv_plain"))
    for entry in _entries(table, DataFileContent.DATA):
        file = entry.data_file.file_path.removeprefix("file://")
        assert entry.data_file.record_count == pq.read_metadata(file).num_rows
    summary = table.current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    deleted = sum(entry.data_file.record_count for entry in _entries(table, DataFileContent.POSITION_DELETES))
    assert int(summary["total-records"]) - deleted == 722


# Partition values.

_PARTITIONS: list[tuple[str, Mapping[str, str | None]]] = [
    ("null", {"p": None}),
    ("empty", {"p": ""}),
    ("absent", {}),
    ("hive", {"p": "__HIVE_DEFAULT_PARTITION__"}),
    ("text null", {"p": "null"}),
]


def test_o20_null_empty_and_missing_partition_values(delta_lake: DeltaLake, table_folder: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    written = DeltaWriter(table_folder / "t", schema, partitions=["p"])
    for at, (_, values) in enumerate(_PARTITIONS):
        rows = pa.table({"id": [at], "p": ["x"]}, schema=schema)
        written.append(rows, path=f"file{at}.parquet", partitionValues=dict(values))
    table = delta_lake.register("traps", "partition_values", written.folder)
    texts = [None, None, None, "__HIVE_DEFAULT_PARTITION__", "null"]
    expected = pa.table({"id": range(5), "p": texts}, schema=schema)
    _check(delta_lake, table, expected)
    assert _count(delta_lake, table, "p IS NULL") == {"duckdb": 3, "spark": 3}
    assert _count(delta_lake, table, "p = 'null'") == {"duckdb": 1, "spark": 1}
    assert delta_lake.pyiceberg(table).scan(row_filter=IsNull("p")).count() == 3
    entries = _entries(delta_lake.pyiceberg(table), DataFileContent.DATA)
    tuples = {entry.data_file.file_path.rpartition("/")[2]: entry.data_file.partition[0] for entry in entries}
    assert tuples == {f"file{at}.parquet": text for at, text in enumerate(texts)}


def test_o20_partition_values_of_numbers(delta_lake: DeltaLake, table_folder: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.int32())])
    written = DeltaWriter(table_folder / "t", schema, partitions=["p"])
    cases: list[Mapping[str, str | None]] = [{"p": None}, {"p": ""}, {}, {"p": "-7"}]
    for at, values in enumerate(cases):
        rows = pa.table({"id": [at], "p": [1]}, schema=schema)
        written.append(rows, path=f"file{at}.parquet", partitionValues=dict(values))
    table = delta_lake.register("traps", "partition_numbers", written.folder)
    _check(delta_lake, table, pa.table({"id": range(4), "p": [None, None, None, -7]}, schema=schema))
    assert _count(delta_lake, table, "p IS NULL") == {"duckdb": 3, "spark": 3}
    assert _count(delta_lake, table, "p = -7") == {"duckdb": 1, "spark": 1}


def test_mapped_partitions_and_bounds_go_by_physical_names(delta_lake: DeltaLake, packed: Packed) -> None:
    table = delta_lake.pyiceberg(packed("golden/dv-with-columnmapping/delta"))
    [field] = table.spec().fields
    assert table.schema().find_column_name(field.source_id) == "part"
    others = [each.field_id for each in table.schema().fields if each.field_id != field.source_id]
    for entry in _entries(table, DataFileContent.DATA):
        assert entry.data_file.partition[0] is not None
        assert set(others) <= set(entry.data_file.lower_bounds) & set(entry.data_file.upper_bounds)


def test_paths_are_percent_decoded(delta_lake: DeltaLake, table_folder: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    written = DeltaWriter(table_folder / "a b%", schema, partitions=["p"])
    texts = ["a b", "50%", "x=y/z", "ä", "+", "%20", "#?&"]
    written.append(pa.table({"id": range(len(texts)), "p": texts}, schema=schema))
    written.delete({1: [0]})
    table = delta_lake.register("traps", "paths", written.folder)
    _check(delta_lake, table, written.rows[written.version])
    for text in ("a b", "%20", "x=y/z"):
        assert _count(delta_lake, table, f"p = '{text}'") == {"duckdb": 1, "spark": 1}


@pytest.mark.parametrize("is_vectorized", ["true", "false"])
def test_spark_reads_columns_as_the_log_says(
    delta_lake: DeltaLake, table_folder: Path, is_vectorized: str
) -> None:
    """What `test_file_columns` reads with the other engines."""
    cases = PARTITION_CASES | COLUMN_CASES
    for name in ("text for date", "empty", "mapped, id", "foreign ids", "in a list", "row tracking"):
        made = RawTable(table_folder / name.replace(" ", "_"))
        expected = cases[name](made)
        table = delta_lake.register("traps", f"{made.folder.name}_{is_vectorized}", made.folder)
        with delta_lake.spark_settings({"spark.sql.iceberg.vectorization.enabled": is_vectorized}):
            found = ENGINES["spark"](delta_lake, table, None).to_pylist()
        rows = [tuple(row.values()) for row in found]
        assert (name, sorted(rows, key=repr)) == (name, sorted(expected, key=repr))


# Schemas.


def test_timestamps_are_in_utc(delta_lake: DeltaLake, packed: Packed) -> None:
    schema = delta_lake.pyiceberg(packed("made/sail-ntz")).schema()
    assert str(schema.find_type("t")) == "timestamp"
    assert str(schema.find_type("u")) == "timestamptz"


def test_manifests_carry_the_tables_own_ids(delta_lake: DeltaLake, packed: Packed) -> None:
    """Schema, snapshot and sequence numbers in the files are those of the metadata."""
    import fastavro

    table = delta_lake.pyiceberg(packed("golden/dv-with-columnmapping/delta"))
    ids = {each.name: each.field_id for each in table.schema().fields}
    snapshot = table.current_snapshot()
    assert snapshot is not None
    numbers = [each.sequence_number for each in table.metadata.snapshots]
    assert numbers == sorted(set(numbers))
    for manifest in snapshot.manifests(table.io):
        with Path(manifest.manifest_path.removeprefix("file://")).open("rb") as file:
            header: Any = fastavro.reader(file).metadata
        embedded = json.loads(header["schema"])
        assert {each["name"]: each["id"] for each in embedded["fields"]} == ids
        for entry in manifest.fetch_manifest_entry(table.io):
            assert 0 <= entry.snapshot_id <= snapshot.snapshot_id
            assert entry.sequence_number == entry.snapshot_id + 1


def test_field_ids_over_mapping_renames_and_replacement(delta_lake: DeltaLake, table_folder: Path) -> None:
    """Files from before column mapping have no ids, and a replaced table uses ids again for other columns.

    Those ids stand in the files, so that each version must be read by the schema of its own.
    """
    before = pa.schema([("id", pa.int32()), ("name", pa.string())])
    written = DeltaWriter(table_folder / "t", before)
    written.append(pa.table({"id": [1], "name": ["one"]}, schema=before))
    table = delta_lake.register("traps", "ids", written.folder)
    _check(delta_lake, table, written.rows[written.version])

    def mapped(name: str, type_: pa.DataType, id_: int, physical: str) -> pa.Field:
        return pa.field(name, type_, metadata={"id": str(id_), "physical": physical})

    written.mapping = "name"
    written.set_schema(pa.schema([mapped("id", pa.int32(), 1, "id"), mapped("name", pa.string(), 2, "name")]))
    added = mapped("extra", pa.string(), 3, "col-extra")
    renamed = [mapped("key", pa.int32(), 1, "id"), mapped("name", pa.string(), 2, "name"), added]
    written.set_schema(pa.schema(renamed))
    written.append(
        pa.table(
            {"key": [2], "name": ["two"], "extra": ["x"]},
            schema=pa.schema([("key", pa.int32()), ("name", pa.string()), ("extra", pa.string())]),
        )
    )
    of_mapping = written.version
    # CREATE OR REPLACE: the same ids for other columns, of other types and physical names.
    written.remove([0, 1])
    replaced = [mapped("id", pa.int64(), 1, "col-new"), mapped("extra", pa.int32(), 3, "col-extra-2")]
    written.set_schema(pa.schema(replaced))
    written.append(
        pa.table(
            {"id": [1 << 40], "extra": [5]}, schema=pa.schema([("id", pa.int64()), ("extra", pa.int32())])
        )
    )
    _check(delta_lake, table, written.rows[written.version])
    for engine in ("pyiceberg", "spark"):
        for version in (1, of_mapping, written.version):
            found = ENGINES[engine](delta_lake, table, version)
            check(found, written.rows[version], f"{engine} at {version}")


# What cannot be read.


def test_o21_an_unknown_reader_feature_is_refused_by_name(delta_lake: DeltaLake, table_folder: Path) -> None:
    written = DeltaWriter(table_folder / "t", _IDS, reader_features=["someFutureFeature"])
    written.append(_ids(*range(10)))
    good = DeltaWriter(table_folder / "good", _IDS)
    good.append(_ids(1))
    table = delta_lake.register("o21", "t", written.folder)
    other = delta_lake.register("o21", "good", good.folder)
    answer = delta_lake.load_answer(table)
    assert answer.status_code == 406, answer.text
    assert "someFutureFeature" in answer.json()["error"]["message"]
    assert answer.json()["error"]["type"]
    assert delta_lake.listed("o21") == {"t", "good"}
    _check(delta_lake, other, _ids(1))


def test_a_feature_that_comes_later_ends_reading(delta_lake: DeltaLake, table_folder: Path) -> None:
    written = DeltaWriter(table_folder / "t", _IDS)
    written.append(_ids(1))
    table = delta_lake.register("traps", "later_feature", written.folder)
    _check(delta_lake, table, _ids(1))
    features = ["deletionVectors", "someFutureFeature"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    written.commit([{"protocol": protocol}])
    answer = delta_lake.load_answer(table)
    assert answer.status_code == 406
    assert "someFutureFeature" in answer.json()["error"]["message"]


def test_a_failed_translation_is_never_an_empty_table(delta_lake: DeltaLake, table_folder: Path) -> None:
    written = DeltaWriter(table_folder / "t", _IDS)
    written.append(_ids(*range(10)))
    written.delete({0: [1]})
    [vector] = written.folder.rglob("*.bin")
    vector.unlink()
    table = delta_lake.register("traps", "failed", written.folder)
    answer = delta_lake.load_answer(table)
    assert answer.status_code >= 400, answer.text


def test_absolute_paths_outside_of_the_allowed_locations_are_refused(
    delta_lake: DeltaLake, table_folder: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.parquet"
    pq.write_table(_ids(7), secret)
    written = DeltaWriter(table_folder / "t", _IDS)
    written.append(_ids(1))
    written.commit([{"add": written.files[0].add | {"path": secret.as_uri()}}])
    table = delta_lake.register("traps", "outside", written.folder)
    answer = delta_lake.load_answer(table)
    assert 400 <= answer.status_code < 500, answer.text


def test_broken_lines_are_refused(delta_lake: DeltaLake, table_folder: Path) -> None:
    written = DeltaWriter(table_folder / "t", _IDS)
    written.append(_ids(1))
    log = written.folder / "_delta_log" / f"{1:020}.json"
    log.write_bytes(log.read_bytes()[:-20])
    table = delta_lake.register("traps", "broken_line", written.folder)
    answer = delta_lake.load_answer(table)
    assert answer.status_code == 400, answer.text
    assert "1" in answer.json()["error"]["message"]


def test_versions_whose_files_are_gone(delta_lake: DeltaLake, table_folder: Path) -> None:
    """VACUUM took the files of older versions: those fail or are not offered, the newest one is whole."""
    written = DeltaWriter(table_folder / "t", _IDS)
    written.append(_ids(1, 2, 3))
    written.append(_ids(4))
    written.remove([0])
    written.append(_ids(5))
    [file, *_] = sorted(
        written.folder.glob("*.parquet"), key=lambda each: pq.read_table(each)["id"][0].as_py()
    )
    file.unlink()
    table = delta_lake.register("traps", "vacuumed", written.folder)
    _check(delta_lake, table, _ids(4, 5))
    for engine in ENGINES:
        with pytest.raises(Exception, match=r"(?s).+"):
            ENGINES[engine](delta_lake, table, 2)


def test_commits_are_refused(delta_lake: DeltaLake, packed: Packed) -> None:
    table = packed("golden/snapshot-data0/delta")
    before = oracle_rows("golden/snapshot-data0/delta")
    with pytest.raises(Exception, match=r"(?i)read-only|delta"):
        delta_lake.pyiceberg(table).append(before)
    with pytest.raises(Exception, match=r"(?s).+"):
        delta_lake.duckdb(f"DELETE FROM lake.{sql_name(table, DUCKDB.quote)}")
    with pytest.raises(Exception, match=r"(?s).+"):
        delta_lake.spark(f"DELETE FROM {sql_name(table, SPARK.quote)} WHERE col1 = 1")
    _check(delta_lake, table, before)


def test_z85_of_the_protocol() -> None:
    """The identifier in the protocol's text, so that the writer of these tests is no fault of ours twice."""
    import uuid

    assert z85_encode(uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61").bytes) == "^-aqEH.-t@S}K{vb[*k^"


def test_truncated_checkpoints_are_no_rows(delta_lake: DeltaLake, table_folder: Path) -> None:
    folder = writable_copy("golden/only-checkpoint-files/delta", table_folder / "t")
    for file in (folder / "_delta_log").iterdir():
        if ".checkpoint." in file.name:
            file.write_bytes(file.read_bytes()[:-100])
        elif file.name < f"{2:020}":
            file.unlink()
    table = delta_lake.register("traps", "truncated", folder)
    answer = delta_lake.load_answer(table)
    assert answer.status_code == 400, answer.text
    assert "checkpoint" in answer.json()["error"]["message"]


def test_symbolic_links_lead_nowhere_else(delta_lake: DeltaLake, table_folder: Path, tmp_path: Path) -> None:
    written = DeltaWriter(table_folder / "t", _IDS)
    written.append(_ids(*range(10)))
    written.delete({0: [1]})
    [vector] = written.folder.rglob("*.bin")
    outside = tmp_path / "vector.bin"
    outside.write_bytes(vector.read_bytes())
    vector.unlink()
    vector.symlink_to(outside)
    table = delta_lake.register("traps", "linked", written.folder)
    answer = delta_lake.load_answer(table)
    assert 400 <= answer.status_code < 500, answer.text
