"""The real service for tests: `floecat serve` in a process of its own, on a free port, with its own data.

`start_catalog` gives a test as many services as it wants; `catalog_server` is one for all tests of a session.
The log of every service that runs is shown with a test that fails.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from floecat.runtime import prepare_store
from floecat.settings.loading import load_settings
from tests.services.forked_service import start_service

__all__ = [
    "PATIENT_STORAGE",
    "SECRETS_KEY",
    "CatalogServer",
    "catalog_server",
    "postgres_environment",
    "prepare_catalog",
    "pytest_runtest_makereport",
    "running_catalog",
    "s3_environment",
    "start_catalog",
    "started_catalogs",
]

_READY_S = 120.0
_STOP_S = 40.0
_ATTEMPTS = 3
_TAIL_LINES = 60
SECRETS_KEY = base64.b64encode(bytes(range(32))).decode()
"""Encrypts the secrets in stores that have no key file."""
_OF_TESTS = {"FLOECAT_PURGE_POLL_INTERVAL_MS": "100"}
_WITHOUT_CAPTURES = {"FLOECAT_STATISTICS_WORKERS": "0"}
"""Many tests commit snapshots without files, or count commits."""

PATIENT_STORAGE = {
    "FLOECAT_STORAGE_CONNECT_TIMEOUT_MS": "60000",
    "FLOECAT_STORAGE_ANSWER_TIMEOUT_MS": "60000",
    "FLOECAT_STORAGE_REQUEST_TIMEOUT_MS": "120000",
}
"""How long object storage takes is up to the machine."""

_running: set[CatalogServer] = set()


class CatalogServer:
    """One service. Its data folder outlives `kill`, `stop` and `restart`, and so does its port."""

    def __init__(self, data_dir: Path, environment: Mapping[str, str] | None = None) -> None:
        """Describes a service.

        Args:
            data_dir: everything that it keeps on local disk.
            environment: settings, as `FLOECAT_GATEWAY_WORKERS`; nothing else of that name is inherited.
        """
        self.data_dir = data_dir
        self.environment = dict(environment or {})
        self.port = _free_port()
        self._process: ForkServerProcess | None = None

    @property
    def base_url(self) -> str:
        """Where it answers, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def warehouse(self) -> str:
        """The name of its catalog."""
        return self.environment.get("FLOECAT_GATEWAY_DEFAULT_PREFIX", "floecat")

    @property
    def pid(self) -> int:
        """Its process, which leads a group of its own."""
        if self._process is None or self._process.pid is None:
            raise RuntimeError("The service was not started")
        return self._process.pid

    @property
    def log(self) -> Path:
        """Its output, of all its lives."""
        return self.data_dir / "serve.log"

    def start(self) -> Self:
        """Starts it and waits until it is ready.

        Raises:
            RuntimeError: it ended, or did not answer in time; with the end of its log.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        if "FLOECAT_STORE_URL" not in self.environment and not (self.data_dir / "floecat.db").exists():
            prepare_catalog(self.data_dir, self.environment)
        for attempt in range(1, _ATTEMPTS + 1):
            self._spawn()
            if self._wait_ready():
                _running.add(self)
                return self
            self.kill()
            # Somebody else may have taken the port since it was found to be free.
            if attempt < _ATTEMPTS and "is in use" in self.log_tail():
                self.port = _free_port()
                continue
            break
        raise RuntimeError(f"The service did not start:\n{self.log_tail()}")

    def stop(self) -> int:
        """Asks it to end, as an operator would, and returns its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Ends it at once, as a crash would; whatever it was doing stays half done."""
        return self._end(signal.SIGKILL)

    def restart(self) -> Self:
        """Stops it and starts it again on the same port and data."""
        self.stop()
        return self.start()

    def log_tail(self, lines: int = _TAIL_LINES) -> str:
        """The last lines that it wrote."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _spawn(self) -> None:
        arguments = ["serve", "--data-dir", str(self.data_dir)]
        arguments += ["--host", "127.0.0.1", "--rest-port", str(self.port)]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("FLOECAT_")}
        environment = inherited | _WITHOUT_CAPTURES | self.environment
        self._process = start_service(arguments, self.data_dir, environment, self.log)

    def _wait_ready(self) -> bool:
        deadline = time.monotonic() + _READY_S
        while self._process is not None and self._process.is_alive() and time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.base_url}/health/ready", timeout=30).status_code == 200:
                    return True
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        return False

    def _end(self, number: signal.Signals) -> int:
        _running.discard(self)
        process, self._process = self._process, None
        if process is None or process.pid is None:
            return 0
        if process.is_alive():
            # The whole group: workers of a supervisor would outlive it.
            os.killpg(process.pid, number)
        process.join(_STOP_S)
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
        return process.exitcode or 0


