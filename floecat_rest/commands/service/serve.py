"""`floecat serve`: the REST service in the foreground."""

from __future__ import annotations

import errno
import signal
import socket
from types import FrameType

from floecat.errors import SettingsError
from floecat_rest.commands.options import (
    ConfigOption,
    DataDirOption,
    HostOption,
    RestPortOption,
    WorkersOption,
    settings_from,
)

__all__ = ["free_port", "require_free_port", "serve"]


def serve(
    *,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    host: HostOption = None,
    rest_port: RestPortOption = None,
    workers: WorkersOption = None,
) -> None:
    """Run the REST service until Ctrl-C or SIGTERM. The store must be up to date: `floecat db upgrade`."""
    settings = settings_from(config, data_dir=data_dir, host=host, rest_port=rest_port, workers=workers)
    require_free_port(settings.gateway.host, settings.gateway.rest_port, "--rest-port")
    from floecat_rest.serving import run

    # After its shutdown the server raises the signal again for the handler before it: a normal exit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit)
    run(settings)


def require_free_port(host: str, port: int, option: str) -> None:
    """Fail early, with a one-line message, if a service could not listen.

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
    """A port that is free at the moment."""
    with _bind(host, 0) as bound:
        return int(bound.getsockname()[1])


def _exit(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


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
