from __future__ import annotations

import asyncio
from typing import Any

import pytest

from floecat.auth.browser_requests import BrowserRules
from floecat_assets.webserver import OwnPagesOnly

HERE = (b"host", b"127.0.0.1:3000")


async def passes(scope: dict[str, Any]) -> bool:
    """Whether the wrapper hands a request on; else it must have refused it."""
    handed_on: list[str] = []
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        handed_on.append(scope["type"])

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await OwnPagesOnly(app, BrowserRules("127.0.0.1", setting="x"))(scope, receive, send)
    refused = bool(sent) and (sent[0].get("status") in {403, 415} or sent[0].get("code") == 1008)
    assert bool(handed_on) != refused
    return bool(handed_on)


@pytest.mark.parametrize(
    ("kind", "method", "path", "headers", "allowed"),
    [
        ("http", "GET", "/graphql", [HERE], True),
        ("http", "GET", "/graphql?query=mutation", [HERE], False),
        ("http", "GET", "/graphql?query=mutation", [HERE, (b"content-type", b"application/json")], True),
        (
            "http",
            "GET",
            "/graphql",
            [HERE, (b"sec-fetch-site", b"cross-site"), (b"sec-fetch-dest", b"image")],
            False,
        ),
        (
            "http",
            "GET",
            "/graphql",
            [HERE, (b"sec-fetch-site", b"cross-site"), (b"sec-fetch-dest", b"document")],
            False,
        ),
        (
            "http",
            "GET",
            "/runs",
            [HERE, (b"sec-fetch-site", b"cross-site"), (b"sec-fetch-dest", b"document")],
            True,
        ),
        ("http", "POST", "/graphql", [HERE, (b"content-type", b"text/plain")], False),
        ("http", "POST", "/graphql?query=mutation", [HERE], False),
        ("http", "POST", "/graphql", [HERE, (b"content-type", b"application/json")], True),
        ("http", "GET", "/graphql", [(b"host", b"rebound.example.com:3000")], False),
        ("websocket", None, "/graphql", [HERE, (b"origin", b"http://127.0.0.1:3000")], True),
        ("websocket", None, "/graphql", [HERE, (b"origin", b"https://example.com")], False),
        ("lifespan", None, "", [], True),
    ],
)
def test_pages_of_other_sites_are_refused(
    kind: str, method: str | None, path: str, headers: list[tuple[bytes, bytes]], allowed: bool
) -> None:
    path, _, query = path.partition("?")
    scope: dict[str, Any] = {
        "type": kind,
        "path": path,
        "query_string": query.encode(),
        "headers": headers,
    }
    if method is not None:
        scope["method"] = method
    assert asyncio.run(passes(scope)) is allowed
