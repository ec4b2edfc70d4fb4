"""Groups of data files of large captures, read by Spark's executors: the same numbers as in one process.

Executors read the files of a group with the deletes that apply to them. The driver holds the job, writes the
sidecar and submits it. Executors need this package and `floecat` installed. They get the keys of storage, and
nothing keeps those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Final

from floecat.statistics.capture.reading.counting import FileSource
from floecat.statistics.capture.reading.file_groups import FileGroup, FileProblem, GroupResult
from floecat.statistics.capture.reading.tables import CapturedTable
from floecat_assets.spark.data_files import FileBounds, read_data_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from floecat.jobs.queue import Worked
    from floecat.statistics.pipeline import StatisticsPipeline

__all__ = ["SparkGroups"]

_GROUPS_AT_ONCE: Final = 2
"""While the driver stores one group, the executors read another."""

_CHECKED_EVERY_S: Final = 1.0


class SparkGroups:
    """Works on groups on Spark, which is opened with the first one.

    Attributes:
        files: how many data files were read.
    """

    def __init__(self, open_spark: Callable[[], SparkSession], bounds: FileBounds) -> None:
        """Opens nothing.

        Args:
            open_spark: opens the session.
            bounds: of a task.
        """
        self._open_spark = open_spark
        self._bounds = bounds
        self.files = 0

    def work_on_all(self, pipeline: StatisticsPipeline) -> Iterator[tuple[str, Worked]]:
        """Works on the groups that are offered, of any table, until none is left.

        Yields:
            The table of each group, and what became of it.
        """
        with ThreadPoolExecutor(_GROUPS_AT_ONCE, "spark-groups") as threads:
            while True:
                taken = [
                    threads.submit(pipeline.work_on_next_group, self.read) for _ in range(_GROUPS_AT_ONCE)
                ]
                done = [worked for each in taken if (worked := each.result()) is not None]
                yield from ((job.title, worked) for job, worked in done)
                if not done:
                    return

    def read(self, table: CapturedTable, group: FileGroup, check: Callable[[int], None]) -> GroupResult:
        """Reads the files of a group, each as a task; see `ReadGroup`."""
        source = FileSource.of(table, group.snapshot_id, group.columns)
        answers = self._read_files(table, source, group, check)
        self.files += len(answers)
        keyed = zip(group.files, answers, strict=True)
        return GroupResult(
            {live.key: answer for live, answer in keyed if not isinstance(answer, FileProblem)},
            [answer for answer in answers if isinstance(answer, FileProblem)],
        )

    def _read_files(
        self, table: CapturedTable, source: FileSource, group: FileGroup, check: Callable[[int], None]
    ) -> list[Any]:
        """Waits for the tasks, and checks meanwhile whether the group is still held."""
        session, files = self._open_spark(), [live.file for live in group.files]
        with ThreadPoolExecutor(1, "spark-job") as thread:
            running = thread.submit(
                read_data_files, session, table.storage, source, files, "summary", self._bounds
            )
            while not wait([running], timeout=_CHECKED_EVERY_S).done:
                check(0)
            return running.result()
