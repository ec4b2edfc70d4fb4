from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from floecat.iceberg.position_deletes import FILE_PATH_ID, POS_ID, write_position_deletes
from floecat.iceberg.puffin import DeletionVectorBlob, write_puffin
from floecat.iceberg.schemas.schema import Schema
from floecat.iceberg.schemas.single_values import encode_one
from floecat.iceberg.schemas.types import parse_primitive
from floecat.iceberg.values.bounds import Bounds
from floecat.statistics.files.data_files import FileSummaries
from floecat.statistics.files.sources import UnreadableFileError
from floecat.statistics.files.summaries import DataFile, DeleteFile, FileSummary
from tests.unit.statistics.files.table_files import (
    FILES,
    column,
    delete_file,
    distinct,
    read,
    schema_of,
    with_ids,
    write_parquet,
)

_NAN = float("nan")
_LONG = parse_primitive("long")


@pytest.fixture
def schema() -> Schema:
    return schema_of((1, "id", "long"), (2, "name", "string"), (3, "value", "double"), (4, "added", "int", 7))


@pytest.fixture
def file(tmp_path: Path) -> DataFile:
    table = with_ids(
        {
            1: ("id", pa.array(range(1000))),
            2: ("name", pa.array([None if row % 10 == 0 else f"n{row % 5}" for row in range(1000)])),
            3: ("value", pa.array([_NAN, 0.0, -0.0, None, 1.0] * 200)),
        }
    )
    return write_parquet(tmp_path, "f.parquet", table, row_group_size=300)


def _with(file: DataFile, *deletes: DeleteFile) -> DataFile:
    return msgspec.structs.replace(file, deletes=deletes)


def _live(summary: FileSummary, schema: Schema, rows: set[int]) -> None:
    """Checks that a summary counts some rows of the file."""
    ids = column(summary, 1)
    assert summary.is_exact
    assert summary.row_count == ids.value_count == len(rows)
    assert distinct(ids) == len(rows)
    assert ids.lower == encode_one(min(rows), _LONG)
    assert ids.upper == encode_one(max(rows), _LONG)
    assert column(summary, 2).null_count == sum(row % 10 == 0 for row in rows)
    assert column(summary, 3).nan_count == sum(row % 5 == 0 for row in rows)
    assert column(summary, 4).value_count == len(rows)


@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_position_deletes(format: str, file: DataFile, schema: Schema, tmp_path: Path) -> None:
    deleted = np.array([0, 1, 299, 300, 999, 5000])
    written = write_position_deletes(
        file.location, deleted, format="parquet" if format == "parquet" else "avro"
    )
    path = tmp_path / f"d.{format}"
    path.write_bytes(written.data)
    delete = DeleteFile(path.as_uri(), format, len(deleted), len(written.data))
    summary = read(schema, _with(file, delete))
    _live(summary, schema, set(range(1000)) - set(deleted.tolist()))


def _shared_deletes(file: DataFile, tmp_path: Path) -> DeleteFile:
    """Deletes even rows of the file, and all of another one."""
    rows = [(file.location, row) for row in range(0, 1000, 2)] + [
        ("file:///other", row) for row in range(1000)
    ]
    table = with_ids(
        {
            FILE_PATH_ID: ("file_path", pa.array([path for path, _ in rows])),
            POS_ID: ("pos", pa.array([row for _, row in rows])),
        }
    )
    pq.write_table(table, tmp_path / "shared.parquet", row_group_size=400)
    return delete_file(tmp_path / "shared.parquet", len(rows))


@pytest.mark.parametrize("memory_bytes", [1, 1 << 28])
def test_position_deletes_of_several_files(
    memory_bytes: int, file: DataFile, schema: Schema, tmp_path: Path
) -> None:
    delete = _shared_deletes(file, tmp_path)
    with FileSummaries(FILES, schema, [1, 2, 3, 4], memory_bytes=memory_bytes) as summaries:
        _live(summaries.summarize(_with(file, delete)), schema, set(range(1, 1000, 2)))
        if memory_bytes > 1:
            # They were kept for the next file.
            (tmp_path / "shared.parquet").unlink()
        _live(summaries.summarize(_with(file, delete)), schema, set(range(1, 1000, 2)))


