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
from floecat_rest.commands.ports import require_free_port
from floecat_rest.commands.stores import has_no_store_yet, prepare_store

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
    require_free_port(settings.gateway.host, settings.gateway.rest_port, "--rest-port")
    if has_no_store_yet(settings):
        prepare_store(settings)
    from floecat_rest.serving import run

    # Once it has shut down, the server sends the signal again to whoever was there before: no failure for us.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit)
    run(settings)


def _exit(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
