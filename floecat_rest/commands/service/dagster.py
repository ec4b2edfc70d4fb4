"""`floecat dagster`: Dagster's web server and daemon in the foreground."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from floecat.errors import SettingsError
from floecat_rest.commands.console import install, out, print_plain, working
from floecat_rest.commands.options import (
    ConfigOption,
    DagsterPortOption,
    DataDirOption,
    environment_of,
    settings_from,
)
from floecat_rest.commands.service.dagster_processes import (
    DAGSTER_HOME,
    LOOPBACK,
    dagster_is_installed,
    start_dagster,
)
from floecat_rest.commands.service.folder_lock import lock_folder
from floecat_rest.commands.service.listening import Listener, reachable_url, require_free_ports
from floecat_rest.commands.service.processes import Processes, StopRequestedError

__all__ = ["dagster"]


def dagster(
    *,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
    host: Annotated[
        str,
        typer.Option(
            "--host", help="Address of the UI. Dagster has no login: who reaches it may do everything."
        ),
    ] = LOOPBACK,
    dagster_port: DagsterPortOption = 3000,
) -> None:
    """Run Dagster's web server and daemon until Ctrl-C or SIGTERM, with DAGSTER_HOME prepared.

    DAGSTER_HOME is the folder `dagster` in the data folder, or the one that the environment names: the files
    dagster.yaml, workspace.yaml and tables.yaml that are in that one are used as they are.
    """
    settings = settings_from(config, data_dir=data_dir)
    if not dagster_is_installed():
        raise SettingsError(f"Dagster is not installed: {install('pipeline')} brings it")
    require_free_ports(Listener(host, dagster_port, "--dagster-port"))
    from floecat.credentials.secrets import require_keys
    from floecat.runtime import kernel

    with kernel(settings):  # fails early, and says why, if the pipeline could not open the store
        pass
    require_keys(settings)
    url = settings.pipeline.webserver_url or reachable_url(host, dagster_port)
    environ = environment_of(settings, config, FLOECAT_PIPELINE_WEBSERVER_URL=url)
    home = environ[DAGSTER_HOME]
    try:
        with (
            lock_folder(Path(home), "dagster", DAGSTER_HOME),
            Processes(environ) as processes,
            working("Starting Dagster") as tell,
        ):
            start_dagster(processes, host=host, port=dagster_port, log=lambda _: None, tell=tell)
            print_plain(f"Dagster UI: {reachable_url(host, dagster_port)}; DAGSTER_HOME: {home}")
            tell("Running")
            processes.wait()
    except StopRequestedError:
        out.print("Stopped.")