def _vector(file: DataFile, positions: list[int], tmp_path: Path) -> DeleteFile:
    payload = b"\xd1\xd3\x39\x64" + BitMap64(positions).serialize()
    other = DeletionVectorBlob(b"\xd1\xd3\x39\x64" + BitMap64([1]).serialize(), "file:///other", 1)
    puffin = write_puffin([other, DeletionVectorBlob(payload, file.location, len(positions))])
    (tmp_path / "v.puffin").write_bytes(puffin.data)
    offset, size = puffin.blobs[1]
    location = (tmp_path / "v.puffin").as_uri()
    return DeleteFile(location, "puffin", len(positions), len(puffin.data), (), offset, size)


def test_deletion_vectors(file: DataFile, schema: Schema, tmp_path: Path) -> None:
    delete = _vector(file, [0, 500, 999], tmp_path)
    _live(read(schema, _with(file, delete)), schema, set(range(1000)) - {0, 500, 999})


@pytest.mark.parametrize(
    ("ids", "columns", "deleted"),
    [
        ((1,), {1: [5, 6, None, 10**9]}, {5, 6}),
        ((2,), {2: [None]}, set(range(0, 1000, 10))),
        ((2,), {2: ["n1", "n9"]}, {row for row in range(1000) if row % 5 == 1 and row % 10}),
        ((3,), {3: [_NAN]}, set(range(0, 1000, 5))),
        ((3,), {3: [0.0]}, set(range(1, 1000, 5))),
        ((1, 2), {1: [11, 12, 13], 2: ["n1", "n1", None]}, {11}),
        ((2, 3), {2: [None, "n1"], 3: [_NAN, 1.0]}, set(range(0, 1000, 10))),
        ((4,), {4: [7]}, set(range(1000))),
        ((1, 4), {1: [3, 4], 4: [7, 8]}, {3}),
        ((1,), {1: []}, set()),
    ],
)
def test_equality_deletes(
    ids: tuple[int, ...],
    columns: dict[int, list[object]],
    deleted: set[int],
    file: DataFile,
    schema: Schema,
    tmp_path: Path,
) -> None:
    types = {1: pa.int64(), 2: pa.string(), 3: pa.float64(), 4: pa.int32()}
    table = with_ids({id: (f"c{id}", pa.array(values, types[id])) for id, values in columns.items()})
    pq.write_table(table, tmp_path / "e.parquet")
    summary = read(schema, _with(file, delete_file(tmp_path / "e.parquet", len(table), ids)))
    if deleted == set(range(1000)):
        assert (summary.row_count, summary.is_exact) == (0, True)
        assert all(each.lower is None and each.value_count == 0 for each in summary.columns)
    else:
        _live(summary, schema, set(range(1000)) - deleted)


def test_deletes_of_all_kinds_together(file: DataFile, schema: Schema, tmp_path: Path) -> None:
    for name, values in (("e1", [7, 8]), ("e2", [8, 9])):
        pq.write_table(with_ids({1: ("id", pa.array(values))}), tmp_path / f"{name}.parquet")
    deletes = [
        _vector(file, [1], tmp_path),
        *(delete_file(tmp_path / f"{name}.parquet", 2, (1,)) for name in ("e1", "e2")),
        _shared_deletes(file, tmp_path),
    ]
    _live(read(schema, _with(file, *deletes)), schema, set(range(1, 1000, 2)) - {1, 7, 9})


