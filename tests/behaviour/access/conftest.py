"""A service with logins, and tokens of its issuer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from litestar.testing import TestClient

from floecat.runtime import Kernel, prepare_store
from floecat.runtime import kernel as opened_kernel
from floecat.settings import (
    GatewaySettings,
    OidcSettings,
    SecretSettings,
    Settings,
    StorageSettings,
    StoreSettings,
)
from floecat.settings.groups.process import AuthSettings
from floecat_rest.app import create_app
from tests.services.catalog import SECRETS_KEY

_KEY = RSAKey.generate_key(2048)


def token(settings: Settings, name: str, *groups: str, account: UUID | None = None) -> dict[str, str]:
    """The headers of a principal, by default of the default account."""
    account = account or settings.gateway.default_account_id
    claims = {"sub": name, "account_id": str(account), "roles": groups, "exp": int(time.time()) + 3600}
    return {"authorization": f"Bearer {jwt.encode({'alg': 'RS256'}, claims, _KEY)}"}


@pytest.fixture
def settings(tmp_path: Path, upgraded_store: Callable[[str], str]) -> Settings:
    made = Settings(
        data_dir=str(tmp_path),
        storage=StorageSettings(fsync=False, addable_locations=(f"file://{tmp_path}/",)),
        store=StoreSettings(url=upgraded_store("sqlite")),
        secrets=SecretSettings(keys=(SECRETS_KEY,)),
        gateway=GatewaySettings(auth_mode="oidc"),
        oidc=OidcSettings(public_key=_KEY.as_pem(private=False).decode()),
        auth=AuthSettings(authorizer="grants", operators="platform", service_operators="service"),
    )
    prepare_store(made)
    return made


@pytest.fixture
def kernel(settings: Settings) -> Iterator[Kernel]:
    with opened_kernel(settings) as opened:
        yield opened


@pytest.fixture
def client(settings: Settings, kernel: Kernel) -> Iterator[TestClient]:
    with TestClient(
        create_app(settings, kernel), base_url="http://127.0.0.1", raise_server_exceptions=False
    ) as made:
        yield made
