"""`floecat catalog`: the catalogs of an account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from floecat_rest.commands.console import print_json, print_plain, print_rows
from floecat_rest.commands.lookups import shown
from floecat_rest.commands.options import (
    AccountOption,
    ConfigOption,
    DataDirOption,
    JsonOption,
    account_of,
    open_call,
    operator,
    settings_from,
)

if TYPE_CHECKING:
    from floecat.entries.calls import Catalog
    from floecat_rest.management.catalog_wire import CatalogResponse

__all__ = ["app"]

app = typer.Typer(
    name="catalog", help="Catalogs, each reached by its name as prefix or warehouse.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(help="Name of the catalog.")]


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
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not try to write a file at its location.")
    ] = False,
    as_json: JsonOption = False,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Create a catalog, once a small file could be written at its location and deleted again."""
    settings = settings_from(config, data_dir=data_dir)
    from floecat.runtime import kernel

    place = location or f"{settings.warehouse_location.rstrip('/')}-{name}"
    with kernel(settings) as opened:
        account_id = account_of(opened, account)
        made = opened.catalog.catalogs.create(
            account_id,
            name,
            place,
            allowed_locations=allowed_location or [],
            try_writing=not no_check,
            creator=operator(account_id),
        )
    if as_json:
        print_json([_response(made)])
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
        catalogs = opened.catalog.catalogs.list(account_of(opened, account))
    if as_json:
        print_json(map(_response, catalogs))
        return
    print_rows(
        ("name", "protected", "location"),
        (
            (catalog.name, "yes" if catalog.protected else "no", catalog.storage_location)
            for catalog in catalogs
        ),
    )


@app.command()
def update(
    name: NameArgument,
    *,
    add_location: Annotated[
        list[str] | None,
        typer.Option("--add-location", help="A further location for its tables. Repeatable."),
    ] = None,
    remove_location: Annotated[
        list[str] | None,
        typer.Option("--remove-location", help="An allowed location that nothing lies in. Repeatable."),
    ] = None,
    nested: Annotated[
        bool | None,
        typer.Option(
            "--nested/--flat",
            help="Whether names of schemas have levels, as A:B:C: no level may hold the separator.",
        ),
    ] = None,
    as_json: JsonOption = False,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Change allowed locations, and whether a catalog is nested. Services see it within five seconds."""
    with open_call(settings_from(config, data_dir=data_dir), name, account) as (kernel, call):
        if nested is not None:
            kernel.catalog.nested.set_nested(call, nested=nested)
        made = kernel.catalog.changes.update(
            call, add=add_location or (), remove=remove_location or (), anywhere=True
        )
    if as_json:
        print_json([_response(made)])
        return
    allowed = ", ".join(made.allowed_locations) or "none"
    kind = "flat" if made.schema_separator is None else f"nested by {made.schema_separator}"
    print_plain(f"Catalog {made.name} is {kind}, at {made.storage_location}; further locations: {allowed}")


@app.command()
def clashes(
    name: NameArgument,
    *,
    separator: Annotated[
        str | None, typer.Option(help="By default that of the settings (floecat.namespaces.separator).")
    ] = None,
    as_json: JsonOption = False,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """List the namespaces whose name holds the separator: with one, a catalog cannot be nested."""
    with open_call(settings_from(config, data_dir=data_dir), name, account) as (kernel, call):
        found = kernel.catalog.nested.clashes(call, separator)
    if as_json:
        print_json(found)
    else:
        print_rows(("namespace",), ((shown(call, levels),) for levels in found))


@app.command()
def delete(
    name: NameArgument,
    *,
    account: AccountOption = None,
    config: ConfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Delete a catalog that has no namespaces, connectors and unfinished jobs. No file is deleted."""
    with open_call(settings_from(config, data_dir=data_dir), name, account) as (kernel, call):
        kernel.catalog.changes.delete(call)
    print_plain(f"Deleted catalog {name}")


def _response(catalog: Catalog) -> CatalogResponse:
    from floecat_rest.management.catalog_wire import catalog_response

    return catalog_response(catalog)
