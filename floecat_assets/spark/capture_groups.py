"""Groups of data files of large captures, read by Spark's executors: the same numbers as in one process.

Rows come from one of two sources. Where Spark has Iceberg's runtime and most of a snapshot is missing, it
reads the snapshot through the catalog (`catalog_rows.py`). Otherwise executors read the files of a group with
the deletes that apply to them. The driver holds the job, writes the sidecar and submits it. Executors need
this package and `floecat` installed. They get the keys of storage, and nothing keeps those.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from uuid import UUID

from floecat.events.table_description import snapshot_totals
from floecat.statistics.capture.counting import FileSource
from floecat.statistics.capture.groups import FileGroup, FileProblem, GroupResult
from floecat.statistics.capture.tables import CapturedTable
from floecat.statistics.files.summaries import FileSummary, StoredColumns
from floecat_assets.spark.catalog_rows import CatalogRows, CatalogTable, join_parts
from floecat_assets.spark.data_files import FileBounds, Reading, read_data_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from floecat.jobs.queue import Worked
    from floecat.statistics.pipeline import StatisticsPipeline

__all__ = ["CatalogAccess", "SparkGroups"]

_GROUPS_AT_ONCE: Final = 2
"""While the driver stores one group, the executors read another."""

_CHECKED_EVERY_S: Final = 1.0
_LEAST_SHARE: Final = 0.5
"""Of a snapshot, by size, that must be missing for Spark to read all of it through the catalog."""

_T = TypeVar("_T")
_Answer = FileSummary | FileProblem | StoredColumns


class CatalogAccess(NamedTuple):
    """How Spark reaches the catalog."""

    properties: Mapping[str, str]
    """Of Iceberg's REST catalog, `uri` among them."""
    find: Callable[[UUID], CatalogTable | None]
    """The table with this id, if clients can name it."""


