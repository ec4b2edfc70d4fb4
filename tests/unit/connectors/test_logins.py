"""Logins of connectors: what credentials are taken, and token services that refuse, hang or lie."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from floecat.connectors.logins import MASK, Login, check_credentials, masked, open_login
from floecat.connectors.upstream_http import UpstreamHttp
from floecat.errors import (
    BadRequestError,
    FloecatError,
    LocationNotAllowedError,
    UnavailableError,
    UpstreamRefusedError,
)
from tests.services.rest_catalog import ScriptedCatalog, scripted_catalog

EXCHANGE = {"scheme": "token-exchange", "token-endpoint": "https://login.example/token"}
AWS = {"access-key-id": "AKIA", "secret-access-key": "hush", "region": "eu-west-1"}
COMMANDS = {
    "prints": f"{sys.executable} -c \"print('printed')\"",
    "fails": f"{sys.executable} -c 'exit(3)'",
    "silent": f"{sys.executable} -c ''",
    "missing": "/there/is/none",
}


@pytest.fixture
def service() -> Iterator[ScriptedCatalog]:
    with scripted_catalog() as made:
        yield made


def login(token_service: ScriptedCatalog | None = None, /, **credentials: str) -> Login:
    given = {name.replace("_", "-"): value for name, value in credentials.items()}
    if token_service is not None:
        given["token-endpoint"] = f"{token_service.url}/token"
    check_credentials(given, COMMANDS)
    return open_login(given, UpstreamHttp(["127.0.0.1"], timeout_s=30), COMMANDS)


def authorization(made: Login) -> str:
    return made.headers("GET", "https://catalog.example/v1/config", None)["Authorization"]


@pytest.mark.parametrize(
    "credentials",
    [
        {},
        {"scheme": "none"},
        {"scheme": "bearer", "token": "x"},
        {"scheme": "cli", "command": "prints"},
        EXCHANGE | {"subject-token": "x", "form": "azure", "client-id": "me", "client-secret": "hush"},
        EXCHANGE | {"command": "prints", "audience": "//iam.googleapis.com/x"},
        {"scheme": "aws"} | AWS,
        {"scheme": "aws-assume-role", "role-arn": "arn:aws:iam::1:role/r", "external-id": "x"} | AWS,
        {"scheme": "aws-web-identity", "role-arn": "r", "region": "eu-west-1", "command": "prints"},
    ],
)
def test_what_is_taken(credentials):
    check_credentials(credentials, COMMANDS)


@pytest.mark.parametrize(
    ("credentials", "message"),
    [
        ({"token": "hush"}, "scheme must be one of none, bearer"),
        ({"scheme": "basic"}, "scheme must be one of"),
        ({"scheme": "bearer"}, "token is missing"),
        ({"scheme": "bearer", "token": "hush", "user": "me"}, r"unknown field 'user' \(known: token\)"),
        ({"scheme": "bearer", "token": "hush\nhush"}, "token is empty, masked, too long or has a line break"),
        ({"scheme": "bearer", "token": MASK}, "token is empty, masked"),
        ({"scheme": "bearer", "token": "x" * 20_000}, "too long"),
        ({"scheme": "cli", "command": "rm -rf hush"}, "has no command of that name"),
        (EXCHANGE, "needs one of command, subject-token"),
        (EXCHANGE | {"command": "prints", "subject-token": "hush"}, "needs one of command, subject-token"),
        (EXCHANGE | {"subject-token": "x", "form": "apple"}, "form must be rfc8693 or azure"),
    ],
)
def test_what_is_not_taken(credentials, message):
    with pytest.raises(BadRequestError, match=message) as raised:
        check_credentials(credentials, COMMANDS)
    assert "hush" not in raised.value.message


def test_schemes_that_are_of_other_kinds():
    with pytest.raises(BadRequestError, match="take no password"):
        login(scheme="password", password="hush")
    with pytest.raises(BadRequestError, match="region is missing"):
        login(scheme="aws", access_key_id="AKIA", secret_access_key="hush")


def test_how_credentials_are_shown():
    assert masked({"scheme": "aws", "access-key-id": "AKIA"}) == {"scheme": "aws", "access-key-id": MASK}


def test_tokens_that_are_given_or_printed():
    assert authorization(login(scheme="bearer", token="x")) == "Bearer x"
    assert authorization(login(scheme="cli", command="prints")) == "Bearer printed"
    assert login().headers("GET", "https://x/", None) == {}
    for command, message in [
        ("fails", "exited with 3"),
        ("silent", "one line"),
        ("missing", "cannot be run"),
    ]:
        with pytest.raises(
            UpstreamRefusedError, match=f"token command {command} printed no token.*{message}"
        ):
            authorization(login(scheme="cli", command=command))


def test_client_credentials_are_asked_for_once_until_they_end(service):
    tokens = iter("abc")
    lifetimes = iter([3600, 5, 3600])
    service.answers["/token"] = lambda _query: (
        200,
        {"access_token": next(tokens), "expires_in": next(lifetimes)},
    )
    made = login(service, scheme="oauth2", client_id="me", client_secret="hush", scope="all")
    assert [authorization(made), authorization(made)] == ["Bearer a", "Bearer a"]
    assert service.forms == [
        {
            "grant_type": ["client_credentials"],
            "client_id": ["me"],
            "client_secret": ["hush"],
            "scope": ["all"],
        }
    ]
    assert made.forget()
    # one that ends within seconds is not kept
    assert [authorization(made), authorization(made)] == ["Bearer b", "Bearer c"]
    assert not login(scheme="bearer", token="x").forget()


def test_the_forms_of_an_exchange(service):
    service.answers["/token"] = (200, {"access_token": "got", "expires_in": "60"})
    plain = login(service, scheme="token-exchange", command="prints", audience="lake")
    assert authorization(plain) == "Bearer got"
    azure = login(service, scheme="token-exchange", subject_token="mine", form="azure", scope="x/.default")
    assert authorization(azure) == "Bearer got"
    access_token = ["urn:ietf:params:oauth:token-type:access_token"]
    assert service.forms == [
        {
            "grant_type": ["urn:ietf:params:oauth:grant-type:token-exchange"],
            "subject_token": ["printed"],
            "subject_token_type": access_token,
            "requested_token_type": access_token,
            "audience": ["lake"],
        },
        {
            "grant_type": ["urn:ietf:params:oauth:grant-type:jwt-bearer"],
            "assertion": ["mine"],
            "requested_token_use": ["on_behalf_of"],
            "scope": ["x/.default"],
        },
    ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((401, {"error": "invalid_client", "error_description": "hush"}), "refuses.*: invalid_client$"),
        ((400, b"hush"), "refuses the credentials: status 400$"),
        ((400, {"error": "<hush>"}), "refuses the credentials: status 400$"),
        ((503, b"hush"), "fails with the status 503"),
        ((200, b"hush"), "holds no token"),
        ((200, {"access_token": "a\r\nX: b"}), "holds no token"),
        ((200, b" " * (300 << 10)), "larger than 262144 bytes"),
        ((302, b""), "redirects a request"),
    ],
)
def test_services_that_give_no_token(service, answer, message):
    service.answers["/token"] = answer
    made = login(service, scheme="oauth2", client_id="me", client_secret="hush")
    if answer[0] == 302:
        message = "refuses the credentials|redirects a request"
    with pytest.raises(FloecatError, match=message) as raised:
        authorization(made)
    assert "hush" not in raised.value.message


def test_a_token_service_that_hangs(service):
    asked, ended = threading.Event(), threading.Event()

    def hang(_query: object) -> tuple[int, bytes]:
        asked.set()
        ended.wait(60)
        return 200, b"{}"

    service.answers["/token"] = hang
    client = {"client-id": "me", "client-secret": "hush", "token-endpoint": f"{service.url}/token"}
    made = open_login({"scheme": "oauth2"} | client, UpstreamHttp(["127.0.0.1"], timeout_s=0.3), {})
    try:
        with pytest.raises(UnavailableError, match=r"did not answer within 0\.3 s"):
            authorization(made)
        assert asked.is_set()
    finally:
        ended.set()


def test_a_token_service_that_is_not_allowed():
    credentials = {"client_id": "me", "client_secret": "hush", "token_endpoint": "http://10.0.0.1/token"}
    with pytest.raises(LocationNotAllowedError, match=r"'10\.0\.0\.1'"):
        authorization(login(scheme="oauth2", **credentials))


def test_requests_are_signed(service):
    def signature(made: Login) -> str:
        return authorization(made)

    signed = signature(login(scheme="aws", **{name.replace("-", "_"): value for name, value in AWS.items()}))
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKIA/")
    assert "/eu-west-1/execute-api/aws4_request" in signed
    keys: dict[str, Any] = {"AccessKeyId": "ASIA", "SecretAccessKey": "s", "SessionToken": "t"}
    texts = "".join(f"<{name}>{value}</{name}>" for name, value in keys.items())
    service.answers["/"] = (
        200,
        f"<AssumeRoleResponse><Credentials>{texts}</Credentials></AssumeRoleResponse>".encode(),
    )
    role = {"role_arn": "arn:aws:iam::1:role/r", "sts_endpoint": f"{service.url}/", "service": "glue"}
    own = {name.replace("-", "_"): value for name, value in AWS.items()}
    assumed = login(scheme="aws-assume-role", external_id="them", **own, **role)
    assert "Credential=ASIA/" in signature(assumed)
    assert service.asked[-1][3]["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIA/")
    assert service.forms[-1]["ExternalId"] == ["them"]
    web = login(scheme="aws-web-identity", region="eu-west-1", command="prints", **role)
    assert "Credential=ASIA/" in signature(web)
    assert service.forms[-1]["WebIdentityToken"] == ["printed"]
    service.answers["/"] = (403, b"<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>")
    with pytest.raises(UpstreamRefusedError, match="refuses: AccessDenied"):
        signature(login(scheme="aws-web-identity", region="eu-west-1", command="prints", **role))
