"""Rows as Spark sends them give the numbers that their files give."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from floecat.fileio.opening import open_fileio
from floecat.iceberg.schemas.schema import parse_schema
from floecat.statistics.files.data_files import FileSummaries
from floecat.statistics.files.summaries import CountedColumns, DataFile, FileSummary, Term
from floecat_assets.spark.catalog_rows import RowCounter, join_parts

SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                {"id": 1, "name": "key", "type": "uuid", "required": False},
                {"id": 2, "name": "text", "type": "string", "required": False},
                {"id": 3, "name": "ratio", "type": "double", "required": False},
                {
                    "id": 4,
                    "name": "place",
                    "required": False,
                    "type": {
                        "type": "struct",
                        "fields": [
                            {"id": 5, "name": "x", "type": "int", "required": False},
                            {
                                "id": 6,
                                "name": "tags",
                                "required": False,
                                "type": {
                                    "type": "map",
                                    "key-id": 7,
                                    "key": "string",
                                    "value-id": 8,
                                    "value": "timestamptz",
                                    "value-required": False,
                                },
                            },
                        ],
                    },
                },
                {"id": 9, "name": "added", "type": "date", "required": False},
            ],
        }
    ).encode()
)
COLUMNS = CountedColumns(
    {id: str(SCHEMA.find_type(id)) for id in (1, 2, 3, 5, 7, 8, 9)},
    (Term(2, "truncate[3]"), Term(9, "year")),
)


def _field(id: int, name: str, type: pa.DataType) -> pa.Field:
    return pa.field(name, type, metadata={"PARQUET:field_id": str(id)})


TAGS = pa.map_(
    _field(7, "key", pa.string()).with_nullable(False), _field(8, "value", pa.timestamp("us", "UTC"))
)
PLACE = pa.struct([_field(5, "x", pa.int32()), _field(6, "tags", TAGS)])


def _rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    keys = [None if i % 5 == 0 else UUID(int=i).bytes for i in numbers]
    texts = [None if i % 7 == 0 else f"{i % 13}" * (i % 90) for i in numbers]
    ratios = [float("nan") if i % 3 == 0 else -0.0 if i % 2 else i / 3 for i in numbers]
    places = [None if i % 4 == 0 else {"x": i, "tags": [("a", i), (f"k{i}", None)]} for i in numbers]
    return pa.table(
        [pa.array(keys, pa.binary(16)), pa.array(texts), pa.array(ratios), pa.array(places, PLACE)],
        pa.schema(
            [
                _field(1, "key", pa.binary(16)),
                _field(2, "text", pa.string()),
                _field(3, "ratio", pa.float64()),
                _field(4, "place", PLACE),
            ]
        ),
    )


def _sent(location: str, rows: pa.Table) -> list[pa.RecordBatch]:
    """As Spark sends them: UUIDs as text, columns that the file lacks as nulls."""
    keys = [None if key is None else str(UUID(bytes=key)) for key in rows["key"].to_pylist()]
    sent = pa.table(
        {
            "_file": [location] * len(rows),
            "key": pa.array(keys, pa.string()),
            "text": rows["text"],
            "ratio": rows["ratio"],
            "place": rows["place"],
            "added": pa.nulls(len(rows), pa.date32()),
        }
    )
    return sent.to_batches(max_chunksize=100)


def test_rows_of_splits_give_the_summaries_of_their_files(tmp_path: Path) -> None:
    rows = {"a": _rows(0, 700), "b": _rows(5_000, 350), "c": _rows(0, 0)}
    files = {}
    for name, table in rows.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(table, path, row_group_size=128)
        files[name] = DataFile(str(path), "parquet", len(table), path.stat().st_size)
    sent = {name: _sent(files[name].location, table) for name, table in rows.items()}
    counter = RowCounter.of(SCHEMA, COLUMNS)
    assert counter.columns == ("key", "text", "ratio", "place", "added")
    # tasks read splits; one batch has rows of two files
    both = pa.Table.from_batches([sent["a"][-1], sent["b"][0]]).combine_chunks().to_batches()
    tasks = [sent["a"][:4], [*sent["a"][4:-1], *both], sent["b"][1:], sent["c"]]
    parts: dict[str, list[FileSummary]] = {}
    for task in tasks:
        for batch in counter.parts(iter(task)):
            for row in batch.to_pylist():
                part = msgspec.msgpack.decode(row["part"], type=FileSummary)
                parts.setdefault(row["location"], []).append(part)
    assert {location: len(found) for location, found in parts.items()} == {
        files["a"].location: 2,
        files["b"].location: 2,
    }
    reader = FileSummaries(
        open_fileio(fsync=False), SCHEMA, list(COLUMNS.types), expressions=COLUMNS.expressions
    )
    with reader:
        for file in files.values():
            joined = join_parts(
                file.location,
                parts.get(file.location, ()),
                reader.stored(file),
                SCHEMA,
                COLUMNS.expressions,
            )
            assert joined == reader.summarize(file)
