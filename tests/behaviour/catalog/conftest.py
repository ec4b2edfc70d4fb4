"""A kernel over each store, on local storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from floecat.auth.principals import Principal
from floecat.entries.calls import Call, RequestKey
from floecat.runtime import Kernel, open_kernel
from floecat.settings import (
    BackoffSettings,
    CommitSettings,
    GatewaySettings,
    Settings,
    StorageSettings,
    StoreSettings,
)
from tests.behaviour.catalog.lakes import Lakes, opened
from tests.services.s3 import S3Server

# The tests lose the answer of a COMMIT, not the store: the looks for it need no time between them.
COMMIT = CommitSettings(confirm=BackoffSettings(max_attempts=6, initial_sleep_ms=1, max_sleep_ms=5))


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, upgraded_store: Callable[[str], str]) -> str:
    """URL of a store of each database, without any row."""
    return upgraded_store(request.param)


@pytest.fixture
def kernel(store_url: str, tmp_path: Path) -> Iterator[Kernel]:
    """A kernel with the default catalog."""
    settings = Settings(
        data_dir=str(tmp_path / "data"),
        gateway=GatewaySettings(commit=COMMIT),
        store=StoreSettings(url=store_url),
        storage=StorageSettings(fsync=False),
    )
    opened = open_kernel(settings)
    opened.catalog.catalogs.ensure(
        settings.gateway.default_account_id, "floecat", settings.warehouse_location
    )
    yield opened
    opened.close()


@pytest.fixture
def lakes(store_url: str, s3_server: S3Server, s3_bucket: str, tmp_path: Path) -> Iterator[Lakes]:
    """A catalog in a bucket."""
    made = opened(store_url, s3_server, tmp_path)
    yield Lakes(made, s3_bucket)
    made.close()


@pytest.fixture
def call(kernel: Kernel) -> Call:
    """A call of one principal on the default catalog, with the namespace `ns` made."""
    account = kernel.settings.gateway.default_account_id
    made = kernel.catalog.calls.open(Principal("tester", account), "floecat")
    kernel.catalog.namespaces.create(made, ("ns",), {})
    return made


def with_key(call: Call, key: str, operation: str = "operation", request_hash: str = "hash") -> Call:
    """The call under an idempotency key."""
    return msgspec.structs.replace(call, request=RequestKey(key, operation, request_hash))
