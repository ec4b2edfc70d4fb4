"""Metrics of tables that other engines wrote, against the rows of their files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from floecat.delta.log.checkpoints import open_checkpoint_file
from floecat.delta.log.log_bounds import LogBounds, ReadMeter
from floecat.delta.protocol.paths import PathReader
from floecat.delta.translation.column_ids import FieldIds
from floecat.delta.translation.statistics_metrics import file_metrics
from floecat.delta.translation.translated_schema import LeafColumn, TranslatedSchema, translate_schema
from floecat.iceberg.file_metrics import FileMetrics
from floecat.iceberg.schemas.single_values import encode_one
from tests.delta_tables import delta_table
from tests.unit.delta.delta_metadata import metadata_in_log

WITH_TEXTS = [
    "delta/delta-1.2.1",
    "delta/table-with-dv-large",
    "delta/transaction_log_schema_evolvability",
    "delta-rs/table_with_edge_timestamps",
    "golden/basic-with-inserts-merge/delta",
    "golden/data-reader-timestamp_ntz-name-mode/delta",
    "golden/data-skipping-basic-stats-all-types-columnmapping-id/delta",
    "golden/data-skipping-basic-stats-all-types/delta",
    "golden/data-skipping-change-stats-collected-across-versions/delta",
    "golden/data-skipping-partition-and-data-column/delta",
    "golden/dv-with-columnmapping/delta",
    "golden/kernel-timestamp-pst/delta",
    "golden/parquet-all-types/delta",
    "golden/parquet-all-types-legacy-format/delta",
    "golden/table-with-columnmapping-mode-id/delta",
    "kernel-rs/mixed-nulls",
    "kernel-rs/stats-writing-all-types/delta",
    "kernel-rs/timestamp-truncation-stats",
    "made/sail-dv_plain",
    "made/sail-ntz",
    "made/sail-tw",
]
WITH_STRUCTS = {
    "delta-rs/delta-1.2.1-only-struct-stats": ["_delta_log/00000000000000000010.checkpoint.parquet"],
    "kernel-rs/v1-multi-part-struct-stats-only": [
        f"_delta_log/00000000000000000005.checkpoint.000000000{part}.0000000003.parquet" for part in (1, 2, 3)
    ],
}


def adds(table: Path) -> Iterator[dict[str, Any]]:
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            add = json.loads(line).get("add")
            if add and add.get("stats") and (table / unquote(add["path"])).is_file():
                yield add


def values(table: Path, path: str, leaf: LeafColumn) -> pa.Array | None:
    """The values of a column of a data file as stored, timestamps and dates as integers."""
    # the old 96-bit timestamps reach beyond what nanoseconds can
    file = pq.ParquetFile(table / path, coerce_int96_timestamp_unit="us")
    column = file.read().to_struct_array().combine_chunks()
    for name in leaf.physical_path:
        place = column.type.get_field_index(name)
        if place < 0:
            return None
        column = pc.struct_field(column, [place])
    if leaf.type.name.startswith("timestamp"):
        return column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    return column.cast(pa.int32()) if leaf.type.name == "date" else column


def decoded(bound: bytes, leaf: LeafColumn) -> Any:
    """A bound as something that compares as the type does."""
    name = leaf.type.name
    if name == "string":
        return bound
    if name in ("float", "double"):
        code = pa.float32() if name == "float" else pa.float64()
        return pa.Array.from_buffers(code, 1, [None, pa.py_buffer(bound)])[0].as_py()
    return int.from_bytes(bound, "big" if name == "decimal" else "little", signed=name != "boolean")


def comparable(value: Any, leaf: LeafColumn) -> Any:
    if leaf.type.name == "decimal":
        value = int(value.scaleb(int(leaf.type.parameters[1])))
    return decoded(encode_one(value, leaf.type), leaf)


def check(
    table: Path, paths: list[str], metrics: FileMetrics, schema: TranslatedSchema, live: list[bool]
) -> int:
    """Compares all that is known with the files; returns how many bounds that was."""
    compared = 0
    for row, path in enumerate(paths):
        assert metrics.record_counts[row].as_py() == pq.read_metadata(table / path).num_rows
    for column in metrics.columns:
        leaf = next(leaf for leaf in schema.leaves if leaf.field_id == column.field_id)
        for row, path in enumerate(paths):
            found = values(table, path, leaf)
            if found is None:
                continue
            context = f"{path}: {leaf.logical_name}"
            if live[row] and column.null_value_counts is not None:
                assert column.null_value_counts[row].as_py() in (None, found.null_count), context
            known = sorted(comparable(value.as_py(), leaf) for value in found.drop_null())
            for bounds, end in ((column.lower_bounds, 0), (column.upper_bounds, -1)):
                bound = None if bounds is None else bounds[row].as_py()
                if bound is None:
                    continue
                compared += 1
                ends = sorted([decoded(bound, leaf), known[end]])
                assert ends[end] == decoded(bound, leaf), context
    return compared


@pytest.mark.parametrize("name", WITH_TEXTS)
def test_metrics_hold_the_rows_of_files(name: str) -> None:
    table = delta_table(name)
    schema = translate_schema(metadata_in_log(table)[-1], FieldIds())
    found = list(adds(table))
    files = pa.table({"stats": [add["stats"] for add in found]})
    live = [add.get("deletionVector") is None for add in found]
    assert check(table, [unquote(add["path"]) for add in found], file_metrics(files, schema), schema, live)


@pytest.mark.parametrize("name", WITH_STRUCTS)
def test_metrics_of_struct_statistics_hold_the_rows_of_files(name: str) -> None:
    table = delta_table(name)
    checkpoints = [table / path for path in WITH_STRUCTS[name]]
    tables = [
        part
        for checkpoint in checkpoints
        for part in open_checkpoint_file(
            checkpoint.read_bytes(), location=checkpoint.name, meter=ReadMeter(LogBounds())
        ).files([], PathReader(str(table)))
    ]
    files = pa.concat_tables(tables)
    assert files["stats"].null_count == len(files)
    metadata = metadata_in_log(table)[-1]
    schema = translate_schema(metadata, FieldIds())
    paths = files["path"].to_pylist()
    live = files["deletion_vector"].is_null().to_pylist()
    assert check(table, paths, file_metrics(files, schema), schema, live)
