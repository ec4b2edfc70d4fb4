"""A small HTTP server in the process of the tests, for what others serve in production."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["QuietHandler", "serving"]


class QuietHandler(BaseHTTPRequestHandler):
    """Answers requests, and logs none: tests say by themselves what they saw."""

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def serving(handler: type[QuietHandler]) -> Iterator[str]:
    """The base URL of a server that runs within the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
