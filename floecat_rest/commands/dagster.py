"""The processes of Dagster. They are started, never imported: the REST service works without them."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import floecat_rest
from floecat_rest.commands.processes import Service

__all__ = ["dagster_is_installed", "dagster_services", "dagster_storage_upgrade"]

HOST = "127.0.0.1"
"""Dagster has no login, so its UI stays on this machine."""


def dagster_is_installed() -> bool:
    """Whether the extra `pipeline` is there."""
    return importlib.util.find_spec("dagster_webserver") is not None


def dagster_storage_upgrade(environ: Mapping[str, str], logs: Path) -> Service:
    """The command that creates or upgrades Dagster's own storage.

    On new storage the webserver and the daemon would both create the tables, and the slower one would fail.
    """
    home = Path(environ["DAGSTER_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    instance = _project_file("dagster.yaml")
    if instance is not None and instance.parent != home:
        shutil.copyfile(instance, home / instance.name)
    command = [sys.executable, "-m", "dagster", "instance", "migrate"]
    return Service("Dagster storage", command, logs / "dagster-storage.log")


def dagster_services(port: int, logs: Path) -> list[Service]:
    """The webserver and the daemon.

    Args:
        port: of the UI.
        logs: folder of their logs.
    """
    workspace = _project_file("workspace.yaml")
    code = ["-w", str(workspace)] if workspace else ["-m", "floecat_assets.definitions"]
    web = [sys.executable, "-m", "floecat_assets.webserver", "-h", HOST, "-p", str(port), *code]
    daemon = [sys.executable, "-m", "dagster._daemon", "run", *code]
    return [
        Service("Dagster UI", web, logs / "dagster-webserver.log", f"http://{HOST}:{port}/server_info"),
        Service("Dagster daemon", daemon, logs / "dagster-daemon.log"),
    ]


def _project_file(name: str) -> Path | None:
    """A file at the top of the project: the working folder, else where the code is."""
    folders = (Path.cwd(), Path(floecat_rest.__file__).parents[1])
    return next((folder / name for folder in folders if (folder / name).is_file()), None)
