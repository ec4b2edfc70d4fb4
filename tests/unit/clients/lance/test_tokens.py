from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from lance_namespace import DescribeNamespaceRequest
from lance_namespace.errors import ServiceUnavailableError, UnauthenticatedError

from floecat.clients.lance import IcebergRestNamespace
from tests.unit.clients.lance.scripted_server import Reply, Request, ScriptedServer

Connect = Callable[..., IcebergRestNamespace]

TOKENS = ("POST", "/v1/oauth/tokens")
NAMESPACE = ("GET", "/v1/p/namespaces/a")
FOUND = Reply(body={"properties": {}})
REFUSED = Reply(401, {"error": {"message": "no", "type": "NotAuthorizedException", "code": 401}})


def token(name: str, expires_in: float | None = None) -> Reply:
    return Reply(body={"access_token": name, "token_type": "bearer", "expires_in": expires_in})


def describe(namespace: IcebergRestNamespace) -> Any:
    return namespace.describe_namespace(DescribeNamespaceRequest(id=["w", "a"]))


def tokens_sent(server: ScriptedServer) -> list[str | None]:
    return [each.headers.get("Authorization") for each in server.sent(*NAMESPACE)]


def test_no_token(server: ScriptedServer, connect: Connect):
    server.on(*NAMESPACE, FOUND)
    describe(connect())
    assert tokens_sent(server) == [None]


def test_fixed_token(server: ScriptedServer, connect: Connect):
    server.on(*NAMESPACE, FOUND, REFUSED)
    namespace = connect(auth_token="fixed")
    describe(namespace)
    with pytest.raises(UnauthenticatedError):
        describe(namespace)
    assert tokens_sent(server) == ["Bearer fixed"] * 2


def test_client_credentials(server: ScriptedServer, connect: Connect):
    server.on(*TOKENS, token("one", 3600))
    server.on(*NAMESPACE, FOUND)
    namespace = connect(credential="me:hu&sh", scope="lake")
    describe(namespace)
    describe(namespace)
    [asked] = server.sent(*TOKENS)
    assert asked.form == {
        "grant_type": ["client_credentials"],
        "client_id": ["me"],
        "client_secret": ["hu&sh"],
        "scope": ["lake"],
    }
    assert tokens_sent(server) == ["Bearer one"] * 2


def test_another_token_endpoint(server: ScriptedServer, connect: Connect):
    server.on("POST", "/issuer", token("one"))
    server.on(*NAMESPACE, FOUND)
    describe(connect(credential="me:hush", oauth2_server_uri=f"{server.url}/issuer"))
    assert tokens_sent(server) == ["Bearer one"]


def test_a_token_is_renewed_before_it_ends(server: ScriptedServer, connect: Connect):
    server.on(*TOKENS, token("one", 0), token("two", 3600))
    server.on(*NAMESPACE, FOUND)
    namespace = connect(credential="me:hush")
    describe(namespace)
    describe(namespace)
    assert len(server.sent(*TOKENS)) == 2
    assert tokens_sent(server) == ["Bearer two"] * 2


def test_a_refused_token_is_replaced_once(server: ScriptedServer, connect: Connect):
    server.on(*TOKENS, token("one"), token("two"), token("three"))
    server.on(*NAMESPACE, REFUSED, FOUND, REFUSED)
    namespace = connect(credential="me:hush")
    describe(namespace)
    assert tokens_sent(server) == ["Bearer one", "Bearer two"]
    with pytest.raises(UnauthenticatedError):
        describe(namespace)
    assert tokens_sent(server)[2:] == ["Bearer two", "Bearer three"]


def test_a_credential_takes_over_from_a_token(server: ScriptedServer, connect: Connect):
    def answer(request: Request) -> Reply:
        return FOUND if request.headers["Authorization"] == "Bearer new" else REFUSED

    server.on(*TOKENS, token("new"))
    server.on(*NAMESPACE, answer)
    describe(connect(auth_token="old", credential="me:hush"))
    assert tokens_sent(server) == ["Bearer old", "Bearer new"]


def test_threads_share_a_token(server: ScriptedServer, connect: Connect):
    server.on(*TOKENS, token("one", 3600))
    server.on(*NAMESPACE, FOUND)
    namespace = connect(credential="me:hush")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(describe, [namespace] * 16))
    assert len(server.sent(*TOKENS)) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Reply(400, {"error": "invalid_client", "error_description": "hush is wrong"}), UnauthenticatedError),
        (Reply(401), UnauthenticatedError),
        (Reply(500), ServiceUnavailableError),
        (Reply(429), ServiceUnavailableError),
    ],
)
def test_no_token_is_to_be_had(
    server: ScriptedServer, connect: Connect, answer: Reply, error: type[Exception]
):
    server.on(*TOKENS, answer)
    with pytest.raises(error, match=str(answer.status)) as caught:
        describe(connect(credential="me:hush"))
    assert "hush" not in str(caught.value)
