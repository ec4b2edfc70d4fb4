"""Files of large dropped tables, deleted by Spark's executors in ranges of manifests.

Executors read manifests and delete what they name; the driver holds the lease of the job, gives out the
ranges, and deletes manifests and metadata itself. Only the DataFrame API is used, which Spark Connect has
too. Executors need this package and `floecat` installed. They get the keys of storage, and nothing keeps
those.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from floecat.purge.ranges import ManifestRange, RangeResult, delete_range

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkRanges"]

_SCHEMA = "number int, range binary"


class SparkRanges:
    """A `RangeRunner` on Spark, which is opened with the first ranges.

    Attributes:
        width: ranges in a round; all of them should run at once.
        ranges: how many were run.
    """

    def __init__(self, open_spark: Callable[[], SparkSession], *, width: int) -> None:
        self._open_spark = open_spark
        self.width = width
        self.ranges = 0

    def __call__(self, ranges: Sequence[ManifestRange]) -> Sequence[RangeResult]:
        """Runs ranges, each as a task; see `RangeRunner`."""
        from pyspark.sql.functions import col, udf

        self.ranges += len(ranges)
        # Python functions over Arrow would do too, but Spark 3.5's do not run on Java 21
        run = udf(_run, "binary").asNondeterministic()
        packed = [(number, pickle.dumps(each)) for number, each in enumerate(ranges)]
        # one task for each range: a lost executor loses one, which Spark runs again
        sent = self._open_spark().createDataFrame(packed, _SCHEMA).repartition(len(packed))
        rows = sent.select("number", run(col("range")).alias("result")).collect()
        # results come from executors that ran this code
        results = {row["number"]: pickle.loads(row["result"]) for row in rows}  # noqa: S301
        return [results[number] for number in range(len(ranges))]


def _run(packed: bytes) -> bytes:
    """Runs on an executor."""
    return pickle.dumps(delete_range(pickle.loads(packed)))  # noqa: S301
