from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from floecat.errors import SettingsError
from floecat.settings import Settings
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


DIES_ONCE = """
import os, pathlib, sys
import uvicorn
from floecat_rest.serving import Supervisor

MARK = pathlib.Path(sys.argv[1])

def make():
    try:
        MARK.touch(exist_ok=False)
    except FileExistsError:
        return app
    os._exit(7)

async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})

if __name__ == "__main__":
    config = uvicorn.Config(
        make, factory=True, port=0, workers=2, lifespan="off", log_config=None, timeout_worker_healthcheck=60
    )
    Supervisor(config, sockets=[config.bind_socket()]).run()
"""


def test_a_worker_that_dies_while_it_starts_is_replaced_at_once(tmp_path: Path) -> None:
    script = tmp_path / "dies_once.py"
    script.write_text(DIES_ONCE)
    command = [sys.executable, str(script), str(tmp_path / "mark")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        begun = time.monotonic()
        line = process.stderr.readline()
        took_s = time.monotonic() - begun
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert "(exit code 7); another one starts" in line
    assert took_s < 30
    assert process.returncode == 0
