"""Requests to other services that end in time, however slowly they are answered."""

from __future__ import annotations

import http.client
import os
import socket
import threading
from contextlib import suppress

__all__ = ["Deadline", "Watched", "WatchedTls"]


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
