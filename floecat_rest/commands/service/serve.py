"""`floecat serve`: the REST service in the foreground."""

from __future__ import annotations

import signal
from types import FrameType

from floecat_rest.commands.options import (
    ConfigOption,
    DataDirOption,
    HostOption,
    RestPortOption,
    WorkersOption,
    settings_from,
)
from floecat_rest.commands.service.listening import Listener, require_free_ports

__all__ = ["serve"]


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
    require_free_ports(Listener(settings.gateway.host, settings.gateway.rest_port, "--rest-port"))
    from floecat_rest.serving import run

    # After its shutdown the server raises the signal again for the handler before it: a normal exit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit)
    run(settings)


def _exit(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
