"""Work that is too much for a load, and that the pipeline and the command line do."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floecat.errors import LeftToPipelineError, UnavailableError, UnsupportedDeltaTableError
from floecat.settings.limits import LimitSettings
from tests.behaviour.delta.conftest import SCHEMA, OpenLake, as_rows, delta_table, refusal, rows_of
from tests.clients.delta.writer import DeltaWriter

COLUMNS = [f"c{number}" for number in range(300)]


def with_vectors(folder: Path) -> DeltaWriter:
    """Two files; 3 rows of each are deleted, each by a version of its own."""
    writer = delta_table(folder)
    writer.delete({0: [1, 2, 5]})
    writer.delete({1: [0, 3, 9]})
    return writer


def with_a_large_footer(folder: Path) -> DeltaWriter:
    """A file whose footer has more than 64 KiB, and no statistics in the log."""
    schema = pa.schema([(name, pa.int64()) for name in COLUMNS])
    writer = DeltaWriter(folder, schema)

    def write(rows: pa.Table, where: Any) -> None:
        pq.write_table(rows, where, row_group_size=1)

    writer.append(pa.Table.from_pylist([dict.fromkeys(COLUMNS, 1)] * 4, schema), write=write, stats=None)
    return writer


def with_footers(folder: Path) -> DeltaWriter:
    """Two files without statistics in the log, each added by a version of its own."""
    writer = DeltaWriter(folder, SCHEMA)
    writer.append(rows_of(1, 2), stats=None)
    writer.append(rows_of(3), stats=None)
    return writer


def with_copies(folder: Path) -> DeltaWriter:
    """A file that lacks field ids in a list."""
    schema = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.int32()))])
    writer = DeltaWriter(folder, schema, mapping="name")
    writer.append(pa.table({"id": [1, 2], "l": [[1], [2, 3]]}, schema=schema))
    return writer


def footer_bytes(writer: DeltaWriter) -> int:
    tails = [(writer.folder / file.path).read_bytes()[-8:] for file in writer.files]
    return sum(int.from_bytes(tail[:4], "little") + len(tail) for tail in tails)


def file_bytes(writer: DeltaWriter) -> int:
    return (writer.folder / writer.files[0].path).stat().st_size


def vector_bytes(writer: DeltaWriter) -> int:
    return sum(file.add["deletionVector"]["sizeInBytes"] for file in writer.files)


@pytest.mark.parametrize(
    ("bound", "write", "needed"),
    [
        ("deleted-rows", with_vectors, lambda _: 6),
        ("deletion-vector-bytes", with_vectors, vector_bytes),
        ("data-file-footer-bytes", with_a_large_footer, footer_bytes),
        ("footer-bytes-in-request", with_footers, footer_bytes),
        ("copied-file-bytes", with_copies, file_bytes),
    ],
)
def test_work_beyond_a_bound_is_left_to_the_command(
    open_lake: OpenLake,
    tmp_path: Path,
    bound: str,
    write: Callable[[Path], DeltaWriter],
    needed: Callable[[DeltaWriter], int],
) -> None:
    writer = write(tmp_path / "t")
    rows = writer.rows[writer.version].num_rows
    enough = open_lake(limits={bound: needed(writer)}, location=str(tmp_path / "enough"))
    assert len(enough.rows(enough.register(writer.folder))) == rows
    lake = open_lake(limits={bound: needed(writer) - 1}, location=str(tmp_path / "less"), wait="PT0.1S")
    table = lake.register(writer.folder)
    refused = refusal(lake, table)
    assert isinstance(refused, LeftToPipelineError)
    assert f"(floecat.limits.{bound}). It is built by the Dagster asset compat/artifacts" in refused.message
    assert refused.message.endswith(", or by: floecat table refresh ns.t")
    assert refused.retry_after_s == 5
    lake.kernel.delta.tables.materialise(lake.call, table, lambda *_: None)
    assert len(lake.rows(table)) == rows


def test_the_pipeline_refuses_larger_footers(open_lake: OpenLake, tmp_path: Path) -> None:
    writer = with_a_large_footer(tmp_path / "t")
    for less in (0, 1):
        bounds = {"delta-footer-bytes": footer_bytes(writer) - less}
        lake = open_lake(limits=bounds, location=str(tmp_path / f"less {less}"))
        table = lake.register(writer.folder)
        with (
            nullcontext()
            if not less
            else pytest.raises(UnsupportedDeltaTableError, match=r"\(floecat\.limits\.delta-footer-bytes\)")
        ):
            lake.kernel.delta.tables.materialise(lake.call, table, lambda *_: None)


def test_format_version_3_copies_vectors_of_any_number_of_rows(open_lake: OpenLake, tmp_path: Path) -> None:
    writer = with_vectors(tmp_path / "t")
    lake = open_lake(limits={"deleted-rows": 1}, format_version=3)
    assert lake.load(lake.register(writer.folder)).metadata_location


def test_a_log_waits_for_its_part_of_the_working_memory(open_lake: OpenLake, tmp_path: Path) -> None:
    writer = delta_table(tmp_path / "t")
    lake = open_lake(limits={"working-memory-wait-ms": 0})
    table = lake.register(writer.folder)
    lake.load(table)
    writer.commit([{"commitInfo": {"operation": "x" * (2 << 20)}}])
    assert lake.kernel.delta.refresh_service is not None
    memory = lake.kernel.delta.refresh_service.working_memory
    with memory.work() as others:
        others.take(memory.total_bytes)
        with pytest.raises(UnavailableError, match=r"floecat\.limits\.working-memory-bytes"):
            lake.load(table)
    assert lake.versions(table)[-1] == writer.version


def test_one_load_more_than_may_wait_is_refused_at_once(open_lake: OpenLake, tmp_path: Path) -> None:
    lake = open_lake(limits={"waiting-loads": 1, "working-memory-wait-ms": 60_000})
    folders = [tmp_path / "a", tmp_path / "b"]
    writers = [delta_table(folder) for folder in folders]
    names = [lake.register(folder, folder.name) for folder in folders]
    for writer, table in zip(writers, names, strict=True):
        lake.load(table)
        writer.commit([{"commitInfo": {"operation": "x" * (2 << 20)}}])
    assert lake.kernel.delta.refresh_service is not None
    memory = lake.kernel.delta.refresh_service.working_memory
    with ThreadPoolExecutor(2) as clients:
        with memory.work() as others:
            others.take(memory.total_bytes)
            loads = [clients.submit(lake.load, table) for table in names]
            refused = next(as_completed(loads, timeout=120))
            with pytest.raises(UnavailableError, match=r"floecat\.limits\.waiting-loads \(1\)") as error:
                refused.result()
            assert error.value.retry_after_s > 0
        [other] = [load for load in loads if load is not refused]
        assert other.result(timeout=120).metadata_location


def test_after_the_command_loads_add_versions_within_the_bounds(open_lake: OpenLake, tmp_path: Path) -> None:
    writer = with_vectors(tmp_path / "t")
    lake = open_lake(limits={"deleted-rows": 5})
    table = lake.register(writer.folder)
    lake.materialise(table)
    writer.append(rows_of(100))
    writer.delete({2: [0]})
    assert lake.rows(table) == as_rows(writer.rows[writer.version])
    assert SCHEMA.names == writer.schema.names


def test_a_negative_number_of_rows_hides_no_others(open_lake: OpenLake, tmp_path: Path) -> None:
    writer = with_vectors(tmp_path / "t")
    false = dict(writer.files[0].add) | {"path": "other.parquet"}
    false["deletionVector"] = false["deletionVector"] | {"cardinality": -1_000_000}
    writer.commit([{"add": false}])
    lake = open_lake(limits={"deleted-rows": 5}, wait="PT0.1S")
    assert "deleted-rows" in refusal(lake, lake.register(writer.folder)).message


def test_defaults() -> None:
    limits = LimitSettings()
    assert limits.data_file_footer_bytes == 8 << 20
    assert limits.footer_bytes_in_request == 512 << 20
    assert limits.deleted_rows == 100_000_000
    assert limits.deletion_vector_bytes == 128 << 20
    assert limits.copied_file_bytes == 512 << 20
