"""Keycloak for tests: a server in a process of its own, with realms of files.

A script starts one that runs until it is interrupted, and reads where it is from the first line:

    python -m tests.engines.keycloak.keycloak_server [--port 8080] [realm.json]
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.engines.programs import archive, cache_folder, java_home
from tests.services import supervisor

__all__ = ["REALM", "REALM_FILE", "RELEASE", "KeycloakServer", "running_keycloak"]

RELEASE = "26.7.0"
REALM = "floecat"
REALM_FILE = Path(__file__).parents[3] / "deploy" / "smoke" / "realm.json"

_JAVA = 25
_READY_S = 900.0
_ADMINISTRATOR, _PASSWORD = "admin", "smoke-secret"
_OPENED = ("java.lang", "java.util", "java.util.concurrent", "java.security")
_JVM = [
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dfile.encoding=UTF-8",
    "-Djava.util.logging.manager=org.jboss.logmanager.LogManager",
    "-Djava.util.concurrent.ForkJoinPool.common.threadFactory="
    "io.quarkus.bootstrap.forkjoin.QuarkusForkJoinWorkerThreadFactory",
    "-Dpicocli.disable.closures=true",
    "--enable-native-access=ALL-UNNAMED",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
]


class KeycloakServer:
    """A server; its realms, port and keys outlive `stop`."""

    def __init__(self, home: Path, port: int) -> None:
        """Takes a home that `kc.sh build` was run in, and the port."""
        self.url = f"http://127.0.0.1:{port}"
        self._home = home
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until its realms answer.

        Raises:
            ProgramMissingError: there is no JDK 25.
            RuntimeError: it did not start; with the end of its log.
        """
        command = _command(self._home, "start", "--optimized", "--import-realm", "--http-enabled=true")
        command += ["--http-host=127.0.0.1", f"--http-port={self._port}", f"--hostname={self.url}"]
        # Its supervisor removes the folder that it runs in; home and log are wanted afterwards.
        folder = self._home / "process"
        folder.mkdir()
        shell = ["sh", "-c", 'exec "$@" >>"$0" 2>&1', str(self._home / "log"), *command]
        self._process = supervisor.start(folder, ["env", *_BOOTSTRAP, *shell])
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                # 503 while it still imports realms
                if httpx.get(self.issuer("master"), timeout=30).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.5)
        raise RuntimeError(f"Keycloak did not start:\n{self.log_tail()}")

    def stop(self) -> None:
        """Ends it."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait()

    def issuer(self, realm: str = REALM) -> str:
        """The `iss` of the tokens of a realm."""
        return f"{self.url}/realms/{realm}"

    def token_url(self, realm: str = REALM) -> str:
        """Where clients get tokens."""
        return f"{self.issuer(realm)}/protocol/openid-connect/token"

    def tokens(self, client: str, secret: str = "", realm: str = REALM, **form: str) -> dict[str, Any]:
        """What the token endpoint answers: to a client, unless the form has another grant.

        Raises:
            httpx.HTTPStatusError: it refused.
        """
        form = {"grant_type": "client_credentials", "scope": "openid"} | form | {"client_id": client}
        form |= {"client_secret": secret} if secret else {}
        answer = httpx.post(self.token_url(realm), data=form, timeout=60).raise_for_status()
        made: dict[str, Any] = answer.json()
        return made

    def administer(self, method: str, path: str, body: object = None) -> Any:
        """Asks the administration for a path such as `floecat/clients`, and returns what it answers.

        Raises:
            httpx.HTTPStatusError: it refused.
        """
        login = {"grant_type": "password", "username": _ADMINISTRATOR, "password": _PASSWORD}
        token = self.tokens("admin-cli", realm="master", **login)["access_token"]
        answer = httpx.request(
            method,
            f"{self.url}/admin/realms/{path}",
            json=body,
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        ).raise_for_status()
        return answer.json() if answer.content else None

    def log_tail(self, lines: int = 60) -> str:
        """The last lines that it wrote."""
        return "\n".join((self._home / "log").read_text(errors="replace").splitlines()[-lines:])


@contextmanager
def running_keycloak(realms: Sequence[Path] = (REALM_FILE,), port: int = 0) -> Iterator[KeycloakServer]:
    """A server with the realms of these files, that runs within the block.

    Args:
        realms: as its export writes them.
        port: where it listens; a free one by default.

    Raises:
        ProgramMissingError: there is no JDK 25, or Maven could not bring the server.
        RuntimeError: it did not start; with the end of its log.
    """
    prepared = _prepared_home()
    with tempfile.TemporaryDirectory(prefix="floecat-keycloak-") as folder:
        home = Path(folder)
        for name in ("conf", "lib", "providers", "themes", "version.txt"):
            (home / name).symlink_to(prepared / name)
        shutil.copytree(prepared / "data" / "h2", home / "data" / "h2")
        (home / "data" / "import").mkdir()
        for realm in realms:
            shutil.copy(realm, home / "data" / "import")
        with _started(home, port) as server:
            yield server


@contextmanager
def _started(home: Path, port: int = 0) -> Iterator[KeycloakServer]:
    server = KeycloakServer(home, port or _free_port())
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _prepared_home() -> Path:
    """A home with what takes minutes: its classes are put together, and its database has tables."""
    target = cache_folder() / "keycloak" / RELEASE
    if target.exists():
        return target
    java_home(_JAVA)
    unpacked = archive(f"org.keycloak:keycloak-quarkus-dist:{RELEASE}:tar.gz")
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        home = Path(folder) / "home"
        for name in ("conf", "lib/quarkus", "providers", "themes"):
            shutil.copytree(unpacked / name, home / name)
        for name in ("lib/quarkus-run.jar", "version.txt"):
            shutil.copy(unpacked / name, home / name)
        for name in ("lib/lib", "lib/app"):
            (home / name).symlink_to(unpacked / name)
        built = subprocess.run(
            _command(home, "build", "--db=dev-file"),
            capture_output=True,
            text=True,
            timeout=_READY_S,
            check=False,
        )
        if built.returncode:
            raise RuntimeError(f"Keycloak could not be built:\n{built.stdout}{built.stderr}")
        with _started(home):
            pass
        home.replace(target)
    return target


_BOOTSTRAP = [f"KC_BOOTSTRAP_ADMIN_USERNAME={_ADMINISTRATOR}", f"KC_BOOTSTRAP_ADMIN_PASSWORD={_PASSWORD}"]


def _command(home: Path, *arguments: str) -> list[str]:
    """What `kc.sh` runs, but as one process."""
    java = java_home(_JAVA) / "bin" / "java"
    command = [str(java), *_JVM, f"-Dkc.home.dir={home}", "-cp", str(home / "lib" / "quarkus-run.jar")]
    return [*command, "io.quarkus.bootstrap.runner.QuarkusEntryPoint", *arguments]


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> None:
    """Runs a server until SIGTERM or SIGINT; the first line of its output tells in JSON where it is."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("realm", type=Path, nargs="*", default=[REALM_FILE])
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with running_keycloak(chosen.realm, chosen.port) as server:
        place = {"url": server.url, "issuer": server.issuer(), "token_url": server.token_url()}
        print(json.dumps(place), flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
