"""Trino with logins: a client that gets tokens from a provider, and a token that somebody else renews."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from joserfc.jwk import RSAKey

from tests.clients.warehouses import Warehouse
from tests.engines.conftest import EngineReport
from tests.engines.trino.conftest import page_settings
from tests.engines.trino_server import TrinoError, TrinoServer
from tests.services.catalog import running_catalog
from tests.services.identity_provider import IdentityProvider, identity_provider, oidc_environment

_LIFETIME_S = 60


@pytest.fixture(scope="module")
def key() -> RSAKey:
    """What the provider signs with."""
    return RSAKey.generate_key(2048)


@pytest.fixture(scope="module")
def provider(key: RSAKey) -> Iterator[IdentityProvider]:
    """The identity provider."""
    with identity_provider(key, _LIFETIME_S) as made:
        yield made


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, key: RSAKey) -> Iterator[Warehouse]:
    """A service that believes the provider."""
    environment = oidc_environment(key) | {"FLOECAT_GATEWAY_DEFAULT_PREFIX": "secured"}
    with running_catalog(tmp_path_factory.mktemp("secured"), environment) as server:
        yield Warehouse(server)


@pytest.mark.parametrize("kind", ["credential", "token"])
def test_login(
    trino: TrinoServer, secured: Warehouse, provider: IdentityProvider, engine: EngineReport, kind: str
) -> None:
    login = {"<client id>": "me", "<client secret>": "hush", "<token endpoint>": provider.token_url}
    login = login if kind == "credential" else {"<token>": provider.token(_LIFETIME_S)}
    trino.add_catalog("secured", page_settings(secured, login))
    try:
        with engine.step(f"schema, table, view and rows with a {kind}"):
            for statement in (
                f"CREATE SCHEMA {kind}_s",
                f"CREATE TABLE {kind}_s.t AS SELECT 1 AS id",
                f"INSERT INTO {kind}_s.t VALUES 2",
                f"CREATE VIEW {kind}_s.v AS SELECT max(id) AS id FROM {kind}_s.t",
            ):
                trino.run(statement, catalog="secured")
            assert trino.run(f"SELECT id FROM secured.{kind}_s.v") == [[2]]
        with engine.step(f"no request of a CTAS was refused, with a {kind}"):
            log = secured.server.log.read_text()
            assert " 401 " not in log
            assert " 403 " not in log
        with engine.step(f"drops with a {kind}"):
            trino.run(f"DROP VIEW {kind}_s.v", catalog="secured")
            trino.run(f"DROP TABLE {kind}_s.t", catalog="secured")
            trino.run(f"DROP SCHEMA {kind}_s", catalog="secured")
    finally:
        trino.remove_catalog("secured")


def test_login_that_fails(
    trino: TrinoServer, secured: Warehouse, provider: IdentityProvider, engine: EngineReport
) -> None:
    for name, login in {
        "ended": {"<token>": provider.token(-60)},
        "wrong": {"<client id>": "me", "<client secret>": "no", "<token endpoint>": provider.token_url},
    }.items():
        trino.add_catalog("refused", page_settings(secured, login))
        with engine.step(f"a token that {name} is refused"), pytest.raises(TrinoError):
            trino.run("SHOW SCHEMAS FROM refused")
        trino.remove_catalog("refused")
