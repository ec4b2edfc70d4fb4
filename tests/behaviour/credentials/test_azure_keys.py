"""Signatures of Azure at a server that checks them: Azurite, for containers. Directories it does not know."""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from urllib.parse import parse_qs
from uuid import UUID

import pytest

from floecat.credentials.authorities import AdlsMethod, StorageAuthority
from floecat.credentials.azure_keys import AzureKeyMaker
from floecat.credentials.keys import KeyScope
from floecat.credentials.posts import Poster
from floecat.fileio.locations import normalize_location
from floecat.fileio.options import AdlsOptions
from tests.services.azure import ACCOUNT, AzureServer
from tests.services.cloud_services import CloudService, cloud_service

TIMEOUT_S = 120


class Clock:
    def __init__(self, ago_s: int) -> None:
        self._ago_s = ago_s

    def now_ms(self) -> int:
        return int((time.time() - self._ago_s) * 1000)


class Container:
    """A container, and what a signature may do in it."""

    def __init__(self, server: AzureServer) -> None:
        self.server = server
        self.location = server.create_container()
        self._name = self.location.removeprefix("abfss://").partition("@")[0]

    def key(self, method: AdlsMethod, secrets: dict[str, str], *, may_write: bool, ago_s: int = 0) -> str:
        """The signature that is made for a folder of the container."""
        made = StorageAuthority(
            UUID(int=1), UUID(int=2), "lake", normalize_location(self.location), method, True, None, 1, 0, 0
        )
        scope = KeyScope((normalize_location(f"{self.location}/wh/t1"),), may_write)
        maker = AzureKeyMaker(Poster(timeout_s=TIMEOUT_S), AdlsOptions(), Clock(ago_s))
        return maker.make(made, secrets, scope).config["adls.sas-token"]

    def statuses(self, sas: str) -> dict[str, int]:
        """How the server answers each operation."""
        listing = f"{self._name}?restype=container&comp=list"
        blob = f"{self._name}/wh/t1/a"
        return {
            "put": self._ask("PUT", blob, sas, b"a"),
            "get": self._ask("GET", blob, sas),
            "list": self._ask("GET", listing, sas),
            "delete": self._ask("DELETE", blob, sas),
        }

    def _ask(self, method: str, path: str, sas: str, body: bytes | None = None) -> int:
        url = f"{self.server.endpoint}/{ACCOUNT}/{path}{'&' if '?' in path else '?'}{sas}"
        headers = {"x-ms-blob-type": "BlockBlob", "x-ms-version": "2021-08-06"}
        request = urllib.request.Request(url, body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code


WRITES = {"put": 201, "get": 200, "list": 200, "delete": 202}
READS = {"put": 403, "get": 404, "list": 200, "delete": 403}
NOTHING = dict.fromkeys(WRITES, 403)


@pytest.fixture
def login() -> Iterator[CloudService]:
    """A service that gives tokens as Azure's, unsigned: the server does not look at signatures."""
    with cloud_service() as made:
        now_s = int(time.time())
        claims = {
            "aud": "https://storage.azure.com",
            "iss": "https://sts.windows.net/tenant/",
            "iat": now_s,
            "nbf": now_s - 60,
            "exp": now_s + 3600,
            "oid": "00000000-0000-0000-0000-000000000001",
            "tid": "00000000-0000-0000-0000-000000000002",
        }
        parts = ({"alg": "RS256", "typ": "JWT"}, claims, "signature")
        encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        made.answers["/tenant/oauth2/v2.0/token"] = 200, {"access_token": ".".join(encoded)}
        yield made


def test_a_signature_with_the_key_of_the_account(azure_server: AzureServer) -> None:
    container, other = Container(azure_server), Container(azure_server)
    method = AdlsMethod(hierarchical=False, endpoint=azure_server.endpoint)
    secrets = {"account-key": azure_server.account_key}
    writer = container.key(method, secrets, may_write=True)
    reader = container.key(method, secrets, may_write=False)
    assert container.statuses(writer) == WRITES
    assert container.statuses(reader) == READS
    assert other.statuses(writer) == NOTHING
    more = reader.replace("sp=rl", "sp=racwdl")
    assert container.statuses(more) == NOTHING
    ended = container.key(method, secrets, may_write=True, ago_s=method.duration_s + 60)
    assert container.statuses(ended) == NOTHING


def test_a_signature_by_user_delegation(azure_with_logins: AzureServer, login: CloudService) -> None:
    container, other = Container(azure_with_logins), Container(azure_with_logins)
    method = AdlsMethod(
        hierarchical=False,
        endpoint=azure_with_logins.endpoint,
        login_endpoint=login.url,
        tenant_id="tenant",
        client_id="app",
    )
    writer = container.key(method, {"client-secret": "hush"}, may_write=True)
    reader = container.key(method, {"client-secret": "hush"}, may_write=False)
    assert parse_qs(writer)["skoid"] == ["00000000-0000-0000-0000-000000000001"]
    assert container.statuses(writer) == WRITES
    assert container.statuses(reader) == READS
    assert other.statuses(writer) == NOTHING
    assert container.statuses(reader.replace("sp=rl", "sp=racwdl")) == NOTHING


def test_a_signature_for_a_directory_opens_nothing_where_there_are_none(azure_server: AzureServer) -> None:
    container = Container(azure_server)
    sas = container.key(
        AdlsMethod(endpoint=azure_server.endpoint),
        {"account-key": azure_server.account_key},
        may_write=True,
    )
    assert "&sr=d&sdd=2&" in sas
    assert set(container.statuses(sas).values()) <= {400, 403}
