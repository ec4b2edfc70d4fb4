"""Ports to listen on."""

from __future__ import annotations

import errno
import socket

from floecat.errors import SettingsError

__all__ = ["free_port", "require_free_port"]


def require_free_port(host: str, port: int, option: str) -> None:
    """Tell in time, and in one line, that a service could not listen.

    Args:
        host: address to listen on.
        port: port to listen on; 0 is always free.
        option: the option that chooses another port.

    Raises:
        SettingsError: the port is taken, not permitted, or the address is not one of this machine.
    """
    try:
        _bind(host, port).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(f"port {port} of {host} is in use; choose another with {option}") from None
        raise SettingsError(f"cannot listen on port {port} of {host}: {error.strerror}") from None


def free_port(host: str) -> int:
    """A port that nothing listens on at the moment."""
    with _bind(host, 0) as bound:
        return int(bound.getsockname()[1])


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
