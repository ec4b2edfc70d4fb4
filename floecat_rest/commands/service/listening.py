"""Addresses and ports that services listen on."""

from __future__ import annotations

import errno
import http.client
import socket
from contextlib import suppress
from typing import Final, NamedTuple

from floecat.errors import SettingsError
from floecat_rest.commands.service.processes import DIRECT

__all__ = ["Listener", "free_port", "reachable_url", "require_free_ports"]

_WHO_S: Final = 1.0
_WHO_BYTES: Final = 1000


class Listener(NamedTuple):
    """The address where a service is to listen."""

    host: str
    port: int
    """0 for any that is free."""
    option: str
    """Chooses another port, for messages."""


def require_free_ports(*wanted: Listener) -> None:
    """Fail early, with one sentence about all of them, if services could not listen.

    Raises:
        SettingsError: a port is taken, not permitted, or the address is not one of this machine.
    """
    taken: list[Listener] = []
    for each in wanted:
        try:
            _bind(each.host, each.port).close()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise SettingsError(
                    f"cannot listen on port {each.port} of {each.host}: {error.strerror}"
                ) from None
            taken.append(each)
    if taken:
        ports = " and ".join(f"port {each.port} of {each.host} is in use{_by(each)}" for each in taken)
        raise SettingsError(f"{ports}; choose another with {' and '.join(each.option for each in taken)}")


def _by(taken: Listener) -> str:
    """The program that listens, if it is Floecat or Dagster."""
    for path, sign, name in (("", b'"Floecat"', "Floecat"), ("server_info", b"dagster", "Dagster")):
        with (
            suppress(OSError, http.client.HTTPException),
            DIRECT.open(f"{reachable_url(taken.host, taken.port)}/{path}", timeout=_WHO_S) as answer,
        ):
            if sign in answer.read(_WHO_BYTES):
                return f" by {name}"
    return ""


def free_port(host: str) -> int:
    """A port that is free at the moment."""
    with _bind(host, 0) as bound:
        return int(bound.getsockname()[1])


def reachable_url(host: str, port: int) -> str:
    """The URL by which this machine reaches a service that listens on an address."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{reachable.strip('[]')}]:{port}" if ":" in reachable else f"http://{reachable}:{port}"


def _bind(host: str, port: int) -> socket.socket:
    address = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    bound = socket.socket(address[0], address[1])
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address[4])
    except OSError:
        bound.close()
        raise
    return bound