class SparkGroups:
    """Works on groups on Spark, which is opened with the first one.

    Attributes:
        files: how many data files were read.
        by_catalog: how many of them were read through the catalog.
    """

    def __init__(
        self,
        open_spark: Callable[[], SparkSession],
        catalog: CatalogAccess | None = None,
        warn: Callable[[str], None] = lambda _: None,
        *,
        bounds: FileBounds,
    ) -> None:
        """Opens nothing.

        Args:
            open_spark: opens the session.
            catalog: how Spark reaches the catalog; None if it does not.
            warn: takes what an operator should know.
            bounds: of a task.
        """
        self._open_spark = open_spark
        self._catalog = catalog
        self._warn = warn
        self._bounds = bounds
        self._lock = threading.Lock()
        self._rows: CatalogRows | None = None
        self._named: dict[tuple[UUID, int], CatalogTable | None] = {}
        self._offered_bytes: Mapping[UUID, int] = {}
        self.files = self.by_catalog = 0

    def work_on_all(self, pipeline: StatisticsPipeline) -> Iterator[tuple[str, Worked]]:
        """Works on the groups that are offered, of any table, until none is left.

        Yields:
            The table of each group, and what became of it.
        """
        self._offered_bytes = {table.entry_id: table.offered_bytes for table in pipeline.pending()}
        try:
            with ThreadPoolExecutor(_GROUPS_AT_ONCE, "spark-groups") as threads:
                while True:
                    taken = [
                        threads.submit(pipeline.work_on_next_group, self.read) for _ in range(_GROUPS_AT_ONCE)
                    ]
                    done = [worked for each in taken if (worked := each.result()) is not None]
                    yield from ((job.title, worked) for job, worked in done)
                    if not done:
                        return
        finally:
            if self._rows is not None:
                self._rows.close()

    def read(self, table: CapturedTable, group: FileGroup, check: Callable[[int], None]) -> GroupResult:
        """Reads the files of a group, each as a task; see `ReadGroup`."""
        work = _Group(table, group, FileSource.of(table, group.snapshot_id, group.columns), check)
        parts = self._count_by_catalog(work)
        answers = self._read_files(work, "summary" if parts is None else "stored")
        if parts is not None and not _fits(work, parts, answers):
            self._give_up(work, "other rows than the files have")
            parts, answers = None, self._read_files(work, "summary")
        summaries: dict[str, FileSummary] = {}
        problems = []
        for live, answer in zip(group.files, answers, strict=True):
            if isinstance(answer, FileProblem):
                problems.append(answer)
            elif isinstance(answer, FileSummary):
                summaries[live.key] = answer
            else:
                location = live.file.location
                counted = () if parts is None else parts.get(location, ())
                summaries[live.key] = join_parts(
                    location, counted, answer, work.source.schema, group.columns.expressions
                )
        self.files += len(answers)
        self.by_catalog += 0 if parts is None else len(answers)
        return GroupResult(summaries, problems)

    def _read_files(self, work: _Group, reading: Reading) -> list[_Answer]:
        session, storage = self._open_spark(), work.table.storage
        files = [live.file for live in work.group.files]
        return work.run(lambda: read_data_files(session, storage, work.source, files, reading, self._bounds))

    # -- through the catalog --------------------------------------------------------------------------------

    def _count_by_catalog(self, work: _Group) -> dict[str, list[FileSummary]] | None:
        """Rows that Iceberg's runtime read; None if the files are to be read one by one."""
        named, rows = self._find(work), self._rows
        if named is None or rows is None:
            return None
        group, schema = work.group, work.source.schema
        locations = [live.file.location for live in group.files]

        def count() -> dict[str, list[FileSummary]] | Exception:
            try:
                return rows.parts(named, group.snapshot_id, schema, group.columns, locations)
            except Exception as error:  # noqa: BLE001 - of Py4J or gRPC, and lists of files do without
                return error

        found = work.run(count)
        if isinstance(found, Exception):
            self._give_up(work, f"{type(found).__name__}, see Spark's log")
            return None
        return found

    def _find(self, work: _Group) -> CatalogTable | None:
        """The table, if its snapshot is to be read through the catalog; decided with its first group."""
        with self._lock:
            if work.key not in self._named:
                self._named[work.key] = self._found(work)
            return self._named[work.key]

    def _found(self, work: _Group) -> CatalogTable | None:
        size = snapshot_totals(work.table.metadata, work.group.snapshot_id).files_size
        offered = self._offered_bytes.get(work.table.row.id, 0)
        if self._catalog is None or size is None or offered < size * _LEAST_SHARE:
            return None
        if self._rows is None:
            session = self._open_spark()
            if not work.run(lambda: CatalogRows.can_read(session)):
                self._catalog = None
                return None
            self._rows = CatalogRows(session, self._catalog.properties)
        return self._catalog.find(work.table.row.id)

    def _give_up(self, work: _Group, reason: str) -> None:
        with self._lock:
            if self._named.get(work.key) is not None:
                self._named[work.key] = None
                self._warn(
                    f"{work.table.row.name} is read by lists of files, not through the catalog: {reason}"
                )


class _Group(NamedTuple):
    """A group under way."""

    table: CapturedTable
    group: FileGroup
    source: FileSource
    check: Callable[[int], None]

    @property
    def key(self) -> tuple[UUID, int]:
        """Names the snapshot."""
        return self.table.row.id, self.group.snapshot_id

    def run(self, work: Callable[[], _T]) -> _T:
        """Waits for work on Spark, and checks meanwhile whether the group is still held."""
        with ThreadPoolExecutor(1, "spark-job") as thread:
            running = thread.submit(work)
            while not wait([running], timeout=_CHECKED_EVERY_S).done:
                self.check(0)
            return running.result()


def _fits(work: _Group, parts: Mapping[str, Sequence[FileSummary]], answers: Sequence[_Answer]) -> bool:
    """Whether files without deletes have the rows that were counted, and others no more."""
    for live, answer in zip(work.group.files, answers, strict=True):
        if isinstance(answer, StoredColumns):
            rows = sum(part.row_count for part in parts.get(live.file.location, ()))
            if rows > answer.row_count or (rows < answer.row_count and not live.file.deletes):
                return False
    return True
