from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from floecat_assets.spark import sessions
from floecat_assets.spark.sessions import SparkPlace, open_session

ROOT = Path(__file__).parents[4]


class Builder:
    """Notes what a session would be made with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: str) -> Any:
            self.calls.append((name, *arguments))
            return "a session" if name == "getOrCreate" else self

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
    assert open_session(SparkPlace()) == "a session"
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


@pytest.mark.parametrize("by", ["field", "environment"])
def test_spark_connect_needs_no_java(builder: Builder, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    if by == "environment":
        monkeypatch.setenv("SPARK_REMOTE", "sc://host:15002")
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    open_session(SparkPlace(remote="sc://host:15002" if by == "field" else None, conf={"a": "b"}))
    remote = [("remote", "sc://host:15002")] if by == "field" else []
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
    monkeypatch.setattr(sessions, "_has_java_package", lambda: False)
    open_session(SparkPlace())
    assert "JAVA_HOME" not in os.environ


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
