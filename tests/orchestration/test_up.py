"""`floecat up` and `floecat dagster` of an installed wheel: they come up, work, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.services.wheel import build_wheel, install_beside_libraries, install_with_libraries

DEFINITIONS = """{
  workspaceOrError { ... on Workspace { locationEntries { name loadStatus } } }
  assetNodes { assetKey { path } }
  instance { info }
  repositoriesOrError { ... on RepositoryConnection { nodes { sensors { name sensorState { status } } } } }
}"""
EVENTS = """{ assetOrError(assetKey: {path: ["catalog", "tables"]}) {
  ... on Asset { assetMaterializations(limit: 1) { description } } } }"""
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


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
        process.communicate(timeout=60)


def up(commands: Path, ports: tuple[int, int]) -> tuple[str, ...]:
    rest, dagster = map(str, ports)
    return (str(commands / "floecat"), "up", "--rest-port", rest, "--dagster-port", dagster, "--no-demo")


def ask(url: str, body: object = None) -> Any:
    request = urllib.request.Request(url, headers={"Content-Type": "application/json"})
    request.data = None if body is None else msgspec.json.encode(body)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return msgspec.json.decode(answer.read())


def processes_of(data_dir: Path) -> list[str]:
    """Command lines of the processes that work in this data folder."""
    marker = f"FLOECAT_DATA_DIR={data_dir}".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker in environ.read_bytes().split(b"\0"):
                found.append(environ.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode())
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found


def until(text: str, process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(seen)


def assert_pipeline_works(rest: str, dagster: str) -> None:
    """Assets and sensors are there, and a commit becomes an event."""
    found = ask(f"{dagster}/graphql", {"query": DEFINITIONS})["data"]
    assert found["workspaceOrError"]["locationEntries"] == [{"name": "floecat", "loadStatus": "LOADED"}]
    assert ["catalog", "tables"] in [node["assetKey"]["path"] for node in found["assetNodes"]]
    (repository,) = found["repositoriesOrError"]["nodes"]
    sensors = {sensor["name"]: sensor["sensorState"]["status"] for sensor in repository["sensors"]}
    assert sensors["commit_sensor"] == "RUNNING"
    assert "max_concurrent_runs: 4" in found["instance"]["info"]
    ask(f"{rest}/v1/namespaces", {"namespace": ["ns"]})
    ask(f"{rest}/v1/namespaces/ns/tables", {"name": "orders", "schema": SCHEMA})
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        asset = ask(f"{dagster}/graphql", {"query": EVENTS})["data"]["assetOrError"]
        if asset.get("assetMaterializations"):
            assert "orders" in asset["assetMaterializations"][0]["description"]
            return
        time.sleep(0.5)
    raise AssertionError("the commit was not reported")


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
                urllib.request.urlopen(urllib.request.Request(url, headers=foreign), timeout=60)
            assert refusal.value.code == 403
            refusal.value.close()
        assert len(processes_of(tmp_path / ".floecat")) >= 3
        second = subprocess.run(
            up(bin_folder, (0, 0)),
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert second.returncode == 2
        assert f"{tmp_path}/.floecat is in use by another floecat up (process {process.pid})" in second.stderr
        assert ask(f"{rest}/health/ready")
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output.endswith("Stopped.\n")
    assert processes_of(tmp_path / ".floecat") == []


def test_dagster_ends_with_the_first_of_its_processes(
    bin_folder: Path, ports: tuple[int, int], tmp_path: Path
) -> None:
    floecat = str(bin_folder / "floecat")
    subprocess.run([floecat, "db", "upgrade"], cwd=tmp_path, env=environment(), timeout=60, check=True)
    with running(tmp_path, floecat, "dagster", "--port", str(ports[1])) as process:
        seen = until("Dagster UI: http", process)
        assert f"DAGSTER_HOME: {tmp_path}/.floecat/dagster" in seen
        [daemon] = [
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if b"dagster._daemon" in path.read_bytes()
            and str(tmp_path).encode() in path.with_name("environ").read_bytes()
        ]
        os.kill(daemon, signal.SIGKILL)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "error: Dagster daemon ended (signal 9, SIGKILL" in output
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
