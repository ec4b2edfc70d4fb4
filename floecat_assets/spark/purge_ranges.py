"""Files of large dropped tables, deleted by Spark's executors in ranges of manifests.

Executors read manifests and delete what they name; the driver holds the lease of the job, gives out the
ranges, and deletes manifests and metadata itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from floecat.purge.deletion.ranges import ManifestRange, RangeResult, delete_range
from floecat_assets.spark.tasks import run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkRanges"]


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
        self.ranges += len(ranges)
        return run_tasks(self._open_spark(), delete_range, ranges)
