from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
import uvicorn
import uvloop

from floecat.errors import SettingsError
from floecat.settings import Settings
from floecat_rest.serving import bind_sockets, run


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "catalog.example.com"])
def test_dev_mode_does_not_listen_where_others_reach_it(tmp_path: Path, host: str) -> None:
    settings = Settings(data_dir=str(tmp_path))
    gateway = msgspec.structs.replace(settings.gateway, host=host)
    with pytest.raises(SettingsError, match="auth-mode"):
        run(msgspec.structs.replace(settings, gateway=gateway))


def test_a_store_without_schema_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="db upgrade"):
        run(Settings(data_dir=str(tmp_path)))


def test_several_connections_are_accepted_between_requests() -> None:
    """A client whose requests never end would keep new ones out for as many rounds as there are others."""
    rounds: list[int] = []

    async def work() -> int:
        now = 0

        class Accepted(asyncio.Protocol):
            def __init__(self, **_: object) -> None:
                rounds.append(now)

        config = uvicorn.Config(lambda: None, port=0, http=Accepted, lifespan="off", log_config=None)
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        sockets = bind_sockets(config)
        address = sockets[0].getsockname()
        sockets[0].listen()
        with ExitStack() as clients:
            for _ in range(len(sockets)):
                clients.enter_context(socket.create_connection(address))
            await server.startup(sockets)
            while len(rounds) < len(sockets):
                now += 1
                await asyncio.sleep(0)
            await server.shutdown(sockets)
        return len(sockets)

    assert uvloop.run(work()) == len(rounds) > 10
    assert max(rounds) - min(rounds) <= 2


DIES = """
import os, pathlib, sys
import uvicorn
from floecat_rest.serving import Supervisor

MARK = pathlib.Path(sys.argv[1])
DEATHS = int(sys.argv[2])

def make():
    for number in range(DEATHS):
        try:
            (MARK / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        os._exit(7)
    return app

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})

if __name__ == "__main__":
    config = uvicorn.Config(
        make, factory=True, port=0, workers=2, lifespan="off", log_config=None, timeout_worker_healthcheck=60
    )
    Supervisor(config, sockets=[config.bind_socket()]).run()
"""


def test_a_worker_that_dies_while_it_starts_is_replaced_at_once_and_then_later(tmp_path: Path) -> None:
    deaths = 4
    script = tmp_path / "dies.py"
    script.write_text(DIES)
    command = [sys.executable, str(script), str(tmp_path), str(deaths)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        begun = time.monotonic()
        lines = [process.stderr.readline() for _ in range(deaths)]
        took_s = time.monotonic() - begun
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    pauses = sorted(int(line.rpartition(" in ")[2].split()[0]) for line in lines)
    assert all("ended (exit code 7); another one starts in" in line for line in lines)
    # two workers share the deaths: each starts again at once, then after 1 s, then after 3 s
    assert pauses in ([0, 0, 1, 1], [0, 0, 1, 3], [0, 1, 3, 7])
    assert took_s < 120
    assert process.returncode == 0
