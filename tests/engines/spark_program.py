"""Runs in the Python environment of Spark 4.1: takes requests from standard input, a line of JSON each.

`{"sql": ...}` answers the rows; `{"stream": {...}}` copies what is new in a table to another one.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession


def main() -> None:
    """Answers each request with a line of JSON: `rows`, or `error`."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Java prints does not get among the answers
    builder = SparkSession.builder
    for name, value in json.loads(sys.stdin.readline()).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    answers.write("{}\n")
    answers.flush()
    for line in sys.stdin:
        try:
            answer = {"rows": answer_of(session, json.loads(line))}
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            lines = f"{type(error).__name__}: {error}".splitlines()
            answer = {"error": [line for line in lines if not line.lstrip().startswith("at ")]}
        answers.write(json.dumps(answer, default=text) + "\n")
        answers.flush()
    session.stop()


def answer_of(session: SparkSession, request: dict[str, Any]) -> list[Any]:
    """The rows of a statement; none of a stream."""
    if "sql" in request:
        return [tuple(row) for row in session.sql(request["sql"]).collect()]
    stream = request["stream"]
    frame = session.readStream.options(**stream["options"]).table(stream["source"])
    writer = frame.writeStream.outputMode("append").option("checkpointLocation", stream["checkpoint"])
    writer.trigger(availableNow=True).toTable(stream["target"]).awaitTermination()
    return []


def text(value: Any) -> Any:
    """Dates, decimals and variants as texts, binary values in hexadecimal."""
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else str(value)


if __name__ == "__main__":
    main()
