"""A front of the S3 server whose keys live for seconds: STS makes none that end before 15 minutes.

It says another end of the keys that STS makes, and refuses them after it as AWS does. It is a process of its
own, because pyarrow's file system holds the interpreter while it waits for an answer.
"""

from __future__ import annotations

import http.client
import math
import multiprocessing
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection

from tests.services.http_server import QuietHandler, serving

__all__ = ["short_keys"]

_EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
_NOT_PASSED = frozenset({"connection", "content-length", "transfer-encoding"})


class _Front(QuietHandler):
    protocol_version = "HTTP/1.1"
    address = ""
    life_s = 0.0
    ends: dict[str, float]

    def _forward(self) -> None:
        body = self._body()
        token = self.headers.get("x-amz-security-token", "")
        if self.ends.get(token, math.inf) < time.time():
            self._send(403, _EXPIRED if self.command != "HEAD" else b"", {"Content-Type": "application/xml"})
            return
        connection = http.client.HTTPConnection(self.address, timeout=120)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in {"connection", "content-length", "transfer-encoding", "expect"}:
                connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        data = answer.read()
        if b"Action=AssumeRole" in body:
            end = time.time() + self.life_s
            found = re.search(rb"<SessionToken>(.*?)</SessionToken>", data)
            if found:
                self.ends[found[1].decode()] = end
            said = datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()
            data = re.sub(rb"<Expiration>.*?</Expiration>", b"<Expiration>%s</Expiration>" % said, data)
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in _NOT_PASSED}
        if self.command == "HEAD":
            headers["Content-Length"] = answer.getheader("Content-Length") or "0"
        self._send(answer.status, data, headers)
        connection.close()

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers and status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward


@contextmanager
def short_keys(endpoint: str, life_s: float) -> Iterator[str]:
    """The URL of a front of an S3 server for a block of code."""
    context = multiprocessing.get_context("forkserver")
    told, tells = context.Pipe(duplex=False)
    front = context.Process(target=_serve, args=(endpoint, life_s, tells), daemon=True)
    front.start()
    yield told.recv()
    front.terminate()
    front.join()


def _serve(endpoint: str, life_s: float, tells: Connection) -> None:
    address = endpoint.removeprefix("http://")
    with serving(type("Front", (_Front,), {"address": address, "life_s": life_s, "ends": {}})) as url:
        tells.send(url)
        session = multiprocessing.parent_process()
        if session is not None:
            session.join()
