"""`floecat db`: the SQL store."""

from __future__ import annotations

import typer

from floecat_rest.commands.console import out
from floecat_rest.commands.options import ConfigOption, DataDirOption, settings_from
from floecat_rest.commands.stores import prepare_store

__all__ = ["app"]

app = typer.Typer(name="db", help="The SQL store.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The SQL store."""


@app.command()
def upgrade(config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Create the store and the default catalog, or bring it to the schema of this version. Safe to repeat."""
    settings = settings_from(config, data_dir=data_dir)
    prepare_store(settings, out.print)
    out.print("The store is up to date.")
