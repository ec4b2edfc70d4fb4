"""Data files of tables, written for tests, and a naive count of what is in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from floecat.fileio.base import FileIO
from floecat.fileio.opening import open_fileio
from floecat.iceberg.schemas.schema import Schema, parse_schema
from floecat.statistics.files.data_files import FileSummaries
from floecat.statistics.files.summaries import ColumnSummary, DataFile, DeleteFile, FileSummary
from floecat.statistics.files.theta import ThetaSketch

__all__ = [
    "FILES",
    "column",
    "data_file",
    "delete_file",
    "distinct",
    "read",
    "schema_of",
    "with_ids",
    "write_parquet",
]

FILES: FileIO = open_fileio(fsync=False)


def schema_of(*fields: tuple[int, str, object] | tuple[int, str, object, object]) -> Schema:
    """A schema of optional columns: id, name, type and initial default."""
    columns = [
        {
            "id": field[0],
            "name": field[1],
            "type": field[2],
            "required": False,
            **({"initial-default": field[3]} if len(field) > 3 else {}),
        }
        for field in fields
    ]
    return parse_schema(json.dumps({"type": "struct", "fields": columns}).encode())


def with_ids(
    columns: Mapping[int, tuple[str, pa.Array]], types: Mapping[int, pa.DataType] | None = None
) -> pa.Table:
    """A table whose columns have field ids; `types` are those of maps, whose arrays lose the ids inside."""
    fields = [
        pa.field(name, (types or {}).get(id, array.type), metadata={"PARQUET:field_id": str(id)})
        for id, (name, array) in columns.items()
    ]
    return pa.table([array for _, array in columns.values()], schema=pa.schema(fields))


def write_parquet(folder: Path, name: str, table: pa.Table, **options: Any) -> DataFile:
    """Writes a data file."""
    path = folder / name
    pq.write_table(table, path, **options)
    return data_file(path, len(table))


def data_file(path: Path, rows: int, deletes: Sequence[DeleteFile] = (), format: str = "parquet") -> DataFile:
    """A data file that was written."""
    return DataFile(path.as_uri(), format, rows, path.stat().st_size, tuple(deletes))


def delete_file(path: Path, rows: int, equality_ids: tuple[int, ...] = ()) -> DeleteFile:
    """A delete file that was written."""
    return DeleteFile(path.as_uri(), "parquet", rows, path.stat().st_size, equality_ids)


def read(schema: Schema, file: DataFile, **options: Any) -> FileSummary:
    """Summarizes a file, all columns."""
    with FileSummaries(FILES, schema, list(schema.fields_by_id), **options) as summaries:
        return summaries.summarize(file)


def column(summary: FileSummary, field_id: int) -> ColumnSummary:
    """A column of a summary."""
    [found] = [each for each in summary.columns if each.field_id == field_id]
    return found


def distinct(summary: ColumnSummary) -> float:
    """The estimate of a column's sketch."""
    assert summary.sketch is not None
    return ThetaSketch.from_bytes(summary.sketch).estimate
