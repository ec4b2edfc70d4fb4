"""An identity provider for tests: tokens for the client `me` with the secret `hush`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.services.http_server import QuietHandler, serving

__all__ = ["IdentityProvider", "identity_provider", "oidc_environment", "signed_token"]

_ACCOUNT = "5eaa9cd5-7d08-3750-9457-cfe800b0b9d2"
_ISSUER = "https://issuer.example"


class IdentityProvider:
    """Gives tokens to a client with the right secret.

    Attributes:
        lifetime_s: how long the next tokens last.
        issued: all tokens.
    """

    def __init__(self, key: RSAKey, url: str, lifetime_s: int) -> None:
        """Takes what it signs with, where it is, and how long its tokens last."""
        self._key = key
        self.lifetime_s = lifetime_s
        self.token_url = f"{url}/token"
        self.issued: list[str] = []

    def token(self, lifetime_s: int) -> str:
        """A token that ends in some seconds, or ended some seconds ago."""
        return signed_token(self._key, "me", lifetime_s=lifetime_s)

    def answer(self, form: dict[str, list[str]]) -> tuple[int, dict[str, object]]:
        """What the token endpoint says."""
        wanted = {"grant_type": ["client_credentials"], "client_id": ["me"], "client_secret": ["hush"]}
        if not wanted.items() <= form.items():
            return 400, {"error": "invalid_client"}
        self.issued.append(self.token(self.lifetime_s))
        body = {"access_token": self.issued[-1], "token_type": "bearer", "expires_in": self.lifetime_s}
        return 200, body


@contextmanager
def identity_provider(key: RSAKey, lifetime_s: int) -> Iterator[IdentityProvider]:
    """A provider that runs within the block."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            status, body = made.answer(parse_qs(self.rfile.read(length).decode()))
            sent = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

    with serving(Handler) as url:
        made = IdentityProvider(key, url, lifetime_s)
        yield made


def signed_token(key: RSAKey, name: str, *groups: str, lifetime_s: int = 3600) -> str:
    """A token of somebody, for the default account."""
    claims = {
        "iss": _ISSUER,
        "sub": name,
        "roles": groups,
        "account_id": _ACCOUNT,
        "exp": int(time.time()) + lifetime_s,
    }
    return jwt.encode({"alg": "RS256"}, claims, key)


def oidc_environment(key: RSAKey, leeway_s: int = 2) -> dict[str, str]:
    """Settings of a service that believes the provider, and for some seconds more."""
    return {
        "FLOECAT_GATEWAY_AUTH_MODE": "oidc",
        "FLOECAT_GATEWAY_DEFAULT_ACCOUNT_ID": _ACCOUNT,
        "FLOECAT_OIDC_PUBLIC_KEY": key.as_pem(private=False).decode(),
        "FLOECAT_OIDC_ISSUER": _ISSUER,
        "FLOECAT_OIDC_LEEWAY_S": str(leeway_s),
    }
