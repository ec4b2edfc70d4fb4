"""What Spark's executors build of a Delta table is what this process builds of it, byte for byte."""

from __future__ import annotations

import gc
import pickle
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from floecat.compat import layouts
from floecat.compat.artifact_paths import ArtifactPaths
from floecat.compat.artifacts import ArtifactFiles, NameTakenError
from floecat.compat.layouts import ChunkRunner, Layouts
from floecat.compat.local_chunks import local_chunks
from floecat.compat.table_document import TableDocument
from floecat.compat.version_builder import BuildOptions, VersionBuilder, build_versions
from floecat.connectors.delta_log import DeltaLog
from floecat.delta.field_ids import FieldIds
from floecat.errors import FileMissingError, InvalidDeltaTableError, LocationNotAllowedError
from floecat.fileio.base import FileIO
from floecat.fileio.locations import AllowedLocations
from floecat.fileio.opening import open_fileio
from floecat_assets.spark.chosen_chunks import ChosenChunks
from floecat_assets.spark.compat_chunks import spark_chunks
from tests.clients.delta.writer import DeltaWriter

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("part", pa.string())])
FILES = 23
ROWS = '{"numRecords":1}'
OPEN_FILES = partial(open_fileio, fsync=False)

Runner = Callable[[FileIO, ArtifactFiles, AllowedLocations], ChunkRunner]


class Build:
    """Builds the snapshots of a table without a catalog."""

    def __init__(self, table: DeltaWriter, **options: Any) -> None:
        self.location = table.folder.as_uri()
        self.allowed = AllowedLocations([self.location])
        self.folder = table.folder / "metadata"
        paths = ArtifactPaths(f"{self.location}/metadata")
        self.options = replace(BuildOptions(paths, 2, "parquet", read_footers=True), **options)

    def run(self, runner: Runner, *, newest_only: bool = False) -> tuple[bytes, dict[str, bytes]]:
        """The document, and all artifacts by name; storage is then as before."""
        files = OPEN_FILES()
        artifacts = ArtifactFiles(files)
        log = DeltaLog(files, self.allowed, self.location)
        listing = log.listing()
        document = TableDocument.new("0192", self.location, self.options.format_version)
        made = Layouts(artifacts, runner(files, artifacts, self.allowed), self.allowed)
        builder = VersionBuilder(log, listing, made, document, FieldIds(), self.options)
        try:
            versions = listing.versions[-1:] if newest_only else listing.versions
            point = build_versions(builder, versions, None, must_have=listing.latest)
            assert point is not None
            translated = builder.translated(point.metadata)
            document.make_current(point.version, document.spec(()), {})
            assert translated.leaves
            return document.encode(), {file.name: file.read_bytes() for file in self.folder.iterdir()}
        finally:
            artifacts.close()
            shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "CHUNK_FILES", 4)


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


def quiet_spark_chunks(session: Any, open_files: Any, allowed: AllowedLocations) -> ChunkRunner:
    runner = spark_chunks(session, open_files, allowed)

    def run(context: Any, chunks: Any) -> Any:
        with warnings.catch_warnings():
            # py4j's and PySpark's sockets, which they leave to the garbage collector
            warnings.simplefilter("ignore", ResourceWarning)
            try:
                return runner(context, chunks)
            finally:
                gc.collect()

    return run


@pytest.fixture
def on_spark(spark: Any) -> Runner:
    return lambda _files, _artifacts, allowed: quiet_spark_chunks(spark, OPEN_FILES, allowed)


