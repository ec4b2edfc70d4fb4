"""What Google and Azure have for making keys, as far as no program for tests has it.

It keeps what it was asked, and answers what a test says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import msgspec

from tests.services.http_server import QuietHandler, serving

__all__ = ["Asked", "CloudService", "cloud_service"]


class Asked(msgspec.Struct):
    """A request."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: str

    @property
    def form(self) -> dict[str, str]:
        """The fields of a form."""
        return {name: values[0] for name, values in parse_qs(self.body).items()}


class CloudService:
    """Answers by path.

    Attributes:
        url: where it is.
        answers: status, and JSON or text, of each path.
        asked: what came, in order.
    """

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, tuple[int, object]] = {}
        self.asked: list[Asked] = []


@contextmanager
def cloud_service() -> Iterator[CloudService]:
    """A service that runs within the block."""
    made = CloudService()

    class Handler(QuietHandler):
        def _answer(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            made.asked.append(Asked(self.command, url.path, parse_qs(url.query), headers, body))
            status, found = made.answers.get(url.path, (404, {}))
            sent = (found if isinstance(found, str) else json.dumps(found)).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = _answer

    with serving(Handler) as made.url:
        yield made
