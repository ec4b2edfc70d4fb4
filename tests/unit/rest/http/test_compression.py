from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest

from floecat_rest.http.compression import AnswerCompression, compressed
from floecat_rest.http.json_responses import Answer

LONG = b'{"x": "' + b"x" * 2000 + b'"}'


def answer(
    body: bytes, accept: bytes | None = b"gzip", status: int = 200, **headers: str
) -> tuple[dict[bytes, bytes], bytes]:
    """Headers and body that an application's answer is sent with."""
    own = [(b"content-length", str(len(body)).encode())]
    own += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": status, "headers": own})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def send(message: Any) -> None:
        sent.append(message)

    asked = [] if accept is None else [(b"accept-encoding", accept)]
    scope: Any = {"type": "http", "headers": asked}
    asyncio.run(AnswerCompression(app)(scope, send, send))  # type: ignore[arg-type]
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    return dict(sent[0]["headers"]), sent[1]["body"]


def test_long_bodies_are_compressed() -> None:
    headers, body = answer(LONG, b"br, gzip;q=0.5")
    assert gzip.decompress(body) == LONG
    assert headers[b"content-encoding"] == b"gzip"
    assert headers[b"content-length"] == str(len(body)).encode()
    assert headers[b"vary"] == b"Accept-Encoding"


@pytest.mark.parametrize("accept", [None, b"", b"identity", b"gzip;q=0"])
def test_clients_that_do_not_accept_it_get_the_body(accept: bytes | None) -> None:
    assert answer(LONG, accept) == ({b"content-length": str(len(LONG)).encode()}, LONG)


def test_ready_answers() -> None:
    scope: Any = {"headers": [(b"accept-encoding", b"gzip")]}
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    ready = compressed(Answer(200, LONG, [(b"x", b"y")]), scope)
    asyncio.run(ready(scope, send, send))  # type: ignore[arg-type]
    headers = dict(sent[0]["headers"])
    assert gzip.decompress(sent[1]["body"]) == LONG
    assert (headers[b"x"], headers[b"content-encoding"]) == (b"y", b"gzip")
    assert headers[b"content-length"] == str(len(sent[1]["body"])).encode()
    for own in (Answer(200, b"{}"), Answer(200, LONG, [(b"Vary", b"Origin")])):
        assert compressed(own, scope) is own
    plain = Answer(200, LONG)
    assert compressed(plain, {"headers": []}) is plain  # type: ignore[typeddict-item]


def test_short_bodies_and_compressed_ones_stay() -> None:
    assert answer(b"{}")[1] == b"{}"
    assert answer(LONG, content_encoding="gzip")[1] == LONG
    assert answer(LONG, vary="Accept-Encoding")[1] == LONG
