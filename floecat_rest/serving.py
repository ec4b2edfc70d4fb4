"""Runs the application in this process, or in several."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from functools import partial

import uvicorn
from uvicorn.supervisors import Multiprocess

from floecat.allocator import limit_heaps
from floecat.runtime import kernel
from floecat.settings import Settings
from floecat.settings.loading import check_rules
from floecat_rest.logs import configure_logging
from floecat_rest.protocol import CatalogHttpProtocol

__all__ = ["run"]

_GRACE_S = 30
_KEEP_ALIVE_S = 75
_WORKER_START_S = 60
_COLLECT_AFTER = 50_000
_SWITCH_INTERVAL_S = 0.0005
"""How long a thread computes while others want to. With the default, 5 ms, a commit waits in line after each
call of disk and store: sixteen clients make a quarter fewer commits, measured."""
_METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; requests that are under way are finished within 30 seconds.

    Raises:
        SettingsError: the settings are unsafe together, as `auth-mode=dev` on an address that others
            reach, or the schema of the store is an old one.
        StoreUnavailableError: the store does not answer.
    """
    check_rules(settings)
    configure_logging(settings.log)
    config = uvicorn.Config(
        partial(_worker_app, settings),
        factory=True,
        host=settings.gateway.host,
        port=settings.gateway.rest_port,
        workers=settings.gateway.workers,
        loop="uvloop",
        http=CatalogHttpProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_GRACE_S,
        timeout_worker_healthcheck=_WORKER_START_S,
    )
    # Opened here too, because a worker that cannot start reports it in the log only.
    with kernel(settings):
        pass
    if settings.gateway.workers == 1:
        uvicorn.Server(config).run()
    else:
        _run_workers(config)


def _run_workers(config: uvicorn.Config) -> None:
    # Counters of all workers are summed up through files in this folder.
    with tempfile.TemporaryDirectory(prefix="floecat-metrics-") as folder:
        os.environ.setdefault(_METRICS_FOLDER, folder)
        socket = config.bind_socket()
        Multiprocess(config, sockets=[socket]).run()


def _worker_app(settings: Settings) -> object:
    from floecat_rest.app import create_app

    configure_logging(settings.log)
    limit_heaps()
    app = create_app(settings)
    # Routes and modules live as long as the process, so the garbage collector can skip them.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    return app
