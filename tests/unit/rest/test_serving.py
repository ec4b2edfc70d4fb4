from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
import uvicorn

from floecat.errors import SettingsError
from floecat.settings import Settings
from floecat_rest.protocol import CatalogHttpProtocol
from floecat_rest.serving import run


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "catalog.example.com"])
def test_dev_mode_does_not_listen_where_others_reach_it(tmp_path: Path, host: str) -> None:
    settings = Settings(data_dir=str(tmp_path))
    gateway = msgspec.structs.replace(settings.gateway, host=host)
    with pytest.raises(SettingsError, match="auth-mode"):
        run(msgspec.structs.replace(settings, gateway=gateway))


def test_a_store_without_schema_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="db upgrade"):
        run(Settings(data_dir=str(tmp_path)))


async def exchange(sent: bytes) -> bytes:
    """What the server answers, over a real connection, to bytes that never reach an application."""

    async def app(scope, receive, send):
        raise AssertionError("the application was called")

    config = uvicorn.Config(app, port=0, http=CatalogHttpProtocol, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    server.should_exit = True
    await serving
    return answer


@pytest.mark.parametrize(
    "sent",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /v1/\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/config HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
    ],
)
def test_what_is_no_http_is_answered_in_shape(sent: bytes) -> None:
    head, _, body = asyncio.run(exchange(sent)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-length: %d" % len(body) in head
    error = json.loads(body)["error"]
    assert (error["type"], error["code"]) == ("BadRequestException", 400)
