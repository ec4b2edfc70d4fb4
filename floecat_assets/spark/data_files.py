"""Data files of a table, each read by a task on Spark with the deletes that apply to it.

A task reads its file in a process of its own, with the bounds that captures have elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

from floecat.errors import UnavailableError
from floecat.fileio.base import FileIO
from floecat.statistics.capture.reading.counting import FileReader, FileSource
from floecat.statistics.capture.reading.file_groups import read_elsewhere, read_file
from floecat.statistics.capture.reading.processes import CaptureProcesses, Check
from floecat.statistics.files.summaries import DataFile
from floecat.storage.catalog_storage import CatalogStorage
from floecat_assets.spark.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from floecat.settings import StatisticsSettings
    from floecat.statistics.capture.reading.file_groups import FileProblem
    from floecat.statistics.capture.reading.page_indexes import ReadIndexes
    from floecat.statistics.capture.reading.tables import CapturedTable
    from floecat.statistics.files.page_index import PageIndex

__all__ = ["FileBounds", "Reading", "page_indexes_on", "read_data_files"]

Reading: TypeAlias = Literal["summary", "page_index"]
"""A method of `FileReader`."""


class FileBounds(NamedTuple):
    """The bounds of a task for a file and its deletes: settings of statistics."""

    memory_bytes: int
    processor_ms: int

    @classmethod
    def of(cls, settings: StatisticsSettings) -> Self:
        """The bounds of the settings."""
        return cls(settings.memory_bytes, settings.file_processor_time.ms)


class _Shared(NamedTuple):
    """The values that every executor gets."""

    source: FileSource
    openers: tuple[Callable[[], FileIO], ...]
    reading: Reading
    bounds: FileBounds


class _Sent(NamedTuple):
    """A data file, and which opener has its storage."""

    file: DataFile
    opener: int


def read_data_files(
    session: SparkSession,
    storage: CatalogStorage,
    source: FileSource,
    files: Sequence[DataFile],
    reading: Reading,
    bounds: FileBounds,
) -> list[Any]:
    """Reads data files. Executors get the keys of storage, and nothing keeps those.

    Args:
        session: of Spark.
        storage: of the table.
        source: the table.
        files: the data files.
        reading: what is read of them.
        bounds: of a task.

    Returns:
        For each file what the method of `FileReader` gives, or a `FileProblem`.

    Raises:
        UnavailableError: storage fails.
    """
    openers: dict[int, tuple[int, Callable[[], FileIO]]] = {}
    sent = []
    for file in files:
        opener = storage.opener(file.location)
        place, _ = openers.setdefault(id(opener), (len(openers), opener))
        sent.append(_Sent(file, place))
    shared = _Shared(source, tuple(opener for _, opener in openers.values()), reading, bounds)
    return run_tasks(session, partial(_read, shared), sent, passed=(UnavailableError,))


def page_indexes_on(open_spark: Callable[[], SparkSession], bounds: FileBounds) -> ReadIndexes:
    """Makes page-index sidecars on Spark, which is opened with the first files; see `read_data_files`."""

    def read(
        table: CapturedTable, source: FileSource, files: Sequence[DataFile]
    ) -> list[PageIndex | FileProblem]:
        return read_data_files(open_spark(), table.storage, source, files, "page_index", bounds)

    return read


def _read(shared: _Shared, sent: _Sent) -> Any:
    """Runs on an executor."""
    return read_elsewhere(_processes(shared.bounds).run, partial(_read_here, shared, sent.opener), sent.file)


@cache
def _processes(bounds: FileBounds) -> CaptureProcesses:
    """The processes of this worker, which reads one file at a time. They end with it."""
    return CaptureProcesses(*bounds)


def _read_here(shared: _Shared, opener: int, file: DataFile, _check: Check) -> Any:
    files = shared.openers[opener]()
    with FileReader(shared.source, lambda _: files, shared.bounds.memory_bytes) as reader:
        return read_file(getattr(reader, shared.reading), file)
