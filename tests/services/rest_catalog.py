"""An Iceberg REST catalog whose answers a test writes, for what real ones do not do on request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.services.http_server import QuietHandler, serving

__all__ = ["ScriptedCatalog", "scripted_catalog"]


class ScriptedCatalog:
    """Namespaces with tables and views, and what else a test has it answer.

    Attributes:
        url: where it is.
        config: what `/v1/config` says.
        namespaces: with the names of their tables.
        views: by namespace.
        token: bearer token that it takes; any if None.
        answers: by path: a status and a body, or a function of the query that gives these.
        asked: method, path, query and headers of each request.
        forms: bodies of requests.
    """

    def __init__(self, url: str) -> None:
        """Takes where it is."""
        self.url = url
        self.config: dict[str, Any] = {
            "defaults": {},
            "overrides": {"prefix": "p"},
            "endpoints": ["GET /v1/{prefix}/namespaces/{namespace}/views"],
        }
        self.namespaces: dict[tuple[str, ...], list[str]] = {}
        self.views: dict[tuple[str, ...], list[str]] = {}
        self.token: str | None = None
        self.etags = True
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str, dict[str, list[str]], dict[str, str]]] = []
        self.forms: list[dict[str, list[str]]] = []

    @property
    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [path for _, path, _, _ in self.asked]

    def document(self, name: str) -> dict[str, Any]:
        """The answer to a load."""
        location = f"s3://lake/{name}"
        return {
            "metadata-location": f"{location}/metadata/1.json",
            "metadata": {"location": location, "table-uuid": name},
            "config": {},
        }

    def answer(self, path: str, query: dict[str, list[str]], headers: dict[str, str]) -> tuple[int, Any]:
        """Status and body of an answer."""
        if path in self.answers:
            said = self.answers[path]
            given: tuple[int, Any] = said(query) if callable(said) else said
            return given
        if self.token is not None and headers.get("authorization") != f"Bearer {self.token}":
            return 401, {"error": {"type": "NotAuthorizedException", "message": "hush", "code": 401}}
        if path == "/v1/config":
            return 200, self.config
        prefix = self.config["overrides"].get("prefix")
        parts = path.removeprefix(f"/v1/{prefix}/namespaces" if prefix else "/v1/namespaces").split("/")[1:]
        if not parts:
            parent = tuple(query.get("parent", [""])[0].split("\x1f")) if "parent" in query else ()
            found = [list(each) for each in self.namespaces if each[:-1] == parent]
            return 200, {"namespaces": found}
        levels = tuple(unquote(parts[0]).split("\x1f"))
        held = self.namespaces if "tables" in parts else self.views
        if len(parts) == 2:
            names = held.get(levels, [])
            return 200, {"identifiers": [{"namespace": list(levels), "name": name} for name in names]}
        name = unquote(parts[2])
        if name not in held.get(levels, []):
            return 404, {"error": {"type": "NoSuchTableException", "message": "hush", "code": 404}}
        return 200, self.document(name)


@contextmanager
def scripted_catalog() -> Iterator[ScriptedCatalog]:
    """A catalog that runs within the block."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            made.forms.append(parse_qs(body.decode()))
            self._answer()

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            headers = {name.lower(): value for name, value in self.headers.items()}
            made.asked.append((self.command, parts.path, query, headers))
            status, body = made.answer(parts.path, query, headers)
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            etag = f'"{len(sent)}"'
            is_load = isinstance(body, dict) and "metadata" in body and made.etags
            if is_load and headers.get("if-none-match") == etag:
                status, sent = 304, b""
            self.send_response(status)
            if is_load:
                self.send_header("ETag", etag)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

    with serving(Handler) as url:
        made = ScriptedCatalog(url)
        yield made
