"""Requests to other services that end in time, however slowly they are answered."""

from __future__ import annotations

import http.client
import os
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any, Final

from floecat.errors import SettingsError

__all__ = ["Deadline", "NoRedirects", "Watched", "WatchedTls", "opener", "reason_of", "trusting"]

_LONGEST_WAIT_S: Final = 3600.0


class Deadline:
    """Ends connections when the time is over: the library's timeout is that of each call of the system."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._sockets: list[socket.socket] = []
        self.ends_s = 0.0
        """By the monotonic clock, once it runs."""
        self.is_over = False

    def __enter__(self) -> Deadline:
        self.ends_s = time.monotonic() + self._within_s
        _running.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        _running.remove(self)
        for each in self._sockets:
            each.close()

    def watch(self, connected: socket.socket) -> None:
        """Has a connection end in time, whatever layer reads from it."""
        # a TLS socket has no `dup`
        self._sockets.append(socket.socket(fileno=os.dup(connected.fileno())))
        if self.is_over:
            self.end()

    def end(self) -> None:
        """Ends its connections."""
        self.is_over = True
        for each in self._sockets:
            with suppress(OSError):  # it is closed by the other side
                each.shutdown(socket.SHUT_RDWR)


class _Deadlines:
    """The deadlines that run, and a thread that ends them: one for each would cost more than a request."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins anew, in a process that has no thread of its parent."""
        self._changed = threading.Condition()
        self._running: set[Deadline] = set()
        self._wakes_s = float("inf")
        self._thread: threading.Thread | None = None

    def add(self, deadline: Deadline) -> None:
        with self._changed:
            self._running.add(deadline)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="deadlines", daemon=True)
                self._thread.start()
            elif deadline.ends_s < self._wakes_s:
                self._changed.notify()

    def remove(self, deadline: Deadline) -> None:
        with self._changed:
            self._running.discard(deadline)

    def _watch(self) -> None:
        with self._changed:
            while True:
                now_s = time.monotonic()
                for each in [each for each in self._running if each.ends_s <= now_s]:
                    self._running.discard(each)
                    each.end()
                self._wakes_s = min((each.ends_s for each in self._running), default=float("inf"))
                self._changed.wait(min(self._wakes_s - now_s, _LONGEST_WAIT_S))


_running = _Deadlines()
os.register_at_fork(after_in_child=_running.forget)


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


def trusting(ca_file: str | None, setting: str) -> ssl.SSLContext:
    """What checks the certificates of servers, by the authorities of the system and those of a file.

    Args:
        ca_file: in PEM.
        setting: that names the file.

    Raises:
        SettingsError: the file holds no certificates.
    """
    trusted = ssl.create_default_context()
    if ca_file:
        try:
            trusted.load_verify_locations(ca_file)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it holds no certificate in PEM"
            raise SettingsError(f"{setting}: {ca_file} cannot be read: {why}") from None
    return trusted


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
