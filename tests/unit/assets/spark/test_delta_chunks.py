"""What Spark's executors build of a Delta table is what this process builds of it, byte for byte."""

from __future__ import annotations

import gc
import pickle
import shutil
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from floecat.delta.artifacts import chunks as file_chunks
from floecat.delta.artifacts.artifact_files import ArtifactFiles
from floecat.delta.artifacts.chunks import ChunkRunner, FileChunks, local_chunks
from floecat.errors import InvalidDeltaTableError, LocationNotAllowedError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.fileio.opening import open_fileio
from floecat.memory_budget import MemoryBudget
from floecat_assets.spark.chosen_chunks import ChosenChunks
from floecat_assets.spark.delta_chunks import spark_chunks
from tests.behaviour.delta.conftest import Lake, OpenLake, artifacts, open_lake
from tests.clients.delta.writer import DeltaWriter

__all__ = ["open_lake"]

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("part", pa.string())])
FILES = 23
ROWS = '{"numRecords":1}'
OPEN_FILES = partial(open_fileio, fsync=False)

Runner = Callable[[AllowedLocations], ChunkRunner]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_chunks, "CHUNK_FILES", 4)


@pytest.fixture
def table(tmp_path: Path) -> DeltaWriter:
    """A table of some partitions with deletion vectors of all kinds, and files without statistics."""
    made = DeltaWriter(tmp_path / "table", SCHEMA, partitions=["part"])
    for numbers, of_add in ((range(FILES - 5), {}), (range(FILES - 5, FILES), {"stats": None})):
        ids = [number * 10 + row for number in numbers for row in range(10)]
        rows = {"id": ids, "name": [f"n{i}" for i in ids], "part": [f"p{i // 10}" for i in ids]}
        made.append(pa.table(rows, schema=SCHEMA), **of_add)
    made.delete({number: [0, number % 10] for number in range(0, FILES, 2)})
    made.delete({number: [3] for number in range(0, FILES, 3)}, storage="i")
    made.delete({number: [5, 6, 7] for number in range(1, FILES, 6)}, storage="p")
    return made


def build(lake: Lake, table: DeltaWriter, runner: Runner | None = None) -> dict[str, bytes]:
    """Makes all versions, and returns the artifacts; storage is then as before."""
    made = lake.kernel.delta.registration.register(lake.call, ("ns",), "t", table.folder.as_uri(), read=False)
    wanted = lake.delta_entry(made.identifier)
    compat = lake.kernel.delta.refresh_service
    assert compat is not None
    try:
        run_chunks = runner(wanted.allowed) if runner else None
        assert compat.materialise(wanted, lambda *_: None, run_chunks=run_chunks)
        assert lake.versions(made.identifier) == list(range(table.version + 1))
        return artifacts(table.folder)
    finally:
        shutil.rmtree(table.folder / "metadata", ignore_errors=True)


def on_session(session: Any, open_files: Any = OPEN_FILES) -> Runner:
    def runner(allowed: AllowedLocations) -> ChunkRunner:
        chunks = spark_chunks(session, open_files, allowed)

        def run(context: Any, wanted: Any) -> Any:
            with warnings.catch_warnings():
                # py4j's and PySpark's sockets, which they leave to the garbage collector
                warnings.simplefilter("ignore", ResourceWarning)
                try:
                    return chunks(context, wanted)
                finally:
                    gc.collect()

        return run

    return runner


@pytest.mark.spark
@pytest.mark.parametrize(
    "settings",
    [
        {"format_version": 2},
        {"format_version": 2, "position_delete_format": "avro", "missing_statistics": "leave-out"},
        {"format_version": 3},
    ],
    ids=["v2-parquet", "v2-avro", "v3"],
)
def test_the_bytes_are_the_same(
    open_lake: OpenLake, table: DeltaWriter, spark: Any, settings: dict[str, Any]
) -> None:
    here = build(open_lake(**settings), table)
    assert build(open_lake(**settings), table, on_session(spark)) == here
    assert len([name for name in here if "-m" in name]) > 6
    assert any("-pd-" in name or "-dv-" in name for name in here)


@pytest.mark.spark
@pytest.mark.parametrize(
    "damage",
    [lambda file: file.write_bytes(file.read_bytes()[:-1] + b"\xff"), lambda file: file.unlink()],
    ids=["broken", "missing"],
)
def test_errors_come_back_as_what_they_are(
    open_lake: OpenLake,
    table: DeltaWriter,
    spark: Any,
    damage: Callable[[Path], object],
) -> None:
    for file in (table.folder / "ab").glob("*.bin"):
        damage(file)
    with pytest.raises(InvalidDeltaTableError) as here:
        build(open_lake(max_versions_in_request=1), table)
    with pytest.raises(InvalidDeltaTableError) as there:
        build(open_lake(max_versions_in_request=1), table, on_session(spark))
    assert there.value.message == here.value.message


