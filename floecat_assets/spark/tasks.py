"""Functions over bytes, run by executors. Only the DataFrame API is used, which Spark Connect has too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["run_tasks"]

_SCHEMA: Final = "number int, input binary"


def run_tasks(session: SparkSession, work: Callable[[bytes], bytes], inputs: Sequence[bytes]) -> list[bytes]:
    """Runs a function on executors, which need its packages, one task for each input.

    So a lost executor loses one input, and early finishers take another.

    Args:
        session: a session, of Spark Connect or not.
        work: can be pickled.
        inputs: at least one.

    Returns:
        The outputs, in the order of the inputs.
    """
    from pyspark.sql.functions import col, udf

    # Python functions over Arrow would do too, but Spark 3.5's do not run on Java 21
    run = udf(work, "binary").asNondeterministic()
    frame = session.createDataFrame(list(enumerate(inputs)), _SCHEMA).repartition(len(inputs))
    rows = frame.select("number", run(col("input")).alias("output")).collect()
    outputs = {row["number"]: bytes(row["output"]) for row in rows}
    return [outputs[number] for number in range(len(inputs))]
