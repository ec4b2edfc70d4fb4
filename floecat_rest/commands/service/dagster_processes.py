"""The processes of Dagster. They are started, never imported: the REST service works without them."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import floecat_rest
from floecat.errors import FloecatError, SettingsError
from floecat_rest.commands.console import print_done
from floecat_rest.commands.service.listening import reachable_url
from floecat_rest.commands.service.log_files import ServiceLog
from floecat_rest.commands.service.processes import DIRECT, Processes, Service

__all__ = [
    "DAGSTER_HOME",
    "LOOPBACK",
    "CodeLocationError",
    "all_loaded",
    "dagster_is_installed",
    "start_dagster",
]

LOOPBACK = "127.0.0.1"
"""Dagster has no login, so its UI stays on this machine by default."""

DAGSTER_HOME = "DAGSTER_HOME"

_READY_S = 180.0
"""Time to start: on a busy machine a first start is slow, as four processes import Dagster."""

_WORKSPACE = "workspace.yaml"
_TABLES = "tables.yaml"
_LOCATION = "floecat"
_LOCATIONS = """{ workspaceOrError {
  ... on Workspace { locationEntries { name loadStatus
    locationOrLoadError { ... on PythonError { message causes { message } } } } }
  ... on PythonError { message } } }"""


class CodeLocationError(FloecatError):
    """Dagster cannot load definitions: nothing would follow the commit log."""


def dagster_is_installed() -> bool:
    """Whether the extra `pipeline` is there."""
    return importlib.util.find_spec("dagster_webserver") is not None


def start_dagster(
    processes: Processes,
    *,
    host: str,
    port: int,
    log: Callable[[str], ServiceLog | None],
    tell: Callable[[str], None],
) -> None:
    """Makes Dagster's storage, starts web server and daemon, waits until all definitions are loaded.

    On new storage both would create the tables, and the slower one would fail.

    Args:
        processes: run them; their environment names `DAGSTER_HOME`.
        host: address of the UI.
        port: of the UI.
        log: for the output of each, by name.
        tell: shows what is being done.

    Raises:
        ChildEndedError: one of them ended or does not answer.
        CodeLocationError: definitions do not load.
        StopRequestedError: a signal came.
    """
    home = Path(processes.environ[DAGSTER_HOME])
    # a folder that the user names may hold settings of the user; the one in the data folder is ours
    _write_files(home, keep=bool(os.environ.get(DAGSTER_HOME)))
    tell("Preparing Dagster's storage")
    migrate = [sys.executable, "-m", "dagster", "instance", "migrate"]
    processes.run(Service("Dagster storage", migrate, log("dagster-storage")), _READY_S)
    code = ["-w", str(home / _WORKSPACE)]
    url = reachable_url(host, port)
    web = Service(
        "Dagster UI",
        [
            *(sys.executable, "-m", "floecat_assets.webserver", "-h", host, "-p", str(port)),
            *(*code, "-w", str(home / _TABLES)),
        ],
        log("dagster-webserver"),
        f"{url}/server_info",
    )
    daemon = Service(
        "Dagster daemon", [sys.executable, "-m", "dagster._daemon", "run", *code], log("dagster-daemon")
    )
    for service in (web, daemon):
        processes.start(service)
    tell(f"Waiting for the {web.name}")
    processes.wait_ready(web, _READY_S)
    processes.wait_until(lambda: all_loaded(url), web, _READY_S)
    for service in (web, daemon):
        print_done(service.name)


def all_loaded(url: str) -> bool:
    """Whether every code location of a running web server is loaded; False while it does not say.

    Raises:
        CodeLocationError: one cannot be loaded, or the workspace does not name ours.
    """
    request = urllib.request.Request(  # noqa: S310 - our own URL
        f"{url}/graphql",
        data=json.dumps({"query": _LOCATIONS}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with DIRECT.open(request, timeout=30) as answer:
            workspace: dict[str, Any] = json.load(answer)["data"]["workspaceOrError"]
    except OSError:
        return False
    if "message" in workspace:
        raise CodeLocationError(f"Dagster cannot load its workspace: {_last_line(workspace['message'])}")
    locations = workspace["locationEntries"]
    for location in locations:
        error = location["locationOrLoadError"]
        if error and "message" in error:
            # the first says only that something did not load; its last cause says what
            problem = [error, *error["causes"]][-1]["message"]
            raise CodeLocationError(
                f"Dagster cannot load the code location {location['name']}: {_last_line(problem)}"
            )
    if locations and _LOCATION not in {location["name"] for location in locations}:
        raise CodeLocationError(f"Dagster's {_WORKSPACE} has no code location {_LOCATION}")
    return bool(locations) and all(location["loadStatus"] == "LOADED" for location in locations)


def _write_files(home: Path, *, keep: bool) -> None:
    for name in ("dagster.yaml", _WORKSPACE, _TABLES):
        if not (keep and (home / name).exists()):
            shutil.copyfile(_packaged_file(name), home / name)


def _packaged_file(name: str) -> Path:
    """A file of Dagster: in the wheel it lies in the package, in a checkout at the top of the project."""
    root = Path(floecat_rest.__file__).parents[1]
    for path in (root / "floecat_assets" / name, root / name):
        if path.is_file():
            return path
    raise SettingsError(f"the installation of Floecat is incomplete: it has no {name}")


def _last_line(text: str) -> str:
    """The line of an error's text that says what is wrong."""
    return text.strip().rpartition("\n")[2]