def test_equality_deletes_beyond_memory_leave_upper_bounds(
    file: DataFile, schema: Schema, tmp_path: Path
) -> None:
    pq.write_table(with_ids({1: ("id", pa.array(range(500)))}), tmp_path / "e.parquet")
    delete = delete_file(tmp_path / "e.parquet", 500, (1,))
    exact = read(schema, _with(file, delete))
    bounded = read(schema, _with(file, delete), memory_bytes=10_000)
    unknown = read(schema, _with(file, msgspec.structs.replace(delete, equality_ids=(77,))))
    assert (exact.row_count, exact.is_exact) == (500, True)
    for summary in (bounded, unknown):
        assert (summary.row_count, summary.is_exact) == (1000, False)


def test_long_strings_of_equality_deletes_are_metered(tmp_path: Path) -> None:
    schema = schema_of((1, "s", "string"))
    values = pa.array([f"{number:010_d}" * 1_000 for number in range(100)])
    file = write_parquet(tmp_path, "f.parquet", with_ids({1: ("s", values)}))
    pq.write_table(with_ids({1: ("s", values)}), tmp_path / "e.parquet")
    deleted = _with(file, delete_file(tmp_path / "e.parquet", 100, (1,)))
    assert read(schema, deleted).row_count == 0
    bounded = read(schema, deleted, memory_bytes=1 << 20)
    assert (bounded.row_count, bounded.is_exact) == (100, False)


def test_damaged_deletes_are_named(file: DataFile, schema: Schema, tmp_path: Path) -> None:
    vector = _vector(file, [1, 2], tmp_path)
    path = tmp_path / "v.puffin"
    data = bytearray(path.read_bytes())
    assert vector.content_offset is not None
    data[vector.content_offset + 20] ^= 1
    path.write_bytes(data)
    with pytest.raises(UnreadableFileError, match=r"v\.puffin: a deletion vector in it is damaged"):
        read(schema, _with(file, vector))
    many = _vector(file, list(range(1001)), tmp_path)
    with pytest.raises(UnreadableFileError, match=r"v\.puffin: a deletion vector in it is damaged"):
        read(schema, _with(file, many))
    with pytest.raises(UnreadableFileError, match=r"f\.parquet: it has other rows"):
        read(schema, msgspec.structs.replace(_with(file, vector), record_count=10**15))
    pq.write_table(pa.table({"a": [1]}), tmp_path / "p.parquet")
    with pytest.raises(UnreadableFileError, match=r"p\.parquet: it has no paths"):
        read(schema, _with(file, delete_file(tmp_path / "p.parquet", 1)))


def test_deletes_beyond_their_bound_are_named_with_it(file: DataFile, schema: Schema, tmp_path: Path) -> None:
    vector = _vector(file, list(range(0, 1000, 2)), tmp_path)
    positions = _shared_deletes(file, tmp_path)
    for delete in (vector, positions):
        bounds = Bounds(deletion_vector_bytes=100)
        problem = rf"{delete.location}: .* 100 \(floecat\.limits\.deletion-vector-bytes\)"
        with pytest.raises(UnreadableFileError, match=problem):
            read(schema, _with(file, delete), bounds=bounds)
    for place in ({"content_offset": -1}, {"content_size_bytes": -1}):
        with pytest.raises(UnreadableFileError, match=r"v\.puffin: the place .* negative"):
            read(schema, _with(file, msgspec.structs.replace(vector, **place)))


def test_delete_files_have_no_more_rows_than_their_manifest_says(
    file: DataFile, schema: Schema, tmp_path: Path
) -> None:
    pq.write_table(with_ids({1: ("id", pa.array([1, 2]))}), tmp_path / "e.parquet")
    for delete in (_shared_deletes(file, tmp_path), delete_file(tmp_path / "e.parquet", 2, (1,))):
        fewer = msgspec.structs.replace(delete, record_count=1)
        with pytest.raises(UnreadableFileError, match=rf"{delete.location}: it has more rows"):
            read(schema, _with(file, fewer))
