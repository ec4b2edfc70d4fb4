"""The public side of an identity provider whose tokens a test signs itself."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from joserfc.jwk import ECKey, OKPKey, RSAKey

from tests.services.http_server import QuietHandler, serving

__all__ = ["Issuer", "token_issuer"]


class Issuer:
    """An identity provider: a discovery document and a key set, served over HTTP.

    Attributes:
        name: what its discovery document says.
        discovery: the rest of that document.
        bodies: by path, what is answered in place of the documents.
        keys: of its key set.
        fetches: paths that were asked for.
        broken: whether everything is answered 500.
        asked: set by every request.
        answers: cleared, holds all answers up.
    """

    def __init__(self, url: str) -> None:
        """Takes where it is."""
        self.url = url
        self.keys: list[dict[str, object]] = []
        self.fetches: list[str] = []
        self.broken = False
        self.name = url
        self.discovery: dict[str, object] = {"jwks_uri": self.jwks_url, "token_endpoint": f"{url}/token"}
        self.bodies: dict[str, bytes] = {}
        self.asked, self.answers = threading.Event(), threading.Event()
        self.answers.set()

    @property
    def jwks_url(self) -> str:
        """The address of its key set."""
        return f"{self.url}/keys"

    def publish(self, *keys: RSAKey | ECKey | OKPKey) -> None:
        """Has the key set hold these keys, and no others."""
        self.keys = [key.as_dict(private=False) for key in keys]

    def answer(self, path: str) -> tuple[int, bytes]:
        """Status and body for a path."""
        self.fetches.append(path)
        self.asked.set()
        assert self.answers.wait(120)
        if self.broken:
            return 500, b"no"
        if path in self.bodies:
            return 200, self.bodies[path]
        if path == "/keys":
            return 200, json.dumps({"keys": self.keys}).encode()
        if path == "/.well-known/openid-configuration":
            return 200, json.dumps({"issuer": self.name} | self.discovery).encode()
        return 404, b""


@contextmanager
def token_issuer() -> Iterator[Issuer]:
    """An issuer that runs within the block."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            status, body = made.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Handler) as url:
        made = Issuer(url)
        yield made
