"""A client for one ASGI application, without a server between."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Answer", "ask", "http_scope"]


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    bodies: list[bytes]

    @property
    def body(self) -> bytes:
        return b"".join(self.bodies)


def http_scope(raw_path: str, method: str = "GET", **headers: str) -> dict[str, Any]:
    raw = raw_path.encode()
    return {
        "type": "http",
        "method": method,
        "path": raw_path,
        "raw_path": raw,
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
        "root_path": "",
    }


async def ask(app: Any, scope: dict[str, Any]) -> Answer:
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        messages.append(dict(message))

    await app(scope, receive, send)
    start, *bodies = messages
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    assert [part["more_body"] for part in bodies] == [True] * (len(bodies) - 1) + [False]
    return Answer(start["status"], headers, [part["body"] for part in bodies])
