"""`floecat db`: the SQL store."""

from __future__ import annotations

from collections.abc import Callable

import typer

from floecat.settings import Settings
from floecat_rest.commands.console import out
from floecat_rest.commands.options import ConfigOption, DataDirOption, settings_from

__all__ = ["app", "has_no_store_yet", "prepare_store"]

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


def prepare_store(settings: Settings, report: Callable[[str], None] = print) -> None:
    """See `floecat.runtime.prepare_store`, which takes a while to import."""
    from floecat import runtime

    runtime.prepare_store(settings, report)


def has_no_store_yet(settings: Settings) -> bool:
    """Whether the store is the embedded one and was never made: nothing can be lost by making it now."""
    return settings.embedded_store is not None and not settings.embedded_store.exists()
