"""A catalog on S3 whose clients get keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from litestar.testing import TestClient

from floecat.auth.principals import Principal
from floecat.entries.calls import Call
from floecat.fileio.object_store import ObjectStoreFileIO
from floecat.identifiers.namespace import TableIdentifier
from floecat.runtime import Kernel, open_kernel, prepare_store
from floecat.settings import load_settings
from floecat_rest.app import create_app
from tests.services.authorities import add_authority
from tests.services.catalog import PATIENT_STORAGE
from tests.services.s3 import S3Server

__all__ = ["ASKS", "KeyLake", "key_lake"]

ASKS = {"x-iceberg-access-delegation": "vended-credentials"}
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


class KeyLake:
    """The application over a kernel; its warehouse is a bucket with an authority."""

    def __init__(self, kernel: Kernel, server: S3Server, bucket: str, client: TestClient[Any]) -> None:
        self.kernel = kernel
        self.server = server
        self.bucket = bucket
        self.client = client
        self.tables = "/v1/floecat/namespaces/ns/tables"
        made = client.post("/v1/floecat/namespaces", json={"namespace": ["ns"]})
        assert made.status_code in (200, 409)  # of a lake that was started before

    def create(self, name: str, headers: dict[str, str] | None = None, **more: Any) -> Any:
        """Answer of a create."""
        return self.client.post(self.tables, json={"name": name, "schema": SCHEMA, **more}, headers=headers)

    def load(self, name: str, headers: dict[str, str] | None = None, query: str = "") -> Any:
        """Answer of a load that asks for keys, unless other headers are given."""
        return self.client.get(f"{self.tables}/{name}{query}", headers=ASKS if headers is None else headers)

    def call(self) -> Call:
        """A call of somebody who takes keys."""
        account = self.kernel.settings.gateway.default_account_id
        call = self.kernel.catalog.calls.open(Principal("tester", account), "floecat")
        return msgspec.structs.replace(call, delegation=frozenset({"keys"}))

    @staticmethod
    def name(table: str) -> TableIdentifier:
        """The full name of a table."""
        return TableIdentifier(("ns",), table)

    def files(self, config: dict[str, str]) -> ObjectStoreFileIO:
        """The bucket by vended keys."""
        return ObjectStoreFileIO(
            self.server.options(
                access_key_id=config["s3.access-key-id"],
                secret_access_key=config["s3.secret-access-key"],
                session_token=config["s3.session-token"],
            )
        )


def start_lake(folder: Path, server: S3Server, bucket: str, running: ExitStack, **settings: Any) -> KeyLake:
    """Starts a lake; settings are added to those that it needs."""
    loaded = load_settings(
        environ=PATIENT_STORAGE,
        overrides={
            "floecat.data-dir": str(folder / "data"),
            "floecat.gateway.default-warehouse-path": f"s3://{bucket}/wh",
            "floecat.storage.aws.region": server.region,
            "floecat.storage.aws.s3.endpoint": server.endpoint,
            "floecat.storage.aws.s3.path-style-access": True,
            "floecat.storage.aws.s3.access-key-id": server.access_key_id,
            "floecat.storage.aws.s3.secret-access-key": server.secret_access_key,
            **settings,
        },
    )
    prepare_store(loaded)
    kernel = open_kernel(loaded)
    running.callback(kernel.close)
    client = TestClient(
        create_app(loaded, kernel), base_url="http://127.0.0.1", raise_server_exceptions=False
    )
    client.headers.update({"x-client-version": "test"})
    return KeyLake(kernel, server, bucket, running.enter_context(client))


@pytest.fixture
def key_lake(tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> Iterator[KeyLake]:
    """A lake whose bucket has an authority."""
    with ExitStack() as running:
        lake = start_lake(tmp_path, s3_server, s3_bucket, running)
        add_authority(lake.kernel, s3_server, f"s3://{s3_bucket}")
        yield lake
