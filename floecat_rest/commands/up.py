"""`floecat up`: everything from one command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.status import Status
from rich.table import Table

from floecat.settings import Settings
from floecat.settings.loading import CONFIG_VARIABLE
from floecat_rest.commands import dagster
from floecat_rest.commands.console import err, out
from floecat_rest.commands.db import prepare_store
from floecat_rest.commands.demo import load_once
from floecat_rest.commands.options import (
    ConfigOption,
    DataDirOption,
    HostOption,
    RestPortOption,
    WorkersOption,
    settings_from,
)
from floecat_rest.commands.processes import Processes, Service, StopRequestedError
from floecat_rest.commands.serve import free_port, require_free_port

__all__ = ["up"]

_REST_READY_S = 120.0
_DAGSTER_READY_S = 180.0
"""On a busy machine a first start takes its time: four processes import Dagster."""


def up(
    *,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    host: HostOption = None,
    rest_port: RestPortOption = None,
    workers: WorkersOption = None,
    dagster_port: Annotated[int, typer.Option("--dagster-port", help="Port of the Dagster UI.")] = 3000,
    no_dagster: Annotated[bool, typer.Option("--no-dagster", help="Start the REST service only.")] = False,
    no_demo: Annotated[bool, typer.Option("--no-demo", help="Load no demo data.")] = False,
) -> None:
    """Start everything: store, REST service, Dagster UI and daemon, demo data. One Ctrl-C stops it all."""
    settings = settings_from(config, data_dir=data_dir, host=host, rest_port=rest_port, workers=workers)
    ui_port = None if no_dagster else _dagster_port(dagster_port)
    gateway = settings.gateway
    require_free_port(gateway.host, gateway.rest_port, "--rest-port")
    port = gateway.rest_port or free_port(gateway.host)
    url = _url(gateway.host, port)
    environ = _environment(settings, config, port)
    try:
        with out.status("Preparing the store") as status, Processes(environ, status.update) as processes:
            prepare_store(settings)
            _start_rest(processes, settings, url, status)
            if ui_port is not None:
                _start_dagster(processes, settings, ui_port, status)
            if not no_demo:
                load_once(settings, url, status, processes.check)
            status.update("Running")
            _print_places(settings, url, ui_port)
            processes.wait()
    except StopRequestedError:
        out.print("Stopped.")


def _dagster_port(port: int) -> int | None:
    if not dagster.dagster_is_installed():
        err.print(
            "Dagster is not installed (pip install 'floecat[pipeline]'): only the REST service is started."
        )
        return None
    require_free_port(dagster.HOST, port, "--dagster-port")
    return port or free_port(dagster.HOST)


def _environment(settings: Settings, config: Path | None, port: int) -> dict[str, str]:
    # The options of this command reach every child, also those that Dagster starts, by the environment.
    given = {
        "PYTHONUNBUFFERED": "1",
        "FLOECAT_DATA_DIR": str(settings.data_path),
        "FLOECAT_GATEWAY_HOST": settings.gateway.host,
        "FLOECAT_GATEWAY_REST_PORT": str(port),
        "FLOECAT_GATEWAY_WORKERS": str(settings.gateway.workers),
    }
    if config is not None:
        given[CONFIG_VARIABLE] = str(config.absolute())
    return {"DAGSTER_HOME": str(settings.data_path / "dagster"), **os.environ, **given}


def _start_rest(processes: Processes, settings: Settings, url: str, status: Status) -> None:
    command = [sys.executable, "-m", "floecat_rest", "serve"]
    rest = Service("REST service", command, _logs(settings) / "rest.log", f"{url}/health/ready")
    processes.start(rest)
    _wait_ready(processes, rest, _REST_READY_S, status)


def _start_dagster(processes: Processes, settings: Settings, port: int, status: Status) -> None:
    logs = _logs(settings)
    status.update("Preparing Dagster's storage")
    processes.run(dagster.dagster_storage_upgrade(processes.environ, logs), _DAGSTER_READY_S)
    services = dagster.dagster_services(port, logs)
    for service in services:
        processes.start(service)
    for service in services:
        _wait_ready(processes, service, _DAGSTER_READY_S, status)


def _wait_ready(processes: Processes, service: Service, timeout_s: float, status: Status) -> None:
    status.update(f"Waiting for the {service.name}")
    processes.wait_ready(service, timeout_s)
    out.print(f"[green]✓[/green] {service.name}")


def _print_places(settings: Settings, url: str, ui_port: int | None) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_row("Iceberg REST", url, f"warehouse {settings.gateway.default_prefix}")
    if ui_port is not None:
        table.add_row("Dagster UI", f"http://{dagster.HOST}:{ui_port}")
    table.add_row("OpenAPI", f"{url}/schema")
    table.add_row("Metrics", f"{url}/metrics")
    table.add_row("Tables", settings.warehouse_location)
    table.add_row("Logs", str(_logs(settings)))
    out.print(table, soft_wrap=True)
    out.print("Ctrl-C stops everything.")


def _logs(settings: Settings) -> Path:
    return settings.data_path / "log"


def _url(host: str, port: int) -> str:
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://{reachable}:{port}"
