"""`floecat up`: everything from one command."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from floecat.settings import Settings
from floecat_rest.commands.console import err, install, out, print_done, print_plain, working
from floecat_rest.commands.options import (
    ConfigOption,
    DagsterPortOption,
    DataDirOption,
    HostOption,
    RestPortOption,
    WorkersOption,
    environment_of,
    settings_from,
)
from floecat_rest.commands.service.dagster_processes import (
    DAGSTER_HOME,
    LOOPBACK,
    dagster_is_installed,
    start_dagster,
)
from floecat_rest.commands.service.db import prepare_store
from floecat_rest.commands.service.demo import load_once
from floecat_rest.commands.service.folder_lock import lock_folder
from floecat_rest.commands.service.listening import Listener, free_port, reachable_url, require_free_ports
from floecat_rest.commands.service.log_files import ServiceLog
from floecat_rest.commands.service.processes import Processes, Service, StopRequestedError

__all__ = ["up"]

_REST_READY_S = 120.0
_AFTER_GRACE_S = 10.0
"""The REST service ends by itself 5 s after `limits.shutdown-grace`, its supervisor a second later."""


def up(
    *,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    host: HostOption = None,
    rest_port: RestPortOption = None,
    workers: WorkersOption = None,
    dagster_port: DagsterPortOption = 3000,
    no_dagster: Annotated[bool, typer.Option("--no-dagster", help="Start the REST service only.")] = False,
    no_demo: Annotated[bool, typer.Option("--no-demo", help="Load no demo data.")] = False,
) -> None:
    """Start everything: store, REST service, Dagster UI and daemon, demo data. One Ctrl-C stops it all."""
    settings = settings_from(config, data_dir=data_dir, host=host, rest_port=rest_port, workers=workers)
    gateway = settings.gateway
    from floecat.credentials.secrets import require_keys
    from floecat.storage.catalog_storages import check_locations

    check_locations(settings)
    require_keys(settings)
    try:
        with ExitStack() as stack:
            stack.enter_context(lock_folder(settings.data_path, "up", "--data-dir"))
            with_dagster = not no_dagster and _has_dagster()
            listeners = [Listener(gateway.host, gateway.rest_port, "--rest-port")]
            if with_dagster:
                listeners.append(Listener(LOOPBACK, dagster_port, "--dagster-port"))
            require_free_ports(*listeners)
            ui_port = (dagster_port or free_port(LOOPBACK)) if with_dagster else None
            port = gateway.rest_port or free_port(gateway.host)
            url = reachable_url(gateway.host, port)
            tell = stack.enter_context(working("Preparing the store"))
            environ = environment_of(
                settings,
                config,
                FLOECAT_GATEWAY_HOST=gateway.host,
                FLOECAT_GATEWAY_REST_PORT=str(port),
                FLOECAT_GATEWAY_WORKERS=str(gateway.workers),
            )
            if ui_port is not None:
                environ |= _addresses(settings, url, reachable_url(LOOPBACK, ui_port))
                stack.enter_context(lock_folder(Path(environ[DAGSTER_HOME]), "dagster", DAGSTER_HOME))
            # after the locks, so that they hold until all services have ended
            processes = stack.enter_context(Processes(environ, tell))
            tables = prepare_store(settings)
            _start_rest(processes, settings, url, tell)
            if ui_port is not None:
                start_dagster(
                    processes,
                    host=LOOPBACK,
                    port=ui_port,
                    log=lambda name: _log(settings, name),
                    tell=tell,
                )
            if not no_demo:
                load_once(settings, url, tell, processes.check)
            tell("Running")
            _print_places(settings, url, ui_port, tables)
            processes.wait()
    except StopRequestedError:
        out.print("Stopped.")


def _addresses(settings: Settings, rest_url: str, dagster_url: str) -> dict[str, str]:
    """The addresses at which the processes find each other, unless settings say them."""
    given = settings.pipeline
    return {
        "FLOECAT_GATEWAY_DAGSTER_URL": settings.gateway.dagster_url or f"{dagster_url}/assets",
        "FLOECAT_PIPELINE_WEBSERVER_URL": given.webserver_url or dagster_url,
        "FLOECAT_PIPELINE_CATALOG_URL": given.catalog_url or rest_url,
    }


def _has_dagster() -> bool:
    if dagster_is_installed():
        return True
    print_plain(f"Dagster is not installed ({install('pipeline')}): only the REST service is started.", err)
    return False


def _start_rest(processes: Processes, settings: Settings, url: str, tell: Callable[[str], None]) -> None:
    rest = Service(
        "REST service",
        [sys.executable, "-m", "floecat_rest", "serve"],
        _log(settings, "rest"),
        f"{url}/health/live",  # it is ready once the issuer of tokens answers, which may be later
        stop_s=math.ceil(settings.limits.shutdown_grace.seconds) + _AFTER_GRACE_S,
    )
    processes.start(rest)
    tell(f"Waiting for the {rest.name}")
    processes.wait_ready(rest, _REST_READY_S)
    print_done(rest.name)


def _print_places(settings: Settings, url: str, ui_port: int | None, tables: str) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_row("Iceberg REST", url, f"warehouse {settings.gateway.default_prefix}")
    if ui_port is not None:
        table.add_row("Dagster UI", f"http://{LOOPBACK}:{ui_port}/assets")
    table.add_row("OpenAPI", f"{url}/schema")
    table.add_row("Metrics", f"{url}/metrics")
    table.add_row("Tables", tables)
    table.add_row("Logs", str(_logs(settings)))
    out.print(table, soft_wrap=True)
    out.print("Ctrl-C stops everything.")


def _logs(settings: Settings) -> Path:
    return settings.data_path / "log"


def _log(settings: Settings, name: str) -> ServiceLog:
    limits = settings.log
    path = _logs(settings) / f"{name}.log"
    return ServiceLog(path, max_bytes=limits.file_bytes, kept=limits.kept_files)
