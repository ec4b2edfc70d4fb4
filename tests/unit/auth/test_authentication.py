from __future__ import annotations

import pytest

from floecat.auth.authentication import bearer_token, open_authentication
from floecat.auth.principals import DEVELOPER
from floecat.errors import NotAuthorizedError
from floecat.memory_budget import MemoryBudget
from floecat.settings import GatewaySettings, OidcSettings, Settings


@pytest.mark.parametrize(
    "credentials",
    [
        [],
        [b""],
        [b"Bearer"],
        [b"Bearer "],
        [b"Bearer None"],
        [b"Basic abc"],
        ["Bearer ä".encode()],
        [b"Bearer a", b"Bearer b"],
        [b"Bearer a", b"Bearer a"],
    ],
)
def test_what_is_not_one_bearer_token_is_refused(credentials):
    with pytest.raises(NotAuthorizedError):
        bearer_token(credentials)


@pytest.mark.parametrize("credentials", [b"Bearer a.b.c", b"bearer a.b.c", b"BEARER  a.b.c "])
def test_a_bearer_token_is_read_whatever_the_case_of_its_scheme(credentials):
    assert bearer_token([credentials]) == "a.b.c"


def test_in_dev_mode_everybody_is_the_developer():
    opened = open_authentication(Settings(), MemoryBudget())
    for credentials in ([], [b"nonsense"], [b"Bearer a", b"Bearer b"]):
        for principal in (opened.remembered(credentials), opened.verify(credentials)):
            assert (principal.name, principal.groups) == (DEVELOPER, ())


def test_tokens_are_looked_for_under_the_name_that_is_set():
    gateway = GatewaySettings(auth_mode="oidc", auth_header="X-Token")
    opened = open_authentication(
        Settings(gateway=gateway, oidc=OidcSettings(jwks_url="http://127.0.0.1:1")), MemoryBudget()
    )
    assert opened.header == b"x-token"
    assert opened.remembered([b"Bearer a.b.c"]) is None
    for ask in (opened.remembered, opened.verify):
        with pytest.raises(NotAuthorizedError):
            ask([])
