"""Numbers of data files beside those of Spark, sketches beside those of Iceberg's `compute_table_stats`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
import zstandard

from floecat.fileio.opening import open_fileio
from floecat.iceberg.schemas.schema import Schema, parse_schema
from floecat.iceberg.schemas.types import PrimitiveType
from floecat.logical_types import canonical_text
from floecat.statistics.files.data_files import FileSummaries
from floecat.statistics.files.hashing import hash_values
from floecat.statistics.files.puffin_statistics import write_statistics_file
from floecat.statistics.files.summaries import ColumnSummary, DataFile, DeleteFile, FileSummary
from floecat.statistics.files.theta import SketchBuilder, ThetaSketch, union
from tests.clients.connections import Connections
from tests.clients.spark_lake import Lake, new_lake
from tests.clients.warehouses import Warehouse

pytestmark = pytest.mark.spark

_ROWS = 20_000
_SELECT = f"""SELECT id AS l, CAST(id AS int) AS i, id % 3 = 0 AS b, CAST(id / 7 AS float) AS f,
    CASE id WHEN 5 THEN double('NaN') WHEN 6 THEN -0.0D WHEN 8 THEN 0.0D ELSE id / 3.0D END AS d,
    date_add(date'2020-01-01', CAST(id % 1000 AS int)) AS dt,
    timestamp_micros(id * 1000003) AS ts, CAST(timestamp_micros(id * 977) AS timestamp_ntz) AS tn,
    CASE id % 10 WHEN 0 THEN NULL WHEN 1 THEN ''
        ELSE concat('name ', id % 5000, repeat('x', CAST(id % 200 AS int))) END AS s,
    CAST(concat('b', id) AS binary) AS bin, CAST(id * 1.01 AS decimal(9, 2)) AS d9,
    CAST(CAST(id AS decimal(38, 0)) * 1234567890123456789 AS decimal(38, 5)) AS d38
    FROM range(0, {_ROWS})"""


@pytest.fixture(scope="module")
def lake(connections: Connections, disk_warehouse: Warehouse) -> Lake:
    return new_lake(connections, disk_warehouse)


def _summaries(lake: Lake, table: str) -> tuple[Schema, list[FileSummary]]:
    """Reads all data files, each with all delete files."""
    found = lake.sql(
        "SELECT content, file_path, lower(file_format), record_count, file_size_in_bytes,"
        f" referenced_data_file, content_offset, content_size_in_bytes FROM {{ns}}.{table}.files"
    )
    deletes: dict[str | None, list[DeleteFile]] = {}
    for content, path, format, rows, size, referenced, offset, length in found:
        if content:
            delete = DeleteFile(path, format, rows, size, (), offset, length)
            deletes.setdefault(referenced, []).append(delete)
    [(metadata,)] = lake.sql(
        f"SELECT file FROM {{ns}}.{table}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1"
    )
    document = json.loads(Path(urlsplit(metadata).path).read_bytes())
    [schema] = [
        parse_schema(json.dumps(each).encode())
        for each in document["schemas"]
        if each["schema-id"] == document["current-schema-id"]
    ]
    with FileSummaries(open_fileio(fsync=False), schema, list(schema.fields_by_id)) as summaries:
        return schema, [
            summaries.summarize(
                DataFile(path, format, rows, size, tuple(deletes.get(path, []) + deletes.get(None, [])))
            )
            for content, path, format, rows, size, *_ in found
            if not content
        ]


def _sketch(columns: Sequence[ColumnSummary]) -> ThetaSketch:
    return union(ThetaSketch.from_bytes(column.sketch or b"") for column in columns)


def _columns(schema: Schema, files: Sequence[FileSummary]) -> dict[str, list[ColumnSummary]]:
    return {
        schema.names_by_id[id]: [column for file in files for column in file.columns if column.field_id == id]
        for id in schema.fields_by_id
    }


def _blobs(path: str) -> dict[int, bytes]:
    """Blobs of a Puffin file by field id."""
    data = Path(urlsplit(path).path).read_bytes()
    length = int.from_bytes(data[-12:-8], "little")
    return {
        blob["fields"][0]: zstandard.decompress(data[blob["offset"] :][: blob["length"]])
        for blob in json.loads(data[-12 - length : -12])["blobs"]
    }


def test_sketches_are_those_of_compute_table_stats(lake: Lake) -> None:
    lake.sql(f"CREATE TABLE {{ns}}.all_types USING iceberg AS {_SELECT}")
    (path,) = lake.call("compute_table_stats", f"table => '{lake.ns}.all_types'")
    theirs = {id: ThetaSketch.from_bytes(blob) for id, blob in _blobs(str(path)).items()}
    schema, files = _summaries(lake, "all_types")
    columns = _columns(schema, files)
    assert len(theirs) == len(columns) == 12
    jvm: Any = lake.catalog.session
    sketches = jvm._jvm.org.apache.iceberg.shaded.org.apache.datasketches
    for id, name in schema.names_by_id.items():
        ours = _sketch(columns[name])
        theta = min(ours.theta, theirs[id].theta)
        # The same hashes, as far as both keep them: the values were hashed alike.
        assert (ours.hashes[ours.hashes < theta] == theirs[id].hashes[theirs[id].hashes < theta]).all(), name
        lower, upper = ours.bounds(3)
        assert lower <= theirs[id].estimate <= upper, name
        assert lower <= union([ours, theirs[id]]).estimate <= upper, name
        # Java reads ours.
        memory = sketches.memory.Memory.wrap(bytearray(ours.to_bytes()))
        read = sketches.theta.CompactSketch.heapify(memory)
        assert read.getEstimate() == pytest.approx(ours.estimate, rel=1e-12)


def test_java_reads_our_statistics_file(lake: Lake, tmp_path: Path) -> None:
    merged = [
        ColumnSummary(id, 3, 0, 0, None, None, 0, _of(values).to_bytes())
        for id, values in ((1, range(3)), (7, range(100_000)))
    ]
    path = tmp_path / "s.stats"
    data, described = write_statistics_file(merged, path.as_uri(), 5, 2)
    path.write_bytes(data)
    session: Any = lake.catalog.session
    iceberg = session._jvm.org.apache.iceberg
    reader = (
        iceberg.puffin.Puffin.read(iceberg.Files.localInput(str(path)))
        .withFileSize(described.file_size_in_bytes)
        .withFooterSize(described.file_footer_size_in_bytes)
        .build()
    )
    blobs = reader.fileMetadata().blobs()
    assert [str(blob.type()) for blob in blobs] == ["apache-datasketches-theta-v1"] * 2
    assert [(blob.snapshotId(), blob.sequenceNumber()) for blob in blobs] == [(5, 2)] * 2
    assert [list(blob.inputFields()) for blob in blobs] == [[1], [7]]
    pairs = reader.readAll(blobs).iterator()
    for column, blob in zip(merged, blobs, strict=True):
        assert bytes(pairs.next().second().array()) == column.sketch
        estimate = ThetaSketch.from_bytes(column.sketch or b"").estimate
        assert dict(blob.properties()) == {"ndv": str(round(estimate))}


def _of(values: range) -> ThetaSketch:
    builder = SketchBuilder()
    builder.add(hash_values(pa.array(values, pa.int64()), PrimitiveType("long")))
    return builder.build()


@pytest.mark.parametrize("version", [2, 3])
def test_numbers_are_those_of_spark_after_deletes_and_changes_of_the_schema(lake: Lake, version: int) -> None:
    """Version 2 has position deletes, version 3 deletion vectors."""
    table = f"deleted_v{version}"
    lake.sql(
        f"CREATE TABLE {{ns}}.{table} USING iceberg TBLPROPERTIES ('format-version'='{version}',"
        f" 'write.delete.mode'='merge-on-read') AS {_SELECT}"
    )
    lake.sql(f"ALTER TABLE {{ns}}.{table} ALTER COLUMN i TYPE bigint")
    lake.sql(f"ALTER TABLE {{ns}}.{table} ALTER COLUMN f TYPE double")
    lake.sql(f"ALTER TABLE {{ns}}.{table} RENAME COLUMN s TO name")
    lake.sql(f"ALTER TABLE {{ns}}.{table} DROP COLUMN bin")
    lake.sql(f"ALTER TABLE {{ns}}.{table} ADD COLUMN added string")
    lake.sql(f"DELETE FROM {{ns}}.{table} WHERE l % 4 = 1 OR l >= 19000")
    lake.sql(f"DELETE FROM {{ns}}.{table} WHERE l = 0")
    schema, files = _summaries(lake, table)
    columns = _columns(schema, files)
    names = ["l", "i", "f", "d", "dt", "name", "d9", "added"]
    wanted = lake.sql(
        "SELECT count(*), "
        + ", ".join(
            f"count({name}), count(DISTINCT {name}), CAST(min({name}) AS string), CAST(max({name}) AS string)"
            for name in names
        )
        + f" FROM {{ns}}.{table}"
    )[0]
    assert sum(file.row_count for file in files) == wanted[0]
    assert all(file.is_exact for file in files)
    for place, name in enumerate(names):
        present, distinct, low, high = wanted[1 + 4 * place : 5 + 4 * place]
        found = columns[name]
        assert sum(each.value_count - each.null_count for each in found) == present
        sketch = _sketch(found)
        lower, upper = sketch.bounds(3)
        # An empty string is in no sketch.
        assert lower <= distinct <= upper + 1
        type = schema.fields_by_id[schema.ids_by_name[name]].type
        if name in ("l", "i", "dt"):
            bounds = [canonical_text(each.lower or b"", type) for each in found]
            assert low in bounds
            bounds = [canonical_text(each.upper or b"", type) for each in found]
            assert high in bounds
        if name == "added":
            assert [each.upper for each in found] == [None] * len(found)
