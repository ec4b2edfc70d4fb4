from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest

from floecat_rest.http.compression import compressed
from floecat_rest.http.json_responses import Answer

LONG = b'{"x": "' + b"x" * 2000 + b'"}'


def answer(body: bytes, accept: bytes | None = b"gzip", **headers: str) -> tuple[dict[bytes, bytes], bytes]:
    """Headers and body that an answer is sent with."""
    own = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asked = [] if accept is None else [(b"accept-encoding", accept)]
    scope: Any = {"type": "http", "headers": asked}
    ready = compressed(Answer(200, body, own, b"text/plain"), scope)
    asyncio.run(ready(scope, send, send))  # type: ignore[arg-type]
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert (b"content-type", b"text/plain") in sent[0]["headers"]
    return dict(sent[0]["headers"]), sent[1]["body"]


def test_long_bodies_are_compressed() -> None:
    headers, body = answer(LONG, b"br, gzip;q=0.5")
    assert gzip.decompress(body) == LONG
    assert headers[b"content-encoding"] == b"gzip"
    assert headers[b"content-length"] == str(len(body)).encode()
    assert headers[b"vary"] == b"Accept-Encoding"


@pytest.mark.parametrize("accept", [None, b"", b"identity", b"gzip;q=0"])
def test_clients_that_do_not_accept_it_get_the_body(accept: bytes | None) -> None:
    headers, body = answer(LONG, accept)
    assert body == LONG
    assert b"content-encoding" not in headers


def test_short_bodies_and_compressed_ones_stay() -> None:
    assert answer(b"{}")[1] == b"{}"
    assert answer(LONG, content_encoding="gzip")[1] == LONG
    assert answer(LONG, vary="Accept-Encoding")[1] == LONG
