from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from joserfc.jwk import RSAKey
from lance_namespace import CreateNamespaceRequest

from floecat.clients.lance import IcebergRestNamespace
from tests.clients.warehouses import Warehouse, unique
from tests.services.catalog import CatalogServer, s3_environment
from tests.services.identity_provider import IdentityProvider, identity_provider, oidc_environment
from tests.services.s3 import S3Server

__all__: list[str] = []


class Lake(msgspec.Struct, frozen=True):
    """A catalog, how to connect to it, and how Lance gets at its storage."""

    warehouse: Warehouse
    properties: dict[str, str]

    @property
    def name(self) -> str:
        """The first element of identifiers."""
        return self.warehouse.name

    @property
    def keys(self) -> dict[str, str]:
        """Storage options that the catalog does not tell: it vends no credentials."""
        s3 = self.warehouse.s3
        if s3 is None:
            return {}
        return {"aws_access_key_id": s3.access_key_id, "aws_secret_access_key": s3.secret_access_key}

    def connect(self, **properties: str) -> IcebergRestNamespace:
        """A connection; properties replace those of the lake."""
        return IcebergRestNamespace(**{**self.properties, **properties})

    def new_namespace(self) -> list[str]:
        """The identifier of an empty namespace."""
        made = [self.name, unique("lance")]
        self.connect().create_namespace(CreateNamespaceRequest(id=made))
        return made


def lake_of(warehouse: Warehouse, **properties: str) -> Lake:
    return Lake(warehouse, {"endpoint": warehouse.uri, "root": warehouse.root, **properties})


@pytest.fixture(scope="session")
def key() -> RSAKey:
    """What the identity provider signs with."""
    return RSAKey.generate_key(2048)


@pytest.fixture(scope="session")
def provider(key: RSAKey) -> Iterator[IdentityProvider]:
    """An identity provider."""
    with identity_provider(key, lifetime_s=300) as made:
        yield made


@pytest.fixture(scope="session")
def disk_lake(disk_warehouse: Warehouse) -> Lake:
    """Our service on the local disk."""
    return lake_of(disk_warehouse)


@pytest.fixture(scope="session")
def s3_lake(s3_warehouse: Warehouse) -> Lake:
    """Our service on S3."""
    return lake_of(s3_warehouse)


@pytest.fixture(scope="session")
def secured_disk_lake(
    tmp_path_factory: pytest.TempPathFactory, key: RSAKey, provider: IdentityProvider
) -> Iterator[Lake]:
    """Our service on the local disk, with logins."""
    server = CatalogServer(tmp_path_factory.mktemp("lance-secured"), oidc_environment(key)).start()
    login = {"credential": "me:hush", "oauth2_server_uri": provider.token_url}
    yield lake_of(Warehouse(server), **login)
    server.stop()


@pytest.fixture(scope="session")
def secured_s3_lake(
    tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server, key: RSAKey, provider: IdentityProvider
) -> Iterator[Lake]:
    """Our service on S3, with logins."""
    bucket = s3_server.create_bucket()
    environment = s3_environment(
        s3_server.endpoint, bucket, s3_server.access_key_id, s3_server.secret_access_key
    )
    folder = tmp_path_factory.mktemp("lance-secured-s3")
    server = CatalogServer(folder, oidc_environment(key) | environment).start()
    yield lake_of(Warehouse(server, s3_server, bucket), auth_token=provider.token(300))
    server.stop()


@pytest.fixture(
    params=[
        "disk",
        pytest.param("s3", marks=pytest.mark.s3),
        "secured_disk",
        pytest.param("secured_s3", marks=pytest.mark.s3),
    ]
)
def lake(request: pytest.FixtureRequest) -> Lake:
    """Our service on the local disk and on S3, without and with logins."""
    found: Lake = request.getfixturevalue(f"{request.param}_lake")
    return found