@pytest.mark.spark
@pytest.mark.parametrize(
    "options",
    [
        {"format_version": 2},
        {"format_version": 2, "position_delete_format": "avro", "read_footers": False},
        {"format_version": 3},
    ],
    ids=["v2-parquet", "v2-avro", "v3"],
)
def test_the_bytes_are_the_same(table: DeltaWriter, on_spark: Runner, options: dict[str, Any]) -> None:
    build = Build(table, **options)
    document, files = build.run(local_chunks)
    assert build.run(on_spark) == (document, files)
    assert len([name for name in files if "-m" in name]) > len(files) / 10
    assert any("-pd-" in name or "-dv-" in name for name in files)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-1] + b"\xff"), InvalidDeltaTableError),
        (lambda file: file.unlink(), FileMissingError),
    ],
    ids=["broken", "missing"],
)
def test_errors_come_back_as_what_they_are(
    table: DeltaWriter, on_spark: Runner, damage: Callable[[Path], object], error: type[Exception]
) -> None:
    for file in (table.folder / "ab").glob("*.bin"):
        damage(file)
    build = Build(table)
    with pytest.raises(error) as here:
        build.run(local_chunks, newest_only=True)
    with pytest.raises(error) as there:
        build.run(on_spark, newest_only=True)
    assert str(there.value) == str(here.value)


@pytest.mark.spark
def test_executors_keep_to_the_allowed_locations(table: DeltaWriter, spark: Any, tmp_path: Path) -> None:
    elsewhere = AllowedLocations([(tmp_path / "elsewhere").as_uri()])
    with pytest.raises(LocationNotAllowedError):
        Build(table).run(
            lambda _files, _artifacts, _allowed: quiet_spark_chunks(spark, OPEN_FILES, elsewhere),
            newest_only=True,
        )


@pytest.mark.spark
def test_a_name_that_is_taken_is_told(table: DeltaWriter, on_spark: Runner) -> None:
    folder = table.folder / "metadata"
    folder.mkdir()
    (folder / f"{table.version}-compat-m0.avro").write_bytes(b"of somebody else")
    with pytest.raises(NameTakenError):
        Build(table).run(on_spark, newest_only=True)


def broken_storage() -> FileIO:
    raise RuntimeError("storage cannot be opened")


@pytest.mark.spark
def test_what_nobody_foresaw_fails_the_run(table: DeltaWriter, spark: Any) -> None:
    with pytest.raises(Exception, match="storage cannot be opened"):
        Build(table).run(
            lambda _files, _artifacts, allowed: quiet_spark_chunks(spark, broken_storage, allowed),
            newest_only=True,
        )


def test_all_that_executors_need_can_be_pickled(table: DeltaWriter) -> None:
    seen = []

    def look(context: Any, chunks: Any) -> Any:
        seen.append(context)
        return run(context, chunks)

    def runner(files: FileIO, artifacts: ArtifactFiles, allowed: AllowedLocations) -> ChunkRunner:
        nonlocal run
        run = local_chunks(files, artifacts, allowed)
        return look

    run: Any = None
    Build(table).run(runner)
    copied = pickle.loads(pickle.dumps(seen))
    assert copied == seen


class Recorder:
    """Runners that note what they are asked for."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def runner(self, name: str) -> ChunkRunner:
        def run(context: Any, chunks: Any) -> Any:
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


def chunk(vectors: int, without_rows: int, plain: int) -> tuple[int, pa.Table, Any]:
    count = vectors + without_rows + plain
    vector = {"storage_type": "i"}
    columns = {
        "deletion_vector": [vector] * vectors + [None] * (count - vectors),
        "stats": pa.array([ROWS] * vectors + [None] * without_rows + [ROWS] * plain, pa.string()),
    }
    return 0, pa.table(columns), np.ones(count, bool)


class Context:
    def __init__(self, *, read_footers: bool) -> None:
        self.read_footers = read_footers
        self.numbers = None


@pytest.mark.parametrize(
    ("chunks", "read_footers", "place"),
    [
        ([chunk(3, 0, 100)], True, "here"),
        ([chunk(3, 0, 0), chunk(1, 0, 0)], True, "spark"),
        ([chunk(2, 2, 0)], True, "spark"),
        ([chunk(2, 2, 0)], False, "here"),
        ([chunk(0, 4, 0)], True, "spark"),
    ],
)
def test_many_files_to_open_go_to_spark(
    chosen: tuple[ChosenChunks, Recorder], chunks: Any, read_footers: bool, place: str
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
        runner(context, [chunk(4, 0, 0)])
    assert recorder.calls == ["open", "spark", "spark", "spark"]
