from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from joserfc.jwk import ECKey, OKPKey, RSAKey

from tests.services.http_server import QuietHandler, serving


class Issuer:
    """An identity provider: a discovery document and a key set, served over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: list[dict[str, object]] = []
        self.fetches: list[str] = []
        self.broken = False
        self.asked, self.answers = threading.Event(), threading.Event()
        self.answers.set()

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/keys"

    def publish(self, *keys: RSAKey | ECKey | OKPKey) -> None:
        self.keys = [key.as_dict(private=False) for key in keys]

    def answer(self, path: str) -> tuple[int, bytes]:
        self.fetches.append(path)
        self.asked.set()
        assert self.answers.wait(120)
        if self.broken:
            return 500, b"no"
        if path == "/keys":
            return 200, json.dumps({"keys": self.keys}).encode()
        if path == "/.well-known/openid-configuration":
            return 200, json.dumps({"issuer": self.url, "jwks_uri": self.jwks_url}).encode()
        return 404, b""


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            status, body = found.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Handler) as url:
        found = Issuer(url)
        yield found


@pytest.fixture(scope="session")
def rsa_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "rsa-1"})
