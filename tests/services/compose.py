"""The services of `deploy/compose` as programs of this machine, with the commands and settings of its file.

`deployment` has the PostgreSQL and the S3 server of the tests behind it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

from tests.services.catalog import SECRETS_KEY
from tests.services.pipeline import ask
from tests.services.s3 import S3Server

__all__ = ["COMPOSE", "Deployment", "deployment"]

COMPOSE = Path(__file__).parents[2] / "deploy" / "compose"


class Deployment:
    """The services of compose.yaml, with hosts, ports and keys of this test."""

    def __init__(self, folder: Path, postgres: sa.URL, s3: S3Server, bucket: str) -> None:
        """Takes a folder for its files, an empty database, and a bucket."""
        self.folder = folder
        self.home = folder / "dagster"
        with socket.socket() as rest, socket.socket() as dagster:
            rest.bind(("127.0.0.1", 0))
            dagster.bind(("127.0.0.1", 0))
            self.rest_port, self.dagster_port = rest.getsockname()[1], dagster.getsockname()[1]
        self.services = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
        self.s3 = s3
        self._environ = {
            "FLOECAT_STORE_URL": postgres.render_as_string(hide_password=False),
            "FLOECAT_SECRETS_KEYS": SECRETS_KEY,
            "FLOECAT_GATEWAY_DEFAULT_WAREHOUSE_PATH": f"s3://{bucket}/warehouse",
            "FLOECAT_STORAGE_AWS_S3_ENDPOINT": s3.endpoint,
            "FLOECAT_STORAGE_AWS_S3_ACCESS_KEY_ID": s3.access_key_id,
            "FLOECAT_STORAGE_AWS_S3_SECRET_ACCESS_KEY": s3.secret_access_key,
            "FLOECAT_DATA_DIR": str(folder),
            "FLOECAT_GATEWAY_REST_PORT": str(self.rest_port),
            "DAGSTER_HOME": str(self.home),
            "DAGSTER_PG_HOST": "127.0.0.1",
            "DAGSTER_PG_PORT": str(postgres.port),
            "DAGSTER_PG_PASSWORD": "any",
        }

    @property
    def url(self) -> str:
        """Where the service answers."""
        return f"http://127.0.0.1:{self.rest_port}"

    def environ(self, service: str) -> dict[str, str]:
        """The variables of a service."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("FLOECAT_", "DAGSTER_"))}
        return clean | self.services[service]["environment"] | self._environ

    def output(self, service: str) -> str:
        """What a service wrote so far."""
        return (self.folder / f"{service}.log").read_text()

    @contextmanager
    def running(
        self, service: str, *more: str, environ: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """The command of a service, until the end of the block, with further options and variables."""
        command = [word.replace("0.0.0.0", "127.0.0.1") for word in self.services[service]["command"]]
        with (self.folder / f"{service}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "floecat_rest", *command, *more],
                cwd=self.folder,
                env=self.environ(service) | dict(environ or {}),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(timeout=60)

    def until_ready(self, service: str, url: str, process: subprocess.Popen[bytes]) -> None:
        """Waits for an answer of a service that was started."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert process.poll() is None, self.output(service)
            try:
                ask(url)
            except urllib.error.URLError:
                time.sleep(0.2)
            else:
                return
        raise AssertionError(f"{url} does not answer:\n{self.output(service)}")


@pytest.fixture
def deployment(tmp_path: Path, postgres_url: str, s3_server: S3Server, s3_bucket: str) -> Deployment:
    """One with nothing started; `upgrade` makes its store."""
    return Deployment(tmp_path, sa.make_url(postgres_url), s3_server, s3_bucket)