@pytest.mark.spark
def test_executors_keep_to_the_allowed_locations(
    open_lake: OpenLake, table: DeltaWriter, spark: Any, tmp_path: Path
) -> None:
    elsewhere = AllowedLocations([(tmp_path / "elsewhere").as_uri()])
    with pytest.raises(LocationNotAllowedError):
        build(open_lake(max_versions_in_request=1), table, lambda _allowed: on_session(spark)(elsewhere))


@pytest.mark.spark
def test_names_that_are_taken_are_left_to_their_owner(
    open_lake: OpenLake, table: DeltaWriter, spark: Any
) -> None:
    taken = table.folder / "metadata" / "1-compat-m0.avro"
    taken.parent.mkdir()
    taken.write_bytes(b"of somebody else")
    made = build(open_lake(), table, on_session(spark))
    assert made[taken.name] == b"of somebody else"
    assert "1-compat-g1-m0.avro" in made


def broken_storage() -> FileIO:
    raise RuntimeError("storage cannot be opened")


@pytest.mark.spark
def test_what_nobody_foresaw_fails_the_run(open_lake: OpenLake, table: DeltaWriter, spark: Any) -> None:
    with pytest.raises(Exception, match="storage cannot be opened"):
        build(open_lake(), table, on_session(spark, broken_storage))


def test_all_that_executors_need_can_be_pickled(open_lake: OpenLake, table: DeltaWriter) -> None:
    seen: list[Any] = []
    opened: list[ArtifactFiles] = []

    def runner(allowed: AllowedLocations) -> ChunkRunner:
        opened.append(ArtifactFiles(OPEN_FILES(), allowed, MemoryBudget()))
        chunks = local_chunks(opened[0])

        def run(context: Any, wanted: Any) -> Any:
            made = chunks(context, wanted)
            seen.extend([context, allowed.roots, *made])
            return made

        return run

    build(open_lake(), table, runner)
    opened[0].close()
    assert pickle.loads(pickle.dumps(seen)) == seen


class Recorder:
    """Runners that note what they are asked for."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def runner(self, name: str) -> ChunkRunner:
        def run(context: Any, chunks: FileChunks) -> Any:
            self.calls.append(name)
            return [name for _ in chunks]

        return run

    def open_spark(self) -> ChunkRunner:
        self.calls.append("open")
        return self.runner("spark")


@pytest.fixture
def chosen() -> tuple[ChosenChunks, Recorder]:
    recorder = Recorder()
    runner = ChosenChunks(recorder.runner("here"), recorder.open_spark, most_opened_files=3)
    return runner, recorder


def chunks_of(vectors: int, without_rows: int, plain: int) -> FileChunks:
    count = vectors + without_rows + plain
    vector = {"storage_type": "i"}
    columns = {
        "path": [str(number) for number in range(count)],
        "partition_values": pa.array([{}] * count, pa.struct([])),
        "deletion_vector": [vector] * vectors + [None] * (count - vectors),
        "stats": pa.array([ROWS] * vectors + [None] * without_rows + [ROWS] * plain, pa.string()),
    }
    return FileChunks(pa.table(columns), np.ones(count, bool))


class Context:
    def __init__(self, *, read_footers: bool) -> None:
        self.read_footers = read_footers
        self.translated = SimpleNamespace(without_field_ids=())


@pytest.mark.parametrize(
    ("chunks", "read_footers", "place"),
    [
        (chunks_of(3, 0, 100), True, "here"),
        (chunks_of(4, 0, 0), True, "spark"),
        (chunks_of(2, 2, 0), True, "spark"),
        (chunks_of(2, 2, 0), False, "here"),
        (chunks_of(0, 4, 0), True, "spark"),
    ],
)
def test_many_files_to_open_go_to_spark(
    chosen: tuple[ChosenChunks, Recorder], chunks: FileChunks, read_footers: bool, place: str
) -> None:
    runner, recorder = chosen
    context: Any = Context(read_footers=read_footers)
    assert runner(context, chunks) == [place] * len(chunks)
    assert recorder.calls == (["here"] if place == "here" else ["open", "spark"])
    assert (runner.in_process, runner.on_spark) == ((len(chunks), 0) if place == "here" else (0, len(chunks)))


def test_spark_is_opened_once(chosen: tuple[ChosenChunks, Recorder]) -> None:
    runner, recorder = chosen
    context: Any = Context(read_footers=True)
    for _ in range(3):
        runner(context, chunks_of(4, 0, 0))
    assert recorder.calls == ["open", "spark", "spark", "spark"]
