"""Commands and settings of the Compose deployment without containers, on PostgreSQL and S3 of the tests."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from tests.services.compose import COMPOSE, Deployment, deployment
from tests.services.pipeline import assert_pipeline_works, processes_of

__all__ = ["deployment"]

DOCKERFILE = Path(__file__).parents[2] / "deploy" / "Dockerfile"


@pytest.mark.postgres
@pytest.mark.s3
def test_the_services_of_compose_start_work_and_end(deployment: Deployment, postgres_url: str) -> None:
    url = sa.make_url(postgres_url).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string(), autocommit=True) as connection:
        connection.execute((COMPOSE / "dagster-database.sql").read_text())
    deployment.home.mkdir()
    shutil.copy(COMPOSE.parent / "dagster.yaml", deployment.home)
    with deployment.running("upgrade") as upgrade:
        upgrade.wait(timeout=120)
    assert deployment.output("upgrade") == "The store is up to date.\n"
    rest, dagster = deployment.url, f"http://127.0.0.1:{deployment.dagster_port}"
    with (
        deployment.running("floecat") as service,
        deployment.running("dagster", "--dagster-port", str(deployment.dagster_port)) as pipeline,
    ):
        deployment.until_ready("floecat", f"{rest}/health/ready", service)
        deployment.until_ready("dagster", f"{dagster}/server_info", pipeline)
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
        service.wait(timeout=60)
        assert service.returncode == 0
        [daemon] = [
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if b"dagster._daemon" in path.read_bytes()
            and str(deployment.home).encode() in path.with_name("environ").read_bytes()
        ]
        os.kill(daemon, signal.SIGKILL)
        pipeline.wait(timeout=60)
        assert pipeline.returncode == 1
        assert "error: Dagster daemon ended (signal 9, SIGKILL" in deployment.output("dagster")
    assert processes_of(deployment.folder) == []
