"""Options that several commands share, and the settings that they lead to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from floecat.settings import Settings, load_settings

__all__ = ["ConfigOption", "DataDirOption", "HostOption", "RestPortOption", "WorkersOption", "settings_from"]

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", help="Settings file. Default: $FLOECAT_CONFIG, else floecat.toml if it is there."
    ),
]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of everything kept on local disk. Default: .floecat")
]
HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on. Default: 127.0.0.1")]
RestPortOption = Annotated[
    int | None, typer.Option("--rest-port", help="Port of the REST service. Default: 9200")
]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="REST worker processes. Default: 1")]


def settings_from(
    config: Path | None = None,
    *,
    data_dir: Path | None = None,
    host: str | None = None,
    rest_port: int | None = None,
    workers: int | None = None,
) -> Settings:
    """The settings of a command: file, environment, and the options that were given.

    Raises:
        SettingsError: a setting is unknown or has a value of the wrong kind.
    """
    given: Mapping[str, object] = {
        "floecat.data-dir": None if data_dir is None else str(data_dir),
        "floecat.gateway.host": host,
        "floecat.gateway.rest-port": rest_port,
        "floecat.gateway.workers": workers,
    }
    return load_settings(
        config=config, overrides={key: value for key, value in given.items() if value is not None}
    )
