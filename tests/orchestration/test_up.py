"""`floecat up` of an installed wheel: it comes up, works, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.services.pipeline import ask, assert_pipeline_works, processes_of
from tests.services.wheel import build_wheel, install_beside_libraries, install_with_libraries

pytestmark = pytest.mark.timeout(900)
_PATIENCE_S = 300.0
"""A machine with much to do takes minutes to start Dagster; `floecat up` itself waits for 300 s."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def bin_folder(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_beside_libraries(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture
def ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("FLOECAT_", "DAGSTER_"))}


@contextmanager
def running(folder: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=_PATIENCE_S)


def up(commands: Path, ports: tuple[int, int]) -> tuple[str, ...]:
    rest, dagster = map(str, ports)
    return (str(commands / "floecat"), "up", "--rest-port", rest, "--dagster-port", dagster, "--no-demo")


def until(text: str, process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(seen)


def test_the_wheel_holds_what_is_no_code(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "floecat_assets/dagster.yaml",
        "floecat_assets/workspace.yaml",
        "floecat_assets/dg.toml",
        "floecat_assets/tables.yaml",
        "floecat_rest/openapi/rest-catalog-open-api.yaml",
        "floecat/store/migrations/script.py.mako",
        *(f"{package}/py.typed" for package in ("floecat", "floecat_rest", "floecat_assets")),
    } <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {
        "floecat",
        "floecat_rest",
        "floecat_assets",
    }


def test_up_starts_all_and_one_signal_stops_all(
    bin_folder: Path, ports: tuple[int, int], tmp_path: Path
) -> None:
    rest, dagster = (f"http://127.0.0.1:{port}" for port in ports)
    with running(tmp_path, *up(bin_folder, ports)) as process:
        seen = until("Ctrl-C stops everything", process)
        assert rest in seen
        assert dagster in seen
        assert ask(f"{rest}/v1/config?warehouse=floecat")["defaults"]["prefix"] == "floecat"
        assert_pipeline_works(rest, dagster)
        foreign = {"Origin": "https://example.com"}
        for url in (f"{dagster}/graphql?query=mutation%20{{__typename}}", f"{rest}/v1/config"):
            with pytest.raises(urllib.error.HTTPError) as refusal:
                urllib.request.urlopen(urllib.request.Request(url, headers=foreign), timeout=_PATIENCE_S)
            assert refusal.value.code == 403
            refusal.value.close()
        assert len(processes_of(tmp_path / ".floecat")) >= 3
        second = subprocess.run(
            up(bin_folder, (0, 0)),
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        assert second.returncode == 2
        assert f"{tmp_path}/.floecat is in use by another floecat process ({process.pid})" in second.stderr
        assert ask(f"{rest}/health/ready")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 0
    assert output.endswith("Stopped.\n")
    assert processes_of(tmp_path / ".floecat") == []


@pytest.mark.scale
def test_a_fresh_installation_with_all_its_libraries(
    wheel: Path, ports: tuple[int, int], tmp_path: Path
) -> None:
    commands = install_with_libraries(wheel, "pipeline", tmp_path / "environment")
    rest, dagster = (f"http://127.0.0.1:{port}" for port in ports)
    with running(tmp_path, *up(commands, ports)) as process:
        until("Ctrl-C stops everything", process)
        assert_pipeline_works(rest, dagster)
