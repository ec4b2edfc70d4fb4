"""A kernel over each store, with an authority to make."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from floecat.auth.actors import Actor
from floecat.auth.principals import Principal
from floecat.credentials.authorities import S3Method
from floecat.credentials.authority_service import NewAuthority
from floecat.runtime import Kernel, open_kernel
from floecat.settings import AuthoritySettings, SecretSettings, Settings, StorageSettings, StoreSettings

KEYS = [base64.b64encode(bytes([number]) * 32).decode() for number in range(3)]
SECRET = "hunter2-zebra"
ROLE = "arn:aws:iam::123456789012:role/lent"
ENDPOINT = "http://lent:9000"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def settings(
    tmp_path: Path, request: pytest.FixtureRequest, upgraded_store: Callable[[str], str]
) -> Settings:
    lent = AuthoritySettings(roles=(ROLE,), endpoints=(ENDPOINT,))
    return Settings(
        data_dir=str(tmp_path),
        store=StoreSettings(url=upgraded_store(request.param)),
        storage=StorageSettings(fsync=False, authorities=lent, addable_locations=("s3://lake", "s3://pond")),
        secrets=SecretSettings(keys=(KEYS[0],)),
    )


@pytest.fixture
def kernel(settings: Settings) -> Iterator[Kernel]:
    opened = open_kernel(settings)
    account = settings.gateway.default_account_id
    opened.catalog.catalogs.ensure(account, "floecat", settings.warehouse_location)
    yield opened
    opened.close()


@pytest.fixture
def actor(kernel: Kernel) -> Actor:
    return Actor(Principal("anna", kernel.settings.gateway.default_account_id), kernel.access.authorizer)


def method(**changes: Any) -> S3Method:
    """Keys of a role, by keys of the authority."""
    made = S3Method(access_key_id="AKIA", role_arn="arn:aws:iam::123456789012:role/any", region="eu-west-1")
    return msgspec.structs.replace(made, **changes)


def wanted(**changes: Any) -> NewAuthority:
    """An authority that is in order."""
    made = NewAuthority("lake", "s3://lake/tables", method(), {"secret-access-key": SECRET})
    return msgspec.structs.replace(made, **changes)
