"""Flink of a release in one JVM, with Iceberg's runtime and the jars of Hadoop that it needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tests.engines.driven_process import DrivenProcess
from tests.engines.programs import jar, java_home, python_with

__all__ = ["ICEBERG", "RELEASE", "FlinkError", "FlinkProcess"]

RELEASE = "2.0.2"
ICEBERG = "1.11.0"
_HADOOP = "3.4.2"
_JARS = (
    f"org.apache.iceberg:iceberg-flink-runtime-2.0:{ICEBERG}",
    f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG}",
    f"org.apache.hadoop:hadoop-client-api:{_HADOOP}",
    f"org.apache.hadoop:hadoop-client-runtime:{_HADOOP}",
)
_OPENED = ("java.lang", "java.lang.invoke", "java.math", "java.net", "java.text", "java.time", "java.util")
_OPENED += ("java.util.concurrent", "java.util.concurrent.atomic", "java.nio", "java.io", "sun.nio.ch")
_FIELD = "\x1f"
_END = "\x04"


class FlinkError(Exception):
    """What Flink answered instead of rows."""


class FlinkProcess(DrivenProcess):
    """A table environment for batches and one for streams; each job has a cluster of its own in this JVM."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        """Starts it.

        Args:
            folder: for its log.
            settings: of Flink, as in its `config.yaml`.

        Raises:
            ProgramMissingError: Flink, a jar or Java could not be had.
        """
        python = python_with(f"flink-{RELEASE}", f"apache-flink-libraries=={RELEASE}")
        [libraries] = python.parents[1].glob("lib/python*/site-packages/pyflink/lib")
        jars = [str(libraries / "*"), *(str(jar(coordinate)) for coordinate in _JARS)]
        options = ["-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
        options += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
        program = str(Path(__file__).with_name("FlinkProgram.java"))
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "flink.log"
        with self.log.open("wb") as log:
            super().__init__(
                [
                    str(java_home(17) / "bin" / "java"),
                    *options,
                    "--class-path",
                    ":".join(jars),
                    program,
                    *(f"{name}={value}" for name, value in settings.items()),
                ],
                stderr=log,
                cwd=folder,
                env={name: value for name, value in os.environ.items() if not name.startswith("FLINK_")},
            )

    def sql(self, statement: str, mode: str = "batch") -> list[tuple[str, ...]]:
        """Runs a statement to its end; the rows have texts.

        Raises:
            FlinkError: it failed.
        """
        return [tuple(line.split(_FIELD)[1:]) for line in self._ask(mode, "run", statement)]

    def start(self, statement: str) -> str:
        """Starts a streaming job and returns its id."""
        [job] = self._ask("streaming", "start", statement)
        return job

    def status(self, job: str) -> str:
        """The status of a job that was started, such as `RUNNING`."""
        [status] = self._ask("streaming", "status", job)
        return status

    def wait(self, job: str) -> None:
        """Waits until a job has ended.

        Raises:
            FlinkError: it failed.
        """
        self._ask("streaming", "wait", job)

    def cancel(self, job: str) -> None:
        """Ends a job that was started."""
        self._ask("streaming", "cancel", job)

    def _ask(self, mode: str, verb: str, argument: str) -> list[str]:
        rows: list[str] = []
        for line in self._send(f"{mode} {verb} {' '.join(argument.split())}"):
            if not line.startswith(_END):
                rows.append(line.rstrip("\n"))
                continue
            said, _, problem = line[1:].rstrip("\n").partition(" ")
            if said == "error":
                raise FlinkError(problem)
            return rows
        raise RuntimeError(f"Flink ended:\n{self.log.read_text(errors='replace')[-4000:]}")
