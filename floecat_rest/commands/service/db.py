"""`floecat db`: the SQL store."""

from __future__ import annotations

import typer

from floecat.settings import Settings
from floecat_rest.commands.console import err, out, print_error, print_plain
from floecat_rest.commands.options import ConfigOption, DataDirOption, settings_from

__all__ = ["app", "prepare_store"]

app = typer.Typer(name="db", help="The SQL store.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The SQL store."""


@app.command()
def upgrade(config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Create the store and the default catalog where they are missing. Safe to repeat."""
    settings = settings_from(config, data_dir=data_dir)
    prepare_store(settings)
    out.print("The store is up to date.")


@app.command()
def encrypt_secrets(config: ConfigOption = None, data_dir: DataDirOption = None) -> None:
    """Encrypt the secrets in the store with the first of `floecat.secrets.keys`."""
    from floecat.runtime import kernel

    with kernel(settings_from(config, data_dir=data_dir)) as opened:
        both = (opened.credentials.authorities, opened.connectors.connectors)
        done = [secrets.encrypt_anew() for secrets in both]
    count, lost = sum(each[0] for each in done), [*done[0][1], *done[1][1]]
    for message in lost:
        print_error(message)
    print_plain(
        f"{count} encrypted anew, {len(lost)} lost; the rest were encrypted with the first key already."
    )
    if lost:
        raise typer.Exit(1)


def prepare_store(settings: Settings) -> str:
    """See `floecat.runtime.prepare_store`. Warns of a setting that came too late.

    Returns:
        Where the default catalog keeps its tables.
    """
    # imported late: it takes a while, and help should not
    from floecat import runtime
    from floecat.fileio.locations import normalize_location

    catalog = runtime.prepare_store(settings)
    wanted = str(normalize_location(settings.warehouse_location))
    if wanted != catalog.storage_location:
        given = settings.gateway.default_warehouse_path is not None
        key = "floecat.gateway.default-warehouse-path" if given else "floecat.data-dir"
        print_plain(
            f"Catalog {catalog.name} keeps its tables at {catalog.storage_location}, where it was created. "
            f"The location that {key} gives now, {wanted}, counts only for a new catalog.",
            err,
        )
    return catalog.storage_location
