"""A real server of Azure's Blob protocol for tests: Azurite, one for a worker of a test session.

It knows no directories, so that a signature for one opens nothing there. A second one, with TLS, takes
tokens of OAuth, whatever signed them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from pathlib import Path

import msgspec
import pytest

from tests.services import supervisor

__all__ = ["AzureServer", "azure_server", "azure_with_logins"]

ACCOUNT = "lakehouse"

_VERSION = "3.34.0"  # as in .ci/install-programs; later ones bring 170 MB more, and want a newer Node.js
_PROGRAM = f"floecat-tests/azurite-{_VERSION}/node_modules/azurite/dist/src/blob/main.js"
_API = "2021-08-06"
_START_S = 120.0


class AzureServer(msgspec.Struct, frozen=True):
    """Where the server is, and the key of its one account."""

    endpoint: str
    account_key: str

    def create_container(self) -> str:
        """Makes an empty container and returns its location."""
        name = f"test-{secrets.token_hex(8)}"
        self._send(f"/{ACCOUNT}/{name}", "restype=container")
        return f"abfss://{name}@{ACCOUNT}.dfs.core.windows.net"

    def _send(self, path: str, query: str) -> None:
        date = formatdate(usegmt=True)
        headers = f"x-ms-date:{date}\nx-ms-version:{_API}\n/{ACCOUNT}{path}\n{query.replace('=', ':')}"
        signed = "PUT" + "\n" * 12 + headers
        digest = hmac.digest(base64.b64decode(self.account_key), signed.encode(), hashlib.sha256)
        request = urllib.request.Request(
            f"{self.endpoint}{path}?{query}",
            method="PUT",
            headers={
                "x-ms-date": date,
                "x-ms-version": _API,
                "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
            },
        )
        urllib.request.urlopen(request, timeout=120).close()


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """The server of this worker."""
    with _running("http://127.0.0.1") as server:
        yield server


@pytest.fixture(scope="module")
def azure_with_logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """A server with TLS that takes tokens. Until the module ends, this process trusts it and no other."""
    folder = tmp_path_factory.mktemp("azure-tls")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", certificate)
        flags = [f"--key={key}", f"--cert={certificate}", "--oauth=basic"]
        with _running("https://localhost", *flags) as server:
            yield server


@contextmanager
def _running(address: str, *flags: str) -> Iterator[AzureServer]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = AzureServer(f"{address}:{port}", base64.b64encode(secrets.token_bytes(32)).decode())
    folder = Path(tempfile.mkdtemp(prefix="floecat-azure-"))
    process = supervisor.start(
        folder,
        ["env", f"AZURITE_ACCOUNTS={ACCOUNT}:{server.account_key}", *_command(port), *flags],
    )
    deadline = time.monotonic() + _START_S
    while True:
        with suppress(OSError):
            server.create_container()
            break
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Azurite did not start: {(folder / 'log').read_text(errors='replace')}")
        time.sleep(0.1)
    yield server
    process.terminate()
    process.wait()


def _command(port: int) -> list[str]:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    node = shutil.which("node")
    if node is None or not (cache / _PROGRAM).exists():
        raise RuntimeError("Azurite is missing: run .ci/install-programs")
    return [
        # it ends only when its clients closed their connections
        *("sh", "-c", "trap 'kill -9 $!' TERM; \"$@\" & wait", "azurite"),
        node,
        str(cache / _PROGRAM),
        "--inMemoryPersistence",
        "--disableTelemetry",
        "--skipApiVersionCheck",
        "--silent",
        f"--blobPort={port}",
    ]
