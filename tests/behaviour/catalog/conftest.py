"""A kernel over each store, on local storage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from floecat.auth.principals import Principal
from floecat.entries.calls import Call, RequestKey
from floecat.runtime import Kernel, open_kernel
from floecat.settings import Settings, StorageSettings, StoreSettings
from floecat.store.database.engine import Store


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty store of each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'floecat.db'}"
    url = request.getfixturevalue("postgres_url")
    assert isinstance(url, str)
    return url


@pytest.fixture
def kernel(store_url: str, tmp_path: Path) -> Iterator[Kernel]:
    """A kernel with the default catalog."""
    store = Store.open(store_url)
    store.upgrade()
    store.close()
    settings = Settings(
        data_dir=str(tmp_path / "data"),
        store=StoreSettings(url=store_url),
        storage=StorageSettings(fsync=False),
    )
    opened = open_kernel(settings)
    opened.catalogs.ensure(settings.gateway.default_account_id, "floecat", settings.warehouse_location)
    yield opened
    opened.close()


@pytest.fixture
def call(kernel: Kernel) -> Call:
    """A call of one principal on the default catalog, with the namespace `ns` made."""
    account = kernel.settings.gateway.default_account_id
    made = kernel.calls.open(Principal("tester", account), "floecat")
    kernel.namespaces.create(made, ("ns",), {})
    return made


def with_key(call: Call, key: str, operation: str = "operation", request_hash: str = "hash") -> Call:
    """The call under an idempotency key."""
    return msgspec.structs.replace(call, request=RequestKey(key, operation, request_hash))
