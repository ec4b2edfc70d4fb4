"""`floecat up` with everything: it comes up, works, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

LOCATIONS = "{ workspaceOrError { ... on Workspace { locationEntries { name loadStatus } } } }"


@pytest.fixture
def ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


@pytest.fixture
def up(tmp_path: Path, ports: tuple[int, int]) -> Iterator[subprocess.Popen[str]]:
    environ = {
        key: value for key, value in os.environ.items() if not key.startswith(("FLOECAT_", "DAGSTER_"))
    }
    rest, dagster = map(str, ports)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "floecat_rest",
            "up",
            "--rest-port",
            rest,
            "--dagster-port",
            dagster,
            "--no-demo",
        ],
        cwd=tmp_path,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process
    if process.poll() is None:
        process.terminate()
    process.communicate(timeout=60)


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


def until_up(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if "Ctrl-C stops everything" in line:
            return seen
    raise AssertionError(seen)


def test_up_starts_all_and_one_signal_stops_all(
    up: subprocess.Popen[str], ports: tuple[int, int], tmp_path: Path
) -> None:
    rest, dagster = (f"http://127.0.0.1:{port}" for port in ports)
    seen = until_up(up)
    assert rest in seen
    assert dagster in seen
    assert ask(f"{rest}/v1/config?warehouse=floecat")["defaults"]["prefix"] == "floecat"
    workspace = ask(f"{dagster}/graphql", {"query": LOCATIONS})["data"]["workspaceOrError"]
    assert workspace["locationEntries"] == [{"name": "floecat", "loadStatus": "LOADED"}]
    foreign = {"Origin": "https://example.com"}
    for url in (f"{dagster}/graphql?query=mutation%20{{__typename}}", f"{rest}/v1/config"):
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(urllib.request.Request(url, headers=foreign), timeout=60)
        assert refusal.value.code == 403
        refusal.value.close()
    assert len(processes_of(tmp_path / ".floecat")) >= 3
    up.send_signal(signal.SIGINT)
    output, _ = up.communicate(timeout=60)
    assert up.returncode == 0
    assert output.endswith("Stopped.\n")
    assert processes_of(tmp_path / ".floecat") == []


def test_end_of_one_service_ends_up(up: subprocess.Popen[str], tmp_path: Path) -> None:
    until_up(up)
    [daemon] = [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if b"dagster._daemon" in path.read_bytes()
        and str(tmp_path).encode() in path.with_name("environ").read_bytes()
    ]
    os.kill(daemon, signal.SIGKILL)
    output, _ = up.communicate(timeout=60)
    assert up.returncode == 1
    assert "error: Dagster daemon ended (signal 9)" in output
    assert "Traceback" not in output
    assert processes_of(tmp_path / ".floecat") == []
