"""Trino for tests: a server in a process of its own, asked over its protocol or by its command line.

One server serves several catalogs; each test adds those that it needs, with the properties that a user would
write into `etc/catalog/<name>.properties`.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.engines.programs import archive, jar, java_home
from tests.services import supervisor

__all__ = ["RELEASE", "TrinoError", "TrinoServer", "running_trino"]

RELEASE = "476"
_JAVA = 25
_READY_S = 300.0
_STATEMENT_S = 600.0
_PLUGINS = ("iceberg", "memory", "tpch")
"""All of them would take the start three times as long."""

_JVM = [
    "-Xmx1500M",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:+EnableDynamicAgentLoading",
    "-Djdk.attach.allowAttachSelf=true",
    "-Djdk.nio.maxCachedBufferSize=2000000",
    "-Dfile.encoding=UTF-8",
    "-Duser.timezone=UTC",
]

_CONFIG = """
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
node.environment=test
plugin.dir={folder}/plugin
catalog.management=dynamic
catalog.store=memory
query.max-memory=400MB
query.max-memory-per-node=400MB
memory.heap-headroom-per-node=300MB
task.max-worker-threads=4
task.concurrency=2
"""


class TrinoError(Exception):
    """A statement failed; the message is what Trino says, and `name` what it calls such errors."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        """Takes the error of an answer."""
        causes = [error["message"]]
        cause = error.get("failureInfo", {}).get("cause")
        while cause:
            causes.append(str(cause.get("message")))
            cause = cause.get("cause")
        super().__init__("; because: ".join(causes))
        self.name = str(error["errorName"])


class TrinoServer:
    """A server that runs; its catalogs come and go."""

    def __init__(self, url: str, log: Path, java: Path) -> None:
        """Takes where it answers, the file of its output, and the `java` for its command line."""
        self.url = url
        self._log = log
        self._java = java

    def add_catalog(self, name: str, properties: Mapping[str, str]) -> None:
        """What a file `etc/catalog/<name>.properties` does.

        Raises:
            TrinoError: a property is unknown or wrong.
        """
        given = {key: value for key, value in properties.items() if key != "connector.name"}
        pairs = ", ".join(f'"{key}" = {_literal(value)}' for key, value in given.items())
        self.run(f'CREATE CATALOG "{name}" USING {properties["connector.name"]} WITH ({pairs})')

    def remove_catalog(self, name: str) -> None:
        """Takes a catalog away, so that its name is free."""
        self.run(f'DROP CATALOG "{name}"')

    def run(self, sql: str, *, catalog: str = "", schema: str = "", user: str = "test") -> list[list[Any]]:
        """Runs one statement and returns its rows, with values as the protocol writes them in JSON.

        Raises:
            TrinoError: it failed.
        """
        headers = {"X-Trino-User": user, "X-Trino-Time-Zone": "UTC"}
        headers |= {"X-Trino-Catalog": catalog} if catalog else {}
        headers |= {"X-Trino-Schema": schema} if schema else {}
        rows: list[list[Any]] = []
        deadline = time.monotonic() + _STATEMENT_S
        with httpx.Client(headers=headers, timeout=60) as client:
            answer = _answered(client.post(f"{self.url}/v1/statement", content=sql.encode()))
            while True:
                rows += answer.get("data") or []
                if "error" in answer:
                    raise TrinoError(answer["error"])
                if "nextUri" not in answer:
                    return rows
                if time.monotonic() > deadline:
                    client.delete(answer["nextUri"])
                    raise TimeoutError(f"Trino did not end within {_STATEMENT_S:.0f} s: {sql}")
                answer = _answered(client.get(answer["nextUri"]))

    def command_line(self, *arguments: str) -> list[str]:
        """The command that runs `trino` of the same release against the server."""
        packed = jar(f"io.trino:trino-cli:{RELEASE}:jar:executable")
        return [str(self._java), "-jar", str(packed), "--server", self.url, *arguments]

    def log_tail(self, lines: int = 60) -> str:
        """The last lines that it wrote."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])


@contextmanager
def running_trino(catalogs: Mapping[str, Mapping[str, str]] | None = None) -> Iterator[TrinoServer]:
    """A server with these catalogs, by name, that runs within the block.

    Raises:
        ProgramMissingError: there is no JDK 25, or Maven could not bring the server.
        RuntimeError: it did not start; with the end of its log.
        TrinoError: a property of a catalog is unknown or wrong.
    """
    java = java_home(_JAVA) / "bin" / "java"
    unpacked = archive(f"io.trino:trino-server:{RELEASE}:tar.gz")
    port = _free_port()
    # Its supervisor removes the folder of the server when that ends; the log is wanted afterwards.
    with tempfile.TemporaryDirectory(prefix="floecat-trino-") as outer:
        folder, log = Path(outer) / "server", Path(outer) / "log"
        (folder / "plugin").mkdir(parents=True)
        for plugin in _PLUGINS:
            (folder / "plugin" / plugin).symlink_to(unpacked / "plugin" / plugin)
        (folder / "config.properties").write_text(_CONFIG.format(port=port, folder=folder))
        command = [str(java), *_JVM, f"-Dconfig={folder / 'config.properties'}"]
        command += ["-cp", f"{unpacked / 'lib'}/*", "io.trino.server.TrinoServer"]
        process = supervisor.start(folder, ["sh", "-c", 'exec "$@" >"$0" 2>&1', str(log), *command])
        try:
            server = TrinoServer(f"http://127.0.0.1:{port}", log, java)
            _wait_ready(server, process)
            for name, properties in (catalogs or {}).items():
                server.add_catalog(name, properties)
            yield server
        finally:
            process.terminate()
            process.wait()


def _wait_ready(server: TrinoServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            answer = httpx.get(f"{server.url}/v1/info", timeout=10)
            if answer.status_code == 200 and not answer.json()["starting"]:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    raise RuntimeError(f"Trino did not start:\n{server.log_tail()}")


def _answered(answer: httpx.Response) -> dict[str, Any]:
    answer.raise_for_status()
    made: dict[str, Any] = answer.json()
    return made


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