@pytest.fixture
def start_catalog(tmp_path: Path) -> Iterator[Callable[..., CatalogServer]]:
    """Starts services in folders of the test; called as `start_catalog(FLOECAT_GATEWAY_WORKERS="2")`.

    With `data_dir` two services share a folder, and so a store.
    """
    with started_catalogs(tmp_path) as start:
        yield start


@contextmanager
def started_catalogs(root: Path) -> Iterator[Callable[..., CatalogServer]]:
    """What `start_catalog` does, for a block of code."""
    started: list[CatalogServer] = []

    def start(*, data_dir: Path | None = None, **environment: str) -> CatalogServer:
        folder = data_dir or root / f"catalog-{len(started)}"
        started.append(CatalogServer(folder, environment))
        return started[-1].start()

    try:
        yield start
    finally:
        for server in started:
            server.stop()


@pytest.fixture(scope="session")
def catalog_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CatalogServer]:
    """One service on SQLite and local disk for all tests of the session that leave others alone."""
    with running_catalog(tmp_path_factory.mktemp("catalog")) as server:
        yield server


@contextmanager
def running_catalog(data_dir: Path, environment: Mapping[str, str] | None = None) -> Iterator[CatalogServer]:
    """A service for a block of code. Its purge queue is looked at often, since tests wait for it."""
    server = CatalogServer(data_dir, _OF_TESTS | dict(environment or {}))
    if "FLOECAT_STORE_URL" in server.environment:
        prepare_catalog(data_dir, server.environment)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def prepare_catalog(data_dir: Path, environment: Mapping[str, str]) -> None:
    """What `floecat db upgrade` does; a service makes no store itself."""
    prepare_store(load_settings(environ=environment, overrides={"floecat.data-dir": str(data_dir)}))


def postgres_environment(url: str) -> dict[str, str]:
    """Settings of a service with its store on PostgreSQL."""
    return {"FLOECAT_STORE_URL": url, "FLOECAT_SECRETS_KEYS": SECRETS_KEY}


def s3_environment(endpoint: str, bucket: str, access_key_id: str, secret_access_key: str) -> dict[str, str]:
    """Settings of a service with its warehouse on S3."""
    return {
        "FLOECAT_GATEWAY_DEFAULT_WAREHOUSE_PATH": f"s3://{bucket}/warehouse",
        "FLOECAT_STORAGE_AWS_REGION": "us-east-1",
        "FLOECAT_STORAGE_AWS_S3_ENDPOINT": endpoint,
        "FLOECAT_STORAGE_AWS_S3_PATH_STYLE_ACCESS": "true",
        "FLOECAT_STORAGE_AWS_S3_ACCESS_KEY_ID": access_key_id,
        "FLOECAT_STORAGE_AWS_S3_SECRET_ACCESS_KEY": secret_access_key,
        **PATIENT_STORAGE,
    }


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Adds the end of the log of every running service to the report of a failed test."""
    report = yield
    if report.failed:
        for server in sorted(_running, key=lambda each: each.port):
            report.sections.append((f"log of {server.base_url}", server.log_tail()))
    return report


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
