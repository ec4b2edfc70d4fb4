"""A real PostgreSQL server for tests, from the binaries of the distribution.

`postgres_server` is one server for each worker of a test session; `postgres_url` gives a test a database of
its own; `own_postgres_server` is for a test that stops or kills it.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

__all__ = ["PostgresServer", "own_postgres_server", "postgres_server", "postgres_url"]

_START_S = 120.0
_ATTEMPTS = 3
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "150",
    "max_wal_size": "256MB",
}


class PostgresServer:
    """A server on a free port of 127.0.0.1 that trusts everybody. Its data outlive `stop` and `kill`."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="floecat-postgres-"))
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            shutil.chown(self._folder, "postgres", "postgres")
        subprocess.run(
            [
                *_as_postgres(),
                str(_binaries() / "initdb"),
                *("-D", str(self._folder / "data"), "-U", "floecat", "-A", "trust"),
                *("-E", "UTF8", "--locale", "C.UTF-8", "--no-sync"),
            ],
            check=True,
            capture_output=True,
            cwd="/",
        )

    def start(self) -> None:
        """Starts the server, on the same port as before."""
        for attempt in range(_ATTEMPTS):
            self.port = self.port or _free_port()
            self._process = self._launch()
            if self._answers(self._process):
                return
            if attempt < _ATTEMPTS - 1:
                self.port = 0
        raise RuntimeError(f"PostgreSQL did not start:\n{(self._folder / 'log').read_text()[-2000:]}")

    def stop(self) -> None:
        """Stops the server in an orderly way, which ends all connections."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Stops the server like a crash."""
        self._end(signal.SIGQUIT)

    def remove(self) -> None:
        """Stops the server and deletes its data."""
        self.stop()
        shutil.rmtree(self._folder)

    def pause(self) -> None:
        """Keeps the server and its sessions from answering, with all connections open."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets the server answer again."""
        self._signal_all(signal.SIGCONT)

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Runs a statement as superuser in the database `postgres`."""
        with psycopg.connect(self._conninfo(), autocommit=True) as connection:
            cursor = connection.execute(sql.SQL(statement))
            return cursor.fetchall() if cursor.description else []

    def create_database(self) -> str:
        """Creates an empty database and answers its name."""
        name = f"floecat_{next(self._numbers)}"
        self.execute(f'CREATE DATABASE "{name}"')
        return name

    def drop_database(self, name: str) -> None:
        """Drops a database, whoever is connected."""
        self.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def url(self, database: str) -> str:
        """The URL of a database, as the store takes it."""
        return f"postgresql+psycopg://floecat@127.0.0.1:{self.port}/{database}"

    def _conninfo(self) -> str:
        return f"host=127.0.0.1 port={self.port} user=floecat dbname=postgres connect_timeout=60"

    def _launch(self) -> subprocess.Popen[bytes]:
        settings = {**_SETTINGS, "port": str(self.port)}
        options = [f"--{name}={value}" for name, value in settings.items()]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [
                    *_as_postgres(),
                    str(_binaries() / "postgres"),
                    *("-D", str(self._folder / "data")),
                    *options,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and process.poll() is None:
            try:
                psycopg.connect(self._conninfo()).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return True
        return False

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_START_S)
            self._process = None

    def _signal_all(self, which: signal.Signals) -> None:
        if self._process is None:
            raise RuntimeError("PostgreSQL is not running")
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        for pid in (self._process.pid, *map(int, children.split())):
            # a session that ended meanwhile is gone as soon as the server, which goes on first, has seen it
            with suppress(ProcessLookupError):
                os.kill(pid, which)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The PostgreSQL server of this worker."""
    yield from _running()


@pytest.fixture(scope="module")
def own_postgres_server() -> Iterator[PostgresServer]:
    """A server for tests that stop it; they leave it running."""
    yield from _running()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of an empty database that no other test uses."""
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


def _running() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.remove()


def _binaries() -> Path:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not versions:
        raise RuntimeError("PostgreSQL is missing: apt-get install postgresql")
    return versions[-1]


def _as_postgres() -> list[str]:
    """A prefix that gives up root, and makes the server stop if the test session is killed."""
    command = ["setpriv", "--pdeathsig", "INT"]
    if os.getuid() == 0:
        account = pwd.getpwnam("postgres")
        command += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    return command


def _free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])
