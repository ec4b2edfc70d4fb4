"""The client connections of a process, within the bounds of `floecat.limits`.

A clock that ticks once a second checks every connection. So nothing is measured or timed while requests are
read, and connections of honest clients cost nothing.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from typing import Protocol

from floecat.settings.limits import LimitSettings

__all__ = ["ClientConnection", "Connections"]

_log = logging.getLogger("floecat.limits")

_LOG_EVERY_S = 10.0


class ClientConnection(Protocol):
    """A connection, as it is looked after here."""

    transport: asyncio.Transport

    @property
    def body_s(self) -> float:
        """Seconds since the body of its request began to come, as of the last tick; 0 if none is coming."""
        ...

    def tick(self) -> None:
        """Checks times and rates; called once a second."""
        ...

    def give_way(self) -> None:
        """Ends at once, as another connection takes its place."""
        ...


class Connections:
    """All client connections of a process.

    Attributes:
        limits: the bounds.
        silent: connections that have not sent a request yet, oldest first.
        idle: connections between two requests; those that are idle longest come first.
        keep_alive_s: how long a connection may be idle.
        tick_s: how often each is looked at.
    """

    def __init__(self, limits: LimitSettings, *, keep_alive_s: float = 75.0, tick_s: float = 1.0) -> None:
        self.limits = limits
        self.silent: dict[ClientConnection, None] = {}
        self.idle: dict[ClientConnection, None] = {}
        self.keep_alive_s = keep_alive_s
        self.tick_s = tick_s
        self._open: dict[ClientConnection, None] = {}
        self._is_ticking = False
        self._last_logged: dict[str, tuple[float, int]] = {}

    @property
    def most(self) -> int:
        """The number of connections that may be open: the setting, or fewer, to spare descriptors."""
        descriptors: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if descriptors == resource.RLIM_INFINITY:
            return self.limits.connections
        reserved = min(self.limits.reserved_descriptors, descriptors // 2)
        return min(self.limits.connections, descriptors - reserved)

    def add(self, connection: ClientConnection) -> bool:
        """Takes a new connection.

        At the bound it takes the place of the one that is silent or idle longest, else of the one whose body
        has been coming for longest.

        Returns:
            Whether there is room for it.
        """
        if not self._is_ticking:
            self._is_ticking = True
            asyncio.get_running_loop().call_later(self.tick_s, self._tick)
        if len(self._open) >= self.most:
            self.log("connections")
            # silent ones first: clients that have sent requests are more likely to be honest
            oldest = next(iter(self.silent), None) or next(iter(self.idle), None) or self._slowest()
            if oldest is None:
                return False
            self.discard(oldest)
            oldest.give_way()
        self._open[connection] = None
        self.silent[connection] = None
        return True

    def discard(self, connection: ClientConnection) -> None:
        """Forgets a connection that was lost."""
        self._open.pop(connection, None)
        self.silent.pop(connection, None)
        self.idle.pop(connection, None)

    def _slowest(self) -> ClientConnection | None:
        # looked for only while no connection is silent, and each new one is silent first
        slowest = max(self._open, key=lambda connection: connection.body_s)
        return slowest if slowest.body_s else None

    def log(self, limit: str) -> None:
        """Logs that a bound was hit, once in 10 s for each, with the number of times since."""
        now_s = time.monotonic()
        logged_s, unlogged = self._last_logged.get(limit, (-_LOG_EVERY_S, 0))
        if now_s - logged_s < _LOG_EVERY_S:
            self._last_logged[limit] = (logged_s, unlogged + 1)
            return
        self._last_logged[limit] = (now_s, 0)
        _log.warning("bound floecat.limits.%s was hit, %d times more since the last line", limit, unlogged)

    def _tick(self) -> None:
        for connection in list(self._open):
            connection.tick()
        self._is_ticking = bool(self._open)
        if self._is_ticking:
            asyncio.get_running_loop().call_later(self.tick_s, self._tick)
