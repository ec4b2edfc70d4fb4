"""Functions run by executors. Only the DataFrame API is used, which Spark Connect has too.

Executors need this package and `floecat` installed. They get what the inputs hold, also keys of storage, and
nothing keeps it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from floecat.struct_types import prepare_struct_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["run_tasks"]

_T = TypeVar("_T")
_R = TypeVar("_R")
_SCHEMA: Final = "number int, input binary"


def run_tasks(
    session: SparkSession,
    work: Callable[[_T], _R],
    inputs: Sequence[_T],
    passed: tuple[type[Exception], ...] = (),
) -> list[_R]:
    """Runs a function on executors, one task for each input. It, inputs and outputs are pickled.

    So a lost executor loses one input, and early finishers take another.

    Args:
        session: a session, of Spark Connect or not.
        work: the function.
        inputs: at least one.
        passed: errors that callers handle by type: the first of them is raised here. Any other one fails the
            task, which Spark runs again.

    Returns:
        The outputs, in the order of the inputs.
    """
    from pyspark.sql.functions import col, udf

    # Python functions over Arrow would do too, but Spark 3.5's do not run on Java 21
    run = udf(partial(_run, work, passed), "binary").asNondeterministic()
    numbered = [(number, pickle.dumps(each)) for number, each in enumerate(inputs)]
    frame = session.createDataFrame(numbered, _SCHEMA).repartition(len(numbered))
    rows = frame.select("number", run(col("input")).alias("output")).collect()
    # they come from executors that ran this code
    outputs = {row["number"]: pickle.loads(row["output"]) for row in rows}  # noqa: S301
    for number in range(len(numbered)):
        if isinstance(outputs[number], Exception):
            raise outputs[number]
    return [outputs[number] for number in range(len(numbered))]


def _run(work: Callable[[_T], _R], passed: tuple[type[Exception], ...], packed: bytes) -> bytes:
    """Runs on an executor."""
    prepare_struct_types()
    answer: _R | Exception
    try:
        answer = work(pickle.loads(packed))  # noqa: S301 - the driver sent it
    except passed as error:
        answer = error.with_traceback(None)
    return pickle.dumps(answer)
