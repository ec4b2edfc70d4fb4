"""A server that answers what a test says, for what no real catalog does on demand."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from tests.services.http_server import QuietHandler, serving

__all__ = ["DROPPED", "Reply", "Request", "ScriptedServer", "scripted_server"]


class Request(NamedTuple):
    """A request as it came over the wire."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, list[str]]:
        return parse_qs(self.body.decode())


class Reply(NamedTuple):
    """An answer; bytes are sent as they are, anything else as JSON."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = {}


DROPPED = Reply(0)
"""The connection is closed instead of an answer."""

Answer = Reply | Callable[[Request], Reply]


class ScriptedServer:
    """Answers of each path in the order of the script; the last one again and again."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Request] = []
        self._scripts: dict[tuple[str, str], deque[Answer]] = {}
        self._lock = threading.Lock()
        self.on("GET", "/v1/config", Reply(body={"defaults": {"prefix": "p"}, "overrides": {}}))

    def on(self, method: str, path: str, *answers: Answer) -> None:
        self._scripts[method, path] = deque(answers)

    def sent(self, method: str, path: str) -> list[Request]:
        return [each for each in self.requests if (each.method, each.path) == (method, path)]

    def answer(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            script = self._scripts.get((request.method, request.path))
            if script is None:
                return Reply(404, {"error": {"message": "no such path", "type": "NotFound", "code": 404}})
            answer = script.popleft() if len(script) > 1 else script[0]
        return answer(request) if callable(answer) else answer


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    """A server for a block."""

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = server.answer(Request(self.command, self.path, dict(self.headers.items()), body))
            if reply is DROPPED:
                self.close_connection = True
                return
            if isinstance(reply.body, bytes):
                sent = reply.body
            else:
                sent = b"" if reply.body is None else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if "Content-Length" in reply.headers:
                self.close_connection = True  # as it may not be what follows
            else:
                self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_DELETE = _answer

    with serving(Handler) as url:
        server = ScriptedServer(url)
        yield server
