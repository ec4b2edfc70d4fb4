"""Commands and settings of the Compose deployment without containers, on PostgreSQL and S3 of the tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
import yaml

from tests.services.pipeline import ask, assert_pipeline_works, processes_of
from tests.services.s3 import S3Server

DOCKERFILE = Path(__file__).parents[2] / "deploy" / "Dockerfile"
COMPOSE = Path(__file__).parents[2] / "deploy" / "compose"


class Deployment:
    """The services of compose.yaml, with hosts, ports and keys of this test."""

    def __init__(self, folder: Path, postgres: sa.URL, s3: S3Server, bucket: str) -> None:
        self.folder = folder
        self.home = folder / "dagster"
        with socket.socket() as rest, socket.socket() as dagster:
            rest.bind(("127.0.0.1", 0))
            dagster.bind(("127.0.0.1", 0))
            self.rest_port, self.dagster_port = rest.getsockname()[1], dagster.getsockname()[1]
        self.services = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
        self._environ = {
            "FLOECAT_STORE_URL": postgres.render_as_string(hide_password=False),
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

    @contextmanager
    def running(self, service: str, *more: str) -> Iterator[subprocess.Popen[str]]:
        """The command of a service, with further options, until the end of the block."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("FLOECAT_", "DAGSTER_"))}
        command = [word.replace("0.0.0.0", "127.0.0.1") for word in self.services[service]["command"]]
        process = subprocess.Popen(
            [sys.executable, "-m", "floecat_rest", *command, *more],
            cwd=self.folder,
            env=clean | self.services[service]["environment"] | self._environ,
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


@pytest.fixture
def deployment(tmp_path: Path, postgres_url: str, s3_server: S3Server, s3_bucket: str) -> Deployment:
    url = sa.make_url(postgres_url)
    with psycopg.connect(url.set(drivername="postgresql").render_as_string(), autocommit=True) as connection:
        connection.execute((COMPOSE / "dagster-database.sql").read_text())
    deployment = Deployment(tmp_path, url, s3_server, s3_bucket)
    deployment.home.mkdir()
    shutil.copy(COMPOSE.parent / "dagster.yaml", deployment.home)
    return deployment


def until_ready(url: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[0]
        try:
            ask(url)
        except urllib.error.URLError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"{url} does not answer")


@pytest.mark.postgres
@pytest.mark.s3
def test_the_services_of_compose_start_work_and_end(deployment: Deployment) -> None:
    with deployment.running("upgrade") as upgrade:
        output, _ = upgrade.communicate(timeout=120)
        assert output == "The store is up to date.\n"
    rest, dagster = (f"http://127.0.0.1:{port}" for port in (deployment.rest_port, deployment.dagster_port))
    with (
        deployment.running("floecat") as service,
        deployment.running("dagster", "--port", str(deployment.dagster_port)) as pipeline,
    ):
        until_ready(f"{rest}/health/ready", service)
        until_ready(f"{dagster}/server_info", pipeline)
        assert_pipeline_works(rest, dagster)
        assert not list(deployment.home.glob("**/*.db"))
        (probe,) = re.findall(
            r"HEALTHCHECK.*?CMD (\[.+?\])$", DOCKERFILE.read_text(), re.DOTALL | re.MULTILINE
        )
        for command, port, used in (
            (json.loads(probe), 9200, deployment.rest_port),
            (deployment.services["dagster"]["healthcheck"]["test"][1:], 3000, deployment.dagster_port),
        ):
            assert command[:2] == ["python", "-c"]
            subprocess.run(
                [sys.executable, "-c", command[2].replace(str(port), str(used))], check=True, timeout=30
            )
        service.send_signal(signal.SIGTERM)
        service.communicate(timeout=60)
        assert service.returncode == 0
        [daemon] = [
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if b"dagster._daemon" in path.read_bytes()
            and str(deployment.home).encode() in path.with_name("environ").read_bytes()
        ]
        os.kill(daemon, signal.SIGKILL)
        output, _ = pipeline.communicate(timeout=60)
        assert pipeline.returncode == 1
        assert "error: Dagster daemon ended (signal 9, SIGKILL" in output
    assert processes_of(deployment.folder) == []
