"""Requests to other services that end in time, however slowly they are answered."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

__all__ = ["Deadline", "NoRedirects", "Watched", "WatchedTls", "opener", "reason_of"]


class Deadline:
    """Ends connections when the time is over: the library's timeout is that of each call of the system."""

    def __init__(self, within_s: float) -> None:
        self._timer = threading.Timer(within_s, self._end)
        self._timer.daemon = True
        self._sockets: list[socket.socket] = []
        self.is_over = False

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()
        for each in self._sockets:
            each.close()

    def watch(self, connected: socket.socket) -> None:
        """Has a connection end in time, whatever layer reads from it."""
        # a TLS socket has no `dup`
        self._sockets.append(socket.socket(fileno=os.dup(connected.fileno())))
        if self.is_over:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        for each in self._sockets:
            with suppress(OSError):  # it is closed by the other side
                each.shutdown(socket.SHUT_RDWR)


class Watched(http.client.HTTPConnection):
    """A connection that ends in time."""

    deadline: Deadline

    def connect(self) -> None:
        """Connects, and has the deadline end it."""
        super().connect()
        self.deadline.watch(self.sock)


class WatchedTls(http.client.HTTPSConnection, Watched):
    """A TLS connection, watched from before the handshake by the order of its bases."""


class _Http(urllib.request.HTTPHandler):
    def __init__(self, deadline: Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        def connection(host: str, **options: Any) -> http.client.HTTPConnection:
            made = Watched(host, **options)
            made.deadline = self._deadline
            return made

        return self.do_open(connection, req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, deadline: Deadline, trusted: ssl.SSLContext) -> None:
        super().__init__()
        self._deadline = deadline
        self._trusted = trusted

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        def connection(host: str, **options: Any) -> http.client.HTTPConnection:
            made = WatchedTls(host, context=self._trusted, **options)
            made.deadline = self._deadline
            return made

        return self.do_open(connection, req)


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """Answers a redirect as it is."""

    def redirect_request(self, *_: Any) -> None:
        """None: it is not followed."""


def opener(
    deadline: Deadline, trusted: ssl.SSLContext, redirects: urllib.request.BaseHandler
) -> urllib.request.OpenerDirector:
    """Opens requests whose connections end in time. Proxies are those of the environment."""
    return urllib.request.build_opener(_Http(deadline), _Https(deadline, trusted), redirects)


def reason_of(error: Exception) -> str:
    """Why a request has no answer, in words."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"TLS fails: {cause.reason or 'the connection ended'}"
    if isinstance(cause, socket.gaierror):
        return "its host is not found"
    if isinstance(cause, ConnectionRefusedError):
        return "the connection is refused"
    if isinstance(cause, OSError):
        return cause.strerror or "the connection ended"
    return "the answer is not HTTP, or breaks off"
