"""A TCP proxy whose connections can be cut, hung and refused at a chosen moment.

It stands between the service and PostgreSQL or S3, and so plays the network:

    with CutProxy("127.0.0.1", server.port) as proxy:
        proxy.cut(COMMIT_ANSWER)        # the next answer to a COMMIT is lost, with its connection
        proxy.hang()                    # from now on nothing passes, connections stay open
        proxy.refuse()                  # connections are closed, and new ones at once
        proxy.restore()
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Self

__all__ = ["COMMIT_ANSWER", "COMMIT_REQUEST", "PUT_ANSWER", "PUT_REQUEST", "CutProxy", "Moment"]

_CHUNK = 1 << 16


class Moment(NamedTuple):
    """When a connection is cut: a chunk that passes in one direction and matches."""

    direction: str
    """`request`: to the server. `answer`: from it."""
    matches: Callable[[bytes, _Link], bool]
    """Looks at a chunk before it is passed on; it never is when the connection is cut."""


class CutProxy:
    """Forwards a free port of 127.0.0.1 to a server."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._cuts: list[tuple[Moment, int]] = []
        self._refusing = False
        self._passing = threading.Event()
        self._passing.set()
        self.happened = 0
        """How many connections were cut at their moment."""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, name="cut-proxy", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut(self, moment: Moment, *, nth: int = 1) -> None:
        """Cuts the connection where the moment comes for the nth time from now, over all connections."""
        with self._lock:
            self._cuts.append((moment, nth))

    def hang(self) -> None:
        """Holds everything that is sent back until `restore`; connections stay open and are accepted."""
        self._passing.clear()

    def refuse(self) -> None:
        """Closes all connections, and new ones as soon as they come."""
        with self._lock:
            self._refusing = True
        self.break_all()

    def restore(self) -> None:
        """Forwards again. What hung is passed on."""
        with self._lock:
            self._refusing = False
            self._cuts.clear()
        self._passing.set()

    def break_all(self) -> None:
        """Closes all connections; new ones are fine."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close()

    def close(self) -> None:
        """Ends the proxy and its connections."""
        # a blocked accept is not woken by close alone
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.refuse()
        self._passing.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            try:
                server = socket.create_connection(self._target, timeout=60)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            link = _Link(client, server)
            with self._lock:
                self._links.add(link)
            for direction, source, target in (("request", client, server), ("answer", server, client)):
                arguments = (link, direction, source, target)
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(self, link: _Link, direction: str, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(_CHUNK):
                if self._is_the_moment(direction, chunk, link):
                    break
                self._passing.wait()
                target.sendall(chunk)
        link.close()
        with self._lock:
            self._links.discard(link)

    def _is_the_moment(self, direction: str, chunk: bytes, link: _Link) -> bool:
        with self._lock:
            left: list[tuple[Moment, int]] = []
            cut = False
            for moment, nth in self._cuts:
                met = moment.direction == direction and moment.matches(chunk, link)
                cut = cut or (met and nth == 1)
                if not (met and nth == 1):
                    left.append((moment, nth - met))
            self._cuts = left
            self.happened += cut
            # statements are remembered from the first message on, also before a cut is asked for
            if direction == "request":
                link.read(chunk)
            return cut


class _Link:
    """One connection through the proxy."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._sockets = (client, server)
        self.commits: set[bytes] = set()
        """Names under which this PostgreSQL session has prepared a COMMIT."""

    def read(self, chunk: bytes) -> None:
        self.commits.update(_PREPARED_COMMIT.findall(chunk))

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


# Frontend messages Query and Parse, and CommandComplete (PostgreSQL protocol 3.0, "Message Formats").
_PLAIN_COMMIT = re.compile(rb"Q\x00\x00\x00\x0bCOMMIT\x00", re.DOTALL)
_PREPARED_COMMIT = re.compile(rb"P....([^\x00]*)\x00COMMIT\x00", re.DOTALL)
_COMMITTED = b"C\x00\x00\x00\x0bCOMMIT\x00"


def _asks_to_commit(chunk: bytes, link: _Link) -> bool:
    if _PLAIN_COMMIT.search(chunk) or _PREPARED_COMMIT.search(chunk):
        return True
    return any(b"\x00" + name + b"\x00" in chunk for name in link.commits if name)


COMMIT_REQUEST = Moment("request", _asks_to_commit)
"""A COMMIT on its way to PostgreSQL, which never sees it."""

COMMIT_ANSWER = Moment("answer", lambda chunk, _: _COMMITTED in chunk)
"""PostgreSQL has committed, and nobody hears of it."""

PUT_REQUEST = Moment("request", lambda chunk, _: chunk.startswith(b"PUT "))
"""An upload that never arrives. It is the first on its connection, or follows an answered request."""

PUT_ANSWER = Moment("answer", lambda chunk, _: chunk.startswith(b"HTTP/1.1 200"))
"""The next success of S3, lost; ask for it when only an upload is expected."""
