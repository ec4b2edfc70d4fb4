"""Spark of a release, with Iceberg's newest runtime, in a process and a Python environment of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.engines.driven_process import DrivenProcess
from tests.engines.programs import jar, java_home, python_with

__all__ = ["ICEBERG", "RELEASE", "SparkError", "SparkProcess"]

RELEASE = "4.1.4"
ICEBERG = "1.12.0"
_OF_TESTS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
}


class SparkError(Exception):
    """What Spark answered instead of rows."""


class SparkProcess(DrivenProcess):
    """One session; statements run one after the other."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        """Starts it.

        Args:
            folder: what it writes beside tables, its log among them.
            settings: of Spark, and of its catalogs.

        Raises:
            ProgramMissingError: PySpark, a jar or Java could not be had.
            RuntimeError: it did not start.
        """
        runtime = jar(f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG}")
        jars = [runtime, jar(f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG}")]
        python = python_with(f"spark-{RELEASE}", f"pyspark=={RELEASE}")
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "JAVA_HOME": str(java_home(17)),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(python),
        }
        environment.pop("SPARK_HOME", None)
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "spark.log"
        with self.log.open("wb") as log:
            program = str(Path(__file__).with_name("spark_program.py"))
            super().__init__([str(python), program], stderr=log, cwd=folder, env=environment)
        of_folder = {
            "spark.driver.extraClassPath": ":".join(map(str, jars)),
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        self._ask(_OF_TESTS | of_folder | dict(settings))

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement; dates, decimals and variants are texts.

        Raises:
            SparkError: it failed.
        """
        return [tuple(row) for row in self._ask({"sql": statement})]

    def stream(self, source: str, target: str, checkpoint: Path, **options: str) -> None:
        """Appends to `target` what came to `source` since the last time, by Structured Streaming.

        Raises:
            SparkError: it failed.
        """
        names = {name.replace("_", "-"): value for name, value in options.items()}
        request = {"source": source, "target": target, "checkpoint": str(checkpoint), "options": names}
        self._ask({"stream": request})

    def _ask(self, request: Mapping[str, Any]) -> list[Any]:
        line = self._send(json.dumps(request)).readline()
        if not line:
            raise RuntimeError(f"Spark ended:\n{self.log.read_text(errors='replace')[-4000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise SparkError("\n".join(answer["error"]))
        rows: list[Any] = answer.get("rows", [])
        return rows
