"""Groups of data files of large captures, read by Spark's executors: the same numbers as in one process.

Executors read the files of a group with the deletes that apply to them; the driver holds the job, writes the
sidecar and submits it. Only the DataFrame API is used, which Spark Connect has too. Executors need this
package and `floecat` installed. They get the keys of storage, and nothing keeps those.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final, NamedTuple

from floecat.errors import UnavailableError
from floecat.fileio.base import FileIO
from floecat.statistics.capture.counting import FileReader, FileSource
from floecat.statistics.capture.groups import FileGroup, FileProblem, GroupResult, read_file
from floecat.statistics.capture.tables import CapturedTable
from floecat.statistics.files.summaries import DataFile, FileSummary
from floecat.struct_types import prepare_struct_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from floecat.jobs.queue import Worked
    from floecat.statistics.pipeline import StatisticsPipeline

__all__ = ["SparkGroups"]

_SCHEMA: Final = "number int, file binary"
_GROUPS_AT_ONCE: Final = 2
"""While the driver stores one group, the executors read another."""

_MEMORY_BYTES: Final = 256 << 20
_CHECKED_EVERY_S: Final = 1.0


class _Shared(NamedTuple):
    """What every executor gets."""

    source: FileSource
    openers: tuple[Callable[[], FileIO], ...]


class _Sent(NamedTuple):
    """A data file, and which opener has its storage."""

    file: DataFile
    opener: int


class SparkGroups:
    """Works on groups on Spark, which is opened with the first one.

    Attributes:
        files: how many data files were read.
    """

    def __init__(self, open_spark: Callable[[], SparkSession]) -> None:
        self._open_spark = open_spark
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
        openers: dict[int, tuple[int, Callable[[], FileIO]]] = {}
        sent = []
        for number, live in enumerate(group.files):
            opener = table.storage.opener(live.file.location)
            place, _ = openers.setdefault(id(opener), (len(openers), opener))
            sent.append((number, pickle.dumps(_Sent(live.file, place))))
        source = FileSource.of(table, group.snapshot_id, group.columns)
        shared = _Shared(source, tuple(opener for _, opener in openers.values()))
        answers = self._run(shared, sent, check)
        self.files += len(answers)
        summaries: dict[str, FileSummary] = {}
        problems = []
        for number, live in enumerate(group.files):
            answer = answers[number]
            if isinstance(answer, FileSummary):
                summaries[live.key] = answer
            elif isinstance(answer, FileProblem):
                problems.append(answer)
            else:
                raise answer
        return GroupResult(summaries, problems)

    def _run(
        self, shared: _Shared, sent: list[tuple[int, bytes]], check: Callable[[int], None]
    ) -> dict[int, FileSummary | FileProblem | Exception]:
        from pyspark.sql.functions import col, udf

        def work(file: bytes) -> bytes:
            return pickle.dumps(_read(shared, file))

        # Python functions over Arrow would do too, but Spark 3.5's do not run on Java 21
        read = udf(work, "binary").asNondeterministic()
        frame = self._open_spark().createDataFrame(sent, _SCHEMA).repartition(len(sent))
        query = frame.select("number", read(col("file")).alias("answer"))
        with ThreadPoolExecutor(1, "spark-job") as thread:
            running = thread.submit(query.collect)
            while not wait([running], timeout=_CHECKED_EVERY_S).done:
                check(0)
            # answers come from executors that ran this code
            return {row["number"]: pickle.loads(row["answer"]) for row in running.result()}  # noqa: S301


def _read(shared: _Shared, packed: bytes) -> FileSummary | FileProblem | Exception:
    """Runs on an executor."""
    prepare_struct_types()
    sent: _Sent = pickle.loads(packed)  # noqa: S301 - the driver sent it
    files = shared.openers[sent.opener]()
    try:
        with FileReader(shared.source, lambda _: files, _MEMORY_BYTES) as reader:
            return read_file(reader, sent.file)
    except UnavailableError as error:
        # handled by type in the driver; anything else fails the task
        return error.with_traceback(None)
