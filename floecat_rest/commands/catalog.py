"""`floecat catalog`: the catalogs of an account."""

from __future__ import annotations

from typing import Annotated

import typer

from floecat_rest.commands.console import print_json, print_plain, print_rows
from floecat_rest.commands.options import (
    AccountOption,
    ConfigOption,
    DataDirOption,
    JsonOption,
    settings_from,
)
from floecat_rest.management.catalog_wire import catalog_response

__all__ = ["app"]

app = typer.Typer(
    name="catalog", help="Catalogs, each reached by its name as prefix or warehouse.", no_args_is_help=True
)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name: letters, digits, '_', '-' and '.'.")],
    location: Annotated[
        str | None,
        typer.Option(
            "--location",
            help="Storage location, as s3://bucket/path. Default: that of the default catalog with -NAME.",
        ),
    ] = None,
    allowed_location: Annotated[
        list[str] | None,
        typer.Option("--allowed-location", help="A further location for its tables. Repeatable."),
    ] = None,
    as_json: JsonOption = False,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Create a catalog."""
    settings = settings_from(config, data_dir=data_dir)
    from floecat.runtime import kernel

    place = location or f"{settings.warehouse_location.rstrip('/')}-{name}"
    with kernel(settings) as opened:
        made = opened.catalogs.create(
            account or settings.gateway.default_account_id,
            name,
            place,
            allowed_locations=allowed_location or [],
        )
    if as_json:
        print_json([catalog_response(made)])
        return
    print_plain(f"Created catalog {made.name} at {made.storage_location}")


@app.command(name="list")
def list_catalogs(
    *,
    as_json: JsonOption = False,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the catalogs."""
    settings = settings_from(config, data_dir=data_dir)
    from floecat.runtime import kernel

    with kernel(settings) as opened:
        catalogs = opened.catalogs.list(account or settings.gateway.default_account_id)
    if as_json:
        print_json(map(catalog_response, catalogs))
        return
    print_rows(("name", "location"), ((catalog.name, catalog.storage_location) for catalog in catalogs))
